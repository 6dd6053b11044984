// SPDX-License-Identifier: Apache-2.0
// Numbers: casts, powers, functions and random numbers, as calls of device functions.
#include <fmt/format.h>

#include "backend/cuda/expressions.hpp"

namespace attune::cuda {

using tensor::UnaryOp;

namespace {

std::string_view function_of(UnaryOp op) {
  switch (op) {
    case UnaryOp::abs: return "abs_f32";
    case UnaryOp::exp: return "exp_f32";
    case UnaryOp::exp2: return "exp2_f32";
    case UnaryOp::log: return "log_f32";
    case UnaryOp::log2: return "log2_f32";
    case UnaryOp::sqrt: return "sqrt_f32";
    case UnaryOp::rsqrt: return "rsqrt_f32";
    case UnaryOp::sin: return "sin_f32";
    case UnaryOp::cos: return "cos_f32";
    case UnaryOp::tanh: return "tanh_f32";
    case UnaryOp::sigmoid: return "sigmoid_f32";
    case UnaryOp::silu: return "silu_f32";
    case UnaryOp::relu: return "relu_f32";
    case UnaryOp::gelu: return "gelu_f32";
    case UnaryOp::erf: return "erf_f32";
    case UnaryOp::softplus: return "softplus_f32";
    case UnaryOp::floor: return "floor_f32";
    case UnaryOp::ceil: return "ceil_f32";
    case UnaryOp::round: return "round_f32";
    case UnaryOp::negate: return "-";
    case UnaryOp::logical_not: return "!";
  }
  return "";
}

}  // namespace

Value Expressions::unary(const tensor::Unary& node, const Expr& expr) {
  const Value operand = value(node.operand);
  if (node.op == UnaryOp::logical_not) return settled(defined(Number::truth, "!" + operand.text, operand.present));
  if (expr->type.is_integer()) {
    const std::string zero = as({"0LL", Number::whole, {}, 0}, operand.number);
    if (node.op == UnaryOp::negate)
      return defined(operand.number, fmt::format("wrap_sub({}, {})", zero, operand.text), operand.present);
    if (node.op == UnaryOp::abs)
      return defined(operand.number, fmt::format("{0} < 0 ? wrap_sub({1}, {0}) : {0}", operand.text, zero),
                     operand.present);
    throw Malformed{"a float function of an integer"};
  }
  return defined(Number::real, fmt::format("{}({})", function_of(node.op), operand.text), operand.present);
}

Value Expressions::cast(const tensor::Cast& node, const Expr& expr) {
  const Value operand = value(node.operand);
  const DType from = node.operand->type.dtype, to = expr->type.dtype;
  if (is_bool(to)) {
    if (!is_bool(from)) throw Malformed{"a number cast to bool"};
    return operand;
  }
  if (is_float(to)) {
    std::string wide = operand.text;
    if (is_bool(from)) wide = define(Number::real, operand.text + " ? 1.0f : 0.0f");
    if (is_integer(from)) wide = define(Number::real, "(float)" + operand.text);
    if (to == DType::f32 || to == from) return {wide, Number::real, operand.present, {}};
    return defined(Number::real, fmt::format("{0}_to_f32(f32_to_{0}({1}))", name(to), wide), operand.present);
  }
  if (is_bool(from)) return defined(Number::element, operand.text + " ? 1 : 0", operand.present);
  if (is_integer(from)) {
    const std::string_view narrow = to == DType::i32 ? "int" : to == DType::i8 ? "i8" : to == DType::u8 ? "u8" : "";
    if (narrow.empty()) return operand;
    Value out = operand;
    out.known.reset();
    out.text = define(operand.number, fmt::format("({})({}){}", type_name(operand.number), narrow, operand.text));
    return out;
  }
  // Truncation. NaN and what lies outside the type are absent; each bound is exact in f32.
  std::string above = "9223372036854775808.0f", below = ">= -9223372036854775808.0f";
  if (to == DType::i32) above = "2147483648.0f", below = ">= -2147483648.0f";
  if (to == DType::i8) above = "128.0f", below = "> -129.0f";
  if (to == DType::u8) above = "256.0f", below = "> -1.0f";
  const std::string fits = define(Number::truth, fmt::format("{0} {1} && {0} < {2}", operand.text, below, above));
  const Number number = to == DType::i64 ? Number::whole : Number::element;
  return defined(number, fmt::format("({})({} ? {} : 0.0f)", type_name(number), fits, operand.text),
                 both(operand.present, fits));
}

Value Expressions::power(const tensor::Power& node, const Expr& expr) {
  const Value base = value(node.base), exponent = value(node.exponent);
  const std::string present = both(base.present, exponent.present);
  if (expr->type.is_integer()) {
    if (!exponent.known || *exponent.known < 0) throw Malformed{"an integer power without literal exponent"};
    std::string result = as({"1LL", Number::whole, {}, 1}, base.number), square = base.text;
    for (std::int64_t rest = *exponent.known; rest > 0; rest >>= 1) {
      if (rest & 1) result = define(base.number, fmt::format("wrap_mul({}, {})", result, square));
      if (rest > 1) square = define(base.number, fmt::format("wrap_mul({0}, {0})", square));
    }
    return {result, base.number, present, {}};
  }
  std::optional<std::int64_t> count = exponent.known;
  if (const auto* literal = tensor::get_if<tensor::Literal>(node.exponent))
    if (const auto* real = std::get_if<double>(&literal->value);
        real && *real >= 1 && *real <= 4 && *real == static_cast<double>(static_cast<int>(*real)))
      count = static_cast<int>(*real);
  if (count && *count >= 1 && *count <= 4) {
    std::string result = base.text;
    for (std::int64_t k = 1; k < *count; ++k) result = define(Number::real, fmt::format("{} * {}", result, base.text));
    return {result, Number::real, present, {}};
  }
  return defined(Number::real, fmt::format("pow_f32({}, {})", base.text, as(exponent, Number::real)), present);
}

Value Expressions::random(const tensor::Random& node) {
  const Value seed = value(node.seed);
  std::string present = seed.present, arguments;
  std::vector<std::string> words;
  for (const Expr& coordinate : node.coordinates) {
    const Value at = value(coordinate);
    present = both(present, at.present);
    words.push_back("(u32)" + at.text);
  }
  // The counter takes the coordinates from the last to the first.
  for (std::size_t k = 0; k < 4; ++k)
    arguments += fmt::format(", {}", k < words.size() ? words[words.size() - 1 - k] : "0u");
  return defined(Number::real, fmt::format("random_f32({}{})", as(seed, Number::whole), arguments), present);
}

}  // namespace attune::cuda
