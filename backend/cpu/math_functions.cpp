// SPDX-License-Identifier: Apache-2.0
// Logarithms, circular and hyperbolic functions, the error function and what is made of them, as LLVM IR.
//
// Polynomials for log, tanh near 0, sin, cos and erf near 0 are those of the Cephes library (S. Moshier); that for
// exp(a^2) erfc(a) is a minimax fit in 1 / (1 + 0.4 a), relative error 6e-8 on 0 <= a <= 10.2.
#include <limits>

#include "backend/cpu/math_ops.hpp"

namespace attune::cpu {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double ln2_high = 0.693359375, ln2_low = -2.12194440e-4;

/// log(1 + f) - f for sqrt(1/2) - 1 <= f <= sqrt(2) - 1.
std::string log_tail(Ops& o, const std::string& f) {
  std::string p = o.horner(f, {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
                               -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1});
  std::string square = o.mul(f, f);
  return o.fma(o.mul(square, f), p, o.mul(square, o.f(-0.5)));
}

/// x = (1 + f) * 2^e with 1 + f within [sqrt(1/2), sqrt(2)), for x > 0 and finite; e as a float.
struct Split {
  std::string f, e;
};

Split split(Ops& o, const std::string& x) {
  // Subnormals first become normal.
  std::string tiny = o.fcmp("olt", x, o.f(0x1p-126));
  std::string bits = o.bits(o.select(tiny, o.mul(x, o.f(0x1p23)), x));
  std::string above = o.whole("sub", bits, o.i(0x3f3504f3));  // the bits of sqrt(1/2)
  std::string m = o.real(o.whole("sub", bits, o.whole("and", above, o.i(-0x800000))));
  std::string e = o.cast("sitofp", "i32", o.whole("ashr", above, o.i(23)), "float");
  return {o.sub(m, o.f(1)), o.add(e, o.select(tiny, o.f(-23), o.f(0)))};
}

/// inf and NaN stand for themselves, 0 gives -inf, negative numbers give NaN.
std::string log_special(Ops& o, const std::string& x, std::string value) {
  value = o.select(o.fcmp("ueq", x, o.f(infinity)), x, value);
  value = o.select(o.fcmp("oeq", x, o.f(0)), o.f(-infinity), value);
  return o.select(o.fcmp("olt", x, o.f(0)), o.f(nan), value);
}

/// exp(a^2) erfc(a) for 0 <= a <= 10.2.
std::string scaled_erfc(Ops& o, const std::string& a) {
  std::string t = o.div(o.f(1), o.fma(a, o.f(0.4), o.f(1)));
  return o.mul(t, o.horner(t, {0.04161264, -0.14208062, 0.087654911, 0.0837353468, 0.0827015936, 0.19212842,
                               0.202213764, 0.226397038, 0.225636959}));
}

}  // namespace

std::string log(Ops& o, const std::string& x) {
  auto [f, e] = split(o, x);
  // Small parts first: e * ln2_high is exact.
  std::string small = o.fma(e, o.f(ln2_low), log_tail(o, f));
  return log_special(o, x, o.fma(e, o.f(ln2_high), o.add(f, small)));
}

std::string log2(Ops& o, const std::string& x) {
  auto [f, e] = split(o, x);
  // (f + tail) / ln2 = (f + tail) + (f + tail) * 0.4427: the large product is exact, the small one rounds less.
  std::string tail = log_tail(o, f);
  std::string fraction = o.f(0.44269504088896341);
  std::string value = o.fma(f, fraction, o.fma(tail, fraction, tail));
  return log_special(o, x, o.add(o.add(value, f), e));
}

std::string sigmoid(Ops& o, const std::string& x) {
  // Stable on both sides: exp(-x) overflows to inf, whose reciprocal is 0, only where the result is subnormal.
  return o.div(o.f(1), o.add(exp(o, o.negate(x)), o.f(1)));
}

std::string silu(Ops& o, const std::string& x) { return o.div(x, o.add(exp(o, o.negate(x)), o.f(1))); }

std::string tanh(Ops& o, const std::string& x) {
  std::string s = o.sign(x), a = o.magnitude(x), square = o.mul(x, x);
  std::string p =
      o.horner(square, {-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1});
  std::string near = o.fma(o.mul(square, a), p, a);
  // 1 - 2 / (exp(2a) + 1): the cancellation of small a is the polynomial's part.
  std::string far = o.sub(o.f(1), o.div(o.f(2), o.add(exp(o, o.add(a, a)), o.f(1))));
  std::string value = o.select(o.fcmp("olt", a, o.f(0.625)), near, far);
  return o.with_sign(value, s);
}

std::string softplus(Ops& o, const std::string& x) {
  // max(x, 0) + log(1 + u) with u = exp(-|x|) <= 1; 1 + u is halved where it exceeds sqrt(2), so that f stays exact.
  std::string u = exp(o, o.negate(o.magnitude(x)));
  std::string large = o.fcmp("ogt", u, o.f(0.41421356));
  std::string f = o.select(large, o.fma(u, o.f(0.5), o.f(-0.5)), u);
  std::string value = o.add(f, log_tail(o, f));
  value = o.add(value, o.select(large, o.f(0.69314718055994531), o.f(0)));
  return o.add(relu(o, x), value);
}

std::string erf(Ops& o, const std::string& x) {
  std::string s = o.sign(x), a = o.magnitude(x), square = o.mul(x, x);
  std::string near = o.mul(
      x, o.horner(square, {7.853861353153693e-5, -8.010193625184903e-4, 5.188327685732524e-3, -2.685381193529856e-2,
                           1.128358514861418e-1, -3.761262582423300e-1, 1.128379165726710}));
  // 1 - erfc(a); beyond 4 the difference from 1 is below half an ulp, and the clamp keeps inf * 0 away (NaN passes).
  std::string b = o.select(o.fcmp("ogt", a, o.f(5)), o.f(5), a);
  std::string tail = o.mul(exp(o, o.negate(o.mul(b, b))), scaled_erfc(o, b));
  return o.select(o.fcmp("olt", a, o.f(1)), near, o.with_sign(o.sub(o.f(1), tail), s));
}

std::string gelu(Ops& o, const std::string& x) {
  // x/2 (1 + erf(x / sqrt(2))) = max(x, 0) - |x|/2 erfc(|x| / sqrt(2)): no cancellation in the negative tail.
  std::string a = o.mul(o.magnitude(x), o.f(0.70710678118654752));
  std::string b = o.select(o.fcmp("ogt", a, o.f(10)), o.f(10), a);  // erfc(10) is subnormal
  std::string tail = o.mul(exp(o, o.negate(o.mul(b, b))), scaled_erfc(o, b));
  // The factor x is not clamped below: -inf times erfc(inf) = 0 is NaN, as the formula has it; +inf gives +inf.
  std::string y = o.select(o.fcmp("ogt", x, o.f(16)), o.f(16), x);
  return o.sub(relu(o, x), o.mul(o.mul(o.magnitude(y), o.f(0.5)), tail));
}

std::string sine(Ops& o, const std::string& x, bool cosine) {
  // x = k pi/2 + r. With FMA, k times three constants of 24 bits is exact and what limits |x| is the rounding of 2/pi,
  // which makes k miss the nearest and r outgrow the polynomials' pi/4: to 0.83 at 1e6 (error still 1e-7), to 1 at 5e6.
  // Without FMA, products are exact while k and the constants' 8 bits fit in 24: up to 1e5.
  // Beyond, r is what is left of the digits, and a value outside its range counts as 0: results stay within [-1, 1].
  constexpr double magic = 12582912.0;
  std::string t = o.fma(x, o.f(0.63661977236758134), o.f(magic));
  std::string k = o.sub(t, o.f(magic));
  std::string r = x;
  if (o.fused()) {
    for (double part : {0x1.921fb6p+0, -0x1.777a5cp-25, -0x1.ee59dap-50}) r = o.fma(k, o.f(-part), r);
  } else {
    for (double part : {0x1.92p+0, 0x1.fap-12, 0x1.54p-20, 0x1.10b462p-30}) r = o.fma(k, o.f(-part), r);
  }
  r = o.select(o.fcmp("ogt", o.magnitude(r), o.f(1)), o.f(0), r);
  std::string square = o.mul(r, r);
  std::string sin = o.fma(o.mul(square, r), o.horner(square, {-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1}), r);
  std::string cos = o.fma(o.mul(square, square),
                          o.horner(square, {2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2}),
                          o.fma(square, o.f(-0.5), o.f(1)));
  // Quadrant: odd ones take the other function, the upper two change the sign.
  std::string q = o.bits(t);
  if (cosine) q = o.whole("add", q, o.i(1));
  std::string odd = o.icmp("ne", o.whole("and", q, o.i(1)), o.i(0));
  std::string value = o.select(odd, cos, sin);
  value = o.real(o.whole("xor", o.bits(value), o.whole("shl", o.whole("and", q, o.i(2)), o.i(30))));
  return cosine ? value : o.select(o.fcmp("oeq", x, o.f(0)), x, value);  // sin(-0) is -0
}

}  // namespace attune::cpu
