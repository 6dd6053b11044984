// SPDX-License-Identifier: Apache-2.0
// The last step of the map pass: inside a streamed block every register tile of rows visits only the part of the block
// that its own rows can reach, and drops predicates that hold for all of them. What partition decided for all rows of a
// task is decided again for a few of them, so that a mask costs what its edge costs, not what the task's corner costs.
#include <algorithm>

#include "loop/passes.hpp"
#include "loop/rewrite.hpp"
#include "tensor/masks.hpp"
#include "tensor/passes.hpp"

namespace attune::loop {
namespace {

using namespace tensor;  // NOLINT: builds expressions throughout
using loop::Range;

class Refine {
 public:
  explicit Refine(loop::Nest& nest) : nest_(nest) {}

  void run() { visit(nest_.body, nullptr); }

 private:
  void visit(Block& block, const For* stream) {
    for (Stmt& stmt : block) {
      auto* loop = std::get_if<For>(&stmt.kind);
      if (loop && stream && stream->guard && !loop->blocks) {
        const std::optional<Range> rows = rows_of(*loop);
        if (rows && mentions(stream->guard, nest_.lane)) {
          refine(*loop, *rows, *stream);
          continue;
        }
      }
      for (Block* inner : inner_blocks(stmt)) visit(*inner, loop && loop->blocks ? loop : stream);
    }
  }

  /// The lanes that the loop's statements share, where each round of it is one register tile.
  std::optional<Range> rows_of(For& loop) {
    for (Stmt& stmt : loop.body)
      if (auto* domain = domain_of(stmt))
        if (const Range* rows = find_range(*domain, nest_.lane); rows && rows->lo == index(loop.index)) return *rows;
    return std::nullopt;
  }

  static std::vector<std::vector<Range>*> ranges_of(Stmt& stmt) {
    std::vector<std::vector<Range>*> out;
    if (auto* domain = domain_of(stmt)) out.push_back(domain);
    if (auto* x = std::get_if<Accumulate>(&stmt.kind)) out.push_back(&x->over);
    if (auto* x = std::get_if<Contract>(&stmt.kind)) out.push_back(&x->over);
    return out;
  }
  template <class F>
  static void each_range(Block& block, const Sym& sym, F&& f) {
    for (Stmt& stmt : block) {
      for (std::vector<Range>* list : ranges_of(stmt))
        if (Range* found = find_range(*list, sym)) f(*found);
      for (Block* inner : inner_blocks(stmt)) each_range(*inner, sym, f);
    }
  }

  void refine(For& loop, const Range& rows, const For& stream) {
    std::optional<Range> whole;
    bool alike = true;
    each_range(loop.body, stream.blocks, [&](const Range& range) {
      if (!whole) whole = range;
      alike = alike && range.lo == whole->lo && range.hi == whole->hi;
    });
    if (!whole || !alike) return;

    Block lets;
    const auto name = [&](const char* what, const Expr& value, const tensor::Type& type) {
      const Sym sym = Sym::fresh(what);
      lets.push_back({Let{sym, value}, {}});
      return Expr(Scalar{sym}, type);
    };
    std::unordered_map<Sym, Interval> ranges;
    ranges[nest_.lane] = {rows.lo, simplify(link(LinkOp::sub, least(rows.hi, nest_.lane_limit), integer(1))), {}};
    // Ranges of gathered values are known per task at best: such guards keep the class that the task's rows have.
    const TileAnalysis reach(ranges, {});
    const Solved solved = solve(stream.guard, stream.blocks);
    Expr lo = whole->lo, hi = whole->hi;
    for (const Expr& bound : solved.lower)
      if (const auto range = reach.interval(bound); range && mentions(bound, nest_.lane)) lo = most(lo, range->lo);
    for (const Expr& bound : solved.upper)
      if (const auto range = reach.interval(bound); range && mentions(bound, nest_.lane)) hi = least(hi, range->hi);
    const bool narrower = !lo.same(whole->lo) || !hi.same(whole->hi);
    if (!lo.same(whole->lo)) lo = name((stream.blocks.text() + ".from").c_str(), simplify(lo), type_i64);
    if (!hi.same(whole->hi)) hi = name((stream.blocks.text() + ".to").c_str(), simplify(hi), type_i64);
    each_range(loop.body, stream.blocks, [&](Range& range) { range.lo = lo, range.hi = hi; });

    ranges[stream.blocks] = {lo, simplify(link(LinkOp::sub, hi, integer(1))), {}};
    const TileAnalysis tile(ranges, {});
    std::vector<std::pair<Expr, Expr>> known;  // a guard and its class here
    for (Stmt& stmt : loop.body) {
      auto* choice = std::get_if<If>(&stmt.kind);
      if (!choice || choice->otherwise.size() != 1) continue;
      const Expr guard = guard_of(choice->otherwise.front());
      if (!guard || !mentions(guard, nest_.lane)) continue;
      const auto found = std::find_if(known.begin(), known.end(), [&](const auto& k) { return k.first == guard; });
      if (found != known.end()) {
        choice->condition = found->second;
        continue;
      }
      const Expr must = simplify(tile.must(guard));
      Expr full = choice->condition;
      if (const auto* literal = get_if<Literal>(must); !literal || std::get<bool>(literal->value))
        full = name("full", must, type_bool);
      known.emplace_back(guard, full);
      choice->condition = full;
    }
    if (lets.empty()) return;
    if (narrower) {
      Block inner = std::move(loop.body);
      loop.body.clear();
      // The classes are only asked for where there is something to visit.
      const auto is_bound = [&](const Stmt& let) {
        const Expr value(Scalar{std::get<Let>(let.kind).sym}, type_i64);
        return value == lo || value == hi;
      };
      const auto classes = std::stable_partition(lets.begin(), lets.end(), is_bound);
      inner.insert(inner.begin(), std::make_move_iterator(classes), std::make_move_iterator(lets.end()));
      lets.erase(classes, lets.end());
      lets.push_back({If{compare(Relation::less, lo, hi), std::move(inner), {}}, {}});
      loop.body = std::move(lets);
    } else {
      loop.body.insert(loop.body.begin(), std::make_move_iterator(lets.begin()), std::make_move_iterator(lets.end()));
    }
  }

  static Expr guard_of(const Stmt& stmt) {
    if (const auto* map = std::get_if<loop::Map>(&stmt.kind)) return map->guard;
    if (const auto* accumulate = std::get_if<Accumulate>(&stmt.kind)) return accumulate->guard;
    return {};
  }

  loop::Nest& nest_;
};

}  // namespace

void refine(Nest& nest) {
  if (nest.lane) Refine(nest).run();
}

}  // namespace attune::loop
