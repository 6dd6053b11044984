// SPDX-License-Identifier: Apache-2.0
// Launch-uniform expressions: extents, ranges, divisors and scalar defaults of a call.
#include "backend/constant.hpp"

#include <algorithm>
#include <cmath>

#include "common/node.hpp"

namespace attune {
namespace {

using namespace tensor;
using Value = std::optional<ScalarValue>;

std::int64_t wrap(std::uint64_t value) { return static_cast<std::int64_t>(value); }
std::uint64_t bits(std::int64_t value) { return static_cast<std::uint64_t>(value); }

double real_of(const ScalarValue& value) {
  return std::visit([](auto x) { return static_cast<double>(x); }, value);
}
std::int64_t whole_of(const ScalarValue& value) {
  if (const auto* truth = std::get_if<bool>(&value)) return *truth;
  return std::get<std::int64_t>(value);
}

double apply(UnaryOp op, double x) {
  switch (op) {
    case UnaryOp::negate: return -x;
    case UnaryOp::abs: return std::fabs(x);
    case UnaryOp::exp: return std::exp(x);
    case UnaryOp::exp2: return std::exp2(x);
    case UnaryOp::log: return std::log(x);
    case UnaryOp::log2: return std::log2(x);
    case UnaryOp::sqrt: return std::sqrt(x);
    case UnaryOp::rsqrt: return 1 / std::sqrt(x);
    case UnaryOp::sin: return std::sin(x);
    case UnaryOp::cos: return std::cos(x);
    case UnaryOp::tanh: return std::tanh(x);
    case UnaryOp::sigmoid: return 1 / (1 + std::exp(-x));
    case UnaryOp::silu: return x / (1 + std::exp(-x));
    case UnaryOp::relu: return x < 0 ? 0 : x;
    case UnaryOp::gelu: return 0.5 * x * std::erfc(-x * std::sqrt(0.5));
    case UnaryOp::erf: return std::erf(x);
    case UnaryOp::softplus: return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
    case UnaryOp::floor: return std::floor(x);
    case UnaryOp::ceil: return std::ceil(x);
    case UnaryOp::round: return std::nearbyint(x);
    case UnaryOp::logical_not: break;
  }
  return x;
}

template <class T>
bool holds(Relation relation, T a, T b) {
  switch (relation) {
    case Relation::less: return a < b;
    case Relation::less_equal: return a <= b;
    case Relation::greater: return a > b;
    case Relation::greater_equal: return a >= b;
    case Relation::equal: return a == b;
    case Relation::not_equal: return a != b;
  }
  return false;
}

Value combine(LinkOp op, const ScalarValue& a, const ScalarValue& b, bool whole) {
  if (!whole) {
    const double x = real_of(a), y = real_of(b);
    switch (op) {
      case LinkOp::add: return x + y;
      case LinkOp::sub: return x - y;
      case LinkOp::mul: return x * y;
      case LinkOp::div: return x / y;
      case LinkOp::min: return std::isnan(x) || x < y ? x : y;
      case LinkOp::max: return std::isnan(x) || x > y ? x : y;
      default: return std::nullopt;
    }
  }
  const std::int64_t x = whole_of(a), y = whole_of(b);
  switch (op) {
    case LinkOp::add: return wrap(bits(x) + bits(y));
    case LinkOp::sub: return wrap(bits(x) - bits(y));
    case LinkOp::mul: return wrap(bits(x) * bits(y));
    case LinkOp::min: return std::min(x, y);
    case LinkOp::max: return std::max(x, y);
    case LinkOp::floordiv: {
      if (y == 0) return std::nullopt;
      if (y == -1) return wrap(0 - bits(x));
      return x / y - (x % y != 0 && (x < 0) != (y < 0) ? 1 : 0);
    }
    case LinkOp::mod: {
      if (y == 0) return std::nullopt;
      if (y == -1) return std::int64_t{0};
      const std::int64_t rest = x % y;
      return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
    }
    default: return std::nullopt;
  }
}

class Evaluation {
 public:
  explicit Evaluation(const Constants& constants) : constants_(constants) {}

  Value operator()(const Expr& expr) const {
    return match(
        expr->kind,
        [&](const Literal& node) -> Value { return std::visit([](auto x) { return Value(x); }, node.value); },
        [&](const Dim& node) -> Value {
          const auto found = constants_.dims->find(node.dim);
          return found == constants_.dims->end() ? Value() : Value(found->second);
        },
        [&](const tensor::Scalar& node) -> Value {
          const auto found = constants_.scalars->find(node.scalar);
          return found == constants_.scalars->end() ? Value() : Value(found->second);
        },
        [&](const Unary& node) { return unary(node, expr->type); },
        [&](const Chain& node) { return chain(node, expr->type); },
        [&](const Power& node) { return power(node, expr->type); }, [&](const Compare& node) { return compare(node); },
        [&](const Select& node) -> Value {
          const Value condition = (*this)(node.condition);
          if (!condition) return std::nullopt;
          return (*this)(whole_of(*condition) != 0 ? node.then : node.otherwise);
        },
        [&](const Cast& node) { return cast(node, expr->type); },  //
        [](const Index&) { return Value(); }, [](const Access&) { return Value(); },
        [](const Random&) { return Value(); }, [](const Reduce&) { return Value(); },
        [](const Softmax&) { return Value(); }, [](const Cumsum&) { return Value(); },
        [](const Where&) { return Value(); });
  }

 private:
  Value unary(const Unary& node, const Type& type) const {
    const Value x = (*this)(node.operand);
    if (!x) return x;
    if (node.op == UnaryOp::logical_not) return whole_of(*x) == 0;
    if (!type.is_integer()) return apply(node.op, real_of(*x));
    const std::int64_t whole = whole_of(*x);
    return node.op == UnaryOp::negate || whole < 0 ? wrap(0 - bits(whole)) : whole;
  }

  Value chain(const Chain& node, const Type& type) const {
    if (node.links[0] == LinkOp::both || node.links[0] == LinkOp::either) {
      const bool deciding = node.links[0] == LinkOp::either;
      for (const Expr& arg : node.args) {
        const Value value = (*this)(arg);
        if (!value) return value;
        if ((whole_of(*value) != 0) == deciding) return deciding;
      }
      return !deciding;
    }
    Value result = (*this)(node.args[0]);
    for (std::size_t k = 0; k < node.links.size() && result; ++k) {
      const Value next = (*this)(node.args[k + 1]);
      if (!next) return next;
      result = combine(node.links[k], *result, *next, type.is_integer());
    }
    return result;
  }

  Value power(const Power& node, const Type& type) const {
    const Value base = (*this)(node.base), exponent = (*this)(node.exponent);
    if (!base || !exponent) return std::nullopt;
    if (!type.is_integer()) return std::pow(real_of(*base), real_of(*exponent));
    std::uint64_t square = bits(whole_of(*base)), result = 1;
    for (std::int64_t n = whole_of(*exponent); n > 0; n >>= 1) {
      if (n & 1) result *= square;
      square *= square;
    }
    return wrap(result);
  }

  Value compare(const Compare& node) const {
    Value left = (*this)(node.args[0]);
    for (std::size_t k = 0; k < node.relations.size(); ++k) {
      const Value right = (*this)(node.args[k + 1]);
      if (!left || !right) return std::nullopt;
      const bool real = node.args[k]->type.is_float();
      if (!(real ? holds(node.relations[k], real_of(*left), real_of(*right))
                 : holds(node.relations[k], whole_of(*left), whole_of(*right))))
        return false;
      left = right;
    }
    return true;
  }

  Value cast(const Cast& node, const Type& type) const {
    const Value x = (*this)(node.operand);
    if (!x) return x;
    if (type.is_bool()) return whole_of(*x) != 0;
    if (type.is_float()) {
      const double value = real_of(*x);
      return type.dtype == DType::f32 ? value : round_to(type.dtype, value);
    }
    std::int64_t whole = 0;
    if (const auto* real = std::get_if<double>(&*x)) {
      const double truncated = std::trunc(*real);
      if (!(truncated >= -0x1p63 && truncated < 0x1p63)) return std::nullopt;
      whole = static_cast<std::int64_t>(truncated);
      if (type.dtype != DType::i64 && round_to(type.dtype, truncated) != truncated) return std::nullopt;
      return whole;
    }
    whole = whole_of(*x);
    switch (type.dtype) {
      case DType::i32: return std::int64_t{static_cast<std::int32_t>(static_cast<std::uint32_t>(whole))};
      case DType::i8: return std::int64_t{static_cast<std::int8_t>(static_cast<std::uint8_t>(whole))};
      case DType::u8: return std::int64_t{static_cast<std::uint8_t>(whole)};
      default: return whole;
    }
  }

  Constants constants_;
};

}  // namespace

bool is_launch_uniform(const Expr& expr) {
  bool uniform = true;
  walk(expr, [&](const Expr& node) {
    if (get_if<Index>(node) || get_if<Access>(node) || get_if<Random>(node) || get_if<Reduce>(node) ||
        get_if<Softmax>(node) || get_if<Cumsum>(node) || get_if<Where>(node))
      uniform = false;
    return uniform;
  });
  return uniform;
}

std::optional<ScalarValue> evaluate_constant(const Expr& expr, const Constants& constants) {
  return Evaluation(constants)(expr);
}

std::optional<std::int64_t> evaluate_integer(const Expr& expr, const Constants& constants) {
  const auto value = evaluate_constant(expr, constants);
  if (!value || !std::holds_alternative<std::int64_t>(*value)) return std::nullopt;
  return std::get<std::int64_t>(*value);
}

}  // namespace attune
