// SPDX-License-Identifier: Apache-2.0
// The place pass: operands of contractions get the storage that register tiles read. The row side is always copied to a
// tile with the row along lanes; the streamed side is read in place where it is plain f32 memory and the schedule says
// so, else copied and converted to an f32 panel once per block.
#include <algorithm>
#include <iterator>
#include <utility>

#include "loop/passes.hpp"
#include "loop/rewrite.hpp"
#include "tensor/masks.hpp"
#include "tensor/passes.hpp"

namespace attune::loop {
namespace {

using namespace tensor;  // NOLINT: builds expressions throughout
using loop::Map;
using loop::Range;

class Place {
 public:
  Place(loop::Nest& nest, const Kernel& kernel, const Schedule& schedule)
      : nest_(nest), kernel_(kernel), schedule_(schedule) {}

  void run() {
    visit(nest_.body, nullptr, nullptr);
    nest_.body.insert(nest_.body.begin(), std::make_move_iterator(front_.begin()),
                      std::make_move_iterator(front_.end()));
  }

 private:
  bool is_tile(const Sym& sym) {
    return std::any_of(nest_.tiles.begin(), nest_.tiles.end(), [&](const Tile& t) { return t.sym == sym; });
  }
  bool reads_tile(const Expr& expr) {
    bool found = false;
    walk(expr, [&](const Expr& e) {
      if (const auto* access = get_if<Access>(e)) found = found || is_tile(access->target);
      return !found;
    });
    return found;
  }

  /// The axis of an index as some operand or result tile of the contraction has it; else its range as it stands.
  TileAxis axis_of(const Contract& contract, const Sym& index) {
    for (const Sym& sym : {contract.dst, get_if<Access>(contract.a) ? get_if<Access>(contract.a)->target : Sym()})
      if (const Tile* tile = find_tile(nest_, sym))
        for (const TileAxis& axis : tile->axes)
          if (axis.index == index) return axis;
    for (const Range& range : contract.over)
      if (range.index == index)
        return {index, range.lo,
                integer_value(range.lo) == 0 ? range.hi
                                             : most(integer(0), simplify(link(LinkOp::sub, range.hi, range.lo)))};
    return {};
  }
  static Range range_of(const Contract& contract, const Sym& index) {
    for (const auto* list : {&contract.domain, &contract.over})
      for (const Range& range : *list)
        if (range.index == index) return range;
    return {};
  }

  Expr copy(const char* name, const Expr& what, const Contract& contract, const std::vector<Sym>& along, Block& block,
            const Expr& guard, Span span) {
    Tile made{Sym::fresh(name), DType::f32, {}, Scope::packed};
    Access read{made.sym, {}};
    Map fill{made.sym, {}, cast(what, type_f32), guard, real(0)};
    for (const Sym& sym : along) {
      made.axes.push_back(axis_of(contract, sym));
      fill.domain.push_back(range_of(contract, sym));
      read.subscripts.push_back(index(sym));
    }
    nest_.tiles.push_back(made);
    block.push_back({std::move(fill), span});
    return Expr(std::move(read), type_f32);
  }

  void row_side(Contract& contract, Block& before, const For* stream, Block* ahead, Span span) {
    if (const auto* access = get_if<Access>(contract.a); access && is_tile(access->target)) return;
    std::vector<Sym> along;
    for (const Range& range : contract.over)
      if (mentions(contract.a, range.index)) along.push_back(range.index);
    along.push_back(nest_.row);
    bool early = !reads_tile(contract.a);
    for (const Sym& sym : free_indices(contract.a))
      early = early && (sym == nest_.row || of_task(sym) || std::find(along.begin(), along.end(), sym) != along.end());
    // A row that sees nothing may lie outside of a tensor; it is not touched, so that it raises no flag.
    const bool guarded = early && stream && ahead && gathers(contract.a);
    const Rows wanted{contract.a, {}, guarded ? stream->blocks : Sym(), guarded ? stream->guard : Expr()};
    for (const Rows& known : rows_)
      if (known.operand == wanted.operand && known.along == wanted.along && !known.visible == !wanted.visible &&
          (!known.visible || known.visible == wanted.visible)) {
        contract.a = known.tile;
        return;
      }
    Block& place = guarded ? *ahead : early ? front_ : before;
    contract.a = copy("rows", contract.a, contract, along, place, guarded ? sees_something(*stream) : Expr(), span);
    if (early && (!guarded || at_top_)) rows_.push_back({wanted.operand, contract.a, wanted.along, wanted.visible});
  }

  /// Whether a row sees any element of a stream.
  Expr sees_something(const For& stream) const {
    const Expr some = compare(Relation::less, stream.lo, stream.hi);
    if (!stream.guard) return some;
    for (const Sym& sym : free_indices(stream.guard))
      if (!(sym == stream.blocks || sym == nest_.row || of_task(sym))) return some;
    const Expr row = index(nest_.row), last = simplify(link(LinkOp::sub, stream.hi, integer(1)));
    const TileAnalysis analysis({{nest_.row, {row, row, {}}}, {stream.blocks, {stream.lo, last, {}}}},
                                [&](const Expr& e) { return element(e, stream.blocks); });
    return simplify(link(LinkOp::both, some, analysis.may(stream.guard)));
  }
  /// What is read at the one element of the analysis as it stands, without `other`, which takes a range there.
  std::optional<Interval> element(const Expr& expr, const Sym& other) const {
    const auto& access = std::get<Access>(expr->kind);
    const Buffer* buffer = kernel_.find_buffer(access.target);
    if ((buffer && buffer->presence) || (other && mentions(expr, other))) return std::nullopt;
    for (const Expr& s : access.subscripts)
      if (!get_if<Index>(s)) return std::nullopt;
    return Interval{expr, expr, {}};
  }
  bool of_task(const Sym& sym) const {
    return std::any_of(nest_.grid.begin(), nest_.grid.end(), [&](const GridAxis& axis) { return axis.index == sym; });
  }

  /// Plain memory read at one element by indices as they stand: of f32, or of any float type where reads convert.
  bool plain(const Expr& expr) {
    const auto* access = get_if<Access>(expr);
    if (!access) return false;
    if (is_tile(access->target)) return true;
    const Buffer* buffer = kernel_.find_buffer(access->target);
    if (!buffer || buffer->presence) return false;
    if (schedule_.operands == Packing::direct ? !is_float(buffer->dtype) : buffer->dtype != DType::f32) return false;
    return std::all_of(access->subscripts.begin(), access->subscripts.end(),
                       [&](const Expr& s) { return get_if<Index>(s) || fixed(s); });
  }

  void streamed_side(Contract& contract, Block& before, std::vector<std::pair<Expr, Expr>>& panels, const For* stream,
                     Span span, bool& front) {
    if (const auto* access = get_if<Access>(contract.b); access && is_tile(access->target)) return;
    if (schedule_.operands != Packing::packed && plain(contract.b)) return;
    for (const auto& [known, tile] : panels)
      if (known == contract.b) {
        contract.b = tile;
        return;
      }
    std::vector<Sym> along;
    for (const Sym& sym : free_indices(contract.b))
      if (range_of(contract, sym).index) along.push_back(sym);
    // The axis that lies contiguously in memory is copied along; else the written order stands.
    if (const auto* access = get_if<Access>(contract.b))
      if (const Buffer* buffer = kernel_.find_buffer(access->target); buffer && buffer->unit_axis >= 0)
        if (const auto* direct = get_if<Index>(access->subscripts[static_cast<std::size_t>(buffer->unit_axis)]))
          std::stable_partition(along.begin(), along.end(), [&](const Sym& s) { return !(s == direct->index); });
    Expr guard;
    if (stream && stream->guard && gathers(contract.b) &&
        std::find(along.begin(), along.end(), stream->blocks) != along.end()) {
      // Only elements that some row can see are touched, so that an unused entry of a table raises no flag.
      std::unordered_map<Sym, Interval> ranges;
      if (nest_.row) {
        const GridAxis& rows = nest_.grid_axis_of_row();
        Expr start = index(rows.index);
        ranges[nest_.row] = {
            start,
            simplify(link(LinkOp::sub, least(link(LinkOp::add, start, rows.step), nest_.lane_limit), integer(1))),
            {}};
      }
      ranges[stream->blocks] = {index(stream->blocks), index(stream->blocks), {}};
      guard = TileAnalysis(ranges, [&](const Expr& e) { return element(e, nest_.row); }).may(stream->guard);
      if (get_if<Literal>(guard)) guard = {};
    }
    if (reads_tile(contract.b)) {
      // Depends on what this block computes: stays beside its reader.
      front = false;
    }
    Expr original = contract.b;
    contract.b = copy("panel", contract.b, contract, along, before, guard, span);
    panels.emplace_back(original, contract.b);
  }
  /// Whether a subscript is computed from anything but the task's own indices.
  bool gathers(const Expr& expr) const {
    bool found = false;
    walk(expr, [&](const Expr& e) {
      if (const auto* access = get_if<Access>(e))
        for (const Expr& s : access->subscripts) found = found || (!get_if<Index>(s) && !fixed(s));
      return !found;
    });
    return found;
  }
  bool fixed(const Expr& expr) const {
    for (const Sym& sym : free_indices(expr))
      if (!of_task(sym)) return false;
    bool reads = false;
    walk(expr, [&](const Expr& e) {
      reads = reads || get_if<Access>(e);
      return !reads;
    });
    return !reads;
  }

  /// `ahead` stands before the loop of `stream`; null where that is inside of another one.
  void visit(Block& block, const For* stream, Block* ahead) {
    std::vector<std::pair<Expr, Expr>> panels;
    for (std::size_t at = 0; at < block.size(); ++at) {
      if (auto* loop = std::get_if<For>(&block[at].kind)) {
        Block rows;
        const bool top = std::exchange(at_top_, at_top_ && &block == &nest_.body);
        visit(loop->body, loop->blocks ? loop : stream, stream ? nullptr : &rows);
        at_top_ = top;
        const std::size_t count = rows.size();
        block.insert(block.begin() + static_cast<std::ptrdiff_t>(at), std::make_move_iterator(rows.begin()),
                     std::make_move_iterator(rows.end()));
        at += count;
      } else if (auto* choice = std::get_if<If>(&block[at].kind)) {
        const bool top = std::exchange(at_top_, at_top_ && stream);  // of a loop that stands at the top itself
        visit(choice->then, stream, ahead);
        visit(choice->otherwise, stream, ahead);
        at_top_ = top;
      } else if (auto* contract = std::get_if<Contract>(&block[at].kind)) {
        Block before, panel;
        row_side(*contract, before, stream, ahead, block[at].span);
        bool front = true;
        streamed_side(*contract, panel, panels, stream, block[at].span, front);
        if (!front) {
          std::move(panel.begin(), panel.end(), std::back_inserter(before));
          panel.clear();
        }
        std::size_t count = before.size();
        block.insert(block.begin() + static_cast<std::ptrdiff_t>(at), std::make_move_iterator(before.begin()),
                     std::make_move_iterator(before.end()));
        // A panel reads memory alone, so it may stand first: the statements over rows then follow without a gap.
        at += count + panel.size();
        block.insert(block.begin(), std::make_move_iterator(panel.begin()), std::make_move_iterator(panel.end()));
      }
    }
  }

  loop::Nest& nest_;
  const Kernel& kernel_;
  const Schedule& schedule_;
  Block front_;
  /// Copies of operands on the row side that later loops can read too; those of rows that see something of a stream
  /// only along the same stream.
  struct Rows {
    Expr operand, tile;
    Sym along;
    Expr visible;
  };
  std::vector<Rows> rows_;
  bool at_top_ = true;  ///< the loop at hand stands in the nest's own body
};

}  // namespace

Kernel place(Kernel kernel, const Schedule& schedule) {
  for (Nest& nest : kernel.nests) Place(nest, kernel, schedule).run();
  return kernel;
}

}  // namespace attune::loop
