// SPDX-License-Identifier: Apache-2.0
#include "loop/lower_values.hpp"

#include <algorithm>
#include <limits>

#include "tensor/passes.hpp"

namespace attune::loop {

using namespace tensor;  // NOLINT: this file translates one IR into the other
using loop::Range;

NestValues::Axis* NestValues::axis(const Sym& sym) {
  for (Axis& a : axes_)
    if (a.index == sym) return &a;
  return nullptr;
}

std::vector<Sym> NestValues::varying(const Expr& expr) {
  std::vector<Sym> found;
  for (const Axis& a : axes_)
    if (mentions(expr, a.index)) found.push_back(a.index);
  std::stable_partition(found.begin(), found.end(), [&](const Sym& s) { return !is_lane(s); });
  return found;
}

Sym NestValues::make_tile(const std::string& name, const Type& type, const std::vector<Sym>& along) {
  Tile made{Sym::fresh(name),
            type.is_float()  ? DType::f32
            : type.is_bool() ? DType::boolean
                             : DType::i64,
            {},
            Scope::stack};
  for (const Sym& sym : along) {
    Axis* a = axis(sym);
    made.axes.push_back({sym, a->base, a->extent});
  }
  out_.tiles.push_back(made);
  return made.sym;
}

Expr NestValues::read(const Sym& tile, const std::vector<Sym>& along, const Type& type) const {
  Access access{tile, {}};
  for (const Sym& sym : along) access.subscripts.push_back(index(sym));
  return Expr(std::move(access), type);
}

std::vector<Range> NestValues::domain(const std::vector<Sym>& along) {
  std::vector<Range> out;
  for (const Sym& sym : along) out.push_back(range(*axis(sym)));
  return out;
}

// ---- inner reductions --------------------------------------------------------------------------
bool NestValues::streamed(const Expr& expr) const {
  return std::any_of(axes_.begin(), axes_.end(), [&](const Axis& a) { return a.streamed && mentions(expr, a.index); });
}

Expr NestValues::value(const Expr& expr) {
  if (!expr) return expr;
  if (const auto* reduce = get_if<Reduce>(expr)) return reduction(*reduce, expr);
  if (const auto* chain = get_if<Chain>(expr))
    if (Expr absorbed = absorb(*chain, expr)) return value(absorbed);
  return map_children(expr, [&](const Expr& child) { return value(child); });
}

/// c * sum(x) as sum(c * x) where c varies along the row or not at all: then it costs nothing in the inner loop.
Expr NestValues::absorb(const Chain& chain, const Expr& expr) const {
  if (!expr->type.is_float() ||
      !std::all_of(chain.links.begin(), chain.links.end(), [](LinkOp op) { return op == LinkOp::mul; }))
    return {};
  const Expr* sum = nullptr;
  std::vector<Factor> moved;
  for (const Expr& arg : chain.args) {
    const auto* reduce = get_if<Reduce>(arg);
    if (reduce && reduce->op == ReduceOp::sum && reduce->body->type.is_float() && !sum)
      sum = &arg;
    else
      moved.push_back({false, arg});
  }
  if (!sum || moved.empty()) return {};
  for (const Factor& f : moved) {
    if (has_reduction(f.expr) || may_be_absent(f.expr, streams_.program)) return {};
    for (const Axis& a : axes_)
      if (!is_lane(a.index) && mentions(f.expr, a.index)) return {};
  }
  Reduce copy = std::get<Reduce>((*sum)->kind);
  moved.push_back({false, copy.body});
  copy.body = product_of(moved, type_f32);
  return Expr(std::move(copy), type_f32, expr->span);
}

Expr NestValues::reduction(const Reduce& reduce, const Expr& expr) {
  auto& memo = streamed(expr) ? step_memo_ : row_memo_;
  for (const auto& [known, tile] : memo)
    if (known == expr) return tile;
  std::vector<Sym> along = varying(expr);
  for (const IndexRange& r : reduce.over)
    if (!axis(r.index)) {
      Expr extent = integer_value(r.lo) == 0 ? r.hi : most(integer(0), link(LinkOp::sub, r.hi, r.lo));
      axes_.push_back({r.index, r.lo, extent, r.lo, r.hi});
    }
  Block& block = streamed(expr) ? *step_ : out_.body;
  Type type = expr->type.is_float() ? type_f32 : expr->type.is_bool() ? type_bool : type_i64;
  std::vector<Range> over;
  for (const IndexRange& r : reduce.over) over.push_back({r.index, r.lo, r.hi});
  Expr body = value(reduce.body), guard = value(reduce.guard);
  Sym tile = make_tile(reduce.op == ReduceOp::sum ? "dot" : "r", type, along);
  Expr result = read(tile, along, type);
  if (reduce.op == ReduceOp::sum && !guard && type.is_float() && contract(block, tile, along, over, body, expr->span)) {
    memo.emplace_back(expr, result);
    return result;
  }
  accumulate(block, reduce.op, tile, along, over, body, guard, expr->span);
  memo.emplace_back(expr, result);
  return result;
}

/// A contraction if the product separates into factors with the row and factors with other axes.
bool NestValues::contract(Block& block, const Sym& tile, const std::vector<Sym>& along, const std::vector<Range>& over,
                          const Expr& body, Span span) {
  if (!out_.row || along.empty() || !is_lane(along.back())) return false;
  std::vector<Factor> row_side, other_side;
  for (const Factor& f : factors(body)) {
    if (get_if<Where>(f.expr)) return false;
    bool lane = mentions(f.expr, out_.row), other = false;
    for (const Sym& sym : along) other = other || (!is_lane(sym) && mentions(f.expr, sym));
    if (lane && other) return false;
    (other ? other_side : row_side).push_back(f);
  }
  if (other_side.empty() || row_side.empty()) return false;
  Expr a = product_of(row_side, type_f32), b = product_of(other_side, type_f32);
  bool row_varies = mentions(a, out_.row);
  if (!row_varies) return false;
  block.push_back({Contract{tile, domain(along), over, a, b, {}}, span});
  return true;
}

void NestValues::accumulate(Block& block, ReduceOp op, const Sym& tile, const std::vector<Sym>& along,
                            const std::vector<Range>& over, const Expr& body, const Expr& guard, Span span) {
  if (op == ReduceOp::argmax) {
    Sym best = make_best("best", body, along, block, span);
    block.push_back({Map{tile, domain(along), integer(-1), {}, {}}, span});
    block.push_back({Accumulate{Op::argmax, best, tile, domain(along), over, body, guard}, span});
    return;
  }
  Expr start = identity(op, body->type.is_float() ? type_f32 : type_i64);
  block.push_back({Map{tile, domain(along), start, {}, {}}, span});
  block.push_back({Accumulate{op_of(op), tile, {}, domain(along), over, body, guard}, span});
}

Sym NestValues::make_best(const std::string& name, const Expr& body, const std::vector<Sym>& along, Block& block,
                          Span span) {
  const bool real_valued = body->type.is_float();
  Sym best = make_tile(name, real_valued ? type_f32 : type_i64, along);
  Expr lowest =
      real_valued ? real(-std::numeric_limits<double>::infinity()) : integer(std::numeric_limits<std::int64_t>::min());
  block.push_back({Map{best, domain(along), lowest, {}, {}}, span});
  return best;
}

Op NestValues::op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::max: return Op::max;
    case ReduceOp::min: return Op::min;
    case ReduceOp::prod: return Op::prod;
    case ReduceOp::any: return Op::any;
    case ReduceOp::all: return Op::all;
    case ReduceOp::bound: return Op::max_any;
    default: return Op::sum;
  }
}

Expr NestValues::weights(const Expr& product, const Expr& guard, const Phase& phase, Block& body, Span span) {
  Expr key = guard ? Expr(Where{guard, product}, type_f32) : product;
  for (const auto& [known, tile] : step_memo_)
    if (known == key) return tile;
  std::vector<Sym> along;
  for (const IndexRange& r : phase.over) along.push_back(r.index);
  along.push_back(out_.row);
  Expr what = value(product);
  Sym tile = make_tile("w", type_f32, along);
  body.push_back({Map{tile, domain(along), what, guard, real(0)}, span});
  Expr result = read(tile, along, type_f32);
  step_memo_.emplace_back(key, result);
  return result;
}

Expr NestValues::repair(const State& state, Block& body) {
  if (state.repair.empty()) return {};
  std::vector<Sym> along;
  if (out_.row) along.push_back(out_.row);
  Expr exponent, unchanged;
  for (const auto& [other, coefficient] : state.repair) {
    Expr now = read(other, along, type_f32), before = read(old_.at(other), along, type_f32);
    Expr moved = link(LinkOp::sub, now, before);
    if (coefficient == -1)
      moved = link(LinkOp::sub, before, now);
    else if (coefficient != 1)
      moved = link(LinkOp::mul, real(coefficient), moved);
    exponent = exponent ? link(LinkOp::add, exponent, moved) : moved;
    Expr same = compare(Relation::equal, now, before);
    unchanged = unchanged ? link(LinkOp::both, unchanged, same) : same;
  }
  Expr factor = Expr(Select{unchanged, real(1), unary(UnaryOp::exp, exponent)}, type_f32);
  for (const auto& [known, tile] : step_memo_)
    if (known == factor) return tile;
  Sym tile = make_tile("repair", type_f32, along);
  body.push_back({Map{tile, domain(along), factor, {}, {}}, state.span});
  Expr result = read(tile, along, type_f32);
  step_memo_.emplace_back(factor, result);
  return result;
}

}  // namespace attune::loop
