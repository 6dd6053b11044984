// SPDX-License-Identifier: Apache-2.0
// The oracle's numbers, written from the notation's definition and shared with no backend.
#include "backend/reference/arithmetic.hpp"

#include <cmath>
#include <limits>

namespace attune::reference {

std::int64_t remainder(std::int64_t a, std::int64_t b) {
  if (b == 1 || b == -1) return 0;  // also where a / -1 would overflow
  std::int64_t rest = a % b;
  if (rest != 0 && ((rest ^ b) < 0)) rest += b;
  return rest;
}

std::int64_t quotient(std::int64_t a, std::int64_t b) {
  if (b == -1) return subtract(0, a);
  std::int64_t result = a / b;
  if (result * b != a && ((a ^ b) < 0)) --result;
  return result;
}

std::int64_t power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  while (exponent > 0) {
    if (exponent % 2 == 1) result = multiply(result, base);
    base = multiply(base, base);
    exponent /= 2;
  }
  return result;
}

std::int64_t wrap_to(DType dtype, std::int64_t value) {
  const auto low = static_cast<std::uint64_t>(value);
  switch (dtype) {
    case DType::i32: return static_cast<std::int32_t>(low & 0xffffffffu);
    case DType::i8: return static_cast<std::int8_t>(low & 0xffu);
    case DType::u8: return static_cast<std::int64_t>(low & 0xffu);
    default: return value;
  }
}

std::optional<std::int64_t> to_integer(DType dtype, double value) {
  double below = -0x1p63, above = 0x1p63;  // below <= truncated < above
  switch (dtype) {
    case DType::i32: below = -0x1p31, above = 0x1p31; break;
    case DType::i8: below = -128, above = 128; break;
    case DType::u8: below = 0, above = 256; break;
    default: break;
  }
  const double truncated = std::trunc(value);
  if (!(truncated >= below && truncated < above)) return std::nullopt;
  return static_cast<std::int64_t>(truncated);
}

double apply(tensor::UnaryOp op, double x) {
  using tensor::UnaryOp;
  switch (op) {
    case UnaryOp::negate: return -x;
    case UnaryOp::logical_not: break;
    case UnaryOp::abs: return std::fabs(x);
    case UnaryOp::exp: return std::exp(x);
    case UnaryOp::exp2: return std::exp2(x);
    case UnaryOp::log: return std::log(x);
    case UnaryOp::log2: return std::log2(x);
    case UnaryOp::sqrt: return std::sqrt(x);
    case UnaryOp::rsqrt: return 1.0 / std::sqrt(x);
    case UnaryOp::sin: return std::sin(x);
    case UnaryOp::cos: return std::cos(x);
    case UnaryOp::tanh: return std::tanh(x);
    case UnaryOp::sigmoid: return 1.0 / (1.0 + std::exp(-x));
    case UnaryOp::silu: return x / (1.0 + std::exp(-x));
    case UnaryOp::relu: return x < 0 ? 0.0 : x;
    case UnaryOp::gelu: return 0.5 * x * std::erfc(-x / std::sqrt(2.0));  // erfc keeps the tail of 1 + erf
    case UnaryOp::erf: return std::erf(x);
    case UnaryOp::softplus: return (x > 0 ? x : 0.0) + std::log1p(std::exp(-std::fabs(x)));
    case UnaryOp::floor: return std::floor(x);
    case UnaryOp::ceil: return std::ceil(x);
    case UnaryOp::round: return std::nearbyint(x);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

double maximum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  return a > b ? a : b;
}

double minimum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  return a < b ? a : b;
}

double uniform(std::int64_t seed, const std::int64_t* coordinates, std::size_t count) {
  std::uint32_t x[4] = {};
  const auto last = static_cast<std::uint32_t>(coordinates[count - 1]);
  x[0] = last / 4;
  for (std::size_t k = 1; k < count; ++k) x[k] = static_cast<std::uint32_t>(coordinates[count - 1 - k]);
  std::uint32_t k0 = static_cast<std::uint32_t>(seed);
  std::uint32_t k1 = static_cast<std::uint32_t>(static_cast<std::uint64_t>(seed) >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = 0xD2511F53ull * x[0], p1 = 0xCD9E8D57ull * x[2];
    const std::uint32_t y[4] = {static_cast<std::uint32_t>(p1 >> 32) ^ x[1] ^ k0, static_cast<std::uint32_t>(p1),
                                static_cast<std::uint32_t>(p0 >> 32) ^ x[3] ^ k1, static_cast<std::uint32_t>(p0)};
    for (int k = 0; k < 4; ++k) x[k] = y[k];
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return static_cast<double>(x[last % 4] >> 8) * 0x1p-24;
}

}  // namespace attune::reference
