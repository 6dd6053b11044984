// SPDX-License-Identifier: Apache-2.0
// The partition pass: a streamed loop visits only the part of its index that the guard can reach, skips blocks in which
// no element counts, and drops the predicate in blocks in which every element does.
#include <algorithm>

#include "loop/passes.hpp"
#include "loop/rewrite.hpp"
#include "tensor/masks.hpp"
#include "tensor/passes.hpp"

namespace attune::loop {
namespace {

using namespace tensor;  // NOLINT: builds expressions throughout
using loop::Range;

class Partition {
 public:
  explicit Partition(loop::Nest& nest, const Kernel& kernel) : nest_(nest), kernel_(kernel) {}

  void run() { visit(nest_.body); }

 private:
  /// The rows of a task, as far as they exist: [start, min(start + tile_m, limit) - 1].
  std::unordered_map<Sym, Interval> row_ranges() const {
    std::unordered_map<Sym, Interval> out;
    if (!nest_.row) return out;
    const GridAxis& axis = nest_.grid_axis_of_row();
    Expr start = index(axis.index);
    Expr last = link(LinkOp::sub, least(link(LinkOp::add, start, axis.step), nest_.lane_limit), integer(1));
    out[nest_.row] = {start, simplify(last), {}};
    return out;
  }

  /// Least and greatest of a gathered value along the one tile index that its subscripts use, measured by a loop that
  /// is put into `block`. Elements out of range are not touched and make the range not total.
  std::optional<Interval> measure(const Expr& access_expr, const std::unordered_map<Sym, Interval>& ranges,
                                  Block& block) {
    for (const auto& [known, found] : measured_)
      if (known == access_expr) return found;
    const auto& access = std::get<Access>(access_expr->kind);
    const Buffer* buffer = kernel_.find_buffer(access.target);
    if (!buffer || buffer->presence || !access_expr->type.is_integer()) return std::nullopt;
    std::vector<Sym> along;
    for (const auto& [sym, range] : ranges)
      if (mentions(access_expr, sym)) along.push_back(sym);
    if (along.size() != 1) return std::nullopt;
    // Subscripts may read what an earlier sweep left for each row; that is read along the rows themselves.
    bool gathers = false, by_row = false;
    for (const Expr& subscript : access.subscripts)
      walk(subscript, [&](const Expr& e) {
        if (const auto* inner = get_if<Access>(e)) (find_tile(nest_, inner->target) ? by_row : gathers) = true;
        return !gathers;
      });
    if (gathers || (by_row && !(nest_.row && along[0] == nest_.row))) return std::nullopt;
    const Interval& range = ranges.at(along[0]);
    Sym own = by_row ? along[0] : Sym::fresh(along[0].text());
    std::unordered_map<Sym, Expr> names{{along[0], index(own)}};
    Expr element = substitute(access_expr, names);
    std::vector<Expr> inside;
    const auto& renamed = std::get<Access>(element->kind);
    for (std::size_t k = 0; k < renamed.subscripts.size(); ++k) {
      const Expr& s = renamed.subscripts[k];
      if (get_if<Index>(s)) continue;
      inside.push_back(link(LinkOp::both, compare(Relation::less_equal, integer(0), s),
                            compare(Relation::less, s, buffer->extents[k])));
    }
    Expr guard = conjunction(inside);
    std::vector<Range> over{{own, range.lo, simplify(link(LinkOp::add, range.hi, integer(1)))}};
    auto measure_one = [&](const char* name, Op op, std::int64_t start, const Expr& what) {
      Tile made{Sym::fresh(access.target.text() + name), DType::i64, {}, Scope::stack};
      nest_.tiles.push_back(made);
      block.push_back({Map{made.sym, {}, integer(start), {}, {}}, {}});
      block.push_back({Accumulate{op, made.sym, {}, {}, over, what, guard}, {}});
      Sym value = Sym::fresh(access.target.text() + name);
      block.push_back({Let{value, Expr(Access{made.sym, {}}, type_i64)}, {}});
      return Expr(Scalar{value}, type_i64);
    };
    constexpr std::int64_t far = std::int64_t{1} << 62;
    Interval out{measure_one(".min", Op::min, far, cast(element, type_i64)),
                 measure_one(".max", Op::max, -far, cast(element, type_i64)),
                 {}};
    if (guard) {
      Expr count = measure_one(".count", Op::sum, 0, integer(1));
      Expr length = simplify(link(LinkOp::add, link(LinkOp::sub, range.hi, range.lo), integer(1)));
      out.total = compare(Relation::equal, count, length);
    }
    measured_.emplace_back(access_expr, out);
    return out;
  }

  void visit(Block& block) {
    for (std::size_t at = 0; at < block.size(); ++at) {
      if (auto* choice = std::get_if<If>(&block[at].kind)) {
        visit(choice->then);
        visit(choice->otherwise);
        continue;
      }
      auto* loop = std::get_if<For>(&block[at].kind);
      if (!loop) continue;
      if (!loop->blocks) {
        visit(loop->body);
        continue;
      }
      Block before;
      bounds(*loop, before);
      classes(*loop);
      std::size_t count = before.size();
      block.insert(block.begin() + static_cast<std::ptrdiff_t>(at), std::make_move_iterator(before.begin()),
                   std::make_move_iterator(before.end()));
      at += count;
    }
  }

  /// Closed-form loop bounds from conjuncts that are linear in the streamed index.
  void bounds(For& loop, Block& before) {
    measured_.clear();
    if (!loop.guard) return;
    auto rows = row_ranges();
    TileAnalysis analysis(rows, [&](const Expr& e) { return measure(e, rows, before); });
    Solved solved = solve(loop.guard, loop.blocks);
    Expr lo = loop.lo, hi = loop.hi;
    for (const Expr& bound : solved.lower)
      if (auto range = analysis.interval(bound)) lo = most(lo, range->lo);
    for (const Expr& bound : solved.upper)
      if (auto range = analysis.interval(bound)) hi = least(hi, range->hi);
    auto name = [&](const char* what, const Expr& value) {
      Sym sym = Sym::fresh(loop.blocks.text() + what);
      before.push_back({Let{sym, simplify(value)}, {}});
      return Expr(Scalar{sym}, type_i64);
    };
    if (!lo.same(loop.lo)) loop.lo = name(".lo", lo);
    if (!hi.same(loop.hi)) {
      loop.hi = name(".hi", hi);
      upper_depends_on_row_ = upper_depends_on_row_ || nest_.row;
      // Domains inside end at the loop's own bound.
      if (auto* step_range = first_range(loop.body, loop.blocks)) {
        Expr old = step_range->hi;
        for (Stmt& stmt : loop.body)
          replace_hi(stmt, loop.blocks, old, least(link(LinkOp::add, index(loop.index), loop.step), loop.hi));
      }
    }
  }

  static Range* first_range(Block& block, const Sym& sym) {
    for (Stmt& stmt : block) {
      for (std::vector<Range>* list : ranges_of(stmt))
        if (Range* found = find_range(*list, sym)) return found;
      for (Block* inner : inner_blocks(stmt))
        if (Range* found = first_range(*inner, sym)) return found;
    }
    return nullptr;
  }
  static std::vector<std::vector<Range>*> ranges_of(Stmt& stmt) {
    std::vector<std::vector<Range>*> out;
    if (auto* d = domain_of(stmt)) out.push_back(d);
    if (auto* x = std::get_if<Accumulate>(&stmt.kind)) out.push_back(&x->over);
    if (auto* x = std::get_if<Contract>(&stmt.kind)) out.push_back(&x->over);
    return out;
  }
  static void replace_hi(Stmt& stmt, const Sym& sym, const Expr& old, const Expr& now) {
    for (std::vector<Range>* list : ranges_of(stmt))
      if (Range* found = find_range(*list, sym); found && found->hi == old) found->hi = now;
    for (Block* inner : inner_blocks(stmt))
      for (Stmt& s : *inner) replace_hi(s, sym, old, now);
  }

  /// Whether a guard varies along the row, the loop's own index and the task alone: an index that a statement binds
  /// itself has no value outside of it.
  bool known_here(const Expr& guard, const For& loop) const {
    for (const Sym& sym : free_indices(guard)) {
      bool known = sym == loop.blocks || (nest_.row && sym == nest_.row);
      for (const GridAxis& axis : nest_.grid) known = known || axis.index == sym;
      if (!known) return false;
    }
    return true;
  }

  /// Splits guarded statements by the class of the block.
  void classes(For& loop) {
    Range* step_range = first_range(loop.body, loop.blocks);
    if (!step_range) return;
    auto ranges = row_ranges();
    ranges[loop.blocks] = {index(loop.index), simplify(link(LinkOp::sub, step_range->hi, integer(1))), {}};
    Block lets;  // beside what bounds() measured along the rows before the loop
    TileAnalysis analysis(ranges, [&](const Expr& e) { return measure(e, ranges, lets); });
    std::vector<std::pair<Expr, Expr>> known;  // guard, its class as a Let
    auto full = [&](const Expr& guard) {
      for (const auto& [g, name] : known)
        if (g == guard) return name;
      Expr must = analysis.must(guard);
      const auto* literal = get_if<Literal>(must);
      Expr name = must;
      if (!literal) {
        Sym sym = Sym::fresh("full");
        lets.push_back({Let{sym, must}, {}});
        name = Expr(Scalar{sym}, type_bool);
      }
      known.emplace_back(guard, name);
      return name;
    };
    Block body;
    for (Stmt& stmt : loop.body) {
      Expr guard;
      if (auto* m = std::get_if<loop::Map>(&stmt.kind)) guard = m->guard;
      if (auto* a = std::get_if<Accumulate>(&stmt.kind)) guard = a->guard;
      if (!guard || !mentions_any(guard, {loop.blocks}) || !known_here(guard, loop)) {
        body.push_back(std::move(stmt));
        continue;
      }
      Expr whole = full(guard);
      if (const auto* literal = get_if<Literal>(whole); literal && !std::get<bool>(literal->value)) {
        body.push_back(std::move(stmt));
        continue;
      }
      Stmt open = stmt;
      if (auto* m = std::get_if<loop::Map>(&open.kind)) m->guard = {};
      if (auto* a = std::get_if<Accumulate>(&open.kind)) a->guard = {};
      Span span = stmt.span;
      body.push_back({If{whole, {std::move(open)}, {std::move(stmt)}}, span});
    }
    if (loop.guard) {
      Expr reach = analysis.may(loop.guard);
      if (!get_if<Literal>(reach)) {
        Sym sym = Sym::fresh("reached");
        lets.push_back({Let{sym, reach}, {}});
        Block inner = std::move(body);
        body.clear();
        body.push_back({If{Expr(Scalar{sym}, type_bool), std::move(inner), {}}, {}});
      }
    }
    for (std::size_t k = lets.size(); k-- > 0;) body.insert(body.begin(), std::move(lets[k]));
    loop.body = std::move(body);
  }

  loop::Nest& nest_;
  const Kernel& kernel_;
  std::vector<std::pair<Expr, Interval>> measured_;

 public:
  bool upper_depends_on_row_ = false;
};

}  // namespace

Kernel partition(Kernel kernel, const Schedule& schedule) {
  for (Nest& nest : kernel.nests) {
    Partition pass(nest, kernel);
    pass.run();
    // Where the reach of a row block grows with the row, later blocks are the heavier ones.
    if (pass.upper_depends_on_row_ && schedule.heavy_first) nest.grid_axis_of_row().descending = true;
  }
  return kernel;
}

}  // namespace attune::loop
