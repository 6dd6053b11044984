// SPDX-License-Identifier: Apache-2.0
// Reads of tensors and tiles: addresses as sums of terms at their own level, contiguous, strided and scattered vectors,
// and the masks that keep every load inside its memory.
#include <algorithm>

#include "backend/cpu/emit.hpp"

namespace attune::cpu {

using tensor::get_if;

namespace {

Kind memory_kind(DType dtype) {
  switch (dtype) {
    case DType::f32: return Kind::f32;
    case DType::f16:
    case DType::bf16: return Kind::i16;
    case DType::i64: return Kind::i64;
    case DType::i32: return Kind::i32;
    default: return Kind::i8;
  }
}

}  // namespace

// ---- conversions -----------------------------------------------------------------------------------

V Emitter::convert_in(DType dtype, const V& x) {
  const Kind integers = x.width > 1 ? vector_integer_ : Kind::i64;
  const auto converted = [&](const char* op) {
    return define(std::string(op) + " " + x.type() + " " + x.s + " to " + type_text(integers, x.width), integers,
                  x.width, x.level);
  };
  switch (dtype) {
    case DType::f32: return x;
    case DType::f16:
    case DType::bf16:
    case DType::f8e4m3:
    case DType::f8e5m2:
      return define_block("from " + std::string(name(dtype)) + " " + x.type() + " " + x.s, Kind::f32, x.width, x.level,
                          [&](Writer& w) { return emit_to_f32(w, dtype, x.s, x.width, target_); });
    case DType::i64: return integers == Kind::i64 ? x : converted("trunc");
    case DType::i32: return integers == Kind::i32 ? x : converted("sext");
    case DType::i8: return converted("sext");
    case DType::u8: return converted("zext");
    case DType::boolean: return compare("icmp ne", x, {"zeroinitializer", x.kind, x.width, 0, {}, {}});
  }
  return x;
}

V Emitter::convert_out(DType dtype, const V& x) {
  const Kind kind = memory_kind(dtype);
  if (kind == x.kind) return x;
  const auto converted = [&](const char* op) {
    return define(std::string(op) + " " + x.type() + " " + x.s + " to " + type_text(kind, x.width), kind, x.width,
                  x.level);
  };
  if (is_float(dtype))
    return define_block("to " + std::string(name(dtype)) + " " + x.type() + " " + x.s, kind, x.width, x.level,
                        [&](Writer& w) { return emit_from_f32(w, dtype, x.s, x.width, target_); });
  if (x.whole) return integer(*x.whole).s == x.s ? converted("trunc") : converted("zext");
  if (is_bool(dtype)) return converted("zext");
  return bits_of(kind) < bits_of(x.kind) ? converted("trunc") : converted("sext");
}

// ---- masks -------------------------------------------------------------------------------------------

/// How many elements from the vector's first one on lie below the lane limit (may be negative or large).
V Emitter::live_lanes() { return sub(uniform(nest_.lane_limit), env_.base); }

/// The first `count` elements of the vector (none where it is negative).
V Emitter::mask_below(const V& count) {
  const V some = maximum(minimum(count, integer(env_.width)), integer(0));
  const V narrow_count = define("trunc i64 " + some.s + " to i32", Kind::i32, 1, some.level);
  std::string lanes = "<";
  for (int k = 0; k < env_.width; ++k) lanes += std::string(k ? ", " : "") + "i32 " + std::to_string(k);
  return compare("icmp slt", {lanes + ">", Kind::i32, env_.width, 0, {}, {}}, splat(narrow_count, env_.width));
}

/// Elements of the vector, or the uniform lane, below the lane limit; nothing where the lane index is not in hand.
Mask Emitter::limit_mask() {
  if (!nest_.lane || !nest_.lane_limit) return std::nullopt;
  if (env_.width > 1 && env_.vector == nest_.lane) {
    return mask_below(live_lanes());
  }
  const auto bound = indices_.find(nest_.lane);
  if (bound == indices_.end() || lanes_bounded_) return std::nullopt;
  return compare("icmp slt", bound->second, uniform(nest_.lane_limit));
}

Mask Emitter::subscript_check(std::size_t buffer, const tensor::Access& access) {
  Mask valid;
  for (std::size_t k = 0; k < access.subscripts.size(); ++k) {
    const Value subscript = value(access.subscripts[k]);
    if (!subscript.present &&
        (kernel_.trusted || proofs_.in_range(access.subscripts[k], kernel_.buffers[buffer].extents[k])))
      continue;
    valid = both(valid, compare("icmp ult", subscript.v, buffer_extent(buffer, k)));
  }
  return valid;
}

V Emitter::bit_of(const V& mask, int k) {
  if (mask.width == 1) return mask;
  const std::string bits_type = "i" + std::to_string(mask.width);
  // Only i8 and i16 have a kind; narrower masks are read element by element.
  if (mask.width != 8 && mask.width != 16) return lane(mask, k);
  const Kind kind = mask.width == 8 ? Kind::i8 : Kind::i16;
  const V bits = define("bitcast " + mask.type() + " " + mask.s + " to " + bits_type, kind, 1, mask.level);
  const V one = define("and " + bits_type + " " + bits.s + ", " + std::to_string(1 << k), kind, 1, bits.level);
  return compare("icmp ne", one, {"0", kind, 1, 0, {}, {}});
}

// ---- addresses ------------------------------------------------------------------------------------------

/// Adds a subscript that moves by `stride` elements.
void Emitter::locate(Address& address, std::vector<V>& terms, const Expr& subscript, const V& stride) {
  if (!along_vector(subscript)) {
    terms.push_back(mul(value(subscript).v, stride));
    return;
  }
  if (const auto factor = coefficient(subscript, env_.vector)) {
    terms.push_back(mul(at_first_element(subscript), stride));
    address.stride = add(address.stride, mul(integer(*factor), stride));
    return;
  }
  address.scattered.emplace_back(value(subscript).v, stride);
}

Emitter::Address Emitter::buffer_address(std::size_t buffer, const std::vector<Expr>& subscripts) {
  Address address{integer(0), integer(0), {}};
  std::vector<V> terms;
  for (std::size_t k = 0; k < subscripts.size(); ++k) locate(address, terms, subscripts[k], buffer_stride(buffer, k));
  address.first = sum(std::move(terms));
  return address;
}

/// Strides of the axes in elements; that of the lane axis is the one of its blocks, for one lane.
std::vector<V> Emitter::tile_strides(const TileInfo& info) {
  const auto& axes = info.tile->axes;
  std::vector<V> strides(axes.size());
  V stride = integer(info.lane_axis >= 0 ? nest_.lanes : 1);
  for (std::size_t k = axes.size(); k-- > 0;) {
    if (static_cast<int>(k) == info.lane_axis) continue;
    strides[k] = stride;
    stride = mul(stride, uniform(axes[k].extent));
  }
  if (info.lane_axis >= 0) {
    V others = integer(1);
    for (std::size_t k = 0; k < axes.size(); ++k)
      if (static_cast<int>(k) != info.lane_axis) others = mul(others, uniform(axes[k].extent));
    strides[static_cast<std::size_t>(info.lane_axis)] = others;
  }
  return strides;
}

Emitter::Address Emitter::tile_address(const TileInfo& info, const std::vector<Expr>& subscripts) {
  Address address{integer(0), integer(0), {}};
  std::vector<V> terms;
  const std::vector<V> strides = tile_strides(info);
  for (std::size_t k = 0; k < subscripts.size(); ++k) {
    const Expr& subscript = subscripts[k];
    const V base = uniform(info.tile->axes[k].base);
    if (static_cast<int>(k) != info.lane_axis) {
      locate(address, terms, subscript, strides[k]);
      terms.push_back(sub(integer(0), mul(base, strides[k])));
      continue;
    }
    const auto* index = get_if<tensor::Index>(subscript);
    if (index && index->index == nest_.lane && lane_block_) {
      // Domains of the lane index start at a block, so the block needs no division.
      terms.push_back(mul(sub(lane_lo_, base), strides[k]));
      if (env_.width > 1 && env_.vector == nest_.lane) {
        terms.push_back(env_.relative);
        address.stride = add(address.stride, integer(1));
      } else {
        terms.push_back(sub(value(subscript).v, lane_lo_));
      }
      continue;
    }
    const V offset = sub(value(subscript).v, base);
    const V inside = binary("urem", offset, integer(nest_.lanes)), block = sub(offset, inside);
    if (offset.width > 1) {
      address.scattered.emplace_back(block, strides[k]);
      address.scattered.emplace_back(inside, integer(1));
    } else {
      terms.push_back(mul(block, strides[k]));
      terms.push_back(inside);
    }
  }
  address.first = sum(std::move(terms));
  return address;
}

/// Elements that `valid` leaves out are 0 and are not touched. `only_limit`: it is just the lane limit.
V Emitter::fetch(const Address& address, const V& base, Kind kind, std::int64_t align, const Mask& valid,
                 bool only_limit, const Sym& memory) {
  const V nowhere{"%zero", Kind::pointer, 1, 0, {}, {}};
  const bool uniform_read = address.scattered.empty() && address.stride.whole == 0;
  const int size = bits_of(kind) / 8;
  if (env_.width == 1 || (uniform_read && (!valid || valid->width == 1))) {
    V pointer = element_pointer(base, kind, address.first);
    if (valid) pointer = select(*valid, pointer, nowhere);
    return load(pointer, kind, 1, size, memory);
  }
  const int width = env_.width;
  if (address.scattered.empty() && address.stride.whole == 1) {
    const V pointer = element_pointer(base, kind, address.first);
    if (!valid) return load(pointer, kind, width, align, memory);
    const bool native = target_.isa == Isa::avx512 || (target_.isa == Isa::avx2 && bits_of(kind) >= 32);
    if (native && kernel_.find_buffer(memory) && !stored_.count(memory)) {
      const V mask = splat(*valid, width);
      const std::string type = type_text(kind, width),
                        suffix =
                            "v" + std::to_string(width) + (kind == Kind::f32 ? "f32" : std::string(element_type(kind)));
      const std::string function = "llvm.masked.load." + suffix + ".p0";
      module_.declare("declare " + type + " @" + function + "(ptr, i32, " + mask.type() + ", " + type + ")");
      int level = std::max(pointer.level, mask.level);
      for (int k = top(); k > level; --k)
        if (sections_[static_cast<std::size_t>(k)].conditional) level = k;
      return define("call " + type + " @" + function + "(ptr " + pointer.s + ", i32 " + std::to_string(size) + ", " +
                        mask.type() + " " + mask.s + ", " + type + " zeroinitializer)",
                    kind, width, level);
    }
  }
  std::vector<V> elements;
  if (address.scattered.empty() && (!valid || only_limit)) {
    // Lanes beyond the limit read the last row below it: any finite or other value does there.
    V last, lowest;
    if (valid) {
      last = sub(live_lanes(), integer(1));
      lowest = sub(integer(0), env_.base);
    }
    for (int k = 0; k < width; ++k) {
      const V step = valid ? maximum(minimum(integer(k), last), lowest) : integer(k);
      const V pointer = element_pointer(base, kind, add(mul(step, address.stride), address.first));
      elements.push_back(load(pointer, kind, 1, size, memory));
    }
    const V all = gather_lanes(elements);
    if (!valid || kind == Kind::i1) return all;
    V zero{"zeroinitializer", kind, width, 0, {}, {}};
    return select(*valid, all, zero);
  }
  for (int k = 0; k < width; ++k) {
    std::vector<V> terms{address.first, mul(address.stride, integer(k))};
    for (const auto& [subscripts, stride] : address.scattered) {
      V subscript = lane(subscripts, k);
      if (subscript.kind == Kind::i32)
        subscript = define("sext i32 " + subscript.s + " to i64", Kind::i64, 1, subscript.level);
      terms.push_back(mul(subscript, stride));
    }
    V pointer = element_pointer(base, kind, sum(std::move(terms)));
    if (valid) pointer = select(bit_of(*valid, k), pointer, nowhere);
    elements.push_back(load(pointer, kind, 1, size, memory));
  }
  return gather_lanes(elements);
}

// ---- reads ------------------------------------------------------------------------------------------------

Value Emitter::read(const tensor::Access& access, const Expr& expr) {
  if (const auto tile = tiles_.find(access.target); tile != tiles_.end()) {
    if (access.subscripts.size() != tile->second.tile->axes.size())
      throw Malformed{"a read of tile `" + access.target.text() + "` with the wrong number of subscripts", expr->span};
    return read_tile(access, tile->second);
  }
  const auto buffer = module_.buffer_index.find(access.target);
  if (buffer == module_.buffer_index.end())
    throw Malformed{"`" + access.target.text() + "` is neither tile nor buffer", expr->span};
  if (access.subscripts.size() != kernel_.buffers[buffer->second].extents.size())
    throw Malformed{"a read of `" + access.target.text() + "` with the wrong number of subscripts", expr->span};
  return read_buffer(access, buffer->second);
}

Value Emitter::read_buffer(const tensor::Access& access, std::size_t number) {
  const loop::Buffer& buffer = kernel_.buffers[number];
  Mask present;
  bool lanes = false;
  for (const Expr& subscript : access.subscripts) {
    present = both(present, value(subscript).present);
    lanes = lanes || (nest_.lane && depends_on(subscript, nest_.lane));
  }
  const Mask inside = subscript_check(number, access);
  const Mask valid = both(inside, lanes ? limit_mask() : Mask{});
  const Address address = buffer_address(number, access.subscripts);
  const std::int64_t size = static_cast<std::int64_t>(size_of(buffer.dtype));
  const V bits = fetch(address, buffer_base(number), memory_kind(buffer.dtype), size, valid, !inside, buffer.sym);
  Value result{convert_in(buffer.dtype, bits), both(present, inside)};
  if (buffer.presence) {
    const std::size_t other = module_.buffer_index.at(buffer.presence);
    const Address place = buffer_address(other, access.subscripts);
    const V known = fetch(place, buffer_base(other), Kind::i8, 1, valid, !inside, buffer.presence);
    result.present = both(result.present, convert_in(DType::boolean, known));
  }
  return result;
}

V Emitter::tile_bytes(const loop::Tile& tile) {
  V count = integer(static_cast<std::int64_t>(size_of(tile.dtype)));
  for (const loop::TileAxis& axis : tile.axes) count = mul(count, uniform(axis.extent));
  return binary("and", add(count, integer(63)), integer(-64));
}

V Emitter::tile_base(const Sym& sym) {
  V offset = integer(0);
  for (const loop::Tile& tile : nest_.tiles) {
    if (tile.sym == sym) break;
    offset = add(offset, tile_bytes(tile));
  }
  return element_pointer({"%scratch", Kind::pointer, 1, 0, {}, {}}, Kind::i8, offset);
}

namespace {
/// Whether subscripts are just the tile's own indices.
bool own_element(const loop::Tile& tile, const std::vector<Expr>& subscripts) {
  for (std::size_t k = 0; k < subscripts.size(); ++k) {
    const auto* index = get_if<tensor::Index>(subscripts[k]);
    if (!index || !(index->index == tile.axes[k].index)) return false;
  }
  return true;
}
}  // namespace

Value Emitter::read_tile(const tensor::Access& access, const TileInfo& info) {
  if (copy_ >= 0 && own_element(*info.tile, access.subscripts)) {
    const auto& fresh = forwarded_[static_cast<std::size_t>(copy_)];
    if (const auto found = fresh.find(access.target); found != fresh.end()) return found->second;
  }
  Mask present;
  for (const Expr& subscript : access.subscripts) present = both(present, value(subscript).present);
  const Address address = tile_address(info, access.subscripts);
  const DType dtype = info.tile->dtype;
  const std::int64_t size = static_cast<std::int64_t>(size_of(dtype));
  bool aligned = info.lane_axis >= 0 && env_.width > 1 && env_.vector == nest_.lane;
  const V bits = fetch(address, tile_base(access.target), memory_kind(dtype), aligned ? size * env_.width : size,
                       std::nullopt, false, access.target);
  return {convert_in(dtype, bits), present};
}

/// Stores the element in hand: the subscripts are the tile's own indices.
void Emitter::write_tile(const Sym& sym, const V& value) {
  const TileInfo& info = tiles_.at(sym);
  std::vector<Expr> subscripts;
  for (const loop::TileAxis& axis : info.tile->axes) subscripts.push_back(tensor::index(axis.index));
  // The memo keys nodes by address: these go away, so their values must too.
  const Env saved = env_;
  renew();
  const Address address = tile_address(info, subscripts);
  env_ = saved;
  const DType dtype = info.tile->dtype;
  const Kind kind = memory_kind(dtype);
  const std::int64_t size = static_cast<std::int64_t>(size_of(dtype));
  const V base = tile_base(sym);
  V stored = value;
  if (address.scattered.empty() && address.stride.whole == 1 && env_.width > 1) {
    stored = convert_out(dtype, spread(stored, env_.width));
    const bool aligned = info.lane_axis >= 0 && env_.vector == nest_.lane;
    store(stored, element_pointer(base, kind, address.first), aligned ? size * env_.width : size);
    return;
  }
  if (env_.width == 1) {
    store(convert_out(dtype, stored), element_pointer(base, kind, address.first), size);
    return;
  }
  stored = convert_out(dtype, spread(stored, env_.width));
  for (int k = 0; k < env_.width; ++k)
    store(lane(stored, k), element_pointer(base, kind, add(mul(integer(k), address.stride), address.first)), size);
}

}  // namespace attune::cpu
