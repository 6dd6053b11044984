// SPDX-License-Identifier: Apache-2.0
// Exponentials and powers as LLVM IR: range reduction, a polynomial, exponent arithmetic.
#include <fmt/format.h>

#include <bit>
#include <limits>

#include "backend/cpu/math_ops.hpp"

namespace attune::cpu {
namespace {

// 1.5 * 2^23: adding it rounds |x| < 2^22 to the nearest whole number n, and the low bits of the sum are those of n.
constexpr double whole_magic = 12582912.0;

/// 2^f for |f| <= 1/2, relative error 9e-8; the constant term is exact so that whole powers are.
std::string exp2_short(Ops& o, const std::string& f) {
  return o.horner(f, {0.00132647273, 0.00967151299, 0.0555073358, 0.240222424, 0.693147004, 1.0});
}

/// The same, relative error 2e-9.
std::string exp2_long(Ops& o, const std::string& f) {
  return o.horner(f, {0.00015353362, 0.00133988739, 0.00961843692, 0.0555033237, 0.240226477, 0.693147182, 1.0});
}

/// AVX-512: vreduceps gives x minus its nearest whole number (0 for infinities), vscalefps multiplies by 2^n with every
/// overflow and underflow as IEEE has it. The mask makes everything up to -127 an exact 0; NaN compares as unordered.
std::string exp2_avx512(Ops& o, const std::string& x) {
  Writer& w = o.writer();
  constexpr std::string_view v = "<16 x float>";
  std::string f =
      w.def(fmt::format("call {0} @llvm.x86.avx512.mask.reduce.ps.512({0} {1}, i32 8, {0} zeroinitializer, "
                        "i16 -1, i32 4)",
                        v, x));
  std::string n = o.sub(x, f);
  std::string p = exp2_short(o, f);
  std::string mask = w.def(fmt::format("bitcast <16 x i1> {} to i16", o.fcmp("ugt", x, o.f(-127))));
  return w.def(
      fmt::format("call {0} @llvm.x86.avx512.mask.scalef.ps.512({0} {1}, {0} {2}, {0} zeroinitializer, i16 {3}, "
                  "i32 4)",
                  v, p, n, mask));
}

// ---- double precision, for pow --------------------------------------------------------------------
/// Instructions on <width x double>. Without fused forms: LLVM would call fma() where the target has none.
struct Wide {
  Ops& o;
  std::string c(double value) const {
    std::string element = fmt::format("0x{:016X}", std::bit_cast<std::uint64_t>(value));
    if (o.width() == 1) return element;
    std::string text = "<";
    for (int k = 0; k < o.width(); ++k) text += fmt::format("{}double {}", k == 0 ? "" : ", ", element);
    return text + ">";
  }
  std::string two(std::string_view op, const std::string& a, const std::string& b) const {
    return o.two(op, "double", a, b);
  }
  std::string horner(const std::string& x, std::initializer_list<double> coefficients) const {
    std::string value;
    for (double k : coefficients) value = value.empty() ? c(k) : two("fadd", two("fmul", value, x), c(k));
    return value;
  }
  std::string fcmp(std::string_view relation, const std::string& a, const std::string& b) const {
    return o.writer().def(fmt::format("fcmp {} {} {}, {}", relation, o.type("double"), a, b));
  }
  std::string select(const std::string& condition, const std::string& yes, const std::string& no) const {
    return o.select(condition, yes, no, "double");
  }
};

/// log2 of a float >= 0 (or NaN), in double: -inf for 0, inf for inf.
std::string log2_wide(Ops& o, const std::string& a) {
  Wide d{o};
  // As a double every float is normal, so the exponent field can be read off. 0x3FE6A09E667F3BCD is sqrt(1/2).
  constexpr std::int64_t root_half = 0x3FE6A09E667F3BCD;
  std::string bits = o.cast("bitcast", "double", o.cast("fpext", "float", a, "double"), "i64");
  std::string above = o.whole("sub", bits, o.i(root_half, 64), "i64");
  // The exponent as a double without a 64-bit conversion, which only AVX-512 has: it fits in 32 bits.
  std::string high = o.cast("trunc", "i64", o.whole("lshr", above, o.i(32, 64), "i64"), "i32");
  std::string e32 = o.whole("ashr", high, o.i(20));
  std::string field = o.whole("and", above, o.i(static_cast<std::int64_t>(0xFFF0000000000000ULL), 64), "i64");
  std::string m = o.cast("bitcast", "i64", o.whole("sub", bits, field, "i64"), "double");
  std::string e = o.cast("sitofp", "i32", e32, "double");
  // log2(m) = 2/ln2 * atanh(s), s = (m-1)/(m+1), |s| < 0.172; the series up to s^13 leaves 1e-12.
  std::string one = d.c(1);
  std::string s = d.two("fdiv", d.two("fsub", m, one), d.two("fadd", m, one));
  std::string series = d.horner(d.two("fmul", s, s), {1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0});
  std::string value = d.two("fadd", e, d.two("fmul", d.two("fmul", s, series), d.c(2.8853900817779268)));
  // Inf and NaN stand for themselves, 0 is -inf.
  std::string x = o.cast("fpext", "float", a, "double");
  constexpr double inf = std::numeric_limits<double>::infinity();
  value = d.select(d.fcmp("ueq", x, d.c(inf)), x, value);
  return d.select(d.fcmp("oeq", x, d.c(0)), d.c(-inf), value);
}

/// 2^z of a double z to float.
std::string exp2_wide(Ops& o, const std::string& z) {
  Wide d{o};
  std::string clamped = d.select(d.fcmp("olt", z, d.c(-127)), d.c(-127), z);
  clamped = d.select(d.fcmp("ogt", clamped, d.c(128)), d.c(128), clamped);
  std::string magic = d.c(6755399441055744.0);  // 1.5 * 2^52
  std::string t = d.two("fadd", clamped, magic);
  std::string f = o.cast("fptrunc", "double", d.two("fsub", clamped, d.two("fsub", t, magic)), "float");
  std::string n = o.cast("trunc", "i64", o.cast("bitcast", "double", t, "i64"), "i32");
  return scale(o, exp2_long(o, f), n, f);
}

}  // namespace

std::string scale(Ops& o, const std::string& p, const std::string& n, const std::string& source) {
  std::string shifted = o.whole("shl", n, o.i(23));
  std::string result = o.real(o.whole("add", o.bits(p), shifted));
  return o.fma(source, o.f(0), result);
}

std::string emit_exp2(Writer& w, const std::string& x, int width, const CpuTarget& target) {
  Ops o(w, width, target);
  if (target.isa == Isa::avx512 && width == 16) return exp2_avx512(o, x);
  std::string low = o.f(-127), high = o.f(128);
  std::string clamped = o.select(o.fcmp("ogt", low, x), low, x);    // maxps(-127, x)
  clamped = o.select(o.fcmp("olt", high, clamped), high, clamped);  // minps(128, .)
  std::string t = o.add(clamped, o.f(whole_magic));
  std::string f = o.sub(clamped, o.sub(t, o.f(whole_magic)));
  return scale(o, exp2_short(o, f), o.bits(t), clamped);
}

std::string exp(Ops& o, const std::string& x) {
  // n = round(x / ln2); x - n ln2 in two steps, whose first product is exact (9 bits times 8), with or without FMA.
  std::string magic = o.f(whole_magic);
  std::string t = o.fma(x, o.f(1.4426950408889634), magic);
  std::string n = o.sub(t, magic);
  std::string r = o.fma(n, o.f(-0.693359375), x);
  r = o.fma(n, o.f(2.12194440e-4), r);
  std::string q = o.horner(r, {0.00138145173, 0.00836875569, 0.0416683927, 0.166665196, 0.49999994});
  std::string p = o.add(o.fma(o.mul(r, r), q, r), o.f(1));
  std::string value = scale(o, p, o.bits(t), x);
  // Beyond the range n does not fit and the bits above mean nothing; below 2^-126 results are flushed.
  value = o.select(o.fcmp("olt", x, o.f(-87.33654f)), o.f(0), value);
  return o.select(o.fcmp("ogt", x, o.f(88.72283f)), o.f(std::numeric_limits<float>::infinity()), value);
}

std::string emit_pow(Writer& w, const std::string& x, const std::string& y, int width, const CpuTarget& target) {
  // |x|^y = 2^(y log2 |x|) in double up to the last step: the product is up to 128 and its absolute error is the
  // result's relative one, so f32 would lose seven bits.
  Ops o(w, width, target);
  Wide d{o};
  std::string one = o.f(1), zero = o.f(0);
  std::string a = o.magnitude(x);
  std::string z = d.two("fmul", o.cast("fpext", "float", y, "double"), log2_wide(o, a));
  std::string power = exp2_wide(o, z);

  // Negative bases: the sign of an odd exponent; NaN for a fractional one. Every float from 2^24 on is even.
  std::string whole = o.fcmp("oeq", round(o, y, Rounding::even), y);
  std::string half = o.mul(y, o.f(0.5));
  std::string odd = o.two("and", "i1", whole, o.fcmp("une", round(o, half, Rounding::even), half));
  std::string s = o.select(odd, o.sign(x), o.i(0), "i32");
  power = o.real(o.whole("xor", o.bits(power), s));
  std::string fractional = o.two("xor", "i1", whole, o.i(1, 1));
  std::string negative =
      o.two("and", "i1", o.fcmp("olt", x, zero), o.fcmp("one", a, o.f(std::numeric_limits<float>::infinity())));
  power = o.select(o.two("and", "i1", negative, fractional), o.f(std::numeric_limits<float>::quiet_NaN()), power);

  // 1^y and x^0 are 1 even for NaN, (-1)^(+-inf) is 1.
  std::string unit = o.two("and", "i1", o.fcmp("oeq", a, one),
                           o.fcmp("oeq", o.magnitude(y), o.f(std::numeric_limits<float>::infinity())));
  std::string sure = o.two("or", "i1", o.fcmp("oeq", x, one), o.fcmp("oeq", y, zero));
  return o.select(o.two("or", "i1", unit, sure), one, power);
}

}  // namespace attune::cpu
