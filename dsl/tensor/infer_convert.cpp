// SPDX-License-Identifier: Apache-2.0
// Inference: kinds and their conversions, comparisons, logical chains, and the limits on what expansion makes.
#include <algorithm>

#include "syntax/syntax.hpp"
#include "tensor/infer.hpp"

namespace attune::tensor::inference {

// ---- making values ------------------------------------------------------------------------------
namespace {

/// How tightly operators bind in text; what has its own brackets binds tightest.
int strength(const Expr& expr) {
  if (get_if<Select>(expr)) return 0;
  if (get_if<Compare>(expr)) return 3;
  const auto* chain = get_if<Chain>(expr);
  if (!chain) return 6;
  switch (chain->links[0]) {
    case LinkOp::either: return 1;
    case LinkOp::both: return 2;
    case LinkOp::add:
    case LinkOp::sub: return 4;
    case LinkOp::min:
    case LinkOp::max: return 6;
    default: return 5;
  }
}

/// Size and nesting of a node from those of its children.
void count(Value& value, const Value& child, bool brackets) {
  value.size += child.size;
  const bool enclosed = brackets || strength(child.expr) <= strength(value.expr);
  value.nesting = std::max(value.nesting, child.nesting + (enclosed ? 1 : 0));
  value.binds = value.binds || child.binds;
}

}  // namespace

void Inference::begin(std::string subject) {
  subject_ = std::move(subject);
  stopped_ = work_ >= max_work;
}

void Inference::exceeded(Span span, const std::string& how, const std::string& here) {
  if (stopped_) return;
  stopped_ = true;
  error("A0227", span, subject_ + how, here, "make a definition of an inner part, or of what several places use");
}

Value Inference::limited(Value value) {
  if (value.size > max_nodes) {
    exceeded(value.expr->span, " has more than " + std::to_string(max_nodes) + " nodes after expansion",
             "the expansion becomes too large here");
    return {};
  }
  if (value.nesting > max_nesting) {
    exceeded(value.expr->span, " nests more than " + std::to_string(max_nesting) + " levels deep after expansion",
             "this is too deep");
    return {};
  }
  return value;
}

Value Inference::finish(Expr made, std::initializer_list<const Value*> children, bool brackets) {
  Value value{std::move(made), 1, 0, false};
  for (const Value* child : children)
    if (*child) count(value, *child, brackets);
  return limited(std::move(value));
}

Value Inference::finish(Expr made, const std::vector<Value>& children, bool brackets) {
  Value value{std::move(made), 1, 0, false};
  for (const Value& child : children)
    if (child) count(value, child, brackets);
  return limited(std::move(value));
}

Value Inference::copy(const Value& value) {
  Value result = value;
  if (value && value.binds) result.expr = refresh(value.expr);
  return result;
}

// ---- conversions ----------------------------------------------------------------------------------
Value Inference::convert(Value value, const Type& type) {
  if (!value || value.expr->type == type) return value;
  const Span span = value.expr->span;
  const bool folds = get_if<Literal>(value.expr) && type == type_f32 && value.expr->type.is_integer();
  if (const auto* counted = get_if<Cast>(value.expr); counted && type == type_f32 && counted->operand->type.is_bool()) {
    value.expr = tensor::cast(counted->operand, type, span);  // 0 or 1 either way
    return value;
  }
  value.expr = tensor::cast(value.expr, type, span);
  if (!folds) ++value.size;  // implicit ones need no brackets in the text
  return value;
}

Value Inference::number(Value value) {
  return value && value.expr->type.is_bool() ? convert(std::move(value), type_i64) : value;
}

Value Inference::condition(Value value, Span span, std::string_view what) {
  if (!value || value.expr->type.is_bool()) return value;
  error("A0213", span, std::string(what) + " must be bool",
        std::string("this is ") + (value.expr->type.is_float() ? "a float" : "an integer"),
        "write a comparison, e.g. `x != 0`");
  return {};
}

bool Inference::integral(const Value& value, Span span, std::string_view what) {
  if (!value) return false;
  if (value.expr->type.is_integer()) return true;
  const bool real = value.expr->type.is_float();
  error("A0216", span, std::string(what) + " must be an integer", real ? "this is a float" : "this is bool",
        real ? "convert it with `i64(...)`, which truncates, or use `/` on integers, which rounds down"
             : "convert it with `i64(...)`");
  return false;
}

// ---- comparisons ----------------------------------------------------------------------------------
namespace {

Relation relation_of(ast::Relation relation) {
  switch (relation) {
    case ast::Relation::less: return Relation::less;
    case ast::Relation::less_equal: return Relation::less_equal;
    case ast::Relation::greater: return Relation::greater;
    case ast::Relation::greater_equal: return Relation::greater_equal;
    case ast::Relation::equal: return Relation::equal;
    case ast::Relation::not_equal: return Relation::not_equal;
  }
  return Relation::equal;
}

/// What two sides are compared as.
Type common(const Type& a, const Type& b) {
  if (a.is_float() || b.is_float()) return type_f32;
  return a.is_integer() || b.is_integer() ? type_i64 : type_bool;
}

}  // namespace

Value Inference::comparison(const ast::Comparison& comparison, Span span) {
  std::vector<Value> sides;
  bool ok = true;
  for (const ast::Expr& operand : comparison.operands) {
    sides.push_back(expr(operand));
    ok = ok && sides.back();
  }
  if (!ok) return {};
  // One node while one kind serves all pairs; a chain of several kinds is the conjunction of its parts, since
  // comparing integers as floats would round them.
  std::vector<Value> parts;
  std::size_t from = 0;
  while (from < comparison.relations.size()) {
    auto pair_type = [&](std::size_t k) { return common(sides[k].expr->type, sides[k + 1].expr->type); };
    const Type type = pair_type(from);
    std::size_t to = from + 1;
    while (to < comparison.relations.size() && pair_type(to) == type) ++to;
    Compare made;
    std::vector<Value> used;
    for (std::size_t k = from; k <= to; ++k) {
      const Value& side = sides[k];
      const bool again = k == from && from > 0;
      const bool same_kind =
          side.expr->type.is_float() == type.is_float() && side.expr->type.is_integer() == type.is_integer();
      Value value = again ? copy(side) : side;
      if (!same_kind) value = convert(std::move(value), type);
      made.args.push_back(value.expr);
      used.push_back(std::move(value));
      if (k < to) made.relations.push_back(relation_of(comparison.relations[k]));
    }
    parts.push_back(finish(Expr(std::move(made), type_bool, at(span)), used, false));
    from = to;
  }
  return conjunction(std::move(parts), span);
}

Value Inference::conjunction(std::vector<Value> parts, Span span) {
  if (parts.size() == 1) return std::move(parts[0]);
  Chain made;
  for (const Value& part : parts) {
    if (!part) return {};
    if (!made.args.empty()) made.links.push_back(LinkOp::both);
    made.args.push_back(part.expr);
  }
  return finish(Expr(std::move(made), type_bool, at(span)), parts, false);
}

Value Inference::logical_chain(const ast::Chain& chain, Span span) {
  const bool both = chain.links[0] == ast::Link::both;
  std::vector<Value> parts;
  Chain made;
  bool ok = true;
  for (const ast::Expr& operand : chain.operands) {
    Value value =
        condition(expr(operand), operand ? operand->span : span, both ? "an operand of `and`" : "an operand of `or`");
    ok = ok && value;
    if (ok) {
      const LinkOp op = both ? LinkOp::both : LinkOp::either;
      const auto* inner = get_if<Chain>(value.expr);
      // A leading chain of the same kind is the same chain.
      if (made.args.empty() && inner && inner->links[0] == op) {
        made = *inner;
      } else {
        if (!made.args.empty()) made.links.push_back(op);
        made.args.push_back(value.expr);
      }
    }
    parts.push_back(std::move(value));
  }
  return ok ? finish(Expr(std::move(made), type_bool, at(span)), parts, false) : Value{};
}

// ---- division ---------------------------------------------------------------------------------------
void Inference::division(LinkOp op, const Expr& left, const Expr& right, Span span) {
  auto value_of = [](const Expr& expr) {
    const auto* literal = get_if<Literal>(expr);
    return literal ? std::get_if<std::int64_t>(&literal->value) : nullptr;
  };
  if (op != LinkOp::floordiv) return;
  const auto* dividend = get_if<Dim>(left);
  const auto* divisor = get_if<Dim>(right);
  if (dividend && divisor) {
    auto same = [&](const ExactQuotient& known) {
      return known.dividend == dividend->dim && known.divisor == divisor->dim;
    };
    auto& list = collected_->quotients;
    if (std::none_of(list.begin(), list.end(), same)) list.push_back({dividend->dim, divisor->dim, at(span)});
    return;
  }
  const std::int64_t* x = value_of(left);
  const std::int64_t* y = value_of(right);
  const bool certain = x && y && *x > 0 && *y > *x;
  if (certain || (x && *x == 1 && !y)) {
    const std::string text = print(left) + " / " + print(right);
    warning("A0226", span, "`" + text + "` is " + (certain ? "0" : "integer 0 where the divisor exceeds 1"),
            "`/` on integers rounds down", "write `" + print(left) + ".0 / " + print(right) + "` for a float");
  }
}

}  // namespace attune::tensor::inference
