// SPDX-License-Identifier: Apache-2.0
// Contract: a register tile of rows x lane vectors, one loop over the contracted index without unrolling. Operand a is
// read as vectors from the lane tile, b as one value per row that is broadcast.
#include <algorithm>

#include "backend/cpu/emit.hpp"

namespace attune::cpu {

using tensor::get_if;

void Emitter::emit(const loop::Contract& contract) {
  const loop::Range* lane = lane_range(contract.domain);
  const auto dst = tiles_.find(contract.dst);
  if (dst == tiles_.end()) throw Malformed{"`" + contract.dst.text() + "` is no tile of the nest", {}};
  if (contract.over.empty()) throw Malformed{"a contraction over nothing", {}};
  if (!lane || lane_width_ == 1 || dst->second.lane_axis < 0) return contract_by_sweeps(contract);
  const loop::Range* row = nullptr;
  for (const loop::Range& range : contract.domain)
    if (&range != lane && depends_on(contract.b, range.index)) row = &range;
  std::vector<const loop::Range*> others;
  for (const loop::Range& range : contract.domain)
    if (&range != lane && &range != row) others.push_back(&range);
  // rows x copies accumulators, a vector of a for each copy, and one broadcast value of b.
  const int registers = std::max(target_.vector_registers, 8), vectors = static_cast<int>(nest_.lanes) / lane_width_;
  const int rows = row && !rare_ ? std::clamp<int>(static_cast<int>(kernel_.schedule.unit_rows), 1, registers - 2) : 1;
  int copies = rare_ ? 1 : vectors;
  while (copies > 1 && (vectors % copies != 0 || (rows + 1) * copies + 1 > registers)) --copies;
  open_scope();
  lane_lo_ = uniform(lane->lo);
  lane_block_ = true;
  proofs_.ranges[lane->index] = *lane;
  const Micro micro{&contract, row, rows, copies};
  const int step = copies * lane_width_;
  std::vector<V> none;
  const bool grouped = step != nest_.lanes;
  const V group =
      grouped ? open_loop(integer(0), integer(nest_.lanes), integer(step), none, {contract.dst}) : integer(0);
  copies_.clear();
  for (int copy = 0; copy < copies; ++copy) {
    const V relative = add(group, integer(copy * lane_width_));
    enter_vector(nest_.lane, add(lane_lo_, relative), lane_width_, relative);
    copies_.push_back(env_);
  }
  copy_ = -1;
  contract_others(micro, others, 0);
  if (grouped) close_loop({});
  lane_block_ = false;
  unbind(*lane);
  enter_uniform();
  close_scope();
}

/// Without lanes, or with lanes that no vector divides: start values, then a plain sum.
void Emitter::contract_by_sweeps(const loop::Contract& contract) {
  tensor::Access old{contract.dst, {}};
  for (const loop::TileAxis& axis : tiles_.at(contract.dst).tile->axes)
    old.subscripts.push_back(tensor::index(axis.index));
  const Expr start = contract.scale
                         ? tensor::link(tensor::LinkOp::mul, Expr(std::move(old), tensor::type_f32), contract.scale)
                         : tensor::real(0);
  emit(loop::Block{{loop::Map{contract.dst, contract.domain, start, {}, {}}, {}},
                   {loop::Accumulate{loop::Op::sum,
                                     contract.dst,
                                     {},
                                     contract.domain,
                                     contract.over,
                                     tensor::link(tensor::LinkOp::mul, contract.a, contract.b),
                                     {}},
                    {}}});
}

void Emitter::contract_others(const Micro& micro, const std::vector<const loop::Range*>& others, std::size_t depth) {
  std::vector<V> none;
  const std::vector<Sym> writes{micro.contract->dst};
  if (depth < others.size()) {
    open_range(*others[depth], none, writes);
    contract_others(micro, others, depth + 1);
    unbind(*others[depth]);
    close_loop({});
    return;
  }
  if (!micro.row) {
    contract_tile(micro, integer(0));
    return;
  }
  const V lo = uniform(micro.row->lo), hi = uniform(micro.row->hi), end = blocked_end(lo, hi, micro.rows);
  const auto rows = [&](const V& from, const V& to, int count) {
    const V first = open_loop(from, to, integer(count), none, writes);
    bind(*micro.row, first);
    Micro part = micro;
    part.rows = count;
    contract_tile(part, first);
    unbind(*micro.row);
    close_loop({});
  };
  rows(lo, end, micro.rows);
  if (micro.rows > 1) rows(end, hi, 1);
}

V Emitter::multiply_add(const V& a, const V& b, const V& c) {
  if (target_.isa != Isa::generic)
    return call("llvm.fma.v" + std::to_string(c.width) + "f32", Kind::f32, c.width, {a, b, c});
  return binary("fadd contract", binary("fmul contract", a, b), c);
}

/// One register tile: start values, all products, stores. `state` is row by row, the copies of each together.
void Emitter::contract_tile(const Micro& micro, const V& first) {
  const loop::Contract& contract = *micro.contract;
  const TileInfo& info = tiles_.at(contract.dst);
  renew_copies();
  V row_stride = integer(0);
  std::vector<Expr> subscripts;
  const std::vector<V> strides = tile_strides(info);
  for (std::size_t k = 0; k < info.tile->axes.size(); ++k) {
    subscripts.push_back(tensor::index(info.tile->axes[k].index));
    if (micro.row && info.tile->axes[k].index == micro.row->index) row_stride = strides[k];
  }
  const std::int64_t align = 4 * lane_width_;
  const V base = tile_base(contract.dst);
  env_ = copies_[0];
  const V corner = opaque(element_pointer(base, Kind::f32, tile_address(info, subscripts).first));
  std::vector<V> places, state;
  for (int row = 0; row < micro.rows; ++row)
    for (int copy = 0; copy < micro.copies; ++copy) {
      env_ = copies_[static_cast<std::size_t>(copy)];
      const V place = element_pointer(element_pointer(corner, Kind::f32, mul(integer(row), row_stride)), Kind::f32,
                                      integer(copy * lane_width_));
      places.push_back(place);
      if (contract.scale)
        state.push_back(binary("fmul", load(place, Kind::f32, lane_width_, align, contract.dst),
                               splat(value(contract.scale).v, lane_width_)));
      else
        state.push_back({"zeroinitializer", Kind::f32, lane_width_, 0, {}, {}});
    }
  state = contract_over(micro, first, 0, std::move(state));
  for (std::size_t k = 0; k < places.size(); ++k) store(state[k], places[k], align);
  wrote(contract.dst);
}

std::vector<V> Emitter::contract_over(const Micro& micro, const V& first, std::size_t depth, std::vector<V> state) {
  if (depth + 1 == micro.contract->over.size()) return contract_kernel(micro, first, std::move(state));
  const loop::Range& range = micro.contract->over[depth];
  env_ = copies_[0];
  open_range(range, state, {});
  std::vector<V> next = contract_over(micro, first, depth + 1, std::move(state));
  unbind(range);
  return close_loop(next);
}

std::vector<V> Emitter::contract_kernel(const Micro& micro, const V& first, std::vector<V> state) {
  const loop::Contract& contract = *micro.contract;
  const loop::Range& over = contract.over.back();
  const auto* a = get_if<tensor::Access>(contract.a);
  const auto* b = get_if<tensor::Access>(contract.b);
  renew_copies();
  env_ = copies_[0];
  const V lo = uniform(over.lo), hi = uniform(over.hi);

  // Movement of an operand's address per step of an index, where each subscript is linear in it.
  const auto movement = [&](const tensor::Access& access, const std::vector<V>& strides,
                            const Sym& index) -> std::optional<V> {
    V total = integer(0);
    for (std::size_t k = 0; k < access.subscripts.size(); ++k) {
      const auto factor = coefficient(access.subscripts[k], index);
      if (!factor) return std::nullopt;
      if (*factor != 0) total = add(total, mul(integer(*factor), strides[k]));
    }
    return total;
  };
  proofs_.ranges[over.index] = over;
  indices_[over.index] = lo;

  // a: consecutive lane vectors of a tile.
  std::optional<V> a_step, a_first;
  const auto a_tile = a ? tiles_.find(a->target) : tiles_.end();
  if (a_tile != tiles_.end() && a_tile->second.lane_axis >= 0 && a_tile->second.tile->dtype == DType::f32) {
    const TileInfo& info = a_tile->second;
    const auto lane_axis = static_cast<std::size_t>(info.lane_axis);
    const auto* lane = get_if<tensor::Index>(a->subscripts[lane_axis]);
    bool plain = lane && lane->index == nest_.lane;
    for (std::size_t k = 0; k < a->subscripts.size(); ++k)
      if (k != lane_axis) plain = plain && !depends_on(a->subscripts[k], nest_.lane);
    if (plain) a_step = movement(*a, tile_strides(info), over.index);
    if (a_step)
      a_first = opaque(element_pointer(tile_base(a->target), Kind::f32, tile_address(info, a->subscripts).first));
  }

  // b: one address per row, and a common offset that moves with the contracted index.
  std::optional<V> b_step, b_row;
  std::vector<V> b_rows;
  DType b_dtype = DType::f32;
  Kind b_kind = Kind::f32;
  if (b) {
    std::vector<V> strides;
    V base;
    Address address;
    env_ = {};
    env_.id = env_.first_id = ++next_env_;
    if (const auto tile = tiles_.find(b->target); tile != tiles_.end()) {
      if (tile->second.lane_axis < 0 && tile->second.tile->dtype == DType::f32) {
        strides = tile_strides(tile->second);
        address = tile_address(tile->second, b->subscripts);
        base = tile_base(b->target);
      }
    } else if (const auto buffer = module_.buffer_index.find(b->target);
               buffer != module_.buffer_index.end() && is_float(kernel_.buffers[buffer->second].dtype)) {
      for (std::size_t k = 0; k < b->subscripts.size(); ++k) strides.push_back(buffer_stride(buffer->second, k));
      address = buffer_address(buffer->second, b->subscripts);
      base = buffer_base(buffer->second);
      b_dtype = kernel_.buffers[buffer->second].dtype;
      b_kind = b_dtype == DType::f32 ? Kind::f32 : size_of(b_dtype) == 2 ? Kind::i16 : Kind::i8;
    }
    if (!strides.empty() || b->subscripts.empty()) {
      b_step = movement(*b, strides, over.index);
      b_row = micro.row ? movement(*b, strides, micro.row->index) : std::optional<V>(integer(0));
      if (b_step && b_row && !base.s.empty()) {
        const V start = opaque(element_pointer(base, b_kind, address.first));
        for (int row = 0; row < micro.rows; ++row)
          b_rows.push_back(element_pointer(start, b_kind, mul(integer(row), *b_row)));
      }
    }
  }

  const std::size_t count = state.size();
  if (a_first) state.push_back(*a_first);
  if (!b_rows.empty()) state.push_back(integer(0));
  const V index = open_loop(lo, hi, integer(1), state, {});
  indices_[over.index] = index;
  renew_copies();
  std::vector<V> vectors, next(state.begin(), state.begin() + static_cast<std::ptrdiff_t>(count));
  std::size_t extra = count;
  V a_place, b_offset;
  if (a_first) a_place = state[extra++];
  if (!b_rows.empty()) b_offset = state[extra++];
  for (int copy = 0; copy < micro.copies; ++copy) {
    env_ = copies_[static_cast<std::size_t>(copy)];
    if (a_first)
      vectors.push_back(load(element_pointer(a_place, Kind::f32, integer(copy * lane_width_)), Kind::f32, lane_width_,
                             4 * lane_width_, a->target));
    else
      vectors.push_back(splat(value(contract.a).v, lane_width_));
  }
  for (int row = 0; row < micro.rows; ++row) {
    V factor;
    if (!b_rows.empty()) {
      const V place = element_pointer(b_rows[static_cast<std::size_t>(row)], b_kind, b_offset);
      factor = convert_in(b_dtype, load(place, b_kind, 1, bits_of(b_kind) / 8, b->target));
    } else {
      if (micro.row) indices_[micro.row->index] = add(first, integer(row));
      env_ = {};
      env_.id = env_.first_id = ++next_env_;
      factor = value(contract.b).v;
      if (micro.row) indices_[micro.row->index] = first;
    }
    factor = splat(factor, lane_width_);
    for (int copy = 0; copy < micro.copies; ++copy) {
      V& sum_here = next[static_cast<std::size_t>(row * micro.copies + copy)];
      sum_here = multiply_add(factor, vectors[static_cast<std::size_t>(copy)], sum_here);
    }
  }
  if (a_first) next.push_back(element_pointer(a_place, Kind::f32, *a_step));
  if (!b_rows.empty()) next.push_back(add(b_offset, *b_step));
  std::vector<V> results = close_loop(next);
  unbind(over);
  results.resize(count);
  return results;
}

}  // namespace attune::cpu
