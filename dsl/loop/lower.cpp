// SPDX-License-Identifier: Apache-2.0
// Streams to statements: one task per block of rows, running values in tiles, one loop per sweep, contractions where a
// product separates, everything over symbolic tile sizes. Nothing is chosen here.
#include <algorithm>
#include <functional>
#include <limits>

#include "loop/lower_values.hpp"
#include "loop/passes.hpp"
#include "loop/rewrite.hpp"
#include "tensor/passes.hpp"

namespace attune::loop {

using namespace tensor;  // NOLINT: this file translates one IR into the other
using loop::Range;

const Sym& tile_m_symbol() {
  static const Sym sym = Sym::fresh("tile.m");
  return sym;
}
const Sym& tile_n_symbol() {
  static const Sym sym = Sym::fresh("tile.n");
  return sym;
}

namespace {

/// Outputs' extra indices run in grid blocks of this many, so that running values stay in the cache.
constexpr std::int64_t extra_block = 512;

Expr scalar(const Sym& sym) { return Expr(Scalar{sym}, type_i64); }

class LowerNest : NestValues {
 public:
  LowerNest(const tensor::Streams& streams, const tensor::Nest& source) : NestValues(streams), source_(source) {}

  loop::Nest run() {
    open_rows();
    for (const Phase& phase : source_.phases) lower_phase(phase);
    if (!source_.scan)
      for (const Output& output : source_.outputs) store(output, out_.body);
    return std::move(out_);
  }

 private:
  // ---- axes ------------------------------------------------------------------------------------
  void open_rows() {
    out_.name = source_.outputs.empty() ? "nest" : source_.outputs[0].target.text();
    std::vector<IndexRange> grid_rows;
    for (const IndexRange& range : source_.rows) {
      if (range.index == source_.row) continue;
      out_.grid.push_back({range.index, range.lo, range.hi, integer(1)});
    }
    for (const IndexRange& range : source_.rows) {
      if (!(range.index == source_.row)) continue;
      out_.row = range.index;
      out_.lane_limit = range.hi;
      Sym start = Sym::fresh(range.index.text() + "0");
      out_.row_axis = out_.grid.size();
      out_.grid.push_back({start, range.lo, range.hi, scalar(tile_m_symbol())});
      Expr base = index(start);
      axes_.push_back({range.index, base, scalar(tile_m_symbol()), base,
                       least(link(LinkOp::add, base, scalar(tile_m_symbol())), range.hi)});
    }
    for (std::size_t k = 0; k < source_.extras.size(); ++k) {
      const IndexRange& range = source_.extras[k];
      if (k + 1 < source_.extras.size()) {
        axes_.push_back({range.index, range.lo, range.hi, range.lo, range.hi});
        continue;
      }
      Sym start = Sym::fresh(range.index.text() + "0");
      extra_start_ = start;
      out_.grid.push_back({start, range.lo, range.hi, integer(extra_block)});
      Expr base = index(start);
      axes_.push_back({range.index, base, least(integer(extra_block), range.hi), base,
                       least(link(LinkOp::add, base, integer(extra_block)), range.hi)});
    }
  }

  // ---- sweeps ------------------------------------------------------------------------------------
  std::vector<Sym> axes_of(const State& state) const {
    std::vector<Sym> along = state.extras;
    if (out_.row) along.push_back(out_.row);
    return along;
  }

  /// Opens the loops of a sweep and returns the innermost body; `close` puts it in place.
  template <class Body>
  void sweep(const Phase& phase, Expr guard, Body&& fill) {
    std::vector<For> loops;
    std::size_t opened = axes_.size();
    for (std::size_t k = 0; k < phase.over.size(); ++k) {
      const IndexRange& r = phase.over[k];
      bool last = k + 1 == phase.over.size();
      Sym start = Sym::fresh(r.index.text() + "0");
      Expr step = last && !source_.scan ? scalar(tile_n_symbol()) : integer(1);
      Expr base = index(start);
      axes_.push_back({r.index, base, step, base, least(link(LinkOp::add, base, step), r.hi), true});
      For loop{
          start, r.lo, r.hi, step, ForKind::serial, "stream " + r.index.text(), {}, r.index, last ? guard : Expr{}};
      loops.push_back(std::move(loop));
    }
    Block body;
    step_ = &body;
    step_memo_.clear();
    fill(body);
    step_ = nullptr;
    step_memo_.clear();
    axes_.erase(axes_.begin() + static_cast<std::ptrdiff_t>(opened), axes_.end());
    for (std::size_t k = loops.size(); k-- > 0;) {
      loops[k].body = std::move(body);
      body.clear();
      body.push_back({std::move(loops[k]), {}});
    }
    for (Stmt& stmt : body) out_.body.push_back(std::move(stmt));
  }

  /// Whether something of the sweep is read at subscripts that are computed from its indices or the row: an element
  /// that nothing sees may lie outside of a tensor, and must not be touched.
  bool gathers_along(const Phase& phase) const {
    std::vector<Sym> along;
    for (const IndexRange& r : phase.over) along.push_back(r.index);
    if (out_.row) along.push_back(out_.row);
    bool found = false;
    // Conditions are evaluated in order for each element; only what they guard is read for whole blocks.
    const std::function<void(const Expr&)> look = [&](const Expr& part) {
      walk(part, [&](const Expr& e) {
        if (const auto* where = get_if<Where>(e)) {
          look(where->body);
          return false;
        }
        if (const auto* access = get_if<Access>(e))
          for (const Expr& s : access->subscripts) found = found || (!get_if<Index>(s) && mentions_any(s, along));
        return !found;
      });
    };
    for (const State& state : phase.states) look(state.direct_body);
    return found;
  }

  static bool contracts_state(const State& state) {
    return state.op == ReduceOp::sum && state.type.is_float() && !state.extras.empty();
  }

  void lower_phase(const Phase& phase) {
    for (const State& state : phase.states) {
      Tile made{state.sym,
                state.type.is_float()  ? DType::f32
                : state.type.is_bool() ? DType::boolean
                                       : DType::i64,
                {},
                Scope::stack};
      for (const Sym& sym : axes_of(state)) made.axes.push_back({sym, axis(sym)->base, axis(sym)->extent});
      out_.tiles.push_back(made);
      if (state.op == ReduceOp::argmax) {
        best_[state.sym] = make_best(state.sym.text() + ".best", state.body, axes_of(state), out_.body, state.span);
      }
      out_.body.push_back({Map{state.sym, domain(axes_of(state)), identity(state.op, state.type), {}, {}}, state.span});
    }
    // One guard for the sweep: what no state sees changes nothing.
    Expr guard = phase.states[0].guard;
    for (const State& state : phase.states) {
      if (!guard || !state.guard) {
        guard = {};
        break;
      }
      if (!(state.guard == guard)) guard = link(LinkOp::either, guard, state.guard);
    }
    for (const IndexRange& extra : source_.extras)
      if (guard && mentions(guard, extra.index)) guard = {};  // differs between elements of one step
    if (source_.scan || (guard && has_reduction(guard))) guard = {};
    std::vector<const State*> inexact;
    sweep(phase, guard, [&](Block& body) {
      for (const State& state : phase.states)
        if (step(phase, state, body)) inexact.push_back(&state);
      if (source_.scan)
        for (const Output& output : source_.outputs) store(output, body);
    });
    for (const State& state : phase.states) {
      if (state.hoisted.empty() && !state.condition) continue;
      auto list = state.hoisted;
      list.insert(list.begin(), {false, read(state.sym, axes_of(state), state.type)});
      Expr asked = value(product_of(list, state.type));
      if (state.condition)
        asked = Expr(Select{value(state.condition), asked, state.type.is_float() ? real(0) : integer(0)}, state.type);
      // An absent condition or factor leaves the empty sum.
      out_.body.push_back({Map{state.sym, domain(axes_of(state)), asked, {}, real(0)}, state.span});
    }
    if (!inexact.empty()) exact_path(phase, inexact, gathers_along(phase) ? guard : Expr());
  }

  /// The statements of one state in one step; returns whether a contraction multiplies masked weights by anything.
  bool step(const Phase& phase, const State& state, Block& body) {
    std::vector<Sym> along = axes_of(state);
    bool shifts = std::any_of(phase.states.begin(), phase.states.end(), [&](const State& other) {
      return std::any_of(other.repair.begin(), other.repair.end(), [&](const auto& r) { return r.first == state.sym; });
    });
    Expr current = read(state.sym, along, state.type);
    std::vector<Range> over;
    for (const IndexRange& r : phase.over) over.push_back(range(*axis(r.index)));
    Expr scale = repair(state, body);
    // Weights that several states share are computed once.
    if (contracts_state(state) && out_.row) {
      std::vector<Factor> row_side, other_side;
      bool separates = true;
      Expr guard = value(state.guard);
      for (const Factor& f : factors(state.body)) {
        bool extra = mentions_any(f.expr, state.extras);
        if (extra && mentions(f.expr, out_.row)) separates = false;
        (extra ? other_side : row_side).push_back(f);
      }
      separates = separates && !other_side.empty() && !(guard && mentions_any(guard, state.extras));
      if (separates) {
        Expr weight = weights(product_of(row_side, type_f32), guard, phase, body, state.span);
        Expr other = value(product_of(other_side, type_f32));
        body.push_back({Contract{state.sym, domain(along), over, weight, other, scale ? scale : real(1)}, state.span});
        return state.guard || !state.exponents.empty() || !state.hoisted.empty() || state.condition;
      }
    }
    Sym old;
    if (shifts) {
      old = make_tile(state.sym.text() + ".old", state.type, along);
      body.push_back({Map{old, domain(along), current, {}, {}}, state.span});
      old_[state.sym] = old;
    }
    if (scale) body.push_back({Map{state.sym, domain(along), link(LinkOp::mul, current, scale), {}, {}}, state.span});
    if (state.op == ReduceOp::sum && state.type.is_float() && state.extras.empty() && shared_weight(phase, state)) {
      Expr weight = weights(state.body, value(state.guard), phase, body, state.span);
      body.push_back({Accumulate{Op::sum, state.sym, {}, domain(along), over, weight, {}}, state.span});
      return false;
    }
    Expr what = value(state.body), guard = value(state.guard);
    if (state.op == ReduceOp::argmax)
      body.push_back(
          {Accumulate{Op::argmax, best_.at(state.sym), state.sym, domain(along), over, what, guard}, state.span});
    else
      body.push_back({Accumulate{op_of(state.op), state.sym, {}, domain(along), over, what, guard}, state.span});
    return false;
  }

  /// Whether a contraction of the phase has exactly this state's body and guard as its weights.
  bool shared_weight(const Phase& phase, const State& state) const {
    return out_.row && std::any_of(phase.states.begin(), phase.states.end(), [&](const State& other) {
             if (!contracts_state(other) ||
                 !((!other.guard && !state.guard) || (other.guard && state.guard && other.guard == state.guard)))
               return false;
             std::vector<Factor> row_side;
             for (const Factor& f : factors(other.body))
               if (!mentions_any(f.expr, other.extras)) row_side.push_back(f);
             return product_of(row_side, type_f32) == state.body;
           });
  }

  /// Weight 0 times a finite factor is 0, so only a sum that is not finite can be wrong: such a block of rows is done
  /// again element by element, with selects and over final values of the other states, where a hoisted sum that
  /// overflowed is repaired too. `visible` limits it to blocks that some row sees (or is null).
  void exact_path(const Phase& phase, const std::vector<const State*>& states, const Expr& visible) {
    Sym bad = make_tile("not_finite", type_bool, {});
    Expr flag(Access{bad, {}}, type_bool);
    out_.body.push_back({Map{bad, {}, boolean(false), {}, {}}, {}});
    for (const State* state : states) {
      Expr x = read(state->sym, axes_of(*state), type_f32);
      Expr finite = compare(Relation::equal, link(LinkOp::sub, x, x), real(0));
      out_.body.push_back(
          {Accumulate{Op::any, bad, {}, {}, domain(axes_of(*state)), unary(UnaryOp::logical_not, finite), {}},
           state->span});
    }
    Block outer = std::move(out_.body);
    out_.body.clear();
    for (const State* state : states)
      out_.body.push_back({Map{state->sym, domain(axes_of(*state)), real(0), {}, {}}, state->span});
    row_memo_.clear();
    sweep(phase, visible, [&](Block& body) {
      for (const State* state : states) {
        std::vector<Range> over;
        for (const IndexRange& r : phase.over) over.push_back(range(*axis(r.index)));
        std::vector<Expr> guard = conjuncts(state->direct_guard);
        for (const Expr& exponent : state->exponents)
          guard.push_back(compare(Relation::not_equal, exponent, real(-std::numeric_limits<double>::infinity())));
        std::vector<Expr> lowered;
        for (const Expr& g : guard) lowered.push_back(value(g));
        Expr what = value(state->direct_body);
        body.push_back({Accumulate{Op::sum, state->sym, {}, domain(axes_of(*state)), over, what, conjunction(lowered)},
                        state->span});
      }
    });
    row_memo_.clear();
    Block redo = std::move(out_.body);
    out_.body = std::move(outer);
    out_.body.push_back({If{flag, std::move(redo), {}}, {}});
  }

  // ---- outputs -----------------------------------------------------------------------------------
  void store(const Output& output, Block& block) {
    std::vector<Expr> subscripts;
    std::vector<Sym> along;
    for (const Sym& sym : output.indices) {
      subscripts.push_back(index(sym));
      if (axis(sym)) along.push_back(sym);
    }
    std::stable_partition(along.begin(), along.end(), [&](const Sym& s) { return !is_lane(s); });
    Expr what = empty_in_type(output, value(output.value));
    Stmt made{Store{output.target, subscripts, domain(along), what}, {}};
    bool covers = !extra_start_ || std::find(output.indices.begin(), output.indices.end(),
                                             source_.extras.back().index) != output.indices.end();
    if (covers) {
      block.push_back(std::move(made));
    } else {
      // Blocks of the extra index share this output; the first one stores it.
      block.push_back(
          {If{compare(Relation::equal, index(extra_start_), source_.extras.back().lo), {std::move(made)}, {}}, {}});
    }
  }

  /// A maximum (minimum) over nothing that is the whole of an integer result is that type's smallest (largest) value,
  /// and not the 64-bit one that would wrap.
  Expr empty_in_type(const Output& output, const Expr& what) const {
    const auto* read = get_if<Access>(output.value);
    if (!read || !what->type.is_integer()) return what;
    for (const Phase& phase : source_.phases)
      for (const State& state : phase.states)
        for (const Tensor& result : streams_.program.results) {
          if (!(state.sym == read->target && result.sym == output.target)) continue;
          const bool max = state.op == ReduceOp::max;
          if ((!max && state.op != ReduceOp::min) || !result.type.is_integer() || result.type.dtype == DType::i64)
            return what;
          const bool is_unsigned = result.type.dtype == DType::u8;
          const std::int64_t half = std::int64_t{1} << (8 * size_of(result.type.dtype) - (is_unsigned ? 0 : 1));
          const std::int64_t in_type = max ? (is_unsigned ? 0 : -half) : half - 1;
          return Expr(Select{compare(Relation::equal, what, identity(state.op, type_i64)), integer(in_type), what},
                      type_i64);
        }
    return what;
  }

  const tensor::Nest& source_;
  Sym extra_start_;
};

}  // namespace

Kernel lower(const tensor::Streams& streams) {
  Kernel kernel;
  const tensor::Program& program = streams.program;
  kernel.name = program.name;
  kernel.dims = program.dims;
  for (const ScalarParam& param : program.scalars) {
    kernel.scalars.push_back(param.sym);
    kernel.scalar_types.push_back(param.type);
  }
  for (const Tensor& tensor : program.tensors) {
    auto temporary = std::find_if(streams.temporaries.begin(), streams.temporaries.end(),
                                  [&](const Temporary& t) { return t.sym == tensor.sym; });
    Buffer buffer{tensor.sym, tensor.type.dtype, tensor.extents, loop::Role::input, {}, -1, ""};
    if (temporary != streams.temporaries.end()) {
      buffer.role = loop::Role::temporary;
      buffer.presence = temporary->presence;
      buffer.why = temporary->reason;
    }
    kernel.buffers.push_back(buffer);
    if (buffer.presence)
      kernel.buffers.push_back({buffer.presence,
                                DType::boolean,
                                tensor.extents,
                                loop::Role::temporary,
                                {},
                                -1,
                                "presence of " + tensor.sym.text()});
  }
  for (const Tensor& result : program.results)
    kernel.buffers.push_back({result.sym, result.type.dtype, result.extents, loop::Role::result, {}, -1, ""});
  for (const tensor::Nest& nest : streams.nests) kernel.nests.push_back(LowerNest(streams, nest).run());
  return kernel;
}

}  // namespace attune::loop
