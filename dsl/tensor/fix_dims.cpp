// SPDX-License-Identifier: Apache-2.0
// Dims become literals.
#include "tensor/fix_dims.hpp"

namespace attune::tensor {

Program fix_dims(const Program& program, const std::map<std::string, std::int64_t>& sizes) {
  std::unordered_map<Sym, Expr> literals;
  for (const Sym& dim : program.dims)
    if (const auto size = sizes.find(dim.text()); size != sizes.end()) literals.emplace(dim, integer(size->second));
  const auto fix = [&](Expr& expr) {
    if (expr) expr = substitute(expr, literals);
  };
  const auto fix_all = [&](std::vector<Expr>& exprs) {
    for (Expr& expr : exprs) fix(expr);
  };
  Program out = program;
  for (Tensor& tensor : out.tensors) fix_all(tensor.extents);
  for (Tensor& tensor : out.results) fix_all(tensor.extents);
  for (ScalarParam& scalar : out.scalars) fix(scalar.default_value);
  for (Definition& definition : out.definitions) {
    for (IndexRange& range : definition.indices) {
      fix(range.lo);
      fix(range.hi);
    }
    fix(definition.body);
  }
  for (RangeCheck& check : out.range_checks) {
    fix(check.lo);
    fix(check.hi);
    fix(check.extent);
  }
  return out;
}

}  // namespace attune::tensor
