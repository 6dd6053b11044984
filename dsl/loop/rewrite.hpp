// SPDX-License-Identifier: Apache-2.0
// Small tools that several passes share: visiting and replacing expressions, domains and nested blocks.
#pragma once
#include <functional>

#include "loop/ir.hpp"

namespace attune::loop {

/// The blocks directly inside a statement (of For and If).
inline std::vector<Block*> inner_blocks(Stmt& stmt) {
  if (auto* loop = std::get_if<For>(&stmt.kind)) return {&loop->body};
  if (auto* choice = std::get_if<If>(&stmt.kind)) return {&choice->then, &choice->otherwise};
  return {};
}

/// Calls f on every expression slot of a statement, nested ones included; f may replace it. Null slots are left out.
template <class F>
void each_expr(Stmt& stmt, F&& f) {
  auto slot = [&](Expr& e) {
    if (e) f(e);
  };
  auto ranges = [&](std::vector<Range>& list) {
    for (Range& r : list) slot(r.lo), slot(r.hi);
  };
  if (auto* x = std::get_if<Map>(&stmt.kind)) {
    ranges(x->domain), slot(x->value), slot(x->guard), slot(x->fill);
  } else if (auto* x2 = std::get_if<Accumulate>(&stmt.kind)) {
    ranges(x2->domain), ranges(x2->over), slot(x2->value), slot(x2->guard);
  } else if (auto* x3 = std::get_if<Contract>(&stmt.kind)) {
    ranges(x3->domain), ranges(x3->over), slot(x3->a), slot(x3->b), slot(x3->scale);
  } else if (auto* x4 = std::get_if<Store>(&stmt.kind)) {
    for (Expr& e : x4->subscripts) slot(e);
    ranges(x4->domain), slot(x4->value);
  } else if (auto* x5 = std::get_if<Let>(&stmt.kind)) {
    slot(x5->value);
  } else if (auto* x6 = std::get_if<For>(&stmt.kind)) {
    slot(x6->lo), slot(x6->hi), slot(x6->step), slot(x6->guard);
  } else if (auto* x7 = std::get_if<If>(&stmt.kind)) {
    slot(x7->condition);
  }
  for (Block* block : inner_blocks(stmt))
    for (Stmt& inner : *block) each_expr(inner, f);
}

template <class F>
void each_expr(Nest& nest, F&& f) {
  for (GridAxis& axis : nest.grid) f(axis.lo), f(axis.hi), f(axis.step);
  if (nest.lane_limit) f(nest.lane_limit);
  for (Tile& tile : nest.tiles)
    for (TileAxis& axis : tile.axes) f(axis.base), f(axis.extent);
  for (Stmt& stmt : nest.body) each_expr(stmt, f);
}

/// The domain of a statement, or null.
inline std::vector<Range>* domain_of(Stmt& stmt) {
  if (auto* x = std::get_if<Map>(&stmt.kind)) return &x->domain;
  if (auto* x = std::get_if<Accumulate>(&stmt.kind)) return &x->domain;
  if (auto* x = std::get_if<Contract>(&stmt.kind)) return &x->domain;
  if (auto* x = std::get_if<Store>(&stmt.kind)) return &x->domain;
  return nullptr;
}
inline Range* find_range(std::vector<Range>& domain, const Sym& index) {
  for (Range& range : domain)
    if (range.index == index) return &range;
  return nullptr;
}
inline Tile* find_tile(Nest& nest, const Sym& sym) {
  for (Tile& tile : nest.tiles)
    if (tile.sym == sym) return &tile;
  return nullptr;
}

/// Tile sizes before the tile pass binds them, read as tensor::Scalar.
const Sym& tile_m_symbol();
const Sym& tile_n_symbol();

inline Expr least(const Expr& a, const Expr& b) {
  return a == b ? a : Expr(tensor::Chain{{tensor::LinkOp::min}, {a, b}}, tensor::type_i64);
}
inline Expr most(const Expr& a, const Expr& b) {
  return a == b ? a : Expr(tensor::Chain{{tensor::LinkOp::max}, {a, b}}, tensor::type_i64);
}

}  // namespace attune::loop
