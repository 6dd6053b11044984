// SPDX-License-Identifier: Apache-2.0
// `attune emit`: compiled code with a C header and launcher, to link ahead of time.
#include <fmt/format.h>

#include <attune/version.hpp>
#include <filesystem>
#include <iostream>

#include "backend/cpu/cpu.hpp"
#include "backend/cuda/nvrtc.hpp"
#include "command.hpp"
#include "launcher.hpp"
#include "loop/passes.hpp"
#include "recorder.hpp"
#include "runtime/layout.hpp"

namespace attune::tool {
namespace {

/// The depth that steers the schedule: the innermost axis of the first input with several, where its size is given.
std::int64_t depth_of(const Session& s, std::int64_t otherwise) {
  for (const tensor::Tensor& t : s.bound.tensors)
    if (t.extents.size() > 1)
      if (const auto* dim = tensor::get_if<tensor::Dim>(t.extents.back()))
        if (auto found = s.given.dims.find(dim->dim.text()); found != s.given.dims.end()) return found->second;
  return otherwise;
}

/// Functions of an object get the kernel's name, so that several can be linked together.
std::string renamed(const std::string& ir, const std::string& prefix) {
  std::string out;
  const std::string from = "@nest";
  for (std::size_t at = 0;;) {
    const std::size_t next = ir.find(from, at);
    out += ir.substr(at, next == std::string::npos ? next : next - at);
    if (next == std::string::npos) return out;
    out += "@" + prefix + "_nest";
    at = next + from.size();
  }
}

Session opened(const Options& o) {
  Session s = open_program(o);
  bind_default_types(s);
  if (!s.inputs.empty())
    usage("--set " + s.inputs[0].name + ": only a const is baked into the code",
          "`" + s.inputs[0].name + "` is a member of the call's struct");
  return s;
}

loop::LowerOptions options_for(const Session& s, Machine machine) {
  loop::LowerOptions options;
  options.machine = std::move(machine);
  options.layout = contiguous_facts(s.bound);
  options.layout.depth_hint = depth_of(s, options.layout.depth_hint);
  for (const auto& text : s.options.schedule) {
    auto [key, value] = split_setting(text, "--schedule");
    options.overrides[key] = value;
  }
  options.require_fused = s.options.require_fused;
  options.index_bits = 64;  // right for every size
  options.observer = [](std::string_view step, double milliseconds, const std::function<std::string()>& text) {
    recorder().stage(step, milliseconds, text);
  };
  return options;
}

void write_files(const Options& o, const std::vector<std::pair<std::string, std::string>>& files) {
  std::error_code error;
  std::filesystem::create_directories(o.output, error);
  if (error)
    fail(usage_error, problem("A0613", "cannot make the folder `" + o.output + "`: " + error.message(),
                              "--output takes a folder, which is made where it is missing"));
  for (const auto& [path, text] : files) expect(write_text(path, text));
}

/// What was written, and beside it what is the same for every target.
void report_files(const Options& o, const Session& s, const loop::Lowered& lowered, const std::string& target,
                  const std::string& arch, const std::vector<std::pair<std::string, std::string>>& files,
                  const std::string& hint) {
  if (!o.json) {
    for (const auto& [path, text] : files) std::cout << fmt::format("wrote {} ({} bytes)\n", path, text.size());
    std::cout << hint;
    return;
  }
  Json written = Json::array(), stored = Json::array();
  for (const auto& [path, text] : files) written.push_back(path);
  for (const auto& [name, reason] : lowered.materialised) stored.push_back({{"name", name}, {"reason", reason}});
  std::cout << Json{{"kernel", s.inferred.name},
                    {"target", target},
                    {"arch", arch},
                    {"files", written},
                    {"fused", lowered.materialised.empty()},
                    {"materialised", stored}}
                   .dump(2)
            << "\n";
}

/// How to launch the functions of a cubin: their parameter's words by name, and each grid as text.
Json launch_account(const loop::Kernel& kernel, const cuda::Source& source, const cuda::CompileLog& log) {
  Json words = Json::array(), launches = Json::array();
  for (const Sym& dim : kernel.dims) words.push_back("dim " + dim.text());
  for (const Sym& scalar : kernel.scalars) words.push_back("scalar " + scalar.text());
  for (const loop::Buffer& buffer : kernel.buffers) {
    words.push_back("address " + buffer.sym.text());
    for (std::size_t axis = 0; axis < buffer.extents.size(); ++axis)
      words.push_back(fmt::format("stride {} {}", buffer.sym.text(), axis));
  }
  words.push_back("address of an i32 that starts at 0: out of range");
  for (std::size_t k = 0; k < source.launches.size(); ++k) {
    const cuda::Launch& launch = source.launches[k];
    Json grid = Json::array();
    for (const loop::GridAxis& axis : kernel.nests[k].grid)
      grid.push_back(
          {{"lo", tensor::print(axis.lo)}, {"hi", tensor::print(axis.hi)}, {"step", tensor::print(axis.step)}});
    Json item{{"function", launch.function},
              {"threads", launch.threads},
              {"shared_bytes", launch.shared_bytes},
              {"tasks_per_block", launch.tasks_per_block},
              {"tasks", grid}};
    if (const cuda::FunctionUsage* usage = log.find(launch.function)) {
      item["registers"] = usage->registers;
      item["spills"] = usage->spill_stores + usage->spill_loads;
    }
    launches.push_back(std::move(item));
  }
  return {{"kernel", kernel.name}, {"words", words}, {"launches", launches}};
}

int emit_gpu(const Options& o, const Target& target) {
  const cuda::GpuTarget gpu = gpu_of(o, target);
  const Session s = opened(o);
  const loop::LowerOptions options = options_for(s, gpu.machine());
  const loop::Lowered lowered = expect(loop::build(program_for(s, target, options), options));
  const cuda::Source source = expect(cuda::emit(lowered.kernel, gpu));
  const cuda::Binary binary = expect(cuda::compile(source, gpu));
  const std::string base = (std::filesystem::path(o.output) / ("attune_" + s.inferred.name)).string();
  const std::vector<std::pair<std::string, std::string>> files = {
      {base + ".cu", source.text},
      {base + ".cubin", std::string(binary.cubin.begin(), binary.cubin.end())},
      {base + ".ptx", expect(cuda::ptx(source, gpu))},
      {base + ".json", launch_account(lowered.kernel, source, cuda::parse_log(binary.log)).dump(2) + "\n"}};
  write_files(o, files);
  report_files(o, s, lowered, "cuda", gpu.arch(), files,
               fmt::format("The cubin runs on {}. {}.json says how its functions are launched.\n", gpu.arch(), base));
  return done;
}

}  // namespace

int emit_command(const Options& o) {
  Target target = chosen_target(o);
  if (target.kind == TargetKind::automatic) target.kind = named_gpu(o) ? TargetKind::cuda : TargetKind::cpu;
  if (target.kind == TargetKind::cuda) return emit_gpu(o, target);
  if (target.kind != TargetKind::cpu) usage("the target `" + o.target + "` has no code to write", "use --target cpu");
  const cpu::CpuTarget machine = machine_of(o);
  const Session s = opened(o);
  const loop::Lowered lowered = expect(loop::build(s.bound, options_for(s, machine.machine())));
  const std::string prefix = "attune_" + s.inferred.name;
  const std::string ir = renamed(expect(cpu::emit(lowered.kernel, machine)), prefix);
  const auto object = expect(cpu::compile(ir, machine));
  const std::string assembly = expect(cpu::assembly(ir, machine));
  const std::string note = fmt::format("{} for {} ({})", version, machine.name, machine.machine().name);
  const Launcher c = launcher(s.bound, lowered.kernel, prefix, note);

  const std::string base = (std::filesystem::path(o.output) / prefix).string();
  const std::vector<std::pair<std::string, std::string>> files = {
      {base + ".h", c.header},
      {base + ".c", c.source},
      {base + ".o", std::string(object.begin(), object.end())},
      {base + ".ll", ir},
      {base + ".s", assembly}};
  write_files(o, files);
  report_files(o, s, lowered, "cpu", machine.name, files,
               fmt::format("It runs on processors like {} ({}). To link it:\n  cc main.c {}.c {}.o -lm\n", machine.name,
                           machine.machine().name, base, base));
  return done;
}

}  // namespace attune::tool
