// SPDX-License-Identifier: Apache-2.0
// Numbers: integer division, casts, powers, functions and random numbers, each for one value or a vector of them.
#include <algorithm>

#include "backend/cpu/emit.hpp"

namespace attune::cpu {

using tensor::get_if;
using tensor::UnaryOp;

/// Rounds down; the remainder takes the divisor's sign. A zero divisor gives something, it never traps.
V Emitter::divide(V a, V b, bool remainder) {
  if (b.whole && *b.whole > 0) {
    const std::int64_t d = *b.whole;
    if ((d & (d - 1)) == 0) {
      int shift = 0;
      while ((std::int64_t{1} << shift) < d) ++shift;
      if (remainder) return binary("and", a, integer(d - 1));
      return shift == 0 ? a : binary("ashr", a, integer(shift));
    }
    const V quotient = binary("sdiv", a, b), rest = sub(a, mul(quotient, b));
    const V below = compare("icmp slt", rest, integer(0));
    return remainder ? add(rest, select(below, b, integer(0))) : sub(quotient, select(below, integer(1), integer(0)));
  }
  unify(a, b);
  const V zero = spread(integer(0), a.width), one = spread(integer(1), a.width), minus = spread(integer(-1), a.width);
  const V negates = compare("icmp eq", b, minus);
  const V safe = select(lor(compare("icmp eq", b, zero), negates), one, b);
  const V quotient = select(negates, sub(zero, a), binary("sdiv", a, safe));
  const V rest = sub(a, mul(quotient, b));
  const V wrong = land(compare("icmp ne", rest, zero), compare("icmp slt", binary("xor", rest, b), zero));
  return remainder ? add(rest, select(wrong, b, zero)) : sub(quotient, select(wrong, one, zero));
}

V Emitter::round_to(DType dtype, const V& x) {
  if (dtype == DType::f32) return x;
  return convert_in(dtype, convert_out(dtype, x));
}

V Emitter::narrow(DType dtype, const V& x) {
  const int bits = dtype == DType::i32 ? 32 : dtype == DType::i64 ? 64 : 8;
  if (bits >= bits_of(x.kind)) return x;
  if (dtype == DType::u8) return binary("and", x, integer(255));
  const V shift = integer(bits_of(x.kind) - bits);
  return binary("ashr", binary("shl", x, shift), shift);
}

Value Emitter::evaluate_cast(const tensor::Cast& cast, const Expr& expr) {
  const Value operand = value(cast.operand);
  const DType from = cast.operand->type.dtype, to = expr->type.dtype;
  const V& x = operand.v;
  const auto converted = [&](const char* op, Kind kind) {
    return define(std::string(op) + " " + x.type() + " " + x.s + " to " + type_text(kind, x.width), kind, x.width,
                  x.level);
  };
  if (is_bool(to)) {
    if (!is_bool(from)) throw Malformed{"a number cast to bool", expr->span};
    return operand;
  }
  if (is_float(to)) {
    if (is_float(from)) return from == to ? operand : Value{round_to(to, x), operand.present};
    if (x.whole) return {round_to(to, real(static_cast<float>(*x.whole))), operand.present};
    return {round_to(to, converted(is_bool(from) ? "uitofp" : "sitofp", Kind::f32)), operand.present};
  }
  const Kind integers = x.width > 1 ? vector_integer_ : Kind::i64;
  if (is_bool(from)) return {x.whole ? integer(*x.whole) : converted("zext", integers), operand.present};
  if (is_integer(from)) return {narrow(to, x), operand.present};
  // Truncation. NaN and what lies outside the type are absent; each bound is exact in f32.
  float above = 0x1p63f;
  if (to == DType::i32) above = 0x1p31f;
  if (to == DType::i8) above = 0x1p7f;
  if (to == DType::u8) above = 0x1p8f;
  const bool narrow_type = to == DType::i8 || to == DType::u8;
  const float below = to == DType::u8 ? -1.0f : narrow_type ? -129.0f : -above;
  V fits = land(compare(narrow_type ? "fcmp ogt" : "fcmp oge", x, real(below)), compare("fcmp olt", x, real(above)));
  const V safe = select(fits, x, real(0));
  const V truncated = define("fptosi " + safe.type() + " " + safe.s + " to " + type_text(integers, safe.width),
                             integers, safe.width, safe.level);
  return {truncated, both(operand.present, fits)};
}

V Emitter::math_unary(UnaryOp op, const V& x) {
  const std::string key = "unary " + std::to_string(static_cast<int>(op)) + " " + x.type() + " " + x.s;
  return define_block(key, Kind::f32, x.width, x.level,
                      [&](Writer& w) { return emit_unary(w, op, x.s, x.width, target_); });
}

Value Emitter::evaluate_unary(const tensor::Unary& unary, const Expr& expr) {
  const Value operand = value(unary.operand);
  const V& x = operand.v;
  if (unary.op == UnaryOp::logical_not) return settled({lnot(x), operand.present});
  if (expr->type.is_integer()) {
    const V negated = x.whole ? sub(integer(0), x) : binary("sub", integer(0), x);
    if (unary.op == UnaryOp::negate) return {negated, operand.present};
    if (unary.op == UnaryOp::abs) return {select(compare("icmp slt", x, integer(0)), negated, x), operand.present};
    throw Malformed{"a float function of an integer", expr->span};
  }
  if (unary.op == UnaryOp::negate) {
    if (x.real) return {real(-*x.real), operand.present};
    return {define("fneg " + x.type() + " " + x.s, Kind::f32, x.width, x.level), operand.present};
  }
  return {math_unary(unary.op, x), operand.present};
}

Value Emitter::evaluate_power(const tensor::Power& power, const Expr& expr) {
  const Value base = value(power.base), exponent = value(power.exponent);
  const Mask present = both(base.present, exponent.present);
  if (expr->type.is_integer()) {
    if (!exponent.v.whole || *exponent.v.whole < 0)
      throw Malformed{"an integer power without literal exponent", expr->span};
    V result = integer(1), square = base.v;
    for (std::int64_t rest = *exponent.v.whole; rest > 0; rest >>= 1) {
      if (rest & 1) result = mul(result, square);
      if (rest > 1) square = mul(square, square);
    }
    return {result, present};
  }
  const V& x = base.v;
  std::optional<std::int64_t> count = exponent.v.whole;
  if (exponent.v.real &&
      *exponent.v.real == static_cast<float>(static_cast<int>(std::clamp(*exponent.v.real, -9.f, 9.f))))
    count = static_cast<int>(*exponent.v.real);
  if (count && *count >= 1 && *count <= 4) {
    V result = x;
    for (std::int64_t k = 1; k < *count; ++k) result = binary("fmul", result, x);
    return {result, present};
  }
  V y = exponent.v;
  if (y.whole)
    y = real(static_cast<float>(*y.whole));
  else if (y.kind != Kind::f32)
    y = define("sitofp " + y.type() + " " + y.s + " to " + type_text(Kind::f32, y.width), Kind::f32, y.width, y.level);
  V a = x;
  unify(a, y);
  return {define_block("pow " + a.type() + " " + a.s + " " + y.s, Kind::f32, a.width, std::max(a.level, y.level),
                       [&](Writer& w) { return emit_pow(w, a.s, y.s, a.width, target_); }),
          present};
}

V Emitter::larger(const V& x, const V& y, bool propagate) {
  V a = x, b = y;
  unify(a, b);
  return define_block((propagate ? "max " : "max_any ") + a.type() + " " + a.s + " " + b.s, Kind::f32, a.width,
                      std::max(a.level, b.level), [&](Writer& w) { return emit_max(w, a.s, b.s, a.width, propagate); });
}

V Emitter::smaller(const V& x, const V& y) {
  V a = x, b = y;
  unify(a, b);
  return define_block("min " + a.type() + " " + a.s + " " + b.s, Kind::f32, a.width, std::max(a.level, b.level),
                      [&](Writer& w) { return emit_min(w, a.s, b.s, a.width, true); });
}

Value Emitter::evaluate_random(const tensor::Random& random) {
  std::vector<Value> args{value(random.seed)};
  for (const Expr& coordinate : random.coordinates) args.push_back(value(coordinate));
  Value result;
  int level = 0, width = 1;
  for (Value& arg : args) {
    result.present = both(result.present, arg.present);
    if (arg.v.kind == Kind::i32)
      arg.v = define("sext " + arg.v.type() + " " + arg.v.s + " to " + type_text(Kind::i64, arg.v.width), Kind::i64,
                     arg.v.width, arg.v.level);
    level = std::max(level, arg.v.level);
    width = std::max(width, arg.v.width);
  }
  const auto draw = [&](int lane_index, int count) {
    std::vector<std::string> coordinates;
    std::vector<bool> vectors;
    std::string key = "rand";
    const auto pick = [&](const V& v) { return lane_index < 0 ? v : lane(v, lane_index); };
    for (std::size_t k = 1; k < args.size(); ++k) {
      const V v = pick(args[k].v);
      coordinates.push_back(v.s);
      vectors.push_back(v.width > 1);
      key += " " + v.s;
    }
    const V seed = pick(args[0].v);
    return define_block(key + " " + seed.s + " " + std::to_string(count), Kind::f32, count, level,
                        [&](Writer& w) { return emit_random(w, seed.s, coordinates, vectors, count); });
  };
  if (args[0].v.width == 1) {
    result.v = draw(-1, width);
    return result;
  }
  // A seed that varies along the vector: one draw for each element.
  std::vector<V> elements;
  for (int k = 0; k < width; ++k) elements.push_back(draw(k, 1));
  result.v = gather_lanes(elements);
  return result;
}

}  // namespace attune::cpu
