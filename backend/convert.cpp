// SPDX-License-Identifier: Apache-2.0
// One element between memory and f64 or i64: the storage formats of the notation, bit by bit.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/binding.hpp"

namespace attune {
namespace {

/// A narrow float: precision with the hidden bit, the smallest normal exponent, the largest finite value.
struct Format {
  int precision;
  int least_exponent;
  double largest;
  bool saturates;
};

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::f16: return {11, -14, 65504.0, false};
    case DType::bf16: return {8, -126, 0x1.FEp127, false};
    case DType::f8e4m3: return {4, -6, 448.0, true};
    default: return {3, -14, 57344.0, false};  // f8e5m2
  }
}

/// To nearest even in one step from f64, so that no double rounding occurs.
double round_narrow(const Format& format, double value) {
  if (std::isnan(value) || value == 0) return value;
  if (std::isinf(value)) return format.saturates ? std::copysign(format.largest, value) : value;
  const int exponent = std::max(std::ilogb(value), format.least_exponent);
  const int quantum = exponent - (format.precision - 1);
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -quantum)), quantum);
  if (std::fabs(rounded) <= format.largest) return rounded;
  return std::copysign(format.saturates ? format.largest : std::numeric_limits<double>::infinity(), value);
}

/// The bits of a value that the format holds exactly.
std::uint32_t encode(DType dtype, double value) {
  const Format format = format_of(dtype);
  const int fraction = format.precision - 1;
  const int width = static_cast<int>(size_of(dtype)) * 8;
  const std::uint32_t sign = std::signbit(value) ? 1u << (width - 1) : 0u;
  const std::uint32_t exponent_ones = ((1u << (width - 1)) - 1) >> fraction << fraction;
  if (std::isnan(value)) return sign | ((1u << (width - 1)) - 1);
  if (std::isinf(value)) return sign | exponent_ones;
  if (value == 0) return sign;
  const double magnitude = std::fabs(value);
  const int exponent = std::max(std::ilogb(magnitude), format.least_exponent);
  // Subnormals have the hidden bit clear, which makes their biased exponent 0 by itself.
  const auto significand = static_cast<std::uint32_t>(std::ldexp(magnitude, fraction - exponent));
  const auto biased = static_cast<std::uint32_t>(exponent - format.least_exponent);
  return sign | ((biased << fraction) + significand);
}

double decode(DType dtype, std::uint32_t bits) {
  if (dtype == DType::bf16) return std::bit_cast<float>(bits << 16);
  const Format format = format_of(dtype);
  const int fraction = format.precision - 1;
  const int width = static_cast<int>(size_of(dtype)) * 8;
  const bool negative = (bits >> (width - 1)) != 0;
  const std::uint32_t magnitude = bits & ((1u << (width - 1)) - 1);
  const std::uint32_t biased = magnitude >> fraction;
  const std::uint32_t significand = magnitude & ((1u << fraction) - 1);
  const std::uint32_t ones = ((1u << (width - 1)) - 1) >> fraction;
  double value = 0;
  if (dtype == DType::f8e4m3 && magnitude == 0x7f) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (dtype != DType::f8e4m3 && biased == ones) {
    value = significand == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else if (biased == 0) {
    value = std::ldexp(static_cast<double>(significand), format.least_exponent - fraction);
  } else {
    value = std::ldexp(static_cast<double>(significand | (1u << fraction)),
                       static_cast<int>(biased) - 1 + format.least_exponent - fraction);
  }
  return negative ? -value : value;
}

template <class T>
T read(const void* data, std::int64_t offset) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + offset * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}
template <class T>
void write(void* data, std::int64_t offset, T value) {
  std::memcpy(static_cast<char*>(data) + offset * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

/// Truncates; what i64 cannot hold goes to its nearest end, NaN to 0.
std::int64_t truncate(double value) {
  if (std::isnan(value)) return 0;
  if (value >= 0x1p63) return std::numeric_limits<std::int64_t>::max();
  if (value <= -0x1p63) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(value);
}

}  // namespace

double load_element(const void* data, DType dtype, std::int64_t offset) {
  switch (dtype) {
    case DType::f32: return read<float>(data, offset);
    case DType::f16:
    case DType::bf16: return decode(dtype, read<std::uint16_t>(data, offset));
    case DType::f8e4m3:
    case DType::f8e5m2: return decode(dtype, read<std::uint8_t>(data, offset));
    default: return static_cast<double>(load_integer(data, dtype, offset));
  }
}

std::int64_t load_integer(const void* data, DType dtype, std::int64_t offset) {
  switch (dtype) {
    case DType::i64: return read<std::int64_t>(data, offset);
    case DType::i32: return read<std::int32_t>(data, offset);
    case DType::i8: return read<std::int8_t>(data, offset);
    case DType::u8: return read<std::uint8_t>(data, offset);
    case DType::boolean: return read<std::uint8_t>(data, offset) != 0;
    default: return truncate(load_element(data, dtype, offset));
  }
}

void store_element(void* data, DType dtype, std::int64_t offset, double value) {
  switch (dtype) {
    case DType::f32: write(data, offset, static_cast<float>(value)); break;
    case DType::f16:
    case DType::bf16: write(data, offset, static_cast<std::uint16_t>(encode(dtype, round_to(dtype, value)))); break;
    case DType::f8e4m3:
    case DType::f8e5m2: write(data, offset, static_cast<std::uint8_t>(encode(dtype, round_to(dtype, value)))); break;
    case DType::boolean: write(data, offset, static_cast<std::uint8_t>(value != 0)); break;
    default: store_integer(data, dtype, offset, truncate(value));
  }
}

void store_integer(void* data, DType dtype, std::int64_t offset, std::int64_t value) {
  switch (dtype) {
    case DType::i64: write(data, offset, value); break;
    case DType::i32: write(data, offset, static_cast<std::uint32_t>(value)); break;
    case DType::i8:
    case DType::u8: write(data, offset, static_cast<std::uint8_t>(value)); break;
    case DType::boolean: write(data, offset, static_cast<std::uint8_t>(value != 0)); break;
    default: store_element(data, dtype, offset, static_cast<double>(value));
  }
}

double round_to(DType dtype, double value) {
  switch (dtype) {
    case DType::f32: return static_cast<float>(value);
    case DType::f16:
    case DType::bf16:
    case DType::f8e4m3:
    case DType::f8e5m2: return round_narrow(format_of(dtype), value);
    case DType::boolean: return value != 0 ? 1.0 : 0.0;
    case DType::i64: return static_cast<double>(truncate(value));
    case DType::i32: return static_cast<double>(static_cast<std::int32_t>(static_cast<std::uint32_t>(truncate(value))));
    case DType::i8: return static_cast<std::int8_t>(static_cast<std::uint8_t>(truncate(value)));
    case DType::u8: return static_cast<std::uint8_t>(truncate(value));
  }
  return value;
}

}  // namespace attune
