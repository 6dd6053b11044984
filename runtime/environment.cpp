// SPDX-License-Identifier: Apache-2.0
// What `attune env` prints: libraries, processor, threads, caches and switches of this machine and engine.
#include <fmt/format.h>

#include <attune/device.hpp>
#include <attune/version.hpp>
#include <fstream>

#include "backend/cuda/device.hpp"
#include "runtime/compile.hpp"
#include "runtime/cores.hpp"
#include "runtime/key.hpp"

namespace attune {
namespace {

std::string size_text(std::uint64_t bytes) {
  if (bytes >= (std::uint64_t{1} << 30)) return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
  if (bytes >= (1 << 20)) return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
  return fmt::format("{} KiB", (bytes + 1023) / 1024);
}

Engine::Finding library(const char* what, const LibraryReport& report, const char* without) {
  if (report.found()) return {what, true, fmt::format("{} at {}", report.version, report.path)};
  std::string detail = fmt::format("not found; {}", without);
  for (const std::string& tried : report.tried) detail += "; tried " + tried;
  return {what, false, detail};
}

Engine::Finding llvm() {
  return library("libLLVM", cpu::llvm_report(),
                 "warning: `auto` runs the interpreter, which is slow (install libllvm19)");
}

void add_gpus(std::vector<Engine::Finding>& findings) {
  constexpr const char* without = "without it there is no target `cuda`";
  findings.push_back(library("CUDA driver", cuda::driver::report(), without));
  findings.push_back(library("NVRTC", cuda::nvrtc_report(), without));
  const std::vector<GpuInfo> devices = gpus();
  // The driver's own finding says why there is none, unless it is there.
  if (devices.empty() && cuda::driver::report().found()) findings.push_back({"GPU", false, cuda::missing_for(0)});
  for (const GpuInfo& gpu : devices) {
    const auto size = [](std::int64_t bytes) { return size_text(static_cast<std::uint64_t>(bytes)); };
    std::string detail = fmt::format(
        "{} ({}), {} memory, {} processors, shared memory {} a block and {} a processor, {} registers, L2 {}", gpu.name,
        gpu.arch, size_text(gpu.memory_bytes), gpu.processors, size(gpu.shared_per_block),
        size(gpu.shared_per_processor), gpu.registers_per_processor, size(gpu.l2_bytes));
    if (!gpu.problem.empty()) detail += "; cannot be used: " + gpu.problem;
    findings.push_back({fmt::format("GPU {}", gpu.index), gpu.problem.empty(), detail});
  }
}

Engine::Finding processor() {
  const cpu::CpuTarget& host = cpu::host();
  return {"CPU", true,
          fmt::format("{} ({}), {} f32 lanes, L1 {}, L2 {}", host.name, host.machine().name, host.vector_lanes,
                      size_text(static_cast<std::uint64_t>(host.l1_bytes)),
                      size_text(static_cast<std::uint64_t>(host.l2_bytes)))};
}

Engine::Finding threads(const Engine::State& state) {
  const UsableCores cores = usable_cores();
  std::string detail = fmt::format("{} in use; {} physical cores, {} hardware threads allowed",
                                   state.executor->concurrency(), cores.physical_cores, cores.logical_cores);
  if (cores.quota > 0) detail += fmt::format(", quota of {:.2f} cores", cores.quota);
  if (state.options.executor) detail += "; executor of the host program";
  return {"threads", true, detail};
}

Engine::Finding disk_cache(const Engine::State& state) {
  if (!state.disk) return {"disk cache", false, "off"};
  std::string detail = fmt::format("{}, {} of {}", state.disk->directory(), size_text(state.disk->size()),
                                   size_text(state.disk->limit()));
  const std::string refusal = state.disk->refusal();
  if (!refusal.empty()) detail += "; not written: " + refusal;
  return {"disk cache", refusal.empty(), detail};
}

Engine::Finding huge_pages() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string modes;
  if (!std::getline(file, modes)) return {"huge pages", false, "the system does not say"};
  return {"huge pages", modes.find("[never]") == std::string::npos, modes};
}

}  // namespace

std::vector<Engine::Finding> Engine::environment() const {
  std::vector<Finding> findings;
  findings.push_back({"attune", true, build_identity()});
  const Target best = resolve(Target{});
  findings.push_back({"target auto", best.kind != TargetKind::interpreter, "means " + best.text()});
  add_gpus(findings);
  findings.push_back(llvm());
  findings.push_back(processor());
  findings.push_back({"CPU features", !cpu::host().features.empty(), cpu::host().features});
  findings.push_back(threads(*state_));
  findings.push_back(disk_cache(*state_));
  findings.push_back(huge_pages());
  for (const EnvironmentVariable& variable : environment_variables())
    if (const std::string value = environment_value(variable.name); !value.empty())
      findings.push_back({std::string(variable.name), true, value});
  return findings;
}

}  // namespace attune
