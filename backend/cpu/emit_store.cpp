// SPDX-License-Identifier: Apache-2.0
// Stores into tensors: vectors run along the target's unit axis where an index does, else along the lanes.
#include <algorithm>

#include "backend/cpu/emit.hpp"

namespace attune::cpu {

void Emitter::emit(const loop::Store& store) {
  const auto found = module_.buffer_index.find(store.target);
  if (found == module_.buffer_index.end()) throw Malformed{"`" + store.target.text() + "` is no buffer", {}};
  const loop::Buffer& buffer = kernel_.buffers[found->second];
  if (store.subscripts.size() != buffer.extents.size())
    throw Malformed{"a store into `" + store.target.text() + "` with the wrong number of subscripts", {}};
  const loop::Range* lane = lane_range(store.domain);
  const auto linear = [&](const loop::Range& range, std::int64_t unit) {
    for (std::size_t k = 0; k < store.subscripts.size(); ++k) {
      const auto factor = coefficient(store.subscripts[k], range.index);
      if (!factor) return false;
      if (unit >= 0 && *factor != (static_cast<std::int64_t>(k) == unit ? 1 : 0)) return false;
    }
    return true;
  };
  const loop::Range* vector = nullptr;
  if (buffer.unit_axis >= 0 && target_.vector_lanes > 1)
    for (const loop::Range& range : store.domain)
      if (linear(range, buffer.unit_axis) && (&range != lane || lane_width_ > 1)) vector = &range;
  if (!vector && lane && lane_width_ > 1 && linear(*lane, -1)) vector = lane;
  std::vector<loop::Range> loops;
  for (const loop::Range& range : store.domain)
    if (&range != vector) loops.push_back(range);
  open_scope();
  if (lane) {
    lane_lo_ = uniform(lane->lo);
    proofs_.ranges[lane->index] = *lane;
    lane_block_ = true;
    lanes_bounded_ = vector != lane;
  }
  if (stores_by_blocks(store, vector)) {
    lanes_bounded_ = false;
    store_by_blocks(store, loops, 0, *vector);
  } else {
    store_loops(store, loops, 0, vector);
  }
  lane_block_ = lanes_bounded_ = false;
  if (lane) unbind(*lane);
  enter_uniform();
  close_scope();
}

void Emitter::store_loops(const loop::Store& store, const std::vector<loop::Range>& loops, std::size_t depth,
                          const loop::Range* vector) {
  std::vector<V> none;
  const std::vector<Sym> writes = written(loop::Block{loop::Stmt{store, {}}});
  if (depth < loops.size()) {
    const loop::Range& range = loops[depth];
    V lo = uniform(range.lo), hi = uniform(range.hi);
    if (range.index == nest_.lane && nest_.lane) hi = minimum(hi, uniform(nest_.lane_limit));
    const V index = open_loop(lo, hi, integer(1), none, writes);
    bind(range, index);
    store_loops(store, loops, depth + 1, vector);
    if (!(range.index == nest_.lane)) proofs_.ranges.erase(range.index);
    indices_.erase(range.index);
    close_loop({});
    return;
  }
  if (!vector) {
    enter_uniform();
    store_element(store);
    return;
  }
  if (nest_.lane && vector->index == nest_.lane) {
    const V relative = open_loop(integer(0), integer(nest_.lanes), integer(lane_width_), none, writes);
    enter_vector(vector->index, add(lane_lo_, relative), lane_width_, relative);
    store_element(store);
    enter_uniform();
    close_loop({});
    return;
  }
  const int width = target_.vector_lanes;
  const V lo = uniform(vector->lo), hi = uniform(vector->hi), end = blocked_end(lo, hi, width);
  proofs_.ranges[vector->index] = *vector;
  const V base = open_loop(lo, end, integer(width), none, writes);
  enter_vector(vector->index, base, width, integer(0));
  store_element(store);
  enter_uniform();
  close_loop({});
  const V index = open_loop(end, hi, integer(1), none, writes);
  indices_[vector->index] = index;
  enter_uniform();
  store_element(store);
  unbind(*vector);
  close_loop({});
}

void Emitter::store_element(const loop::Store& store) {
  const std::size_t number = module_.buffer_index.at(store.target);
  const loop::Buffer& buffer = kernel_.buffers[number];
  raise(Expr{}, store.value);
  const Value result = value(store.value);
  V stored = result.v;
  if (result.present)
    stored = select(*result.present, stored,
                    stored.kind == Kind::f32  ? real(0)
                    : stored.kind == Kind::i1 ? truth(false)
                                              : integer(0));
  stored = convert_out(buffer.dtype, spread(stored, env_.width));
  const Mask limit = env_.width > 1 && env_.vector == nest_.lane ? limit_mask() : Mask{};
  scatter(stored, buffer_address(number, store.subscripts), buffer_base(number), stored.kind, limit);
  if (buffer.presence) {
    const std::size_t other = module_.buffer_index.at(buffer.presence);
    const V known = convert_out(DType::boolean, splat(result.present.value_or(truth(true)), env_.width));
    scatter(known, buffer_address(other, store.subscripts), buffer_base(other), Kind::i8, limit);
    wrote(buffer.presence);
  }
  wrote(store.target);
}

void Emitter::scatter(const V& x, const Address& address, const V& base, Kind kind, const Mask& mask) {
  const int size = bits_of(kind) / 8;
  const V pointer = element_pointer(base, kind, address.first);
  if (x.width == 1) {
    store(x, pointer, size);
    return;
  }
  if (!address.scattered.empty()) throw Malformed{"a store whose subscripts are not linear along the vector", {}};
  if (address.stride.whole == 1 && !mask) {
    store(x, pointer, size);
    return;
  }
  const bool native = target_.isa == Isa::avx512 || (target_.isa == Isa::avx2 && bits_of(kind) >= 32);
  if (address.stride.whole == 1 && native) {
    const std::string suffix =
        "v" + std::to_string(x.width) + (kind == Kind::f32 ? "f32" : std::string(element_type(kind)));
    const std::string function = "llvm.masked.store." + suffix + ".p0";
    module_.declare("declare void @" + function + "(" + x.type() + ", ptr, i32, " + mask->type() + ")");
    effect("call void @" + function + "(" + x.type() + " " + x.s + ", ptr " + pointer.s + ", i32 " +
           std::to_string(size) + ", " + mask->type() + " " + mask->s + ")");
    return;
  }
  for (int k = 0; k < x.width; ++k) {
    V place = element_pointer(base, kind, add(mul(integer(k), address.stride), address.first));
    if (mask) place = select(bit_of(*mask, k), place, {"%sink", Kind::pointer, 1, 0, {}, {}});
    store(lane(x, k), place, size);
  }
}

}  // namespace attune::cpu
