// SPDX-License-Identifier: Apache-2.0
// Narrow floats to f32 and back as LLVM IR: integer arithmetic and exact multiplications, no libm, no tables.
#include <cassert>
#include <cmath>

#include "backend/cpu/math_ops.hpp"

namespace attune::cpu {
namespace {

/// A binary format: 1 sign bit, `exponent` bits, `mantissa` bits.
struct Format {
  int exponent, mantissa, bias;
  bool infinite;  ///< has infinities; else it saturates and only the all-ones pattern is NaN
  int bits() const { return 1 + exponent + mantissa; }
};

Format format_of(DType storage) {
  switch (storage) {
    case DType::f8e4m3: return {4, 3, 7, false};
    case DType::f8e5m2: return {5, 2, 15, true};
    default: return {5, 10, 15, true};  // f16
  }
}

std::string element(int bits) { return "i" + std::to_string(bits); }

/// Exponent and mantissa are moved into place, which leaves the value times 2^(bias - 127); one exact multiplication
/// puts that right, also for subnormals.
std::string widen(Ops& o, const std::string& stored, const Format& format) {
  const int shift = 23 - format.mantissa;
  std::string wide = o.cast("zext", element(format.bits()), stored, "i32");
  std::string magnitude = o.whole("and", wide, o.i((1 << (format.bits() - 1)) - 1));
  std::string value = o.mul(o.real(o.whole("shl", magnitude, o.i(shift))), o.f(std::ldexp(1.0, 127 - format.bias)));
  std::string bits = o.bits(value);
  if (format.infinite) {
    // The exponent of ones came out as an ordinary one.
    std::string special = o.icmp("sge", magnitude, o.i(((1 << format.exponent) - 1) << format.mantissa));
    bits = o.select(special, o.whole("or", bits, o.i(0x7f800000)), bits, "i32");
  } else {
    std::string special = o.icmp("eq", magnitude, o.i((1 << (format.bits() - 1)) - 1));
    bits = o.select(special, o.i(0x7fc00000), bits, "i32");
  }
  std::string top = o.whole("shl", o.whole("lshr", wide, o.i(format.bits() - 1)), o.i(31));
  return o.real(o.whole("or", bits, top));
}

/// Rounds to nearest even. Normal results: half a unit less one, plus the last kept bit, is added before the shift.
/// Subnormal results: a sum with the number whose unit is theirs lets the adder round.
std::string narrow(Ops& o, const std::string& x, const Format& format) {
  const int shift = 23 - format.mantissa;
  const int largest = ((1 << format.exponent) - 1) << format.mantissa;  // exponent of ones, mantissa 0
  std::string bits = o.bits(x);
  std::string magnitude = o.whole("and", bits, o.i(0x7fffffff));
  std::string finite = magnitude;
  if (!format.infinite) {
    // 448 for f8e4m3: all ones but the last bit. Larger ones saturate, infinities too.
    std::string limit = o.i(((127 - format.bias) << 23) + (((1 << (format.bits() - 1)) - 2) << shift));
    finite = o.select(o.icmp("sgt", magnitude, limit), limit, magnitude, "i32");
  }
  std::string odd = o.whole("and", o.whole("lshr", finite, o.i(shift)), o.i(1));
  std::string moved = o.whole("add", finite, o.i((std::int64_t{format.bias - 127} << 23) + (1 << (shift - 1)) - 1));
  std::string normal = o.whole("lshr", o.whole("add", moved, odd), o.i(shift));

  const int unit = 1 - format.bias - format.mantissa;  // power of two of the smallest subnormal
  std::string magic = o.f(std::ldexp(1.0, 23 + unit));
  std::string small = o.whole("sub", o.bits(o.add(o.real(finite), magic)), o.bits(magic));
  std::string is_small = o.icmp("slt", finite, o.i((127 + 1 - format.bias) << 23));
  std::string result = o.select(is_small, small, normal, "i32");

  if (format.infinite) {
    std::string over = o.icmp("sge", magnitude, o.i((127 + (1 << format.exponent) - 1 - format.bias) << 23));
    result = o.select(over, o.i(largest), result, "i32");
  }
  const int quiet = format.infinite ? largest | (1 << (format.mantissa - 1)) : (1 << (format.bits() - 1)) - 1;
  result = o.select(o.icmp("sgt", magnitude, o.i(0x7f800000)), o.i(quiet), result, "i32");
  std::string top = o.whole("shl", o.whole("lshr", bits, o.i(31)), o.i(format.bits() - 1));
  return o.cast("trunc", "i32", o.whole("or", result, top), element(format.bits()));
}

}  // namespace

std::string emit_to_f32(Writer& w, DType storage, const std::string& bits, int width, const CpuTarget& target) {
  assert(is_float(storage));
  Ops o(w, width, target);
  switch (storage) {
    case DType::f32: return bits;
    case DType::bf16: return o.real(o.whole("shl", o.cast("zext", "i16", bits, "i32"), o.i(16)));
    case DType::f16:
      if (target.f16c) return o.cast("fpext", "half", o.cast("bitcast", "i16", bits, "half"), "float");
      return widen(o, bits, format_of(storage));
    case DType::f8e5m2:
      // The upper half of an f16.
      return emit_to_f32(w, DType::f16, o.two("shl", "i16", o.cast("zext", "i8", bits, "i16"), o.i(8, 16)), width,
                         target);
    default: return widen(o, bits, format_of(storage));
  }
}

std::string emit_from_f32(Writer& w, DType storage, const std::string& x, int width, const CpuTarget& target) {
  assert(is_float(storage));
  Ops o(w, width, target);
  switch (storage) {
    case DType::f32: return x;
    case DType::bf16: {
      std::string bits = o.bits(x);
      std::string odd = o.whole("and", o.whole("lshr", bits, o.i(16)), o.i(1));
      std::string rounded = o.whole("add", o.whole("add", bits, o.i(0x7fff)), odd);
      // Rounding a NaN could carry into the sign; cutting it could leave an infinity.
      std::string kept = o.select(o.fcmp("uno", x, x), o.whole("or", bits, o.i(0x400000)), rounded, "i32");
      return o.cast("trunc", "i32", o.whole("lshr", kept, o.i(16)), "i16");
    }
    case DType::f16:
      if (target.f16c) return o.cast("bitcast", "half", o.cast("fptrunc", "float", x, "half"), "i16");
      return narrow(o, x, format_of(storage));
    default: return narrow(o, x, format_of(storage));
  }
}

}  // namespace attune::cpu
