// SPDX-License-Identifier: Apache-2.0
// Shorthand for the vector functions: one instruction a method, at one width, for one target. Internal to math*.cpp.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>

#include "backend/cpu/math.hpp"

namespace attune::cpu {

/// Operands are SSA names or constant() texts. Comparisons give <width x i1>.
class Ops {
 public:
  Ops(Writer& writer, int width, const CpuTarget& target)
      : w_(writer), width_(width), fused_(target.isa != Isa::generic) {}

  int width() const { return width_; }
  bool fused() const { return fused_; }
  std::string type(std::string_view element) const { return vector_type(element, width_); }
  std::string f(double value) const { return constant(static_cast<float>(value), width_); }
  std::string i(std::int64_t value, int bits = 32) const { return constant(value, bits, width_); }

  std::string add(const std::string& a, const std::string& b) { return two("fadd", "float", a, b); }
  std::string sub(const std::string& a, const std::string& b) { return two("fsub", "float", a, b); }
  std::string mul(const std::string& a, const std::string& b) { return two("fmul", "float", a, b); }
  std::string div(const std::string& a, const std::string& b) { return two("fdiv", "float", a, b); }
  std::string negate(const std::string& a) { return w_.def("fneg " + type("float") + " " + a); }
  /// a * b + c: one rounding where the target has FMA, else two (llvm.fma would then become calls to fmaf).
  std::string fma(const std::string& a, const std::string& b, const std::string& c) {
    return fused_ ? call("fma", {a, b, c}) : add(mul(a, b), c);
  }
  /// An intrinsic on floats of this width: call("sqrt", {x}).
  std::string call(std::string_view intrinsic, std::initializer_list<std::string> arguments);
  /// The polynomial, highest coefficient first.
  std::string horner(const std::string& x, std::initializer_list<double> coefficients);

  std::string bits(const std::string& x) { return cast("bitcast", "float", x, "i32"); }
  std::string real(const std::string& x) { return cast("bitcast", "i32", x, "float"); }
  std::string cast(std::string_view op, std::string_view from, const std::string& x, std::string_view to);
  /// An integer instruction, on i32 unless said otherwise: whole("add", a, b).
  std::string whole(std::string_view op, const std::string& a, const std::string& b, std::string_view element = "i32") {
    return two(op, element, a, b);
  }
  std::string two(std::string_view op, std::string_view element, const std::string& a, const std::string& b);
  std::string fcmp(std::string_view relation, const std::string& a, const std::string& b);
  std::string icmp(std::string_view relation, const std::string& a, const std::string& b);
  std::string select(const std::string& condition, const std::string& yes, const std::string& no,
                     std::string_view element = "float");

  std::string magnitude(const std::string& x) { return call("fabs", {x}); }
  /// The sign bit alone, as i32.
  std::string sign(const std::string& x) { return whole("and", bits(x), i(-0x80000000LL)); }
  /// `x` (whose sign bit is 0) with the sign bit `s`.
  std::string with_sign(const std::string& x, const std::string& s) { return real(whole("or", bits(x), s)); }
  Writer& writer() { return w_; }

 private:
  Writer& w_;
  int width_;
  bool fused_;
};

std::string exp(Ops& o, const std::string& x);
/// p * 2^n, where the low nine bits of `n` count, -127 <= n <= 128 and p is within [0.7, 1.42], at least 1 for n = -127
/// and at most 1 for n = 128; NaN where `source` (finite otherwise) is NaN.
std::string scale(Ops& o, const std::string& p, const std::string& n, const std::string& source);
std::string log(Ops& o, const std::string& x);
std::string log2(Ops& o, const std::string& x);
std::string tanh(Ops& o, const std::string& x);
std::string sigmoid(Ops& o, const std::string& x);
std::string silu(Ops& o, const std::string& x);
std::string softplus(Ops& o, const std::string& x);
std::string erf(Ops& o, const std::string& x);
std::string gelu(Ops& o, const std::string& x);
std::string sine(Ops& o, const std::string& x, bool cosine);
std::string relu(Ops& o, const std::string& x);
enum class Rounding : std::uint8_t { even, down, up };
std::string round(Ops& o, const std::string& x, Rounding mode);

}  // namespace attune::cpu
