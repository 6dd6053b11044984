// SPDX-License-Identifier: Apache-2.0
// Map and Accumulate: lane vectors outside (a few at once), the other axes inside, running values of reductions in
// registers. Neighbouring statements over one domain share a sweep, so that an intermediate element stays in a
// register.
#include <algorithm>
#include <limits>

#include "backend/cpu/emit.hpp"

namespace attune::cpu {

using tensor::get_if;

int cost(const Expr& expr) {
  int total = 0;
  tensor::walk(expr, [&](const Expr& e) {
    ++total;
    if (const auto* unary = get_if<tensor::Unary>(e))
      if (unary->op != tensor::UnaryOp::negate && unary->op != tensor::UnaryOp::abs &&
          unary->op != tensor::UnaryOp::logical_not)
        total += 16;
    if (get_if<tensor::Power>(e)) total += 40;
    if (get_if<tensor::Random>(e)) total += 80;
    return true;
  });
  return total;
}

namespace {

std::vector<Expr> expressions(const loop::Stmt& stmt) {
  std::vector<Expr> found;
  const auto take = [&](const Expr& expr) {
    if (expr) found.push_back(expr);
  };
  if (const auto* map = std::get_if<loop::Map>(&stmt.kind)) {
    take(map->value), take(map->guard), take(map->fill);
  } else if (const auto* accumulate = std::get_if<loop::Accumulate>(&stmt.kind)) {
    take(accumulate->value), take(accumulate->guard);
  }
  return found;
}

enum class Reads : std::uint8_t { nothing, own_element, anything };

/// What a statement reads of a tile.
Reads reads(const loop::Stmt& stmt, const loop::Tile& tile) {
  Reads result = Reads::nothing;
  for (const Expr& expr : expressions(stmt))
    tensor::walk(expr, [&](const Expr& e) {
      const auto* access = get_if<tensor::Access>(e);
      if (!access || !(access->target == tile.sym)) return true;
      if (result == Reads::nothing) result = Reads::own_element;
      for (std::size_t k = 0; k < access->subscripts.size() && k < tile.axes.size(); ++k) {
        const auto* index = get_if<tensor::Index>(access->subscripts[k]);
        if (!index || !(index->index == tile.axes[k].index)) result = Reads::anything;
      }
      return true;
    });
  return result;
}

std::vector<Sym> destinations(const loop::Stmt& stmt) {
  if (const auto* map = std::get_if<loop::Map>(&stmt.kind)) return {map->dst};
  const auto& accumulate = std::get<loop::Accumulate>(stmt.kind);
  return accumulate.dst_index ? std::vector<Sym>{accumulate.dst, accumulate.dst_index}
                              : std::vector<Sym>{accumulate.dst};
}

bool same(const loop::Range& a, const loop::Range& b) { return a.index == b.index && a.lo == b.lo && a.hi == b.hi; }

}  // namespace

Emitter::Sweep Emitter::sweep_of(const loop::Stmt& stmt) const {
  Sweep sweep;
  sweep.stmts.push_back(&stmt);
  const auto* map = std::get_if<loop::Map>(&stmt.kind);
  const auto* accumulate = std::get_if<loop::Accumulate>(&stmt.kind);
  const auto& domain = map ? map->domain : accumulate->domain;
  sweep.lane = lane_range(domain);
  for (const loop::Range& range : domain)
    if (&range != sweep.lane) sweep.loops.push_back(range);
  sweep.reduce_from = sweep.loops.size();
  sweep.reduces = accumulate != nullptr;
  if (accumulate) sweep.loops.insert(sweep.loops.end(), accumulate->over.begin(), accumulate->over.end());
  for (const Sym& dst : destinations(stmt))
    if (!tiles_.count(dst)) throw Malformed{"`" + dst.text() + "` is no tile of the nest", stmt.span};
  return sweep;
}

/// Takes a statement into the sweep where each element only depends on the same element of the statements before.
bool Emitter::join(Sweep& sweep, const loop::Stmt& stmt) const {
  if (!sweep.lane) return false;
  if (!std::holds_alternative<loop::Map>(stmt.kind) && !std::holds_alternative<loop::Accumulate>(stmt.kind))
    return false;
  const Sweep next = sweep_of(stmt);
  if (!next.lane || !same(*sweep.lane, *next.lane) || sweep.loops.size() != next.loops.size()) return false;
  for (std::size_t k = 0; k < next.loops.size(); ++k)
    if (!same(sweep.loops[k], next.loops[k])) return false;
  if (sweep.reduces && next.reduces && sweep.reduce_from != next.reduce_from) return false;
  const std::vector<Sym> made = destinations(stmt);
  for (const loop::Stmt* before : sweep.stmts) {
    const bool maps = std::holds_alternative<loop::Map>(before->kind);
    for (const Sym& dst : destinations(*before)) {
      if (std::find(made.begin(), made.end(), dst) != made.end()) return false;
      const Reads use = reads(stmt, *tiles_.at(dst).tile);
      if (use == Reads::anything || (use == Reads::own_element && !maps)) return false;
    }
    for (const Sym& dst : made)
      if (reads(*before, *tiles_.at(dst).tile) == Reads::anything) return false;
  }
  sweep.stmts.push_back(&stmt);
  if (next.reduces && !sweep.reduces) {
    sweep.reduces = true;
    sweep.reduce_from = next.reduce_from;
  }
  return true;
}

/// Vectors that one loop body handles: enough to hide latencies, bounded by the size of the code.
int Emitter::copies_for(const Sweep& sweep) const {
  const int vectors = static_cast<int>(nest_.lanes) / lane_width_;
  int work = 1;
  for (const loop::Stmt* stmt : sweep.stmts)
    for (const Expr& expr : expressions(*stmt)) work += cost(expr);
  // A read that is not contiguous along the vector is one load for each element.
  for (const loop::Stmt* stmt : sweep.stmts)
    for (const Expr& expr : expressions(*stmt))
      tensor::walk(expr, [&](const Expr& e) {
        const auto* access = get_if<tensor::Access>(e);
        const loop::Buffer* buffer = access ? kernel_.find_buffer(access->target) : nullptr;
        for (std::size_t k = 0; buffer && k < access->subscripts.size(); ++k)
          if (depends_on(access->subscripts[k], nest_.lane) && buffer->unit_axis != static_cast<std::int64_t>(k))
            work += 100;
        return true;
      });
  // Where nothing loops inside, there is little to gain from a long body.
  if (rare_ || guarded_ || (sweep.loops.empty() && work > 30)) return 1;
  int copies = std::min(vectors, 4);
  while (copies > 1 && (vectors % copies != 0 || copies * work > 260)) --copies;
  return copies;
}

std::vector<Sym> Emitter::sweep_writes(const Sweep& sweep, bool accumulators) const {
  std::vector<Sym> found;
  for (const loop::Stmt* stmt : sweep.stmts)
    if (accumulators || std::holds_alternative<loop::Map>(stmt->kind))
      for (const Sym& dst : destinations(*stmt)) found.push_back(dst);
  return found;
}

void Emitter::emit(const Sweep& sweep) {
  open_scope();
  if (!sweep.lane) {
    copies_.assign(1, env_);
    forwarded_.assign(1, {});
    const auto* map = std::get_if<loop::Map>(&sweep.stmts[0]->kind);
    const auto* tile = map ? tiles_.at(map->dst).tile : nullptr;
    if (map && !sweep.loops.empty() && target_.vector_lanes > 1 && !tile->axes.empty() &&
        tile->axes.back().index == sweep.loops.back().index)
      sweep_last_axis(sweep, 0);
    else if (reduces_lanes(sweep))
      sweep_across_lanes(sweep, 0);
    else
      sweep_outer(sweep, 0);
  } else if (packs_by_blocks(sweep)) {
    pack_by_blocks(sweep, 0);
  } else {
    lane_lo_ = uniform(sweep.lane->lo);
    lane_block_ = true;
    proofs_.ranges[sweep.lane->index] = *sweep.lane;
    const int copies = lane_width_ == 1 ? 1 : copies_for(sweep);
    const int step = copies * lane_width_;
    if (step == nest_.lanes) {
      sweep_lanes(sweep, integer(0), copies);
    } else {
      std::vector<V> none;
      const V group = open_loop(integer(0), integer(nest_.lanes), integer(step), none, sweep_writes(sweep, true));
      sweep_lanes(sweep, group, copies);
      close_loop({});
    }
    lane_block_ = false;
    unbind(*sweep.lane);
  }
  copy_ = -1;
  forwarded_.clear();
  enter_uniform();
  close_scope();
}

void Emitter::sweep_lanes(const Sweep& sweep, const V& group, int copies) {
  copies_.clear();
  forwarded_.assign(static_cast<std::size_t>(copies), {});
  for (int copy = 0; copy < copies; ++copy) {
    const V relative = add(group, integer(copy * lane_width_));
    if (lane_width_ == 1) {
      indices_[nest_.lane] = add(lane_lo_, relative);
      enter_uniform();
    } else {
      enter_vector(nest_.lane, add(lane_lo_, relative), lane_width_, relative);
    }
    copies_.push_back(env_);
  }
  sweep_outer(sweep, 0);
}

/// Tiles without lanes: vectors along the last axis, the rest element by element.
void Emitter::sweep_last_axis(const Sweep& sweep, std::size_t depth) {
  std::vector<V> none;
  const loop::Range& range = sweep.loops[depth];
  const std::vector<Sym> writes = sweep_writes(sweep, true);
  if (depth + 1 < sweep.loops.size()) {
    open_range(range, none, writes);
    sweep_last_axis(sweep, depth + 1);
    unbind(range);
    close_loop({});
    return;
  }
  const int width = target_.vector_lanes;
  const V lo = uniform(range.lo), hi = uniform(range.hi), end = blocked_end(lo, hi, width);
  proofs_.ranges[range.index] = range;
  const V base = open_loop(lo, end, integer(width), none, writes);
  enter_vector(range.index, base, width, integer(0));
  copies_.assign(1, env_);
  sweep_body(sweep, {});
  close_loop({});
  enter_uniform();
  const V index = open_loop(end, hi, integer(1), none, writes);
  indices_[range.index] = index;
  copies_.assign(1, env_);
  forwarded_.assign(1, {});
  sweep_body(sweep, {});
  unbind(range);
  close_loop({});
}

void Emitter::enter_copy(int copy) {
  copy_ = copy;
  env_ = copies_[static_cast<std::size_t>(copy)];
}

void Emitter::renew_copies() {
  for (Env& env : copies_) {
    env.id = ++next_env_;
    env.first_id = ++next_env_;
  }
}

/// The stored form of the element in hand of a tile.
V Emitter::own_bits(const Sym& sym) {
  const TileInfo& info = tiles_.at(sym);
  std::vector<Expr> subscripts;
  for (const loop::TileAxis& axis : info.tile->axes) subscripts.push_back(tensor::index(axis.index));
  const Env saved = env_;
  renew();  // these nodes go away, and the memo must not find them again
  const Address address = tile_address(info, subscripts);
  env_ = saved;
  const DType dtype = info.tile->dtype;
  const Kind kind = dtype == DType::f32 ? Kind::f32 : dtype == DType::i64 ? Kind::i64 : Kind::i8;
  const std::int64_t size = static_cast<std::int64_t>(size_of(dtype));
  const bool aligned = info.lane_axis >= 0 && env_.width > 1 && env_.vector == nest_.lane;
  V bits = fetch(address, tile_base(sym), kind, aligned ? size * env_.width : size, std::nullopt, false, sym);
  return is_bool(dtype) ? convert_in(dtype, bits) : bits;
}

/// Loops that no accumulator runs through, then the accumulators' loops between their load and their store.
void Emitter::sweep_outer(const Sweep& sweep, std::size_t depth) {
  if (depth < sweep.reduce_from) {
    std::vector<V> none;
    const loop::Range& range = sweep.loops[depth];
    open_range(range, none, sweep_writes(sweep, true));
    sweep_outer(sweep, depth + 1);
    unbind(range);
    close_loop({});
    return;
  }
  std::vector<V> state;
  std::vector<Sym> held;
  for (const loop::Stmt* stmt : sweep.stmts)
    if (std::holds_alternative<loop::Accumulate>(stmt->kind))
      for (const Sym& dst : destinations(*stmt)) held.push_back(dst);
  const int copies = static_cast<int>(copies_.size());
  for (const Sym& dst : held)
    for (int copy = 0; copy < copies; ++copy) {
      enter_copy(copy);
      state.push_back(own_bits(dst));
    }
  state = sweep_inner(sweep, depth, std::move(state));
  std::size_t at = 0;
  for (const Sym& dst : held) {
    for (int copy = 0; copy < copies; ++copy) {
      enter_copy(copy);
      write_tile(dst, state[at++]);
    }
    wrote(dst);
  }
}

std::vector<V> Emitter::sweep_inner(const Sweep& sweep, std::size_t depth, std::vector<V> state) {
  if (depth == sweep.loops.size()) return sweep_body(sweep, std::move(state));
  const loop::Range& range = sweep.loops[depth];
  open_range(range, state, sweep_writes(sweep, false));
  std::vector<V> next = sweep_inner(sweep, depth + 1, std::move(state));
  unbind(range);
  return close_loop(next);
}

std::vector<V> Emitter::sweep_body(const Sweep& sweep, std::vector<V> state) {
  const int copies = static_cast<int>(copies_.size());
  renew_copies();
  std::size_t at = 0;
  for (const loop::Stmt* stmt : sweep.stmts) {
    if (const auto* map = std::get_if<loop::Map>(&stmt->kind)) {
      for (int copy = 0; copy < copies; ++copy) {
        enter_copy(copy);
        map_element(*map);
      }
      wrote(map->dst);
      renew_copies();
      continue;
    }
    const auto& accumulate = std::get<loop::Accumulate>(stmt->kind);
    const std::size_t parts = destinations(*stmt).size(), stride = static_cast<std::size_t>(copies);
    for (int copy = 0; copy < copies; ++copy) {
      enter_copy(copy);
      V held[2] = {state[at + static_cast<std::size_t>(copy)], {}};
      if (parts > 1) held[1] = state[at + stride + static_cast<std::size_t>(copy)];
      raise(accumulate.guard, accumulate.value);
      accumulate_element(accumulate, held, std::nullopt);
      state[at + static_cast<std::size_t>(copy)] = held[0];
      if (parts > 1) state[at + stride + static_cast<std::size_t>(copy)] = held[1];
    }
    at += parts * stride;
  }
  return state;
}

void Emitter::map_element(const loop::Map& map) {
  raise(map.guard, map.value);
  Value result = value(map.value);
  const Mask active = both(map.guard ? Mask(value(map.guard).v) : Mask{}, result.present);
  if (active) {
    V other;
    if (map.fill) {
      raise(within(flag(map.fill), lnot(*active)));
      other = value(map.fill).v;
    } else {
      other = convert_in(tiles_.at(map.dst).tile->dtype == DType::i64 ? DType::i64 : DType::f32, own_bits(map.dst));
    }
    result.v = select(*active, result.v, other);
  }
  write_tile(map.dst, result.v);
  forwarded_[static_cast<std::size_t>(copy_)][map.dst] = {result.v, {}};
}

/// Accumulators are as wide as the vector, and integers in them are i64.
V Emitter::accumulator_form(const V& x) {
  if (x.kind == Kind::i64 && x.width < env_.width) return splat(x, env_.width);
  if (x.kind == Kind::i32)
    return define("sext " + x.type() + " " + x.s + " to " + type_text(Kind::i64, x.width), Kind::i64, x.width, x.level);
  return splat(x, env_.width);
}

V Emitter::combine(loop::Op op, const V& best, const V& x) {
  using loop::Op;
  const bool floats = x.kind == Kind::f32;
  switch (op) {
    case Op::sum: return binary(floats ? "fadd contract" : "add", best, x);
    case Op::prod: return binary(floats ? "fmul" : "mul", best, x);
    case Op::max:
    case Op::max_any: return floats ? larger(best, x, op == Op::max) : maximum(best, x);
    case Op::min: return floats ? smaller(best, x) : minimum(best, x);
    case Op::any: return lor(best, x);
    case Op::all: return land(best, x);
    case Op::argmax: break;
  }
  throw Malformed{"an accumulation that two values do not combine", {}};
}

/// Takes one element in, where `inside`, the guard and its presence allow.
void Emitter::accumulate_element(const loop::Accumulate& accumulate, V* state, const Mask& inside) {
  using loop::Op;
  const Value next = value(accumulate.value);
  const Mask active = both(inside, both(accumulate.guard ? Mask(value(accumulate.guard).v) : Mask{}, next.present));
  V& best = state[0];
  V x = accumulator_form(next.v);
  const bool floats = x.kind == Kind::f32;
  if (accumulate.op != Op::argmax) {
    if (active) {
      const auto otherwise = [&](const V& neutral) { x = select(*active, x, splat(neutral, env_.width)); };
      switch (accumulate.op) {
        case Op::sum: otherwise(floats ? real(0) : integer(0)); break;
        case Op::prod: otherwise(floats ? real(1) : integer(1)); break;
        case Op::any: x = land(*active, x); break;
        case Op::all: x = lor(lnot(*active), x); break;
        default: x = select(*active, x, best);
      }
    }
    best = combine(accumulate.op, best, x);
    return;
  }
  // A NaN wins over all before; a best value of nobody (index -1) gives way to anything present.
  V better = compare(floats ? "fcmp ogt" : "icmp sgt", x, best);
  const V lowest = floats ? splat(real(-std::numeric_limits<float>::infinity()), env_.width)
                          : splat(integer(std::numeric_limits<std::int64_t>::min()), env_.width);
  const V fresh = land(compare("icmp eq", state[1], splat(integer(-1), env_.width)),
                       compare(floats ? "fcmp oeq" : "icmp eq", best, lowest));
  better = lor(better, fresh);
  if (floats) {
    better = lor(better, compare("fcmp uno", x, x));
    better = land(better, compare("fcmp ord", best, best));
  }
  if (active) better = land(better, *active);
  const V place = accumulator_form(value(tensor::index(accumulate.over[0].index)).v);
  best = select(better, x, best);
  state[1] = select(better, place, state[1]);
}

}  // namespace attune::cpu
