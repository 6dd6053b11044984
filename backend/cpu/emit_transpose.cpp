// SPDX-License-Identifier: Apache-2.0
// Between lane tiles and tensors whose rows are contiguous along another index: square blocks, loaded or stored as
// vectors on both sides and transposed in registers.
#include <algorithm>

#include "backend/cpu/emit.hpp"

namespace attune::cpu {

using tensor::get_if;

/// Rows to columns by exchanging halves, quarters, ... of pairs of rows.
std::vector<V> Emitter::transpose(std::vector<V> rows) {
  const int width = static_cast<int>(rows.size());
  const auto exchange = [&](const V& a, const V& b, int distance, bool upper) {
    std::string picks = "<";
    for (int k = 0; k < width; ++k) {
      const bool from_b = (k & distance) != 0;
      const int place = upper ? (from_b ? k : k + distance) : (from_b ? k - distance : k);
      picks += std::string(k ? ", " : "") + "i32 " + std::to_string(from_b ? width + place : place);
    }
    return define("shufflevector " + a.type() + " " + a.s + ", " + b.type() + " " + b.s + ", <" +
                      std::to_string(width) + " x i32> " + picks + ">",
                  a.kind, width, std::max(a.level, b.level));
  };
  for (int distance = width / 2; distance > 0; distance /= 2)
    for (int k = 0; k < width; ++k) {
      if (k & distance) continue;
      const auto low = static_cast<std::size_t>(k), high = static_cast<std::size_t>(k + distance);
      const V a = rows[low], b = rows[high];
      rows[low] = exchange(a, b, distance, false);
      rows[high] = exchange(a, b, distance, true);
    }
  return rows;
}

/// A Map into a lane tile that reads rows of a tensor along the last other index.
bool Emitter::packs_by_blocks(const Sweep& sweep) const {
  if (!sweep.lane || sweep.stmts.size() != 1 || sweep.loops.empty() || lane_width_ < 4) return false;
  const auto* map = std::get_if<loop::Map>(&sweep.stmts[0]->kind);
  if (!map || map->guard || tiles_.at(map->dst).tile->dtype != DType::f32) return false;
  const Sym& along = sweep.loops.back().index;
  bool rows = false, others = false;
  tensor::walk(map->value, [&](const Expr& e) {
    const auto* access = get_if<tensor::Access>(e);
    if (!access) return true;
    if (tiles_.count(access->target)) {
      others = others || depends_on(e, nest_.lane);
      return true;
    }
    const loop::Buffer* buffer = kernel_.find_buffer(access->target);
    for (std::size_t k = 0; buffer && k < access->subscripts.size(); ++k) {
      const Expr& subscript = access->subscripts[k];
      if (buffer->unit_axis == static_cast<std::int64_t>(k) && coefficient(subscript, along) == 1 &&
          !depends_on(subscript, nest_.lane))
        rows = rows || depends_on(e, nest_.lane);
      else
        others = others || depends_on(subscript, along);
    }
    return true;
  });
  return rows && !others;
}

void Emitter::pack_by_blocks(const Sweep& sweep, std::size_t depth) {
  const auto& map = std::get<loop::Map>(sweep.stmts[0]->kind);
  const loop::Range& range = sweep.loops[depth];
  std::vector<V> none;
  if (depth + 1 < sweep.loops.size()) {
    open_range(range, none, {map.dst});
    pack_by_blocks(sweep, depth + 1);
    unbind(range);
    close_loop({});
    return;
  }
  const int width = lane_width_;
  const TileInfo& info = tiles_.at(map.dst);
  lane_lo_ = uniform(sweep.lane->lo);
  lane_block_ = true;
  proofs_.ranges[sweep.lane->index] = *sweep.lane;
  proofs_.ranges[range.index] = range;
  const V last = maximum(sub(uniform(nest_.lane_limit), integer(1)), integer(0));
  const V relative = open_loop(integer(0), integer(nest_.lanes), integer(width), none, {map.dst});
  const V first = add(lane_lo_, relative), lo = uniform(range.lo), hi = uniform(range.hi),
          end = blocked_end(lo, hi, width);

  const V at = open_loop(lo, end, integer(width), none, {map.dst});
  std::vector<V> rows;
  lanes_bounded_ = true;
  for (int row = 0; row < width; ++row) {
    // Rows beyond the limit repeat the last one below it.
    indices_[nest_.lane] = minimum(add(first, integer(row)), last);
    enter_vector(range.index, at, width, integer(0));
    raise(Expr{}, map.value);
    Value element = value(map.value);
    if (element.present) {
      if (!map.fill) throw Malformed{"a map into lanes whose value may be absent, without a fill", map.value->span};
      element.v = select(*element.present, element.v, value(map.fill).v);
    }
    rows.push_back(splat(element.v, width));
  }
  lanes_bounded_ = false;
  indices_.erase(nest_.lane);
  rows = transpose(std::move(rows));
  enter_vector(nest_.lane, first, width, relative);
  indices_[range.index] = at;
  std::vector<Expr> subscripts;
  V step = integer(0);
  const std::vector<V> strides = tile_strides(info);
  for (std::size_t k = 0; k < info.tile->axes.size(); ++k) {
    subscripts.push_back(tensor::index(info.tile->axes[k].index));
    if (info.tile->axes[k].index == range.index) step = strides[k];
  }
  const V corner = element_pointer(tile_base(map.dst), Kind::f32, tile_address(info, subscripts).first);
  renew();
  for (int k = 0; k < width; ++k)
    store(rows[static_cast<std::size_t>(k)], element_pointer(corner, Kind::f32, mul(integer(k), step)), 4 * width);
  wrote(map.dst);
  indices_.erase(range.index);
  enter_uniform();
  close_loop({});

  const V index = open_loop(end, hi, integer(1), none, {map.dst});
  indices_[range.index] = index;
  enter_vector(nest_.lane, first, width, relative);
  copies_.assign(1, env_);
  forwarded_.assign(1, {});
  sweep_body(sweep, {});
  unbind(range);
  close_loop({});
  enter_uniform();
  close_loop({});
  lane_block_ = false;
  unbind(*sweep.lane);
}

/// A Store along `vector` of something that is cheap to compute lane by lane.
bool Emitter::stores_by_blocks(const loop::Store& store, const loop::Range* vector) const {
  const loop::Range* lane = lane_range(store.domain);
  if (!lane || !vector || vector == lane || lane_width_ < 4 || lane_width_ != target_.vector_lanes) return false;
  const loop::Buffer* buffer = kernel_.find_buffer(store.target);
  if (buffer->presence || !is_float(buffer->dtype) || cost(store.value) > 16) return false;
  for (const Expr& subscript : store.subscripts)
    if (!coefficient(subscript, nest_.lane)) return false;
  bool tiles = false, tensors = false;
  tensor::walk(store.value, [&](const Expr& e) {
    if (const auto* access = get_if<tensor::Access>(e)) {
      const auto tile = tiles_.find(access->target);
      if (tile == tiles_.end())
        tensors = true;
      else
        tiles = tiles || tile->second.lane_axis >= 0;
    }
    return true;
  });
  return tiles && !tensors;
}

void Emitter::store_by_blocks(const loop::Store& store, const std::vector<loop::Range>& loops, std::size_t depth,
                              const loop::Range& along) {
  std::vector<V> none;
  if (depth < loops.size()) {
    const loop::Range& range = loops[depth];
    if (range.index == nest_.lane) return store_by_blocks(store, loops, depth + 1, along);
    open_range(range, none, {store.target});
    store_by_blocks(store, loops, depth + 1, along);
    unbind(range);
    close_loop({});
    return;
  }
  const int width = lane_width_;
  const std::size_t number = module_.buffer_index.at(store.target);
  const DType dtype = kernel_.buffers[number].dtype;
  const V relative = open_loop(integer(0), integer(nest_.lanes), integer(width), none, {store.target});
  const V first = add(lane_lo_, relative), limit = uniform(nest_.lane_limit);
  const V lo = uniform(along.lo), hi = uniform(along.hi), end = blocked_end(lo, hi, width);
  proofs_.ranges[along.index] = along;
  const V at = open_loop(lo, end, integer(width), none, {store.target});
  std::vector<V> columns;
  for (int k = 0; k < width; ++k) {
    indices_[along.index] = add(at, integer(k));
    enter_vector(nest_.lane, first, width, relative);
    raise(Expr{}, store.value);
    const Value element = value(store.value);
    V stored = splat(element.v, width);
    if (element.present) stored = select(*element.present, stored, real(0));
    columns.push_back(stored);
  }
  indices_.erase(along.index);
  columns = transpose(std::move(columns));
  lanes_bounded_ = true;
  for (int row = 0; row < width; ++row) {
    const V lane_index = add(first, integer(row));
    indices_[nest_.lane] = lane_index;
    enter_vector(along.index, at, width, integer(0));
    const V stored = convert_out(dtype, columns[static_cast<std::size_t>(row)]);
    V place = element_pointer(buffer_base(number), stored.kind, buffer_address(number, store.subscripts).first);
    place = select(compare("icmp slt", lane_index, limit), place, {"%sink", Kind::pointer, 1, 0, {}, {}});
    this->store(stored, place, bits_of(stored.kind) / 8);
  }
  lanes_bounded_ = false;
  indices_.erase(nest_.lane);
  wrote(store.target);
  enter_uniform();
  close_loop({});

  const V index = open_loop(end, hi, integer(1), none, {store.target});
  indices_[along.index] = index;
  enter_vector(nest_.lane, first, width, relative);
  store_element(store);
  unbind(along);
  enter_uniform();
  close_loop({});
  close_loop({});
}

}  // namespace attune::cpu
