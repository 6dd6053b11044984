// SPDX-License-Identifier: Apache-2.0
// Sums as terms, products as factors, and the questions passes ask of expressions.
#pragma once
#include <optional>
#include <vector>

#include "tensor/ir.hpp"

namespace attune::tensor {

/// a - b + c as {+a, -b, +c}; negations are folded into the sign. One term where it is no sum.
struct Term {
  bool negative = false;
  Expr expr;
};
std::vector<Term> terms(const Expr& expr);
/// The sum of terms, integer or float by `type`; 0 for none.
Expr sum_of(const std::vector<Term>& list, const Type& type);

/// a * b / c as {a, b, 1/c} (float chains, or integer products without division); a negation is a factor -1.
struct Factor {
  bool inverse = false;
  Expr expr;
};
std::vector<Factor> factors(const Expr& expr);
Expr product_of(const std::vector<Factor>& list, const Type& type);

/// p and q and r as a list; null gives none.
std::vector<Expr> conjuncts(const Expr& condition);
/// Their conjunction; null for none.
Expr conjunction(const std::vector<Expr>& list);

std::optional<std::int64_t> integer_value(const Expr& expr);
std::optional<double> real_value(const Expr& expr);
bool is_literal(const Expr& expr, double value);

/// Whether any of the Syms occurs free.
bool mentions_any(const Expr& expr, const std::vector<Sym>& syms);
/// All index Syms that occur free, in order of appearance.
std::vector<Sym> free_indices(const Expr& expr);
/// Whether a Reduce, Softmax or Cumsum occurs.
bool has_reduction(const Expr& expr);

/// Whether evaluating it may end absent: a gather that is not provably in range, Where, a float-to-integer cast, a
/// divisor that may be zero, or a definition that may. Direct subscripts by an index of the axis' own range are safe.
bool may_be_absent(const Expr& expr, const Program& program);
/// The same where the ranges of indices are known: `range_of(sym)` gives an index' range or null.
bool may_be_absent(const Expr& expr, const Program& program, const std::vector<IndexRange>& ranges);

/// Structural equality up to a renaming of index Syms: `renaming` maps indices of `a` to expressions of `b` and is
/// extended where an unmapped one of `candidates` (or a bound index) meets an index. False leaves it unspecified.
bool unify(const Expr& a, const Expr& b, std::unordered_map<Sym, Sym>& renaming);

}  // namespace attune::tensor
