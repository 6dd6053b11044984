// SPDX-License-Identifier: Apache-2.0
// `attune emit`: compiled code with a C header and launcher, to link ahead of time.
#include <fmt/format.h>

#include <attune/version.hpp>
#include <filesystem>
#include <iostream>

#include "backend/cpu/cpu.hpp"
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

}  // namespace

int emit_command(const Options& o) {
  const Target target = chosen_target(o);
  if (target.kind != TargetKind::cpu && target.kind != TargetKind::automatic)
    usage("the target `" + o.target + "` has no code to write", "use --target cpu");
  const cpu::CpuTarget machine = machine_of(o);
  Session s = open_program(o);
  bind_default_types(s);
  if (!s.inputs.empty())
    usage("--set " + s.inputs[0].name + ": only a const is baked into the code",
          "`" + s.inputs[0].name + "` is a member of the call's struct");
  loop::LowerOptions options;
  options.machine = machine.machine();
  options.layout = contiguous_facts(s.bound);
  options.layout.depth_hint = depth_of(s, options.layout.depth_hint);
  for (const auto& text : o.schedule) {
    auto [key, value] = split_setting(text, "--schedule");
    options.overrides[key] = value;
  }
  options.require_fused = o.require_fused;
  options.index_bits = 64;  // right for every size
  options.observer = [](std::string_view step, double milliseconds, const std::function<std::string()>& text) {
    recorder().stage(step, milliseconds, text);
  };
  const loop::Lowered lowered = expect(loop::build(s.bound, options));
  const std::string prefix = "attune_" + s.inferred.name;
  const std::string ir = renamed(expect(cpu::emit(lowered.kernel, machine)), prefix);
  const auto object = expect(cpu::compile(ir, machine));
  const std::string assembly = expect(cpu::assembly(ir, machine));
  const std::string note = fmt::format("{} for {} ({})", version, machine.name, machine.machine().name);
  const Launcher c = launcher(s.bound, lowered.kernel, prefix, note);

  std::error_code error;
  std::filesystem::create_directories(o.output, error);
  if (error) fail(usage_error, problem("A0613", "cannot make the folder `" + o.output + "`: " + error.message()));
  const std::string base = (std::filesystem::path(o.output) / prefix).string();
  const std::vector<std::pair<std::string, std::string>> files = {
      {base + ".h", c.header},
      {base + ".c", c.source},
      {base + ".o", std::string(object.begin(), object.end())},
      {base + ".ll", ir},
      {base + ".s", assembly}};
  for (const auto& [path, text] : files) expect(write_text(path, text));
  Json written = Json::array(), stored = Json::array();
  for (const auto& [path, text] : files) written.push_back(path);
  for (const auto& [name, reason] : lowered.materialised) stored.push_back({{"name", name}, {"reason", reason}});
  if (o.json) {
    std::cout << Json{{"kernel", s.inferred.name},
                      {"target", "cpu"},
                      {"arch", machine.name},
                      {"files", written},
                      {"fused", lowered.materialised.empty()},
                      {"materialised", stored}}
                     .dump(2)
              << "\n";
    return done;
  }
  for (const auto& [path, text] : files) std::cout << fmt::format("wrote {} ({} bytes)\n", path, text.size());
  std::cout << fmt::format("It runs on processors like {} ({}). To link it:\n  cc main.c {}.c {}.o -lm\n", machine.name,
                           machine.machine().name, base, base);
  return done;
}

}  // namespace attune::tool
