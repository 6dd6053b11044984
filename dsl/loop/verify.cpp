// SPDX-License-Identifier: Apache-2.0
// The structural rules of a loop kernel, checked after every pass in debug builds and before an interpretation.
#include <fmt/format.h>

#include <optional>

#include "loop/verify_expr.hpp"
#include "tensor/algebra.hpp"

namespace attune::loop {
namespace {

using tensor::Access;
using tensor::get_if;

/// The first violation, thrown inside this file only: the rules read better without an error path each.
struct Violation {
  std::string text;
};

/// hi - lo where it is a literal: terms that occur on both sides cancel.
std::optional<std::int64_t> literal_difference(const Expr& hi, const Expr& lo) {
  std::int64_t difference = 0;
  std::vector<tensor::Term> open;
  const auto add = [&](const Expr& expr, bool negated) {
    for (tensor::Term term : tensor::terms(expr)) {
      term.negative = term.negative != negated;
      if (const auto value = tensor::integer_value(term.expr)) {
        difference += term.negative ? -*value : *value;
        continue;
      }
      bool cancelled = false;
      for (auto other = open.begin(); other != open.end() && !cancelled; ++other)
        if (other->negative != term.negative && other->expr == term.expr) {
          open.erase(other);
          cancelled = true;
          break;
        }
      if (!cancelled) open.push_back(std::move(term));
    }
  };
  add(hi, false);
  add(lo, true);
  if (!open.empty()) return std::nullopt;
  return difference;
}

bool mentions_tile_or_buffer(const Expr& expr, const Sym& sym) {
  bool found = false;
  tensor::walk(expr, [&](const Expr& e) {
    if (const auto* access = get_if<Access>(e)) found = found || access->target == sym;
    return !found;
  });
  return found;
}

bool mentions_index(const Expr& expr, const Sym& sym) {
  bool found = false;
  tensor::walk(expr, [&](const Expr& e) {
    if (const auto* index = get_if<tensor::Index>(e)) found = found || index->index == sym;
    return !found;
  });
  return found;
}

class NestChecker {
 public:
  NestChecker(const Kernel& kernel, const Nest& nest) : nest_(nest), names_(kernel, nest) {
    for (const Sym& dim : kernel.dims) bound_.dims.insert(dim);
    for (std::size_t k = 0; k < kernel.scalars.size(); ++k)
      bound_.scalars.emplace(kernel.scalars[k], kernel.scalar_types[k].dtype);
    for (const Buffer& buffer : kernel.buffers) bound_.buffers.emplace(buffer.sym, &buffer);
  }

  void check() {
    lanes();
    for (const Tile& tile : nest_.tiles) declared(tile);
    const Bound launch = sizes();
    for (const GridAxis& axis : nest_.grid)
      for (const Expr& bound : {axis.lo, axis.hi, axis.step})
        expect(bound, Numbers::whole, launch, fmt::format("grid index `{}`", names_.of(axis.index)));
    for (const GridAxis& axis : nest_.grid) bind(bound_.outer, axis.index, "grid");
    if (nest_.lane_limit) expect(nest_.lane_limit, Numbers::whole, bound_, "the lane limit");
    for (const Tile& tile : nest_.tiles) bound_.tiles.emplace(tile.sym, &tile);
    check(nest_.body);
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    std::string text = "nest `" + nest_.name + "`: " + problem;
    if (stmt_) text += ", in `" + print(*stmt_, names_) + "`";
    throw Violation{std::move(text)};
  }

  /// What is known before any task runs: dims and scalar parameters.
  Bound sizes() const {
    Bound bound;
    bound.dims = bound_.dims;
    bound.scalars = bound_.scalars;
    return bound;
  }

  void expect(const Expr& expr, Numbers numbers, const Bound& bound, const std::string& what) const {
    if (!expr) fail(what + " is missing");
    if (const std::string problem = verify(expr, bound, names_); !problem.empty()) fail(what + ": " + problem);
    if (numbers_of(expr->type.dtype) != numbers)
      fail(fmt::format("{} is {}, not {}", what, name(numbers_of(expr->type.dtype)), name(numbers)));
  }

  void bind(std::unordered_set<Sym>& into, const Sym& index, const char* what) const {
    if (!index) fail(fmt::format("a {} index has no name", what));
    if (bound_.outer.count(index) || bound_.inner.count(index))
      fail(fmt::format("{} index `{}` is bound twice", what, names_.of(index)));
    into.insert(index);
  }

  void lanes() const {
    if (nest_.lanes < 1) fail(fmt::format("lanes is {}", nest_.lanes));
    if (!nest_.lane && nest_.lanes != 1) fail(fmt::format("lanes is {} without a lane index", nest_.lanes));
    // Before rows become lanes the limit is that of the rows.
    if (!nest_.lane && !nest_.row && nest_.lane_limit) fail("a lane limit without a lane or row index");
    if (nest_.lane && !nest_.lane_limit) fail("the lane index has no limit");
    if (nest_.row && nest_.row_axis >= nest_.grid.size())
      fail(fmt::format("grid axis {} should walk the rows, the grid has {} axes", nest_.row_axis, nest_.grid.size()));
  }

  void declared(const Tile& tile) const {
    const std::string what = fmt::format("tile `{}`", names_.of(tile.sym));
    if (!tile.sym) fail("a tile has no name");
    if (bound_.buffers.count(tile.sym)) fail(what + " is also a buffer");
    if (tile.dtype != DType::f32 && tile.dtype != DType::i64 && tile.dtype != DType::boolean)
      fail(fmt::format("{} has dtype {}", what, attune::name(tile.dtype)));
    for (const Tile& other : nest_.tiles)
      if (&other != &tile && other.sym == tile.sym) fail(what + " is declared twice");
    for (const TileAxis& axis : tile.axes) {
      const std::string place = fmt::format("axis `{}` of {}", names_.of(axis.index), what);
      if (!axis.index) fail("an axis of " + what + " has no index");
      if (!axis.base) fail(place + " has no base");
      if (numbers_of(axis.base->type.dtype) != Numbers::whole) fail(place + " has a base that is no integer");
      for (const TileAxis& other : tile.axes)
        if (&other != &axis && other.index == axis.index) fail(place + " occurs twice");
      expect(axis.extent, Numbers::whole, sizes(), "the extent of " + place);
      const auto extent = tensor::integer_value(axis.extent);
      if (extent && *extent < 1) fail(fmt::format("{} has extent {}", place, *extent));
      if (nest_.lane && axis.index == nest_.lane && extent && *extent % nest_.lanes != 0)
        fail(fmt::format("{} has extent {}, not a multiple of {} lanes", place, *extent, nest_.lanes));
    }
  }

  void check(const Block& block) {
    const auto scalars = bound_.scalars;  // a Let ends with its block
    for (const Stmt& stmt : block) {
      stmt_ = &stmt;
      std::visit([&](const auto& kind) { rule(kind); }, stmt.kind);
    }
    bound_.scalars = scalars;
  }

  // ---- domains ------------------------------------------------------------------------------------
  /// Binds the indices of a domain, or those that a statement reduces over: these may cross lanes below the limit.
  void enter(const std::vector<Range>& ranges, bool in_domain = true) {
    const char* what = in_domain ? "domain" : "reduced";
    for (const Range& range : ranges) {
      const std::string place = fmt::format("range of `{}`", names_.of(range.index));
      // Bounds are the same for all elements: the indices of the statement are not bound yet.
      Bound uniform = bound_;
      uniform.inner.clear();
      expect(range.lo, Numbers::whole, uniform, place);
      expect(range.hi, Numbers::whole, uniform, place);
      if (in_domain && nest_.lane && range.index == nest_.lane && literal_difference(range.hi, range.lo) != nest_.lanes)
        fail(fmt::format("the lane index `{}` ranges over {}..{}, not over {} lanes", names_.of(range.index),
                         print(range.lo, names_), print(range.hi, names_), nest_.lanes));
    }
    for (const Range& range : ranges) bind(bound_.inner, range.index, what);
  }

  const Tile& target(const Sym& sym, const std::vector<Range>& domain) {
    const auto found = bound_.tiles.find(sym);
    if (found == bound_.tiles.end()) fail(fmt::format("`{}` is no tile of the nest", names_.of(sym)));
    const Tile& tile = *found->second;
    for (const TileAxis& axis : tile.axes) {
      bool covered = false;
      for (const Range& range : domain) covered = covered || range.index == axis.index;
      if (!covered) fail(fmt::format("the domain leaves out axis `{}` of `{}`", names_.of(axis.index), names_.of(sym)));
      Bound uniform = bound_;
      uniform.inner.clear();
      uniform.tiles.clear();
      expect(axis.base, Numbers::whole, uniform,
             fmt::format("base of axis `{}` of `{}`", names_.of(axis.index), names_.of(sym)));
    }
    if (domain.size() != tile.axes.size())
      fail(fmt::format("the domain has {} indices, `{}` {} axes", domain.size(), names_.of(sym), tile.axes.size()));
    return tile;
  }

  void guard(const Expr& condition) const {
    if (condition) expect(condition, Numbers::truth, bound_, "the guard");
  }

  /// Elements are independent: an expression may read its own destination only at the element that it makes.
  void own_element(const Expr& expr, const Tile& tile) const {
    tensor::walk(expr, [&](const Expr& e) {
      const auto* access = get_if<Access>(e);
      if (!access || access->target != tile.sym) return true;
      for (std::size_t k = 0; k < tile.axes.size() && k < access->subscripts.size(); ++k) {
        const auto* index = get_if<tensor::Index>(access->subscripts[k]);
        if (!index || index->index != tile.axes[k].index)
          fail(fmt::format("`{}` reads another element of its destination", print(e, names_)));
      }
      return true;
    });
  }

  void untouched(const Expr& expr, const Sym& dst) const {
    if (dst && mentions_tile_or_buffer(expr, dst))
      fail(fmt::format("`{}` reads the destination `{}`", print(expr, names_), names_.of(dst)));
  }

  // ---- statements ---------------------------------------------------------------------------------
  void rule(const Map& map) {
    const Tile& tile = target(map.dst, map.domain);
    enter(map.domain);
    guard(map.guard);
    expect(map.value, numbers_of(tile.dtype), bound_, "the value");
    if (map.fill) expect(map.fill, numbers_of(tile.dtype), bound_, "the fill");
    for (const Expr& expr : {map.value, map.guard, map.fill})
      if (expr) own_element(expr, tile);
    bound_.inner.clear();
  }

  void rule(const Accumulate& accumulate) {
    const Tile& tile = target(accumulate.dst, accumulate.domain);
    const Numbers held = numbers_of(tile.dtype);
    const bool logical = accumulate.op == Op::any || accumulate.op == Op::all;
    if (logical != (held == Numbers::truth) || (accumulate.op == Op::max_any && held != Numbers::real))
      fail(fmt::format("`{}` accumulates into {}", name(accumulate.op), attune::name(tile.dtype)));
    if ((accumulate.op == Op::argmax) != static_cast<bool>(accumulate.dst_index))
      fail(fmt::format("`{}` {} a destination for the index", name(accumulate.op),
                       accumulate.dst_index ? "does not take" : "lacks"));
    if (accumulate.dst_index) {
      const Tile& places = target(accumulate.dst_index, accumulate.domain);
      if (places.dtype != DType::i64) fail(fmt::format("`{}` holds indices but is no i64 tile", names_.of(places.sym)));
      if (places.sym == tile.sym) fail("value and index have one destination");
      if (accumulate.over.size() != 1) fail(fmt::format("argmax works over {} indices", accumulate.over.size()));
    }
    enter(accumulate.domain);
    enter(accumulate.over, false);
    guard(accumulate.guard);
    expect(accumulate.value, held, bound_, "the value");
    for (const Sym& dst : {accumulate.dst, accumulate.dst_index}) {
      untouched(accumulate.value, dst);
      if (accumulate.guard) untouched(accumulate.guard, dst);
    }
    bound_.inner.clear();
  }

  void rule(const Contract& contract) {
    const Tile& tile = target(contract.dst, contract.domain);
    if (tile.dtype != DType::f32) fail(fmt::format("a contraction gives f32, not {}", attune::name(tile.dtype)));
    enter(contract.domain);
    enter(contract.over, false);
    for (const Range& range : contract.over)
      if (nest_.lane && range.index == nest_.lane) fail("a contraction runs over the lane index");
    expect(contract.a, Numbers::real, bound_, "operand a");
    expect(contract.b, Numbers::real, bound_, "operand b");
    untouched(contract.a, contract.dst);
    untouched(contract.b, contract.dst);
    if (contract.scale) {
      expect(contract.scale, Numbers::real, bound_, "the scale");
      untouched(contract.scale, contract.dst);
      for (const Range& range : contract.over)
        if (mentions_index(contract.scale, range.index))
          fail(fmt::format("the scale mentions the contracted index `{}`", names_.of(range.index)));
    }
    if (nest_.lane) in_lanes(contract);
    bound_.inner.clear();
  }

  bool has_lane(const Sym& sym) const {
    const auto found = bound_.tiles.find(sym);
    if (found == bound_.tiles.end()) return false;
    for (const TileAxis& axis : found->second->axes)
      if (axis.index == nest_.lane) return true;
    return false;
  }

  /// What the register micro-kernel takes for granted: a is a vector along the lanes, b one value for all of them.
  void in_lanes(const Contract& contract) const {
    if (!has_lane(contract.dst)) fail("the destination of a contraction has no lane axis");
    const auto* a = get_if<Access>(contract.a);
    if (!a || !has_lane(a->target)) fail("operand a is no read of a tile with the lane axis");
    if (!mentions_index(contract.a, nest_.lane)) fail("operand a does not mention the lane index");
    if (!get_if<Access>(contract.b)) fail("operand b is no read");
    if (mentions_index(contract.b, nest_.lane)) fail("operand b mentions the lane index");
    for (const Range& range : contract.domain)
      if (range.index != nest_.lane && mentions_index(contract.a, range.index))
        fail(fmt::format("operand a mentions the index `{}` of the domain", names_.of(range.index)));
    if (contract.scale) scale(contract.scale);
  }

  void scale(const Expr& expr) const {
    if (tensor::get_if<tensor::Literal>(expr)) return;  // a running sum that nothing repairs
    if (const auto* chain = get_if<tensor::Chain>(expr)) {
      for (const tensor::LinkOp link : chain->links)
        if (link != tensor::LinkOp::mul) fail("the scale is neither a read nor a product of reads");
      for (const Expr& arg : chain->args) scale(arg);
      return;
    }
    const auto* access = get_if<Access>(expr);
    if (!access || !has_lane(access->target)) fail("the scale is no read of a tile with the lane axis");
  }

  void rule(const Store& store) {
    const auto found = bound_.buffers.find(store.target);
    if (found == bound_.buffers.end()) fail(fmt::format("`{}` is no buffer", names_.of(store.target)));
    const Buffer& buffer = *found->second;
    if (buffer.role == Role::input) fail(fmt::format("a store into the input `{}`", names_.of(store.target)));
    if (store.subscripts.size() != buffer.extents.size())
      fail(fmt::format("{} subscripts for {} axes", store.subscripts.size(), buffer.extents.size()));
    enter(store.domain);
    for (const Expr& subscript : store.subscripts) expect(subscript, Numbers::whole, bound_, "a subscript");
    expect(store.value, numbers_of(buffer.dtype), bound_, "the value");
    untouched(store.value, store.target);
    bound_.inner.clear();
  }

  void rule(const Let& let) {
    if (!let.sym) fail("a let has no name");
    if (bound_.scalars.count(let.sym)) fail(fmt::format("`{}` is bound twice", names_.of(let.sym)));
    if (!let.value) fail("the value is missing");
    const DType dtype = let.value->type.dtype;
    expect(let.value, numbers_of(dtype), bound_, "the value");
    bound_.scalars.emplace(let.sym, dtype);
  }

  void rule(const For& loop) {
    for (const Expr& bound : {loop.lo, loop.hi, loop.step}) expect(bound, Numbers::whole, bound_, "a bound");
    if (const auto step = tensor::integer_value(loop.step); step && *step < 1)
      fail(fmt::format("the step is {}", *step));
    // The guard speaks of elements that the body's statements bind; partition uses it, nothing evaluates it.
    if (loop.guard && !loop.blocks) fail("a guard without an index that the loop walks in blocks");
    if (loop.guard && !loop.guard->type.is_bool()) fail("the guard of the loop is no condition");
    bind(bound_.outer, loop.index, "loop");
    check(loop.body);
    bound_.outer.erase(loop.index);
  }

  void rule(const If& branch) {
    expect(branch.condition, Numbers::truth, bound_, "the condition");
    check(branch.then);
    check(branch.otherwise);
  }

  const Nest& nest_;
  const Names names_;
  Bound bound_;
  const Stmt* stmt_ = nullptr;
};

void check_buffers(const Kernel& kernel) {
  const Names names(kernel);
  const auto fail = [](std::string text) { throw Violation{"kernel: " + std::move(text)}; };
  if (kernel.scalar_types.size() != kernel.scalars.size())
    fail(fmt::format("{} scalars have {} types", kernel.scalars.size(), kernel.scalar_types.size()));
  if (kernel.index_bits != 32 && kernel.index_bits != 64) fail(fmt::format("{} index bits", kernel.index_bits));
  Bound bound;
  for (const Sym& dim : kernel.dims)
    if (!dim || !bound.dims.insert(dim).second) fail("dim `" + names.of(dim) + "` is declared twice or has no name");
  for (std::size_t k = 0; k < kernel.scalars.size(); ++k)
    if (!kernel.scalars[k] || !bound.scalars.emplace(kernel.scalars[k], kernel.scalar_types[k].dtype).second)
      fail("scalar `" + names.of(kernel.scalars[k]) + "` is declared twice or has no name");
  for (const Buffer& buffer : kernel.buffers) {
    const std::string what = "buffer `" + names.of(buffer.sym) + "`";
    if (!buffer.sym || kernel.find_buffer(buffer.sym) != &buffer) fail(what + " is declared twice or has no name");
    for (const Expr& extent : buffer.extents) {
      if (const std::string problem = verify(extent, bound, names); !problem.empty()) fail(what + ": " + problem);
      if (numbers_of(extent->type.dtype) != Numbers::whole) fail(what + " has an extent that is no integer");
    }
    if (buffer.unit_axis < -1 || buffer.unit_axis >= static_cast<std::int64_t>(buffer.extents.size()))
      fail(fmt::format("{} has no axis {}", what, buffer.unit_axis));
    if (!buffer.presence) continue;
    const Buffer* presence = kernel.find_buffer(buffer.presence);
    if (!presence || presence->role != Role::temporary || presence->dtype != DType::boolean)
      fail(what + " has a presence that is no boolean temporary");
    if (presence->extents != buffer.extents) fail(what + " and its presence have different extents");
    if (presence->presence) fail(what + " has a presence that has a presence");
  }
}

}  // namespace

std::string verify(const Kernel& kernel) {
  try {
    check_buffers(kernel);
    for (const Nest& nest : kernel.nests) NestChecker(kernel, nest).check();
  } catch (const Violation& violation) {
    return violation.text;
  }
  return "";
}

}  // namespace attune::loop
