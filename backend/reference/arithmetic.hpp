// SPDX-License-Identifier: Apache-2.0
// The numbers of the notation as the oracle has them: wrapping i64, f64 functions, the counter-based random numbers.
#pragma once
#include <attune/dtype.hpp>
#include <cstdint>
#include <limits>
#include <optional>

#include "tensor/ir.hpp"

namespace attune::reference {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

inline std::int64_t add(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
inline std::int64_t subtract(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
inline std::int64_t multiply(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
/// Rounds down; b is not 0.
std::int64_t quotient(std::int64_t a, std::int64_t b);
/// a - b * quotient(a, b); b is not 0.
std::int64_t remainder(std::int64_t a, std::int64_t b);
std::int64_t power(std::int64_t base, std::int64_t exponent);
/// Modulo 2^bits of the type.
std::int64_t wrap_to(DType dtype, std::int64_t value);
/// Truncates; nothing for NaN and what the type cannot hold.
std::optional<std::int64_t> to_integer(DType dtype, double value);

/// Every UnaryOp on floats (logical_not has none).
double apply(tensor::UnaryOp op, double x);
/// Propagate NaN.
double maximum(double a, double b);
double minimum(double a, double b);

/// rand(seed, i1, ..., j): Philox4x32-10, key = seed (low word first), counter = (low32(j) / 4, the others from last to
/// first, 0 ...), word j % 4, (word >> 8) * 2^-24. One to four coordinates.
double uniform(std::int64_t seed, const std::int64_t* coordinates, std::size_t count);

}  // namespace attune::reference
