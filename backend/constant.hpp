// SPDX-License-Identifier: Apache-2.0
// The value of an expression that is the same for a whole launch: dims, scalars and literals, in f64 and i64.
#pragma once
#include <optional>

#include "backend/binding.hpp"

namespace attune {

/// What such an expression may read.
struct Constants {
  const std::unordered_map<Sym, std::int64_t>* dims;
  const std::unordered_map<Sym, ScalarValue>* scalars;
};

/// Whether nothing but literals, dims and scalars occurs.
bool is_launch_uniform(const tensor::Expr& expr);

/// Nothing where it has no value: a dim or scalar without one, a zero divisor, a cast out of range, another kind of
/// expression. Integers are exact and wrap, `/` rounds down; floats are f64, casts to narrow floats round.
std::optional<ScalarValue> evaluate_constant(const tensor::Expr& expr, const Constants& constants);
/// The same for integers.
std::optional<std::int64_t> evaluate_integer(const tensor::Expr& expr, const Constants& constants);

}  // namespace attune
