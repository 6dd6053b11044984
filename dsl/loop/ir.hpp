// SPDX-License-Identifier: Apache-2.0
// The loop-nest IR: what lower() makes of streams, what the passes rewrite, what backends execute.
// Index maps, guards and values stay symbolic: they are tensor::Expr over index Syms, dims, scalars, Let names
// (as tensor::Scalar) and reads of tiles and buffers (as tensor::Access with *global* index values as subscripts).
// In this IR no Reduce, Softmax or Cumsum occurs inside an expression.
//
// Absent: an expression may be absent (a gather out of range, Where, a zero divisor that depends on data, a Cast
// out of range, a read of a buffer whose presence says so). Statements say what an absent element does.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "schedule/schedule.hpp"
#include "tensor/ir.hpp"

namespace attune::loop {

using tensor::Expr;

/// A half-open range of an index, in global index values: lo <= index < hi.
struct Range {
  Sym index;
  Expr lo, hi;
};

/// One axis of a tile: the element at offset k stands for index value base + k, 0 <= k < extent.
struct TileAxis {
  Sym index;
  Expr base;    ///< i64 over grid and loop indices, dims
  Expr extent;  ///< i64 over dims and literals: how much storage the axis has
};

enum class Scope : std::uint8_t {
  stack,   ///< the task's scratch: running values and intermediates
  packed,  ///< the task's scratch: a repacked copy of operands
};

/// A small array of one task. Storage is row-major in the order of `axes`, except that the nest's lane index, if it is
/// one of the axes, is split into blocks of Nest::lanes: block outermost, lane innermost:
///   offset = (k_lane / lanes) * (product of other extents * lanes) + (row-major of others) * lanes + k_lane % lanes.
/// The lane axis' extent is a multiple of lanes. Tiles without the lane axis are plain row-major; a backend may pad the
/// last axis. dtype is f32, i64 or boolean. Contents are undefined until written (interpreter: poisoned).
struct Tile {
  Sym sym;
  DType dtype = DType::f32;
  std::vector<TileAxis> axes;  ///< may be empty: one element
  Scope scope = Scope::stack;
};

// ---- statements -----------------------------------------------------------------------------------
struct Stmt;
using Block = std::vector<Stmt>;

/// dst[domain] = value where `guard` holds and value is present; `fill` elsewhere (null fill: such elements keep their
/// old value). The domain covers every axis of dst, as ranges of its indices. Elements are independent of each other.
struct Map {
  Sym dst;
  std::vector<Range> domain;
  Expr value;
  Expr guard;  ///< null: always
  Expr fill;   ///< null: keep
};

/// max_any: like max, but a NaN operand may be dropped (the value only shifts an exponent).
enum class Op : std::uint8_t { sum, prod, max, min, max_any, any, all, argmax };

/// dst[domain] = old op (op over `over` of value), elements where guard is false or value absent skipped; the order of
/// `over` is that of its loops. argmax: dst holds the best value, dst_index (i64) the index value of over[0]; a NaN
/// wins over all before, else the first of equals; old is replaced only by a better one. Domain covers dst's axes.
struct Accumulate {
  Op op = Op::sum;
  Sym dst;
  Sym dst_index;  ///< argmax only
  std::vector<Range> domain;
  std::vector<Range> over;
  Expr value;
  Expr guard;  ///< null: always
};

/// dst[domain] = (scale ? dst * scale : 0) + sum over `over` of a * b, in f32. `a` is a read of a tile that has the
/// lane axis; it mentions the lane index and `over` only (besides uniform values); `b` is uniform along the lane index:
/// a read of a buffer or tile that mentions the other domain indices and `over`. Neither is ever absent; out-of-range
/// rows of the lane axis hold finite values. `scale` is a read of a tile with the lane axis, a product of such, or a
/// literal.
struct Contract {
  Sym dst;
  std::vector<Range> domain;
  std::vector<Range> over;
  Expr a, b;
  Expr scale;  ///< null: dst starts at 0
};

/// target[subscripts] = value (absent: 0) for the domain; elements of the lane index at or beyond the nest's lane_limit
/// are not stored. A target with a presence buffer also gets 1 or 0 there.
struct Store {
  Sym target;
  std::vector<Expr> subscripts;  ///< in range by construction
  std::vector<Range> domain;
  Expr value;
};

/// A uniform scalar (i64, f32 or boolean) that later statements of the block read as tensor::Scalar{sym}.
struct Let {
  Sym sym;
  Expr value;
};

enum class ForKind : std::uint8_t { serial, unrolled };

/// for (index = lo; index < hi; index += step) body. Bounds are uniform.
struct For {
  Sym index;
  Expr lo, hi, step;
  ForKind kind = ForKind::serial;
  std::string tag;  ///< what the loop is, for people: "stream j, tiles", ...
  Block body;
  Sym blocks;  ///< the index that the loop walks in blocks [index, index + step), or null
  Expr guard;  ///< a condition without which an element of `blocks` changes nothing; null: every element counts
};

/// Uniform condition (an absent one counts as false).
struct If {
  Expr condition;
  Block then, otherwise;
};

struct Stmt {
  std::variant<Map, Accumulate, Contract, Store, Let, For, If> kind;
  Span span;  ///< the text it comes from
};

// ---- nests and kernels ------------------------------------------------------------------------------
/// One loop of the grid: index = lo + k * step for k in 0 .. ceil((hi - lo) / step). All pairs of all axes are tasks.
struct GridAxis {
  Sym index;
  Expr lo, hi, step;
  bool descending = false;  ///< hand out high values first (heavier)
};

/// One launch: independent tasks over the grid, each running `body` with its own tiles.
struct Nest {
  std::string name;
  std::vector<GridAxis> grid;  ///< outermost first; may be empty: one task
  std::size_t row_axis = 0;    ///< which grid axis walks the row in blocks, if there is a row
  Sym row;                     ///< the index that tasks take in blocks of schedule.tile_m; null: none
  Sym lane;                    ///< the index that runs along vector lanes; null: everything is scalar
  Expr lane_limit;             ///< index values at or beyond it are computed, but load, flag and store nothing
  std::int64_t lanes = 1;      ///< rows of one register tile; every domain of the lane index is [x, x + lanes)
  std::vector<Tile> tiles;
  Block body;

  /// The grid axis that walks `row` in blocks (where `row` is set).
  const GridAxis& grid_axis_of_row() const { return grid[row_axis]; }
  GridAxis& grid_axis_of_row() { return grid[row_axis]; }
};

enum class Role : std::uint8_t { input, result, temporary };

/// Memory of the whole call.
struct Buffer {
  Sym sym;
  DType dtype = DType::f32;
  std::vector<Expr> extents;
  Role role = Role::input;
  Sym presence;  ///< a boolean temporary buffer of the same extents that says which elements are present, or null
  std::int64_t unit_axis = -1;  ///< an axis whose stride is known to be 1, or -1 (baked in, checked at dispatch)
  std::string why;              ///< temporaries: why it is stored
};

/// What a backend compiles: nests run one after the other.
struct Kernel {
  std::string name;
  std::vector<Sym> dims;     ///< sizes, in a fixed order
  std::vector<Sym> scalars;  ///< run-time scalar parameters, in a fixed order
  std::vector<tensor::Type> scalar_types;
  std::vector<Buffer> buffers;
  std::vector<Nest> nests;
  Schedule schedule;
  bool trusted = false;  ///< gathers are not checked
  int index_bits = 64;   ///< 32 where the caller proved that every integer of a vector fits

  const Buffer* find_buffer(const Sym& sym) const;
};

/// Indented text: the golden format, `attune show --stage loop`.
std::string print(const Kernel& kernel);
/// Structural rules (domains cover tiles, names are bound, lane rules, types); "" or the first violation.
std::string verify(const Kernel& kernel);

}  // namespace attune::loop
