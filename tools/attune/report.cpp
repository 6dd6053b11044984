// SPDX-License-Identifier: Apache-2.0
// Failures, exit codes and diagnostics as JSON.
#include <cstring>
#include <iostream>

#include "backend/cpu/cpu.hpp"
#include "backend/cuda/device.hpp"
#include "backend/cuda/target.hpp"
#include "command.hpp"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace attune::tool {

Diagnostic problem(const char* code, std::string message, std::string help) {
  Diagnostic d;
  d.code = code;
  d.message = std::move(message);
  d.help = std::move(help);
  return d;
}

void fail(Exit code, Diagnostics diagnostics) { throw Failure{code, std::move(diagnostics)}; }
void fail(Exit code, Diagnostic diagnostic) { fail(code, Diagnostics{std::move(diagnostic)}); }

void usage(std::string message, std::string help) {
  fail(usage_error, problem("A0620", std::move(message), std::move(help)));
}

Exit exit_of(const Diagnostics& diagnostics) {
  for (const Diagnostic& d : diagnostics) {
    if (d.severity != Severity::error || d.code.size() < 3) continue;
    const std::string group = d.code.substr(1, 2);
    if (d.code == "A0602" || d.code == "A0603" || d.code == "A0604" || d.code == "A0605" || d.code == "A0606" ||
        d.code == "A0607" || d.code == "A0522")
      return target_error;
    if (d.code == "A0608" || d.code == "A0611" || d.code == "A0612") return data_error;
    if (group == "04" || group == "06") return usage_error;
    if (group == "05") return data_error;
    if (group == "09") return internal_error;
    return program_error;
  }
  return program_error;
}

void warn(const Options&, const Diagnostics& warnings) {
  for (const Diagnostic& d : warnings)
    if (d.severity == Severity::warning) std::cerr << render(d) << "\n";
}

namespace {

[[noreturn]] void unknown_arch(const Options& o) {
  std::vector<std::string> known = cpu::target_names();
  const std::vector<std::string> gpus = cuda::target_names();
  known.insert(known.end(), gpus.begin(), gpus.end());
  const std::string near = did_you_mean(o.arch, known);
  usage("--arch `" + o.arch + "` is unknown", near.empty() ? one_of(known) : "did you mean `" + near + "`?");
}

}  // namespace

cpu::CpuTarget machine_of(const Options& o) {
  if (o.arch.empty()) return cpu::host();
  if (auto found = cpu::named_target(o.arch)) return *std::move(found);
  if (named_gpu(o)) usage("--arch `" + o.arch + "` is a GPU, the target is a CPU", "use --target cuda, or auto");
  unknown_arch(o);
}

std::optional<cuda::GpuTarget> named_gpu(const Options& o) {
  if (o.arch.empty() || cpu::named_target(o.arch)) return std::nullopt;
  if (auto found = cuda::named_target(o.arch)) return found;
  unknown_arch(o);
}

cuda::GpuTarget gpu_of(const Options& o, const Target& target) {
  if (!o.arch.empty()) {
    if (auto named = named_gpu(o)) return *std::move(named);
    usage("--arch `" + o.arch + "` is a CPU, the target is a GPU", one_of(cuda::target_names()));
  }
  return expect(cuda::find_device(target.device))->target;
}

std::string device_name(const Target& target) {
  if (target.kind == TargetKind::cuda) return expect(cuda::find_device(target.device))->target.name;
  std::string name;
#if defined(__x86_64__)
  for (unsigned leaf = 0x80000002; leaf <= 0x80000004; ++leaf) {
    unsigned words[4];
    if (!__get_cpuid(leaf, &words[0], &words[1], &words[2], &words[3])) break;
    char text[sizeof words];
    std::memcpy(text, words, sizeof words);
    name.append(text, strnlen(text, sizeof text));
  }
#endif
  const auto first = name.find_first_not_of(' ');
  if (first == std::string::npos) return cpu::host().name;  // an emulator without a brand
  return name.substr(first, name.find_last_not_of(' ') + 1 - first);
}

std::string arch_name(const Target& target) {
  if (target.kind == TargetKind::cuda) return expect(cuda::find_device(target.device))->target.arch();
  // The other targets run the library's own code, which is built for every machine of the family.
  return target.kind == TargetKind::cpu ? cpu::host().name : "x86-64";
}

Json to_json(const Diagnostics& diagnostics) {
  Json out = Json::array();
  for (const Diagnostic& d : diagnostics) {
    if (d.severity != Severity::error) continue;
    Json item{{"code", d.code}, {"message", d.message}};
    if (!d.source.name().empty()) {
      auto at = d.source.position(d.span.begin);
      item["file"] = d.source.name();
      item["line"] = at.line;
      item["column"] = at.column;
    }
    if (!d.help.empty()) item["help"] = d.help;
    if (!d.notes.empty()) item["notes"] = d.notes;
    if (!d.tensor.empty()) item["tensor"] = d.tensor;
    if (!d.axis.empty()) item["axis"] = d.axis;
    if (!d.expected.empty()) item["expected"] = d.expected;
    if (!d.found.empty()) item["found"] = d.found;
    out.push_back(std::move(item));
  }
  return out;
}

}  // namespace attune::tool
