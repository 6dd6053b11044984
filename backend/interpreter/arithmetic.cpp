// SPDX-License-Identifier: Apache-2.0
// The numbers of the notation, one function each.
#include "backend/interpreter/arithmetic.hpp"

#include <array>
#include <cmath>
#include <limits>

namespace attune::interpreter {

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  if (b == -1) return wrap_sub(0, a);  // the one quotient that overflows
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

std::int64_t floor_mod(std::int64_t a, std::int64_t b) {
  if (b == -1) return 0;
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

std::int64_t wrap_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) result = wrap_mul(result, base);
    base = wrap_mul(base, base);
  }
  return result;
}

std::int64_t narrow(DType dtype, std::int64_t value) {
  switch (dtype) {
    case DType::i32: return static_cast<std::int32_t>(static_cast<std::uint64_t>(value));
    case DType::i8: return static_cast<std::int8_t>(static_cast<std::uint64_t>(value));
    case DType::u8: return static_cast<std::uint8_t>(static_cast<std::uint64_t>(value));
    default: return value;
  }
}

std::optional<std::int64_t> truncate(DType dtype, float value) {
  // Every bound is a power of two or one below it, so the comparison in f64 is exact.
  const double whole = std::trunc(static_cast<double>(value));
  double lo = -0x1p63, hi = 0x1p63;
  if (dtype == DType::i32) lo = -0x1p31, hi = 0x1p31;
  if (dtype == DType::i8) lo = -0x1p7, hi = 0x1p7;
  if (dtype == DType::u8) lo = 0, hi = 0x1p8;
  if (!(whole >= lo && whole < hi)) return std::nullopt;
  return static_cast<std::int64_t>(whole);
}

float apply(tensor::UnaryOp op, float value) {
  using tensor::UnaryOp;
  const double x = value;
  const auto once = [](double result) { return static_cast<float>(result); };
  switch (op) {
    case UnaryOp::negate: return -value;
    case UnaryOp::abs: return std::fabs(value);
    case UnaryOp::exp: return once(std::exp(x));
    case UnaryOp::exp2: return once(std::exp2(x));
    case UnaryOp::log: return once(std::log(x));
    case UnaryOp::log2: return once(std::log2(x));
    case UnaryOp::sqrt: return once(std::sqrt(x));
    case UnaryOp::rsqrt: return once(1.0 / std::sqrt(x));
    case UnaryOp::sin: return once(std::sin(x));
    case UnaryOp::cos: return once(std::cos(x));
    case UnaryOp::tanh: return once(std::tanh(x));
    case UnaryOp::sigmoid: return once(1.0 / (1.0 + std::exp(-x)));
    case UnaryOp::silu: return once(x / (1.0 + std::exp(-x)));
    case UnaryOp::relu: return value < 0 ? 0.0f : value;
    // erfc keeps the small tail that 1 + erf(x) cancels.
    case UnaryOp::gelu: return once(0.5 * x * std::erfc(-x * 0.70710678118654752440));
    case UnaryOp::erf: return once(std::erf(x));
    case UnaryOp::softplus: return once(x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)));
    case UnaryOp::floor: return std::floor(value);
    case UnaryOp::ceil: return std::ceil(value);
    case UnaryOp::round: return std::nearbyint(value);
    case UnaryOp::logical_not: break;
  }
  return std::numeric_limits<float>::quiet_NaN();
}

float power(float base, float exponent) { return static_cast<float>(std::pow(double{base}, double{exponent})); }

float larger(float a, float b) {
  if (std::isnan(a)) return a;
  if (std::isnan(b)) return b;
  return a < b ? b : a;
}

float smaller(float a, float b) {
  if (std::isnan(a)) return a;
  if (std::isnan(b)) return b;
  return b < a ? b : a;
}

float random(std::int64_t seed, const std::int64_t* coordinates, std::size_t count) {
  const auto low = [](std::int64_t value) { return static_cast<std::uint32_t>(static_cast<std::uint64_t>(value)); };
  // The counter: the last coordinate in blocks of four words, then the others from last to first.
  std::array<std::uint32_t, 4> counter{};
  const std::uint32_t last = low(coordinates[count - 1]);
  counter[0] = last / 4;
  for (std::size_t k = 1; k < count; ++k) counter[k] = low(coordinates[count - 1 - k]);
  std::uint32_t key0 = low(seed);
  auto key1 = static_cast<std::uint32_t>(static_cast<std::uint64_t>(seed) >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t second = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(second >> 32) ^ counter[1] ^ key0, static_cast<std::uint32_t>(second),
               static_cast<std::uint32_t>(first >> 32) ^ counter[3] ^ key1, static_cast<std::uint32_t>(first)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return static_cast<float>(counter[last % 4] >> 8) * 0x1p-24f;
}

}  // namespace attune::interpreter
