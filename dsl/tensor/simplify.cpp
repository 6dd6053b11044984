// SPDX-License-Identifier: Apache-2.0
// Constant folding and neutral elements. Idempotent; the same node comes back where nothing changed. Only rewrites
// that are exact for every value, also NaN, Inf and absent, are made.
#include <cmath>

#include "tensor/algebra.hpp"
#include "tensor/passes.hpp"

namespace attune::tensor {
namespace {

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  if (b == -1) return static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(a));
  std::int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

/// Two adjacent integer literals folded, wrapping as 64-bit.
std::optional<std::int64_t> fold(LinkOp op, std::int64_t a, std::int64_t b) {
  auto wrap = [](std::uint64_t x) { return static_cast<std::int64_t>(x); };
  auto ua = static_cast<std::uint64_t>(a), ub = static_cast<std::uint64_t>(b);
  switch (op) {
    case LinkOp::add: return wrap(ua + ub);
    case LinkOp::sub: return wrap(ua - ub);
    case LinkOp::mul: return wrap(ua * ub);
    case LinkOp::floordiv: return b == 0 ? std::nullopt : std::optional(floor_divide(a, b));
    case LinkOp::mod:
      return b == 0 ? std::nullopt : std::optional(wrap(ua - static_cast<std::uint64_t>(floor_divide(a, b)) * ub));
    case LinkOp::min: return std::min(a, b);
    case LinkOp::max: return std::max(a, b);
    default: return std::nullopt;
  }
}

std::optional<bool> bool_value(const Expr& expr) {
  if (const auto* lit = get_if<Literal>(expr))
    if (const auto* value = std::get_if<bool>(&lit->value)) return *value;
  return std::nullopt;
}

Expr simplify_chain(const Expr& expr, const Chain& chain) {
  LinkOp group = chain.links[0];
  if (group == LinkOp::both || group == LinkOp::either) {
    bool neutral = group == LinkOp::both;
    Chain kept;
    for (const Expr& arg : chain.args) {
      auto value = bool_value(arg);
      if (value && *value == neutral) continue;    // true and x = x, also where x is absent
      if (value && kept.args.empty()) return arg;  // false and x decides before x is evaluated
      kept.args.push_back(arg);
      if (value) break;
    }
    if (kept.args.size() == chain.args.size()) return expr;
    if (kept.args.empty()) return boolean(neutral);
    if (kept.args.size() == 1) return kept.args[0];
    kept.links.assign(kept.args.size() - 1, group);
    return Expr(std::move(kept), expr->type, expr->span);
  }
  if (!expr->type.is_integer() && !(expr->type.is_float())) return expr;
  // Fold literals at the head and neutral integers anywhere; floats only where exact: x * 1, x / 1, x - 0.
  Chain kept;
  kept.args.push_back(chain.args[0]);
  for (std::size_t k = 0; k < chain.links.size(); ++k) {
    LinkOp op = chain.links[k];
    const Expr& arg = chain.args[k + 1];
    auto right = integer_value(arg);
    if (expr->type.is_integer() && right) {
      if (*right == 0 && (op == LinkOp::add || op == LinkOp::sub)) continue;
      if (*right == 1 && (op == LinkOp::mul || op == LinkOp::floordiv)) continue;
      if (kept.args.size() == 1)
        if (auto left = integer_value(kept.args[0]))
          if (auto value = fold(op, *left, *right)) {
            kept.args[0] = integer(*value);
            continue;
          }
    }
    if (expr->type.is_integer() && kept.args.size() == 1) {
      auto left = integer_value(kept.args[0]);
      if (left && ((*left == 0 && op == LinkOp::add) || (*left == 1 && op == LinkOp::mul))) {
        kept.args[0] = arg;
        continue;
      }
    }
    if (expr->type.is_float()) {
      auto value = real_value(arg);
      if (value && *value == 1 && (op == LinkOp::mul || op == LinkOp::div)) continue;
      if (value && *value == 0 && !std::signbit(*value) && op == LinkOp::sub) continue;
      if (kept.args.size() == 1 && is_literal(kept.args[0], 1) && op == LinkOp::mul) {
        kept.args[0] = arg;
        continue;
      }
    }
    kept.links.push_back(op);
    kept.args.push_back(arg);
  }
  if (kept.args.size() == chain.args.size()) return expr;
  if (kept.args.size() == 1) return kept.args[0];
  return Expr(std::move(kept), expr->type, expr->span);
}

Expr simplify_node(const Expr& expr) {
  if (const auto* chain = get_if<Chain>(expr)) return simplify_chain(expr, *chain);
  if (const auto* cast_node = get_if<Cast>(expr)) {
    if (cast_node->operand->type == expr->type && !expr->type.var) return cast_node->operand;
    if (auto value = integer_value(cast_node->operand); value && expr->type == type_f32)
      return real(static_cast<double>(static_cast<float>(*value)));
    // Widening a float is exact: the value is f32 already.
    return expr;
  }
  if (const auto* select = get_if<Select>(expr)) {
    if (auto value = bool_value(select->condition)) return *value ? select->then : select->otherwise;
    return expr;
  }
  if (const auto* op = get_if<Unary>(expr)) {
    if (op->op == UnaryOp::negate) {
      if (auto value = integer_value(op->operand))
        return integer(static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(*value)));
      if (auto value = real_value(op->operand)) return real(-*value);
      if (const auto* inner = get_if<Unary>(op->operand); inner && inner->op == UnaryOp::negate) return inner->operand;
    }
    if (op->op == UnaryOp::logical_not)
      if (auto value = bool_value(op->operand)) return boolean(!*value);
    return expr;
  }
  if (const auto* cmp = get_if<Compare>(expr); cmp && cmp->relations.size() == 1) {
    auto a = integer_value(cmp->args[0]), b = integer_value(cmp->args[1]);
    if (a && b) switch (cmp->relations[0]) {
        case Relation::less: return boolean(*a < *b);
        case Relation::less_equal: return boolean(*a <= *b);
        case Relation::greater: return boolean(*a > *b);
        case Relation::greater_equal: return boolean(*a >= *b);
        case Relation::equal: return boolean(*a == *b);
        case Relation::not_equal: return boolean(*a != *b);
      }
  }
  if (const auto* reduce = get_if<Reduce>(expr); reduce && reduce->guard)
    if (auto value = bool_value(reduce->guard); value && *value) {
      Reduce copy = *reduce;
      copy.guard = {};
      return Expr(std::move(copy), expr->type, expr->span);
    }
  return expr;
}

}  // namespace

Expr simplify(const Expr& expr) {
  if (!expr) return expr;
  Expr current = map_children(expr, [](const Expr& child) { return simplify(child); });
  for (Expr next = simplify_node(current); !next.same(current); next = simplify_node(current)) current = next;
  return current;
}

Program simplify(const Program& program) {
  Program out = program;
  for (Definition& definition : out.definitions) definition.body = simplify(definition.body);
  return out;
}

}  // namespace attune::tensor
