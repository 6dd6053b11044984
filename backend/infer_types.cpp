// SPDX-License-Identifier: Apache-2.0
// The dtypes of type variables as the tensors of a call fix them.
#include <fmt/format.h>

#include <set>

#include "backend/binding.hpp"
#include "backend/problem.hpp"

namespace attune {

Result<std::map<std::string, DType>> infer_types(const tensor::Program& program, const Arguments& arguments,
                                                 const std::map<std::string, DType>& given) {
  Diagnostics errors;
  std::map<std::string, DType> types;
  std::map<std::string, std::string> origin;
  std::vector<std::string> variables;
  for (const Sym& variable : program.type_variables) variables.push_back(variable.text());
  for (const auto& [name, dtype] : given) {
    const std::set<std::string> names(variables.begin(), variables.end());
    if (!names.count(name)) {
      Diagnostic diagnostic = problem("A0502", fmt::format("`{}` has no type variable `{}`", program.name, name));
      if (const std::string nearest = did_you_mean(name, variables); !nearest.empty())
        diagnostic.help = fmt::format("did you mean `{}`?", nearest);
      errors.push_back(std::move(diagnostic));
    } else if (!is_float(dtype)) {
      Diagnostic diagnostic =
          problem("A0515", fmt::format("type variable `{}` stands for a float, not {}", name, attune::name(dtype)));
      diagnostic.expected = "a float dtype";
      diagnostic.found = attune::name(dtype);
      errors.push_back(std::move(diagnostic));
    } else {
      types[name] = dtype;
      origin[name] = "the options";
    }
  }
  std::set<std::string> refused;
  const auto consider = [&](const Sym& sym, const tensor::Type& type) {
    if (!type.var) return;
    const std::string& variable = type.var.text();
    for (const Argument& argument : arguments) {
      const auto* view = std::get_if<TensorRef>(&argument.value);
      if (argument.name != sym.text() || !view) continue;
      const std::string where = fmt::format("`{}`", sym.text());
      const auto found = types.find(variable);
      if (!is_float(view->dtype)) {
        Diagnostic diagnostic = problem(
            "A0515",
            fmt::format("type variable `{}` stands for a float, {} is {}", variable, where, attune::name(view->dtype)),
            sym);
        diagnostic.expected = "a float dtype";
        diagnostic.found = attune::name(view->dtype);
        errors.push_back(std::move(diagnostic));
        refused.insert(variable);
      } else if (found == types.end()) {
        types[variable] = view->dtype;
        origin[variable] = where;
      } else if (found->second != view->dtype) {
        Diagnostic diagnostic =
            problem("A0515",
                    fmt::format("type variable `{}` is {} by {} and {} by {}", variable, attune::name(found->second),
                                origin[variable], attune::name(view->dtype), where),
                    sym);
        diagnostic.expected = attune::name(found->second);
        diagnostic.found = attune::name(view->dtype);
        errors.push_back(std::move(diagnostic));
      }
      return;
    }
  };
  for (const tensor::Tensor& tensor : program.tensors) consider(tensor.sym, tensor.type);
  for (const tensor::ScalarParam& scalar : program.scalars) consider(scalar.sym, scalar.type);
  for (const tensor::Tensor& tensor : program.results) consider(tensor.sym, tensor.type);
  for (const std::string& variable : variables) {
    if (types.count(variable) || refused.count(variable)) continue;
    std::vector<std::string> users;
    for (const tensor::Tensor& tensor : program.tensors)
      if (tensor.type.var && tensor.type.var.text() == variable) users.push_back(tensor.sym.text());
    for (const std::string& user : users) {
      Diagnostic diagnostic = problem("A0501", fmt::format("`{}` is missing", user));
      diagnostic.tensor = user;
      diagnostic.expected = variable;
      diagnostic.found = "nothing";
      errors.push_back(std::move(diagnostic));
    }
    if (!users.empty()) continue;
    Diagnostic diagnostic = problem("A0516", fmt::format("nothing binds the type variable `{}`", variable));
    diagnostic.expected = "a float dtype";
    diagnostic.found = "nothing";
    diagnostic.help = fmt::format("give `{}` in the compile options", variable);
    errors.push_back(std::move(diagnostic));
  }
  if (!errors.empty()) return errors;
  return types;
}

}  // namespace attune
