// SPDX-License-Identifier: Apache-2.0
// `attune check`, `attune show`, `attune explain`: what a text means and what it becomes.
#include <fmt/format.h>

#include <iostream>

#include "backend/cpu/cpu.hpp"
#include "command.hpp"
#include "loop/passes.hpp"
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

/// The layout facts of the session's arguments, as dispatch derives them for contiguous inputs.
loop::LowerOptions lower_options(const Session& s) {
  loop::LowerOptions out;
  out.machine = cpu::host().machine();
  for (const Argument& a : s.arguments)
    if (const auto* ref = std::get_if<TensorRef>(&a.value); ref && ref->rank()) {
      out.layout.unit_axes[a.name] = static_cast<std::int64_t>(ref->rank()) - 1;
      if (out.layout.depth_hint == 64 && ref->rank() > 1) out.layout.depth_hint = ref->shape.back();
    }
  for (const auto& text : s.options.schedule) {
    auto at = text.find('=');
    if (at == std::string::npos) usage("--schedule `" + text + "` is not of the form KEY=VALUE");
    out.overrides[text.substr(0, at)] = text.substr(at + 1);
  }
  out.require_fused = s.options.require_fused;
  out.record = true;
  out.index_bits = 32;
  return out;
}

/// Types where no inputs fix them: f32.
void default_types(Session& s) {
  for (const auto& text : s.options.dtype) {
    auto at = text.find('=');
    auto dtype = at == std::string::npos ? std::nullopt : parse_dtype(text.substr(at + 1));
    if (!dtype) usage("--dtype `" + text + "` is not of the form T=DTYPE");
    s.types[text.substr(0, at)] = *dtype;
  }
  for (const Sym& var : s.inferred.type_variables) s.types.try_emplace(var.text(), DType::f32);
  for (const auto& scalar : s.inferred.scalars)
    if (scalar.is_const && !scalar.default_value)
      usage("const scalar `" + scalar.sym.text() + "` has no value", "give it with --set");
  s.bound = expect(tensor::bind_types(s.inferred, s.types, s.consts));
}

}  // namespace

int check_command(const Options& o) {
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
  if (stage == "tokens") {
    Program program = load_program(o);  // a text that does not parse has no tokens worth showing without its errors
    std::cout << expect(print_tokens(program.module().source));
    return done;
  }
  if (stage == "ast") {
    std::cout << print_tree(load_program(o).module());
    return done;
  }
  Session s = open_program(o);
  if (stage == "tensor") {
    std::cout << tensor::print(s.inferred);
    return done;
  }
  if (!o.shape.empty() || !o.inputs.empty())
    open_inputs(s, 1);
  else
    default_types(s);
  if (stage == "mask") {
    if (o.shape.empty() && o.inputs.empty()) usage("a mask needs sizes", "give --shape, or --inputs");
    std::cout << mask_picture(s, 64, 32);
    return done;
  }
  auto lowered = expect(loop::build(s.bound, lower_options(s)));
  if (stage == "stream")
    std::cout << lowered.streams;
  else if (stage == "schedule") {
    for (const auto& [key, value] : lowered.kernel.schedule.values()) {
      auto why = lowered.kernel.schedule.why.find(key);
      std::cout << fmt::format("{:<10} {:<10} {}\n", key, value,
                               why == lowered.kernel.schedule.why.end() ? "" : why->second);
    }
  } else if (stage == "loop")
    std::cout << loop::print(lowered.kernel);
  else if (stage.rfind("loop:", 0) == 0) {
    std::string known;
    for (const auto& [pass, text] : lowered.stages) {
      if (pass == stage.substr(5)) {
        std::cout << text;
        return done;
      }
      known += (known.empty() ? "" : ", ") + pass;
    }
    usage("there is no pass `" + stage.substr(5) + "`", "one of " + known);
  } else if (stage == "source" || stage == "asm") {
    std::string ir = expect(cpu::emit(lowered.kernel, cpu::host()));
    std::cout << (stage == "source" ? ir : expect(cpu::assembly(ir, cpu::host())));
  } else {
    usage("there is no stage `" + stage + "`",
          "one of tokens, ast, tensor, stream, schedule, loop, loop:PASS, source, asm, mask");
  }
  return done;
}

int explain_command(const Options& o) {
  if (!o.file.empty() && o.file.size() == 5 && o.file[0] == 'A') {
    std::string_view text = explain(o.file);
    if (text.empty()) {
      std::vector<std::string> codes;
      for (auto c : diagnostic_codes()) codes.emplace_back(c);
      std::string near = did_you_mean(o.file, codes);
      usage("there is no code `" + o.file + "`", near.empty() ? "" : "did you mean `" + near + "`?");
    }
    std::cout << o.file << ": " << title(o.file) << "\n\n" << text << "\n";
    return done;
  }
  Session s = open_program(o);
  default_types(s);
  auto lowered = expect(loop::build(s.bound, lower_options(s)));
  std::cout << lowered.streams;
  for (const auto& [name, reason] : lowered.materialised) std::cout << "stored: " << name << ": " << reason << "\n";
  return done;
}

}  // namespace attune::tool
