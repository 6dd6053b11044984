// SPDX-License-Identifier: Apache-2.0
// What --shape, --dtype, --set and --map say, checked against the program.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>

#include "command.hpp"
#include "runtime/compile.hpp"
#include "tensor/passes.hpp"

namespace attune::tool {

std::pair<std::string, std::string> split_setting(const std::string& text, const char* option) {
  auto at = text.find('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size())
    usage(std::string(option) + " `" + text + "` is not of the form NAME=VALUE",
          "a name, `=` and a value, without blanks around");
  return {text.substr(0, at), text.substr(at + 1)};
}

std::string one_of(const std::vector<std::string>& names) {
  if (names.empty()) return "there are none";
  std::string out = names.size() == 1 ? "there is only " : "one of ";
  for (std::size_t k = 0; k < names.size(); ++k) out += (k ? ", " : "") + ("`" + names[k] + "`");
  return out;
}

/// What --set takes for a scalar of the type.
static std::string value_help(DType type) {
  if (is_bool(type)) return "true or false";
  if (is_float(type)) return "a decimal number such as 0.125 or 1e-3, inf or -inf";
  if (type == DType::u8) return "a whole number from 0 to 255";
  const std::int64_t largest = std::numeric_limits<std::int64_t>::max() >> (64 - 8 * size_of(type));
  return "a whole number from " + std::to_string(-largest - 1) + " to " + std::to_string(largest);
}

std::vector<std::string> parameter_names(const tensor::Program& program) {
  std::vector<std::string> out;
  for (const auto& t : program.tensors) out.push_back(t.sym.text());
  for (const auto& s : program.scalars) out.push_back(s.sym.text());
  return out;
}

void read_given(Session& s) {
  const Options& o = s.options;
  const tensor::Program& program = s.inferred;
  auto& [renamed, dims, settings] = s.given;
  for (const auto& text : o.map) {
    auto [from, to] = split_setting(text, "--map");
    const std::vector<std::string> known = parameter_names(program);
    if (std::find(known.begin(), known.end(), to) == known.end()) {
      const std::string near = did_you_mean(to, known);
      usage("--map " + text + ": the program has no parameter `" + to + "`",
            near.empty() ? one_of(known) : "did you mean `" + near + "`?");
    }
    if (renamed.contains(from)) usage("--map gives `" + from + "` two names", "leave one of them out");
    renamed[from] = to;
  }
  for (const auto& text : o.shape) {
    auto [name, value] = split_setting(text, "--shape");
    std::int64_t size = 0;
    auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), size);
    if (error != std::errc() || end != value.data() + value.size() || size < 0 || size > INT32_MAX)
      usage("--shape " + text + ": `" + value + "` is not a size", "sizes are whole numbers from 0 to 2147483647");
    std::vector<std::string> known;
    for (const Sym& dim : program.dims) known.push_back(dim.text());
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      std::string near = did_you_mean(name, known);
      usage("--shape " + text + ": the program has no dim `" + name + "`",
            near.empty() ? one_of(known) : "did you mean `" + near + "`?");
    }
    if (dims.contains(name) && dims[name] != size)
      usage("--shape gives `" + name + "` two sizes", "leave one of them out");
    dims[name] = size;
  }
  for (const auto& text : o.dtype) {
    auto [name, value] = split_setting(text, "--dtype");
    auto dtype = parse_dtype(value);
    if (!dtype || !is_float(*dtype))
      usage("--dtype " + text + ": `" + value + "` is no " + (dtype ? "float " : "") + "dtype",
            "one of f32 f16 bf16 f8e4m3 f8e5m2");
    bool known = std::any_of(program.type_variables.begin(), program.type_variables.end(),
                             [&, &name = name](const Sym& v) { return v.text() == name; });
    if (!known) {
      std::vector<std::string> variables;
      for (const Sym& v : program.type_variables) variables.push_back(v.text());
      usage("--dtype " + text + ": the program has no type variable `" + name + "`", one_of(variables));
    }
    s.types[name] = *dtype;
  }
  // Scalars.
  for (const auto& text : o.set) {
    auto [name, value] = split_setting(text, "--set");
    if (std::any_of(program.tensors.begin(), program.tensors.end(),
                    [&, &name = name](const auto& t) { return t.sym.text() == name; }))
      usage("--set " + text + ": `" + name + "` is a tensor", "give tensors in a file of --inputs");
    auto scalar = std::find_if(program.scalars.begin(), program.scalars.end(),
                               [&, &name = name](const auto& p) { return p.sym.text() == name; });
    if (scalar == program.scalars.end()) {
      std::vector<std::string> scalars;
      for (const auto& p : program.scalars) scalars.push_back(p.sym.text());
      std::string near = did_you_mean(name, scalars);
      usage("--set " + text + ": the program has no scalar `" + name + "`",
            near.empty() ? one_of(scalars) : "did you mean `" + near + "`?");
    }
    if (settings.contains(name)) usage("--set gives `" + name + "` twice", "leave one of them out");
    settings[name] = value;
    const char* first = value.data();
    const char* last = first + value.size();
    auto bad = [&, &value = value] {
      const std::string type(attune::name(scalar->type.dtype));
      usage("--set " + text + ": `" + value + "` is no " + type + " value", value_help(scalar->type.dtype));
    };
    if (scalar->type.is_bool()) {
      if (value != "true" && value != "false") bad();
      s.inputs.emplace_back(name, value == "true");
      s.consts[name] = value == "true";
    } else if (scalar->type.is_integer()) {
      std::int64_t number = 0;
      auto [end, error] = std::from_chars(first, last, number);
      if (error != std::errc() || end != last) bad();
      std::int64_t bits = 8 * static_cast<std::int64_t>(size_of(scalar->type.dtype));
      bool is_unsigned = scalar->type.dtype == DType::u8;
      if (bits < 64 && (number < (is_unsigned ? 0 : -(std::int64_t{1} << (bits - 1))) ||
                        number >= (std::int64_t{1} << (is_unsigned ? bits : bits - 1))))
        bad();
      s.inputs.emplace_back(name, number);
      s.consts[name] = static_cast<double>(number);
    } else {
      double number = 0;
      if (value == "inf" || value == "-inf") {
        number = value[0] == '-' ? -HUGE_VAL : HUGE_VAL;
      } else {
        auto [end, error] = std::from_chars(first, last, number);
        if (error != std::errc() || end != last) bad();
      }
      s.inputs.emplace_back(name, number);
      s.consts[name] = number;
    }
  }
  std::erase_if(s.consts, [&](const auto& item) {
    return std::none_of(program.scalars.begin(), program.scalars.end(),
                        [&](const auto& p) { return p.is_const && p.sym.text() == item.first; });
  });
  std::erase_if(s.inputs, [&](const Argument& a) { return s.consts.contains(a.name); });
  // What is baked in cannot wait for the call.
  for (const auto& scalar : program.scalars)
    if (scalar.is_const && !scalar.default_value && !s.consts.contains(scalar.sym.text()))
      fail(data_error, problem("A0234", "const `" + scalar.sym.text() + "` needs a value: it has no default",
                               "give it with --set " + scalar.sym.text() + "=..."));
}

Target chosen_target(const Options& o) {
  if (const auto target = Target::parse(o.target)) return *target;
  const std::vector<std::string> known = {"auto", "cpu", "cuda", "cuda:1", "interpreter", "reference"};
  const std::string near = did_you_mean(o.target, known);
  usage("--target `" + o.target + "` is unknown", near.empty() ? one_of(known) : "did you mean `" + near + "`?");
}

Target running_target(const Options& o) { return attune::resolve(chosen_target(o)); }

void bind_default_types(Session& s) {
  read_given(s);
  for (const Sym& var : s.inferred.type_variables) s.types.try_emplace(var.text(), DType::f32);
  s.bound = expect(tensor::bind_types(s.inferred, s.types, s.consts));
}

}  // namespace attune::tool
