// SPDX-License-Identifier: Apache-2.0
// The numbers of the notation: 64-bit wrapping integers, f32 functions, the counter-based random numbers.
#pragma once
#include <attune/dtype.hpp>
#include <cstdint>
#include <optional>
#include <vector>

#include "tensor/ir.hpp"

namespace attune::interpreter {

inline std::int64_t wrap_add(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
inline std::int64_t wrap_sub(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
inline std::int64_t wrap_mul(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
/// Rounds down; the divisor is not 0.
std::int64_t floor_div(std::int64_t a, std::int64_t b);
/// Has the divisor's sign; the divisor is not 0.
std::int64_t floor_mod(std::int64_t a, std::int64_t b);
std::int64_t wrap_power(std::int64_t base, std::int64_t exponent);
/// Modulo the width of the type.
std::int64_t narrow(DType dtype, std::int64_t value);
/// Truncates; nothing for NaN and what the type cannot hold.
std::optional<std::int64_t> truncate(DType dtype, float value);

/// Float functions, computed in f64 and rounded once.
float apply(tensor::UnaryOp op, float x);
float power(float base, float exponent);
/// Propagate NaN.
float larger(float a, float b);
float smaller(float a, float b);

/// rand(seed, coordinates...) of the notation: Philox4x32-10, in [0, 1).
float random(std::int64_t seed, const std::int64_t* coordinates, std::size_t count);

}  // namespace attune::interpreter
