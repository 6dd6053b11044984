// SPDX-License-Identifier: Apache-2.0
// Interval analysis of guards; see masks.hpp.
#include "tensor/masks.hpp"

#include <algorithm>

#include "tensor/passes.hpp"

namespace attune::tensor {
namespace {

Expr least(const Expr& a, const Expr& b) { return a == b ? a : Expr(Chain{{LinkOp::min}, {a, b}}, type_i64); }
Expr most(const Expr& a, const Expr& b) { return a == b ? a : Expr(Chain{{LinkOp::max}, {a, b}}, type_i64); }
Expr logical_not(const Expr& e) { return unary(UnaryOp::logical_not, e); }

}  // namespace

bool TileAnalysis::varies(const Expr& expr) const {
  for (const auto& [sym, range] : ranges_)
    if (mentions(expr, sym)) return true;
  return false;
}

std::optional<Interval> TileAnalysis::interval(const Expr& expr) const {
  if (!expr->type.is_integer()) return std::nullopt;
  if (!varies(expr)) {
    if (has_reduction(expr)) return std::nullopt;
    // A uniform gather may be absent; then nothing is known of what follows from it.
    bool gathers = false;
    walk(expr, [&](const Expr& e) {
      gathers = gathers || get_if<Access>(e);
      return !gathers;
    });
    if (!gathers) return Interval{expr, expr, {}};
    // x == x is absent for an absent x and counts as false where it decides.
    return Interval{expr, expr, compare(Relation::equal, expr, expr)};
  }
  if (const auto* idx = get_if<Index>(expr)) return ranges_.at(idx->index);
  if (get_if<Access>(expr)) return gather_ ? gather_(expr) : std::nullopt;
  if (get_if<Chain>(expr)) return chain(expr);
  if (const auto* op = get_if<Unary>(expr)) {
    auto x = interval(op->operand);
    if (!x) return std::nullopt;
    if (op->op == UnaryOp::negate)
      return Interval{unary(UnaryOp::negate, x->hi), unary(UnaryOp::negate, x->lo), x->total};
    if (op->op == UnaryOp::abs) {
      Expr below = unary(UnaryOp::negate, x->lo);
      return Interval{most(integer(0), most(x->lo, unary(UnaryOp::negate, x->hi))), most(x->hi, below), x->total};
    }
  }
  if (const auto* sel = get_if<Select>(expr)) {
    auto a = interval(sel->then), b = interval(sel->otherwise);
    if (!a || !b) return std::nullopt;
    // The condition may be absent; then so is the value.
    bool safe = !has_reduction(sel->condition);
    walk(sel->condition, [&](const Expr& e) {
      safe = safe && !get_if<Access>(e) && !get_if<Where>(e);
      return safe;
    });
    Expr total = and_also(a->total, b->total);
    // Where the condition is the same in the whole tile, one side is all there is.
    Expr first = must(sel->condition), second = must(logical_not(sel->condition));
    auto one_of = [&](const Expr& x, const Expr& y, const Expr& either) {
      return simplify(Expr(Select{first, x, Expr(Select{second, y, either}, type_i64)}, type_i64));
    };
    return Interval{one_of(a->lo, b->lo, least(a->lo, b->lo)), one_of(a->hi, b->hi, most(a->hi, b->hi)),
                    safe ? total : boolean(false)};
  }
  return std::nullopt;
}

std::optional<Interval> TileAnalysis::chain(const Expr& expr) const {
  const auto& node = std::get<Chain>(expr->kind);
  auto out = interval(node.args[0]);
  for (std::size_t k = 0; out && k < node.links.size(); ++k) {
    auto next = interval(node.args[k + 1]);
    if (!next) return std::nullopt;
    Expr total = and_also(out->total, next->total);
    bool uniform = next->lo.same(next->hi);
    switch (node.links[k]) {
      case LinkOp::add:
        out = Interval{link(LinkOp::add, out->lo, next->lo), link(LinkOp::add, out->hi, next->hi), total};
        break;
      case LinkOp::sub:
        out = Interval{link(LinkOp::sub, out->lo, next->hi), link(LinkOp::sub, out->hi, next->lo), total};
        break;
      case LinkOp::min: out = Interval{least(out->lo, next->lo), least(out->hi, next->hi), total}; break;
      case LinkOp::max: out = Interval{most(out->lo, next->lo), most(out->hi, next->hi), total}; break;
      case LinkOp::mul: {
        if (uniform) {
          Expr a = link(LinkOp::mul, out->lo, next->lo), b = link(LinkOp::mul, out->hi, next->lo);
          out = Interval{least(a, b), most(a, b), total};
          break;
        }
        Expr a = link(LinkOp::mul, out->lo, next->lo), b = link(LinkOp::mul, out->lo, next->hi);
        Expr c = link(LinkOp::mul, out->hi, next->lo), d = link(LinkOp::mul, out->hi, next->hi);
        out = Interval{least(least(a, b), least(c, d)), most(most(a, b), most(c, d)), total};
        break;
      }
      case LinkOp::floordiv: {
        if (!uniform || get_if<Access>(next->lo)) return std::nullopt;
        Expr a = link(LinkOp::floordiv, out->lo, next->lo), b = link(LinkOp::floordiv, out->hi, next->lo);
        out = Interval{least(a, b), most(a, b), total};
        break;
      }
      case LinkOp::mod: {
        if (!uniform || get_if<Access>(next->lo)) return std::nullopt;
        // Within one period the remainder is monotone; across periods it takes any value.
        Expr same = compare(Relation::equal, link(LinkOp::floordiv, out->lo, next->lo),
                            link(LinkOp::floordiv, out->hi, next->lo));
        Expr low = least(integer(0), link(LinkOp::add, next->lo, integer(1)));
        Expr high = most(integer(0), link(LinkOp::sub, next->lo, integer(1)));
        out = Interval{Expr(Select{same, link(LinkOp::mod, out->lo, next->lo), low}, type_i64),
                       Expr(Select{same, link(LinkOp::mod, out->hi, next->lo), high}, type_i64), total};
        break;
      }
      default: return std::nullopt;
    }
  }
  return out;
}

namespace {
/// Integer sides of a comparison pair; nothing for floats and booleans.
Expr decide(Relation relation, const Interval& a, const Interval& b, bool everywhere) {
  auto less = [&](const Expr& x, const Expr& y) { return compare(Relation::less, x, y); };
  auto less_equal = [&](const Expr& x, const Expr& y) { return compare(Relation::less_equal, x, y); };
  switch (relation) {
    case Relation::less: return everywhere ? less(a.hi, b.lo) : less(a.lo, b.hi);
    case Relation::less_equal: return everywhere ? less_equal(a.hi, b.lo) : less_equal(a.lo, b.hi);
    case Relation::greater: return everywhere ? less(b.hi, a.lo) : less(b.lo, a.hi);
    case Relation::greater_equal: return everywhere ? less_equal(b.hi, a.lo) : less_equal(b.lo, a.hi);
    case Relation::equal:
      return everywhere ? link(LinkOp::both, less_equal(a.hi, b.lo), less_equal(b.hi, a.lo))
                        : link(LinkOp::both, less_equal(a.lo, b.hi), less_equal(b.lo, a.hi));
    case Relation::not_equal:
      return everywhere ? link(LinkOp::either, less(a.hi, b.lo), less(b.hi, a.lo))
                        : link(LinkOp::either, less(a.lo, b.hi), less(b.lo, a.hi));
  }
  return {};
}
}  // namespace

Expr TileAnalysis::must(const Expr& condition) const {
  if (const auto* node = get_if<Chain>(condition)) {
    Expr out;
    for (const Expr& arg : node->args) {
      Expr part = must(arg);
      out = out ? link(node->links[0], out, part) : part;
    }
    return simplify(out);
  }
  if (const auto* op = get_if<Unary>(condition); op && op->op == UnaryOp::logical_not) {
    // An absent operand leaves its negation absent, that is not true; may() knows nothing of absence. A single integer
    // comparison turns around, which keeps track of it; others are trusted only where nothing can be absent.
    if (const auto* cmp = get_if<Compare>(op->operand);
        cmp && cmp->relations.size() == 1 && cmp->args[0]->type.is_integer()) {
      static constexpr Relation opposite[] = {Relation::greater_equal, Relation::greater,   Relation::less_equal,
                                              Relation::less,          Relation::not_equal, Relation::equal};
      return must(compare(opposite[static_cast<int>(cmp->relations[0])], cmp->args[0], cmp->args[1]));
    }
    bool safe = true;
    walk(op->operand, [&](const Expr& e) {
      safe = safe && !get_if<Access>(e) && !get_if<Where>(e) && !get_if<Cast>(e);
      return safe;
    });
    return safe ? simplify(logical_not(may(op->operand))) : boolean(false);
  }
  if (const auto* cmp = get_if<Compare>(condition)) {
    Expr out;
    for (std::size_t k = 0; k < cmp->relations.size(); ++k) {
      auto a = interval(cmp->args[k]), b = interval(cmp->args[k + 1]);
      if (!a || !b) return varies(condition) || has_reduction(condition) ? boolean(false) : condition;
      out = and_also(out, and_also(and_also(a->total, b->total), decide(cmp->relations[k], *a, *b, true)));
    }
    return simplify(out);
  }
  if (const auto* select = get_if<Select>(condition)) {
    // One side where the condition is the same in the whole tile; else both.
    Expr then = must(select->then), otherwise = must(select->otherwise);
    Expr first = link(LinkOp::both, must(select->condition), then);
    Expr second = link(LinkOp::both, must(logical_not(select->condition)), otherwise);
    return simplify(link(LinkOp::either, first, second));
  }
  if (get_if<Literal>(condition)) return condition;
  return varies(condition) || has_reduction(condition) ? boolean(false) : condition;
}

Expr TileAnalysis::may(const Expr& condition) const {
  if (const auto* node = get_if<Chain>(condition)) {
    Expr out;
    for (const Expr& arg : node->args) {
      Expr part = may(arg);
      out = out ? link(node->links[0], out, part) : part;
    }
    return simplify(out);
  }
  if (const auto* op = get_if<Unary>(condition); op && op->op == UnaryOp::logical_not)
    return simplify(logical_not(must(op->operand)));
  if (const auto* cmp = get_if<Compare>(condition)) {
    Expr out;
    for (std::size_t k = 0; k < cmp->relations.size(); ++k) {
      auto a = interval(cmp->args[k]), b = interval(cmp->args[k + 1]);
      if (!a || !b) continue;
      out = and_also(out, decide(cmp->relations[k], *a, *b, false));
    }
    return out ? simplify(out) : boolean(true);
  }
  if (const auto* select = get_if<Select>(condition)) {
    Expr first = link(LinkOp::both, may(select->condition), may(select->then));
    Expr second = link(LinkOp::both, may(logical_not(select->condition)), may(select->otherwise));
    return simplify(link(LinkOp::either, first, second));
  }
  if (get_if<Literal>(condition)) return condition;
  return varies(condition) || has_reduction(condition) ? boolean(true) : condition;
}

Solved solve(const Expr& guard, const Sym& index) {
  Solved out;
  for (const Expr& condition : conjuncts(guard)) {
    const auto* cmp = get_if<Compare>(condition);
    if (!cmp || cmp->relations.size() != 1 || !cmp->args[0]->type.is_integer()) continue;
    // difference = right - left, with the index taken out: sign * index + rest.
    int sign = 0;
    bool linear = true;
    std::vector<Term> rest;
    for (int side = 0; side < 2; ++side)
      for (const Term& term : terms(cmp->args[static_cast<std::size_t>(side)])) {
        bool negative = term.negative != (side == 0);
        if (const auto* idx = get_if<Index>(term.expr); idx && idx->index == index)
          sign += negative ? -1 : 1;
        else if (mentions(term.expr, index))
          linear = false;
        else
          rest.push_back({negative, term.expr});
      }
    if (!linear || (sign != 1 && sign != -1)) continue;
    // sign * index + rest REL' 0, where left REL right <=> 0 REL difference.
    Relation relation = cmp->relations[0];
    if (relation == Relation::not_equal) continue;
    // index on one side: sign = 1: index > -rest for less; sign = -1: index < rest for less.
    for (Term& term : rest)
      if (sign == 1) term.negative = !term.negative;
    Expr bound = sum_of(rest, type_i64);  // index compared with bound
    auto plus_one = [&](const Expr& e) { return simplify(link(LinkOp::add, e, integer(1))); };
    bool up = sign == 1;  // left < right <=> bound < index (up) or index < bound (not up)
    switch (relation) {
      case Relation::less: up ? out.lower.push_back(plus_one(bound)) : out.upper.push_back(bound); break;
      case Relation::less_equal: up ? out.lower.push_back(bound) : out.upper.push_back(plus_one(bound)); break;
      case Relation::greater: up ? out.upper.push_back(bound) : out.lower.push_back(plus_one(bound)); break;
      case Relation::greater_equal: up ? out.upper.push_back(plus_one(bound)) : out.lower.push_back(bound); break;
      case Relation::equal:
        out.lower.push_back(bound);
        out.upper.push_back(plus_one(bound));
        break;
      case Relation::not_equal: break;
    }
  }
  return out;
}

}  // namespace attune::tensor
