// SPDX-License-Identifier: Apache-2.0
// Accumulate over the lane index into tiles without it: vectors run along the lanes of each block, and their elements
// are combined at the end.
#include <limits>

#include "backend/cpu/emit.hpp"

namespace attune::cpu {

using tensor::get_if;

namespace {

const loop::Range* lanes_of(const std::vector<loop::Range>& ranges, const Sym& lane) {
  for (const loop::Range& range : ranges)
    if (range.index == lane) return &range;
  return nullptr;
}

}  // namespace

/// One reduction over the lane index whose order is free, from the start of a block in every tile that it reads.
bool Emitter::reduces_lanes(const Sweep& sweep) const {
  const auto* accumulate = std::get_if<loop::Accumulate>(&sweep.stmts[0]->kind);
  if (!nest_.lane || lane_width_ == 1 || !accumulate || accumulate->op == loop::Op::argmax) return false;
  const loop::Range* lanes = lanes_of(accumulate->over, nest_.lane);
  if (!lanes) return false;
  bool good = true;
  for (const Expr& expr : {accumulate->value, accumulate->guard})
    tensor::walk(expr, [&](const Expr& e) {
      const auto* access = get_if<tensor::Access>(e);
      if (!access) return good;
      const auto tile = tiles_.find(access->target);
      if (tile == tiles_.end() || tile->second.lane_axis < 0) return good;
      good = good && tile->second.tile->axes[static_cast<std::size_t>(tile->second.lane_axis)].base == lanes->lo;
      return good;
    });
  return good;
}

void Emitter::sweep_across_lanes(const Sweep& sweep, std::size_t depth) {
  if (depth < sweep.reduce_from) {
    std::vector<V> none;
    open_range(sweep.loops[depth], none, sweep_writes(sweep, true));
    sweep_across_lanes(sweep, depth + 1);
    unbind(sweep.loops[depth]);
    close_loop({});
    return;
  }
  const auto& accumulate = std::get<loop::Accumulate>(sweep.stmts[0]->kind);
  const loop::Range lanes = *lanes_of(accumulate.over, nest_.lane);
  enter_uniform();
  const V old = own_bits(accumulate.dst);
  V neutral;
  const bool floats = old.kind == Kind::f32;
  const auto extreme = [&](bool lowest) {
    using Whole = std::numeric_limits<std::int64_t>;
    constexpr float infinity = std::numeric_limits<float>::infinity();
    return floats ? real(lowest ? -infinity : infinity) : integer(lowest ? Whole::min() : Whole::max());
  };
  switch (accumulate.op) {
    case loop::Op::sum: neutral = floats ? real(0) : integer(0); break;
    case loop::Op::prod: neutral = floats ? real(1) : integer(1); break;
    case loop::Op::any: neutral = truth(false); break;
    case loop::Op::all: neutral = truth(true); break;
    default: neutral = extreme(accumulate.op != loop::Op::min);
  }
  int copies = copies_for(sweep);
  std::vector<V> state(static_cast<std::size_t>(copies), splat(neutral, lane_width_));
  // Blocks of lanes outside, then the groups of a block, then whatever else is reduced.
  proofs_.ranges[lanes.index] = lanes;
  const V block = open_loop(uniform(lanes.lo), uniform(lanes.hi), integer(nest_.lanes), state, {});
  const int step = copies * lane_width_;
  const bool grouped = step != nest_.lanes;
  const V group = grouped ? open_loop(integer(0), integer(nest_.lanes), integer(step), state, {}) : integer(0);
  lane_lo_ = block;
  lane_block_ = true;
  copies_.clear();
  for (int copy = 0; copy < copies; ++copy) {
    const V relative = add(group, integer(copy * lane_width_));
    enter_vector(nest_.lane, add(block, relative), lane_width_, relative);
    copies_.push_back(env_);
  }
  state = across_lanes_loops(sweep, lanes, sweep.reduce_from, std::move(state));
  if (grouped) state = close_loop(state);
  state = close_loop(state);
  lane_block_ = false;
  unbind(lanes);
  enter_uniform();
  V vector = state[0];
  for (int copy = 1; copy < copies; ++copy)
    vector = combine(accumulate.op, vector, state[static_cast<std::size_t>(copy)]);
  V result = old;
  for (int k = 0; k < lane_width_; ++k) result = combine(accumulate.op, result, lane(vector, k));
  write_tile(accumulate.dst, result);
  wrote(accumulate.dst);
}

std::vector<V> Emitter::across_lanes_loops(const Sweep& sweep, const loop::Range& lanes, std::size_t depth,
                                           std::vector<V> state) {
  if (depth < sweep.loops.size()) {
    const loop::Range& range = sweep.loops[depth];
    if (range.index == lanes.index) return across_lanes_loops(sweep, lanes, depth + 1, std::move(state));
    open_range(range, state, {});
    std::vector<V> next = across_lanes_loops(sweep, lanes, depth + 1, std::move(state));
    unbind(range);
    return close_loop(next);
  }
  const auto& accumulate = std::get<loop::Accumulate>(sweep.stmts[0]->kind);
  renew_copies();
  for (std::size_t copy = 0; copy < copies_.size(); ++copy) {
    env_ = copies_[copy];
    const V inside = mask_below(sub(uniform(lanes.hi), env_.base));
    Flag raised = flag(accumulate.guard);
    if (const Flag inner = flag(accumulate.value))
      raised = any(raised, accumulate.guard ? within(inner, value(accumulate.guard).v) : inner);
    raise(within(raised, inside));
    V held[2] = {state[copy], {}};
    accumulate_element(accumulate, held, inside);
    state[copy] = held[0];
  }
  return state;
}

}  // namespace attune::cpu
