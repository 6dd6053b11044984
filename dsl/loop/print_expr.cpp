// SPDX-License-Identifier: Apache-2.0
// Expressions of the loop IR as text: the operators and precedences of the notation, names as a nest knows them.
#include <fmt/format.h>

#include <cmath>

#include "loop/print.hpp"

namespace attune::loop {
namespace {

using namespace tensor;

// Precedence levels of the notation's grammar, lowest first.
enum Level {
  level_select,
  level_or,
  level_and,
  level_not,
  level_compare,
  level_sum,
  level_product,
  level_unary,
  level_power,
  level_postfix
};

std::string_view word(UnaryOp op) {
  switch (op) {
    case UnaryOp::negate: return "-";
    case UnaryOp::logical_not: return "not ";
    case UnaryOp::abs: return "abs";
    case UnaryOp::exp: return "exp";
    case UnaryOp::exp2: return "exp2";
    case UnaryOp::log: return "log";
    case UnaryOp::log2: return "log2";
    case UnaryOp::sqrt: return "sqrt";
    case UnaryOp::rsqrt: return "rsqrt";
    case UnaryOp::sin: return "sin";
    case UnaryOp::cos: return "cos";
    case UnaryOp::tanh: return "tanh";
    case UnaryOp::sigmoid: return "sigmoid";
    case UnaryOp::silu: return "silu";
    case UnaryOp::relu: return "relu";
    case UnaryOp::gelu: return "gelu";
    case UnaryOp::erf: return "erf";
    case UnaryOp::softplus: return "softplus";
    case UnaryOp::floor: return "floor";
    case UnaryOp::ceil: return "ceil";
    case UnaryOp::round: return "round";
  }
  return "?";
}

std::string_view word(LinkOp op) {
  switch (op) {
    case LinkOp::add: return " + ";
    case LinkOp::sub: return " - ";
    case LinkOp::mul: return " * ";
    case LinkOp::div:
    case LinkOp::floordiv: return " / ";
    case LinkOp::mod: return " % ";
    case LinkOp::min: return "min";
    case LinkOp::max: return "max";
    case LinkOp::both: return " and ";
    case LinkOp::either: return " or ";
  }
  return "?";
}

std::string_view word(Relation relation) {
  switch (relation) {
    case Relation::less: return " < ";
    case Relation::less_equal: return " <= ";
    case Relation::greater: return " > ";
    case Relation::greater_equal: return " >= ";
    case Relation::equal: return " == ";
    case Relation::not_equal: return " != ";
  }
  return "?";
}

Level level_of(LinkOp op) {
  switch (op) {
    case LinkOp::add:
    case LinkOp::sub: return level_sum;
    case LinkOp::mul:
    case LinkOp::div:
    case LinkOp::floordiv:
    case LinkOp::mod: return level_product;
    case LinkOp::both: return level_and;
    case LinkOp::either: return level_or;
    default: return level_postfix;
  }
}

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // What was rounded to f32 once is shortest as f32.
  const auto narrow = static_cast<float>(value);
  std::string text = static_cast<double>(narrow) == value ? fmt::format("{}", narrow) : fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

class Writer {
 public:
  explicit Writer(const Names& names) : names_(names) {}

  std::string text(const Expr& expr, Level least = level_select) const {
    if (!expr) return "?";
    const auto [level, body] = std::visit([&](const auto& kind) { return write(kind, expr); }, expr->kind);
    return level < least ? "(" + body + ")" : body;
  }
  std::string list(const std::vector<Expr>& exprs) const {
    std::string out;
    for (const Expr& expr : exprs) out += (out.empty() ? "" : ", ") + text(expr);
    return out;
  }

 private:
  using Piece = std::pair<Level, std::string>;

  Piece write(const Literal& literal, const Expr&) const {
    return std::visit(
        [](auto value) -> Piece {
          using V = decltype(value);
          if constexpr (std::is_same_v<V, bool>) {
            return {level_postfix, value ? "true" : "false"};
          } else if constexpr (std::is_same_v<V, double>) {
            std::string text = real_text(value);
            return {text[0] == '-' ? level_unary : level_postfix, std::move(text)};
          } else {
            return {value < 0 ? level_unary : level_postfix, std::to_string(value)};
          }
        },
        literal.value);
  }
  Piece write(const Index& index, const Expr&) const { return {level_postfix, names_.of(index.index)}; }
  Piece write(const Dim& dim, const Expr&) const { return {level_postfix, names_.of(dim.dim)}; }
  Piece write(const Scalar& scalar, const Expr&) const { return {level_postfix, names_.of(scalar.scalar)}; }
  Piece write(const Access& access, const Expr&) const {
    return {level_postfix, names_.of(access.target) + "[" + list(access.subscripts) + "]"};
  }
  Piece write(const Unary& unary, const Expr&) const {
    const std::string op(word(unary.op));
    if (unary.op == UnaryOp::negate) return {level_unary, op + text(unary.operand, level_unary)};
    if (unary.op == UnaryOp::logical_not) return {level_not, op + text(unary.operand, level_not)};
    return {level_postfix, op + "(" + text(unary.operand) + ")"};
  }
  Piece write(const Chain& chain, const Expr&) const {
    if (chain.links.empty() || chain.args.size() != chain.links.size() + 1) return {level_postfix, "?"};
    const Level level = level_of(chain.links[0]);
    if (level == level_postfix) return {level, std::string(word(chain.links[0])) + "(" + list(chain.args) + ")"};
    const auto next = static_cast<Level>(level + 1);
    std::string out = text(chain.args[0], level);
    for (std::size_t k = 0; k < chain.links.size(); ++k)
      out += std::string(word(chain.links[k])) + text(chain.args[k + 1], next);
    return {level, std::move(out)};
  }
  Piece write(const Power& power, const Expr&) const {
    return {level_power, text(power.base, level_postfix) + "^" + text(power.exponent, level_unary)};
  }
  Piece write(const Compare& compare, const Expr&) const {
    if (compare.args.size() != compare.relations.size() + 1) return {level_postfix, "?"};
    std::string out = text(compare.args[0], level_sum);
    for (std::size_t k = 0; k < compare.relations.size(); ++k)
      out += std::string(word(compare.relations[k])) + text(compare.args[k + 1], level_sum);
    return {level_compare, std::move(out)};
  }
  Piece write(const Select& select, const Expr&) const {
    return {level_select, text(select.then, level_or) + " if " + text(select.condition, level_or) + " else " +
                              text(select.otherwise)};
  }
  Piece write(const Cast& cast, const Expr& expr) const {
    return {level_postfix, std::string(attune::name(expr->type.dtype)) + "(" + text(cast.operand) + ")"};
  }
  Piece write(const Random& random, const Expr&) const {
    return {level_postfix,
            "rand(" + text(random.seed) + (random.coordinates.empty() ? "" : ", ") + list(random.coordinates) + ")"};
  }
  // The three that must not occur here: printed all the same, for the message that says so.
  Piece write(const Reduce& reduce, const Expr&) const { return {level_postfix, "reduce(" + text(reduce.body) + ")"}; }
  Piece write(const Softmax& softmax, const Expr&) const {
    return {level_postfix, "softmax(" + text(softmax.body) + ")"};
  }
  Piece write(const Cumsum& cumsum, const Expr&) const { return {level_postfix, "cumsum(" + text(cumsum.body) + ")"}; }
  Piece write(const Where& where, const Expr&) const {
    return {level_postfix, "where(" + text(where.condition) + ", " + text(where.body) + ")"};
  }

  const Names& names_;
};

}  // namespace

std::string print(const Expr& expr, const Names& names) { return Writer(names).text(expr); }

}  // namespace attune::loop
