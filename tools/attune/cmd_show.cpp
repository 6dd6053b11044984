// SPDX-License-Identifier: Apache-2.0
// `attune check`, `attune show`, `attune explain`: what a text means and what it becomes; `attune cache`.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <iostream>

#include "backend/binding.hpp"
#include "backend/cpu/cpu.hpp"
#include "backend/cuda/nvrtc.hpp"
#include "command.hpp"
#include "loop/passes.hpp"
#include "recorder.hpp"
#include "runtime/compile.hpp"
#include "runtime/layout.hpp"
#include "runtime/narrow.hpp"
#include "syntax/syntax.hpp"
#include "tensor/passes.hpp"

namespace attune::tool {
namespace {

std::string type_text(const tensor::Type& type) { return type.var ? type.var.text() : std::string(name(type.dtype)); }

std::string extents_text(const std::vector<tensor::Expr>& extents) {
  std::string out;
  for (const auto& e : extents) out += (out.empty() ? "" : ", ") + tensor::print(e);
  return out;
}

/// As dispatch would choose them: for the call where there is one, else for contiguous inputs.
loop::LowerOptions lower_options(const Session& s, const Target& target) {
  loop::LowerOptions out;
  if (target.kind == TargetKind::cpu) out.machine = machine_of(s.options).machine();
  if (target.kind == TargetKind::cuda) out.machine = gpu_of(s.options, target).machine();
  out.layout = contiguous_facts(s.bound);
  out.index_bits = 32;
  if (!s.arguments.empty()) {
    const Binding call = expect(attune::bind(s.bound, s.arguments, true));
    out.layout = layout_facts(s.bound, call);
    out.index_bits = fits_in_32_bits(s.bound, call) ? 32 : 64;
  }
  for (const auto& text : s.options.schedule) {
    auto [key, value] = split_setting(text, "--schedule");
    out.overrides[key] = value;
  }
  out.require_fused = s.options.require_fused;
  return out;
}

const std::vector<std::string> passes = {"lower", "tile", "partition", "place", "map"};

/// The target whose stages are shown; a stage that the target does not have is a usage error.
Target shown_target(const Options& o) {
  Target target = chosen_target(o);
  if (!o.arch.empty()) {
    if (target.kind == TargetKind::reference || target.kind == TargetKind::interpreter)
      usage("the target `" + target.text() + "` does not depend on --arch", "use --target cpu or cuda");
    if (target.kind == TargetKind::automatic) target.kind = named_gpu(o) ? TargetKind::cuda : TargetKind::cpu;
    if (target.kind == TargetKind::cpu) machine_of(o);  // known at all
  }
  const std::string& stage = o.stage;
  const bool code = stage == "source" || stage == "asm",
             nest = code || stage == "schedule" || stage.starts_with("loop");
  if (target.kind == TargetKind::automatic) target = attune::resolve(target);
  // Source needs no libLLVM to be shown.
  if (code && target.kind == TargetKind::interpreter && o.target == "auto") target = Target{TargetKind::cpu};
  if (nest && target.kind == TargetKind::cuda) gpu_of(o, target);  // here at all
  if (nest && target.kind == TargetKind::reference)
    usage("the target `reference` has no stage `" + stage + "`: it evaluates the formula as `--stage tensor` shows it",
          "use --target cpu or interpreter");
  if (code && target.kind == TargetKind::interpreter)
    usage("the target `interpreter` has no stage `" + stage + "`: it executes what `--stage loop` shows",
          "use --target cpu");
  return target;
}

}  // namespace

int check_command(const Options& o) {
  if (!named_gpu(o)) machine_of(o);  // a name that does not exist is an error here too
  Program program = load_program(o);
  auto kernels = program.kernels();
  if (!o.kernel.empty()) kernels = {choose_kernel(program, o)};
  if (kernels.empty()) kernels = {""};  // inference says what is missing
  Json all = Json::array();
  Diagnostics errors;
  std::string text;
  for (const std::string& kernel : kernels) {
    auto inferred = infer(program.module(), kernel);
    warn(o, inferred.diagnostics());
    if (!inferred) {
      errors.insert(errors.end(), inferred.diagnostics().begin(), inferred.diagnostics().end());
      continue;
    }
    std::vector<std::string> params, results, definitions;
    for (const auto& t : inferred->tensors)
      params.push_back(fmt::format("{}: {}[{}]", t.sym.text(), type_text(t.type), extents_text(t.extents)));
    for (const auto& p : inferred->scalars) {
      std::string line = p.sym.text() + ": " + (p.is_const ? "const " : "") + type_text(p.type);
      if (p.default_value) line += " = " + tensor::print(p.default_value);
      params.push_back(line);
    }
    for (const auto& t : inferred->results)
      results.push_back(fmt::format("{}: {}[{}]", t.sym.text(), type_text(t.type), extents_text(t.extents)));
    for (const auto& d : inferred->definitions) {
      std::string list;
      for (const auto& r : d.indices)
        list += (list.empty() ? "" : ", ") + r.index.text() + " in 0.." + tensor::print(r.hi);
      definitions.push_back(fmt::format("{}[{}]: {}", d.sym.text(), list, type_text(d.body->type)));
    }
    text += fmt::format("kernel {}({})\n  -> {}\n", kernel, fmt::join(params, ", "), fmt::join(results, ", "));
    for (const auto& d : definitions) text += "  " + d + "\n";
    all.push_back({{"kernel", kernel}, {"parameters", params}, {"results", results}, {"definitions", definitions}});
  }
  if (!errors.empty()) fail(exit_of(errors), errors);
  if (o.json)
    std::cout << Json{{"kernels", all}}.dump(2) << "\n";
  else
    std::cout << text;
  return done;
}

int show_command(const Options& o) {
  const std::string& stage = o.stage;
  const Target target = shown_target(o);
  if (stage == "tokens") {
    Program program = load_program(o);  // a text that does not parse has no tokens worth showing without its errors
    std::cout << expect(print_tokens(program.module().source));
    return done;
  }
  if (stage == "ast") {
    std::cout << print_tree(load_program(o).module());
    return done;
  }
  const std::string pass = stage.starts_with("loop:") ? stage.substr(5) : "";
  if (!pass.empty() && std::find(passes.begin(), passes.end(), pass) == passes.end())
    usage("there is no pass `" + pass + "`", one_of(passes));
  const std::vector<std::string> stages = {"tokens", "ast",    "tensor", "stream", "schedule",
                                           "loop",   "source", "asm",    "mask"};
  if (pass.empty() && std::find(stages.begin(), stages.end(), stage) == stages.end()) {
    std::string near = did_you_mean(stage, stages);
    usage("there is no stage `" + stage + "`",
          near.empty() ? one_of(stages) + " or `loop:PASS`" : "did you mean `" + near + "`?");
  }
  Session s = open_program(o);
  if (stage == "tensor") {
    std::cout << tensor::print(s.inferred);
    return done;
  }
  if (!o.shape.empty() || !o.inputs.empty())
    open_inputs(s, 1);
  else
    bind_default_types(s);
  if (stage == "mask") {
    if (o.shape.empty() && o.inputs.empty()) usage("a mask needs sizes", "give --shape, or --inputs");
    std::cout << mask_picture(s, 64, 32);
    return done;
  }
  if (stage == "stream") {
    std::cout << tensor::print(loop::derive(s.bound));
    return done;
  }
  // What a step made is shown as soon as it is there: a later one that fails does not matter.
  struct Shown {};
  auto options = lower_options(s, target);
  options.observer = [&](std::string_view step, double milliseconds, const std::function<std::string()>& text) {
    recorder().stage(step, milliseconds, text);
    if (step != (pass.empty() ? stage : pass)) return;
    std::cout << text();
    throw Shown{};
  };
  try {
    auto lowered = expect(loop::build(program_for(s, target, options), options));
    if (target.kind == TargetKind::cuda) {
      const cuda::GpuTarget gpu = gpu_of(o, target);
      const cuda::Source source = expect(cuda::emit(lowered.kernel, gpu));
      std::cout << (stage == "source" ? source.text : expect(cuda::ptx(source, gpu)));
      return done;
    }
    std::string ir = expect(cpu::emit(lowered.kernel, machine_of(o)));
    std::cout << (stage == "source" ? ir : expect(cpu::assembly(ir, machine_of(o))));
  } catch (const Shown&) {
  }
  return done;
}

int explain_command(const Options& o) {
  const std::string& word = o.file;
  const bool like_code = word.size() == 5 && (word[0] == 'A' || word[0] == 'a') &&
                         std::all_of(word.begin() + 1, word.end(), [](unsigned char c) { return std::isdigit(c); });
  if (like_code) {
    std::string code = word;
    code[0] = 'A';
    std::string_view text = explain(code);
    if (text.empty()) {
      std::vector<std::string> codes;
      for (auto c : diagnostic_codes()) codes.emplace_back(c);
      std::string near = did_you_mean(code, codes);
      usage("there is no code `" + word + "`",
            near.empty() ? "a code stands in the brackets of an error" : "did you mean `" + near + "`?");
    }
    if (o.json)
      std::cout << Json{{"code", code}, {"title", title(code)}, {"text", text}}.dump(2) << "\n";
    else
      std::cout << code << ": " << title(code) << "\n\n"
                << text << "\n"
                << (text.find("# call:") == text.npos
                        ? ""
                        : "\n(A line `# call:` lists the arguments of a call: tensors as NAME DTYPE[EXTENTS], scalars "
                          "and options.)\n");
    return done;
  }
  Session s = open_program(o);
  bind_default_types(s);
  const std::string text = explain_program(s);
  if (o.json)
    std::cout << Json{{"kernel", s.kernel_name}, {"text", text}}.dump(2) << "\n";
  else
    std::cout << text;
  return done;
}

int cache_command(const Options& o) {
  const std::vector<std::string> actions = {"list", "clear", "path"};
  const std::string action = o.action.empty() ? "list" : o.action;
  if (std::find(actions.begin(), actions.end(), action) == actions.end()) {
    std::string near = did_you_mean(action, actions);
    usage("`attune cache` does not know `" + action + "`",
          near.empty() ? one_of(actions) : "did you mean `" + near + "`?");
  }
  Engine engine;
  const std::string folder = engine.cache_directory();
  if (action == "path") {
    if (o.json)
      std::cout << Json{{"path", folder}}.dump(2) << "\n";
    else
      std::cout << (folder.empty() ? "(the disk cache is off)" : folder) << "\n";
    return done;
  }
  if (action == "clear") {
    const std::size_t removed = engine.clear_cache();
    if (o.json)
      std::cout << Json{{"path", folder}, {"removed", removed}}.dump(2) << "\n";
    else
      std::cout << fmt::format("removed {} compiled kernel{}\n", removed, removed == 1 ? "" : "s");
    return done;
  }
  const auto entries = engine.cache_entries();
  std::uint64_t total = 0;
  Json list = Json::array();
  std::string text;
  for (const auto& entry : entries) {
    total += entry.bytes;
    const std::time_t used = entry.last_used;
    std::tm local{};
    localtime_r(&used, &local);
    char when[32];
    std::strftime(when, sizeof when, "%Y-%m-%d %H:%M", &local);
    text += fmt::format("{:>8} KiB  {}  {}\n", (entry.bytes + 1023) / 1024, when, entry.description);
    list.push_back({{"file", entry.file},
                    {"description", entry.description},
                    {"bytes", entry.bytes},
                    {"last_used", entry.last_used}});
  }
  if (o.json)
    std::cout << Json{{"path", folder}, {"bytes", total}, {"entries", list}}.dump(2) << "\n";
  else if (folder.empty())
    std::cout << "the disk cache is off\n";
  else
    std::cout << text
              << fmt::format("{} compiled kernel{}, {} KiB in {}\n", entries.size(), entries.size() == 1 ? "" : "s",
                             (total + 1023) / 1024, folder);
  return done;
}

}  // namespace attune::tool
