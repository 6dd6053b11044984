// SPDX-License-Identifier: Apache-2.0
// Device functions in plain C++: they call nothing but the prelude.
#include "backend/cuda/expressions.hpp"

namespace attune::cuda {

std::string_view functions() {
  static constexpr std::string_view text = R"cuda(// Integers wrap.
ATTUNE_DEVICE i64 wrap_add(i64 a, i64 b) { return (i64)((u64)a + (u64)b); }
ATTUNE_DEVICE i64 wrap_sub(i64 a, i64 b) { return (i64)((u64)a - (u64)b); }
ATTUNE_DEVICE i64 wrap_mul(i64 a, i64 b) { return (i64)((u64)a * (u64)b); }
ATTUNE_DEVICE int wrap_add(int a, int b) { return (int)((u32)a + (u32)b); }
ATTUNE_DEVICE int wrap_sub(int a, int b) { return (int)((u32)a - (u32)b); }
ATTUNE_DEVICE int wrap_mul(int a, int b) { return (int)((u32)a * (u32)b); }
// Rounds down; the remainder takes the divisor's sign. A zero divisor gives something, it never traps.
template <class T> ATTUNE_DEVICE T floor_div(T a, T b) {
  if (b == -1) return wrap_sub((T)0, a);
  const T d = b == 0 ? (T)1 : b, quotient = a / d, rest = a - quotient * d;
  return rest != 0 && ((rest < 0) != (d < 0)) ? quotient - 1 : quotient;
}
template <class T> ATTUNE_DEVICE T floor_mod(T a, T b) {
  if (b == -1 || b == 0) return (T)0;
  const T rest = a % b;
  return rest != 0 && ((rest < 0) != (b < 0)) ? rest + b : rest;
}
// The extremum of two numbers is NaN where either is.
ATTUNE_DEVICE float larger(float a, float b) { return a != a ? a : b != b ? b : a < b ? b : a; }
ATTUNE_DEVICE float smaller(float a, float b) { return a != a ? a : b != b ? b : b < a ? b : a; }
ATTUNE_DEVICE float sigmoid_f32(float x) { return 1.0f / (1.0f + exp_f32(-x)); }
ATTUNE_DEVICE float silu_f32(float x) { return x / (1.0f + exp_f32(-x)); }
ATTUNE_DEVICE float relu_f32(float x) { return x < 0.0f ? 0.0f : x; }
ATTUNE_DEVICE float gelu_f32(float x) { return 0.5f * x * erfc_f32(-x * 0.70710678118654752440f); }
ATTUNE_DEVICE float softplus_f32(float x) { return x > 0.0f ? x + log1p_f32(exp_f32(-x)) : log1p_f32(exp_f32(x)); }
// Storage formats of 8 bits. Encoding rounds to nearest even: the value is scaled so that the last place of the format is
// an integer.
ATTUNE_DEVICE float scale_by_power(float x, int power) { return x * bits_to_float((u32)(power + 127) << 23); }
ATTUNE_DEVICE u8 encode_f8(float x, int mantissa, int smallest, u32 sign_free_largest, u32 beyond, u32 nan) {
  const u32 bits = float_to_bits(x), sign = (bits >> 24) & 0x80u, size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) return (u8)(sign | nan);
  if (size == 0x7f800000u) return (u8)(sign | beyond);
  int exponent = (int)(size >> 23) - 127;
  if (exponent > 16) return (u8)(sign | beyond);
  if (exponent < smallest) exponent = smallest;
  // The format's last place at this exponent, and the number in multiples of it.
  const float places = round_f32(scale_by_power(scale_by_power(bits_to_float(size), mantissa), -exponent));
  const u32 code = (u32)(int)places + ((u32)(exponent - smallest) << mantissa);
  return (u8)(sign | (code > sign_free_largest ? beyond : code));
}
ATTUNE_DEVICE float decode_f8(u8 x, int mantissa, int smallest) {
  const u32 size = x & 0x7fu, exponent = size >> mantissa, rest = size & ((1u << mantissa) - 1u);
  const float places = (float)(int)(exponent == 0 ? rest : rest | (1u << mantissa));
  const float value = scale_by_power(places, (exponent == 0 ? smallest : (int)exponent - 1 + smallest) - mantissa);
  return (x & 0x80u) ? -value : value;
}
ATTUNE_DEVICE u8 f32_to_f8e4m3(float x) { return encode_f8(x, 3, -6, 0x7eu, 0x7eu, 0x7fu); }
ATTUNE_DEVICE float f8e4m3_to_f32(u8 x) { return (x & 0x7fu) == 0x7fu ? nan_f32() : decode_f8(x, 3, -6); }
ATTUNE_DEVICE u8 f32_to_f8e5m2(float x) { return encode_f8(x, 2, -14, 0x7bu, 0x7cu, 0x7eu); }
ATTUNE_DEVICE float f8e5m2_to_f32(u8 x) {
  const u32 size = x & 0x7fu;
  if (size > 0x7cu) return nan_f32();
  if (size == 0x7cu) return (x & 0x80u) ? -infinity_f32() : infinity_f32();
  return decode_f8(x, 2, -14);
}
// A number in [0, 1) of a counter and a key (Philox4x32-10); the first coordinate counts in blocks of four words.
ATTUNE_DEVICE float random_f32(i64 seed, u32 last, u32 c1, u32 c2, u32 c3) {
  u32 c0 = last / 4u, k0 = (u32)seed, k1 = (u32)((u64)seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const u32 high0 = multiply_high(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
    const u32 high2 = multiply_high(0xCD9E8D57u, c2), low2 = 0xCD9E8D57u * c2;
    c0 = high2 ^ c1 ^ k0;
    c1 = low2;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const u32 which = last % 4u, word = which == 0u ? c0 : which == 1u ? c1 : which == 2u ? c2 : c3;
  return (float)(word >> 8) * 5.9604644775390625e-8f;
}
// Whether a candidate replaces the best so far: a NaN wins over all before, else the first of equals; an index of -1 is
// nobody's.
ATTUNE_DEVICE bool is_better(float x, float best, i64 at) {
  if (best != best) return false;
  return x != x || x > best || (at == -1 && best == -infinity_f32());
}
ATTUNE_DEVICE bool is_better(i64 x, i64 best, i64 at) { return x > best || (at == -1 && best == -9223372036854775807LL - 1); }
)cuda";
  return text;
}

}  // namespace attune::cuda
