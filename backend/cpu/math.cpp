// SPDX-License-Identifier: Apache-2.0
// Constants, comparisons, rounding, declarations, and the table of unary functions.
//
// Design note on 2^x (math_exp.cpp). x is split as n + f with n a whole number and |f| <= 1/2; 2^f is a polynomial with
// constant term exactly 1, so that 2^n comes out exact; the factor 2^n is put on by adding n to the exponent bits. Both
// clamps (-127 and 128) have f = 0, for which that addition gives the bits of exactly 0 and of +inf. NaN passes the
// clamps, whose selects are those of minps and maxps, and is put back by a last `x * 0 + result`, since adding to the
// bits of a NaN may not leave one. AVX-512 has both halves as instructions (vreduceps, vscalefps).
#include "backend/cpu/math.hpp"

#include <fmt/format.h>

#include <bit>

#include "backend/cpu/math_ops.hpp"

namespace attune::cpu {
namespace {

std::string splat_text(std::string_view type, const std::string& element, int width) {
  if (width == 1) return element;
  std::string text = "<";
  for (int k = 0; k < width; ++k) text += fmt::format("{}{} {}", k == 0 ? "" : ", ", type, element);
  return text + ">";
}

std::string suffix(std::string_view element, int width) {
  return width == 1 ? std::string(element) : fmt::format("v{}{}", width, element);
}

}  // namespace

std::string constant(float value, int width) {
  // LLVM writes a float in hexadecimal as the double of the same value.
  return splat_text("float", fmt::format("0x{:016X}", std::bit_cast<std::uint64_t>(static_cast<double>(value))), width);
}

std::string constant(std::int64_t value, int bits, int width) {
  // One spelling for each bit pattern: signed, within the type's range.
  if (bits < 64) {
    auto shifted = static_cast<std::int64_t>(static_cast<std::uint64_t>(value) << (64 - bits));
    value = shifted >> (64 - bits);
  }
  if (bits == 1) return splat_text("i1", value != 0 ? "true" : "false", width);
  return splat_text(fmt::format("i{}", bits), std::to_string(value), width);
}

std::string Ops::call(std::string_view intrinsic, std::initializer_list<std::string> arguments) {
  std::string text = fmt::format("call {} @llvm.{}.{}(", type("float"), intrinsic, suffix("f32", width_));
  bool first = true;
  for (const std::string& argument : arguments) {
    text += fmt::format("{}{} {}", first ? "" : ", ", type("float"), argument);
    first = false;
  }
  return w_.def(text + ")");
}

std::string Ops::horner(const std::string& x, std::initializer_list<double> coefficients) {
  std::string value;
  for (double c : coefficients) value = value.empty() ? f(c) : fma(value, x, f(c));
  return value;
}

std::string Ops::cast(std::string_view op, std::string_view from, const std::string& x, std::string_view to) {
  return w_.def(fmt::format("{} {} {} to {}", op, type(from), x, type(to)));
}

std::string Ops::two(std::string_view op, std::string_view element, const std::string& a, const std::string& b) {
  return w_.def(fmt::format("{} {} {}, {}", op, type(element), a, b));
}

std::string Ops::fcmp(std::string_view relation, const std::string& a, const std::string& b) {
  return w_.def(fmt::format("fcmp {} {} {}, {}", relation, type("float"), a, b));
}

std::string Ops::icmp(std::string_view relation, const std::string& a, const std::string& b) {
  return w_.def(fmt::format("icmp {} {} {}, {}", relation, type("i32"), a, b));
}

std::string Ops::select(const std::string& condition, const std::string& yes, const std::string& no,
                        std::string_view element) {
  return w_.def(
      fmt::format("select {} {}, {} {}, {} {}", type("i1"), condition, type(element), yes, type(element), no));
}

std::string relu(Ops& o, const std::string& x) {
  // The form of maxps(0, x), which gives its second operand, x, where that is NaN.
  std::string zero = o.f(0);
  return o.select(o.fcmp("ogt", zero, x), zero, x);
}

std::string round(Ops& o, const std::string& x, Rounding mode) {
  if (o.fused()) return o.call(mode == Rounding::even ? "roundeven" : mode == Rounding::down ? "floor" : "ceil", {x});
  // SSE2 has no rounding instruction and LLVM would call libm. Adding and taking away 2^23 rounds to even; larger
  // numbers are whole already. The sign is put back for the zeros.
  std::string shift = o.f(8388608.0), s = o.sign(x), a = o.magnitude(x);
  std::string rounded = o.with_sign(o.sub(o.add(a, shift), shift), s);
  if (mode == Rounding::down) rounded = o.select(o.fcmp("ogt", rounded, x), o.sub(rounded, o.f(1)), rounded);
  if (mode == Rounding::up) {
    // -0.5 rounds up to -0: the sum -1 + 1 would be +0.
    std::string up = o.add(rounded, o.f(1));
    rounded = o.with_sign(o.magnitude(o.select(o.fcmp("olt", rounded, x), up, rounded)), s);
  }
  return o.select(o.fcmp("olt", a, shift), rounded, x);
}

std::string emit_max(Writer& w, const std::string& a, const std::string& b, int width, bool propagate) {
  Ops o(w, width, {});
  std::string larger = o.select(o.fcmp("ogt", a, b), a, b);  // maxps: b where either is NaN
  return propagate ? o.select(o.fcmp("uno", a, a), a, larger) : larger;
}

std::string emit_min(Writer& w, const std::string& a, const std::string& b, int width, bool propagate) {
  Ops o(w, width, {});
  std::string smaller = o.select(o.fcmp("olt", a, b), a, b);
  return propagate ? o.select(o.fcmp("uno", a, a), a, smaller) : smaller;
}

std::string emit_unary(Writer& w, tensor::UnaryOp op, const std::string& x, int width, const CpuTarget& target) {
  using tensor::UnaryOp;
  Ops o(w, width, target);
  switch (op) {
    case UnaryOp::negate: return o.negate(x);
    case UnaryOp::logical_not: return o.two("xor", "i1", x, o.i(1, 1));
    case UnaryOp::abs: return o.magnitude(x);
    case UnaryOp::exp: return exp(o, x);
    case UnaryOp::exp2: return emit_exp2(w, x, width, target);
    case UnaryOp::log: return log(o, x);
    case UnaryOp::log2: return log2(o, x);
    case UnaryOp::sqrt: return o.call("sqrt", {x});
    case UnaryOp::rsqrt: return o.div(o.f(1), o.call("sqrt", {x}));
    case UnaryOp::sin: return sine(o, x, false);
    case UnaryOp::cos: return sine(o, x, true);
    case UnaryOp::tanh: return tanh(o, x);
    case UnaryOp::sigmoid: return sigmoid(o, x);
    case UnaryOp::silu: return silu(o, x);
    case UnaryOp::relu: return relu(o, x);
    case UnaryOp::gelu: return gelu(o, x);
    case UnaryOp::erf: return erf(o, x);
    case UnaryOp::softplus: return softplus(o, x);
    case UnaryOp::floor: return round(o, x, Rounding::down);
    case UnaryOp::ceil: return round(o, x, Rounding::up);
    case UnaryOp::round: return round(o, x, Rounding::even);
  }
  return x;
}

std::string math_declarations(int width, const CpuTarget& target) {
  std::string v = vector_type("float", width), s = suffix("f32", width);
  std::string text;
  for (std::string_view name : {"fabs", "sqrt"}) text += fmt::format("declare {0} @llvm.{1}.{2}({0})\n", v, name, s);
  // Without the instructions these would become calls to libm, so generic code does without them.
  if (target.isa == Isa::generic) return text;
  for (std::string_view name : {"floor", "ceil", "roundeven"})
    text += fmt::format("declare {0} @llvm.{1}.{2}({0})\n", v, name, s);
  text += fmt::format("declare {0} @llvm.fma.{1}({0}, {0}, {0})\n", v, s);
  if (target.isa == Isa::avx512 && width == 16) {
    text += fmt::format("declare {0} @llvm.x86.avx512.mask.reduce.ps.512({0}, i32, {0}, i16, i32)\n", v);
    text += fmt::format("declare {0} @llvm.x86.avx512.mask.scalef.ps.512({0}, {0}, {0}, i16, i32)\n", v);
  }
  return text;
}

}  // namespace attune::cpu
