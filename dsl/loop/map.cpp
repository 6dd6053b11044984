// SPDX-License-Identifier: Apache-2.0
// The map pass: rows of a task become register tiles of schedule.lanes rows. Statements over rows go into one loop over
// register tiles per run of such statements; tiles that live inside one run shrink to one register tile.
#include <algorithm>
#include <unordered_set>

#include "loop/passes.hpp"
#include "loop/rewrite.hpp"
#include "tensor/algebra.hpp"
#include "tensor/passes.hpp"

namespace attune::loop {
namespace {

using namespace tensor;  // NOLINT: builds expressions throughout
using loop::Range;

class MapRows {
 public:
  MapRows(loop::Nest& nest, std::int64_t lanes, std::int64_t tile_m) : nest_(nest), lanes_(lanes), tile_m_(tile_m) {}

  void run() {
    if (!nest_.row) return;
    nest_.lane = nest_.row;
    nest_.lanes = lanes_;
    count_uses(nest_.body, uses_);
    group(nest_.body);
  }

 private:
  bool over_rows(Stmt& stmt) {
    if (auto* domain = domain_of(stmt)) return find_range(*domain, nest_.row) != nullptr;
    if (auto* choice = std::get_if<If>(&stmt.kind)) {
      // A choice around row statements only goes inside as a whole.
      bool any = false, all = true;
      for (Block* block : {&choice->then, &choice->otherwise})
        for (Stmt& inner : *block) {
          bool rows = over_rows(inner);
          any = any || rows;
          all = all && rows;
        }
      return any && all;
    }
    return false;
  }

  static void count_uses(Block& block, std::unordered_map<Sym, int>& uses) {
    for (Stmt& stmt : block) count_uses(stmt, uses);
  }
  static void count_uses(Stmt& stmt, std::unordered_map<Sym, int>& uses) {
    if (auto* x = std::get_if<loop::Map>(&stmt.kind)) ++uses[x->dst];
    if (auto* x = std::get_if<Accumulate>(&stmt.kind)) ++uses[x->dst], ++uses[x->dst_index];
    if (auto* x = std::get_if<Contract>(&stmt.kind)) ++uses[x->dst];
    for (Block* inner : inner_blocks(stmt)) count_uses(*inner, uses);
    std::vector<Expr> own;
    Stmt shallow = stmt;  // expressions of nested blocks are counted by the recursion
    if (auto* loop = std::get_if<For>(&shallow.kind)) loop->body.clear();
    if (auto* choice = std::get_if<If>(&shallow.kind)) choice->then.clear(), choice->otherwise.clear();
    each_expr(shallow, [&](Expr& e) { own.push_back(e); });
    for (const Expr& e : own)
      walk(e, [&](const Expr& part) {
        if (const auto* access = get_if<Access>(part)) ++uses[access->target];
        return true;
      });
  }

  /// Whether the first thing that a run does with a tile is to write all of it.
  static bool written_first(const std::vector<Stmt>& run, const Sym& tile) {
    for (const Stmt& stmt : run) {
      if (const auto* map = std::get_if<loop::Map>(&stmt.kind); map && map->dst == tile)
        return (!map->guard || map->fill) && !mentions_target(map->value, tile);
      if (const auto* contract = std::get_if<Contract>(&stmt.kind); contract && contract->dst == tile)
        return !contract->scale;
      if (const auto* choice = std::get_if<If>(&stmt.kind))
        if (!choice->then.empty() && !choice->otherwise.empty() && written_first(choice->then, tile) &&
            written_first(choice->otherwise, tile))
          return true;
      Stmt copy = stmt;
      std::unordered_map<Sym, int> uses;
      count_uses(copy, uses);
      if (uses.contains(tile)) return false;
    }
    return false;
  }
  static bool mentions_target(const Expr& expr, const Sym& tile) {
    bool found = false;
    walk(expr, [&](const Expr& e) {
      if (const auto* access = get_if<Access>(e)) found = found || access->target == tile;
      return !found;
    });
    return found;
  }

  void group(Block& block) {
    Block out;
    std::size_t at = 0;
    while (at < block.size()) {
      if (!over_rows(block[at])) {
        for (Block* inner : inner_blocks(block[at])) group(*inner);
        out.push_back(std::move(block[at++]));
        continue;
      }
      Block run;
      while (at < block.size() && over_rows(block[at])) run.push_back(std::move(block[at++]));
      wrap(std::move(run), out);
    }
    block = std::move(out);
  }

  void wrap(Block run, Block& out) {
    const GridAxis& rows = nest_.grid_axis_of_row();
    Expr block_start = index(rows.index);
    bool single = lanes_ == tile_m_;
    Sym start = single ? rows.index : Sym::fresh(nest_.row.text() + "1");
    Expr base = index(start);
    Expr hi = simplify(link(LinkOp::add, base, integer(lanes_)));
    std::unordered_map<Sym, int> inside;
    for (Stmt& stmt : run) {
      narrow(stmt, base, hi);
      count_uses(stmt, inside);
    }
    for (Tile& tile : nest_.tiles) {
      auto used = inside.find(tile.sym);
      if (used == inside.end() || used->second != uses_[tile.sym] || !written_first(run, tile.sym)) continue;
      for (TileAxis& axis : tile.axes)
        if (axis.index == nest_.row) axis = {nest_.row, base, integer(lanes_)};
    }
    if (single) {
      for (Stmt& stmt : run) out.push_back(std::move(stmt));
      return;
    }
    Expr end = least(simplify(link(LinkOp::add, block_start, integer(tile_m_))), nest_.lane_limit);
    For loop{
        start,          block_start, end, integer(lanes_), ForKind::serial, "register tiles of " + nest_.row.text(),
        std::move(run), {},          {}};
    out.push_back({std::move(loop), {}});
  }

  void narrow(Stmt& stmt, const Expr& lo, const Expr& hi) {
    if (auto* domain = domain_of(stmt))
      if (Range* range = find_range(*domain, nest_.row)) *range = {nest_.row, lo, hi};
    for (Block* inner : inner_blocks(stmt))
      for (Stmt& s : *inner) narrow(s, lo, hi);
  }

  loop::Nest& nest_;
  std::int64_t lanes_, tile_m_;
  std::unordered_map<Sym, int> uses_;
};

}  // namespace

Kernel map(Kernel kernel, const Schedule& schedule) {
  for (Nest& nest : kernel.nests) {
    MapRows(nest, schedule.lanes, schedule.tile_m).run();
    refine(nest);
  }
  return kernel;
}

}  // namespace attune::loop
