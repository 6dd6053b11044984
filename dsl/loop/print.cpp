// SPDX-License-Identifier: Apache-2.0
// The loop nest as indented text: the golden format, and the statements that diagnostics quote.
#include "loop/print.hpp"

#include <fmt/format.h>

namespace attune::loop {

Names::Names(const Kernel& kernel) {
  for (const Sym& dim : kernel.dims) add(dim);
  for (const Sym& scalar : kernel.scalars) add(scalar);
  for (const Buffer& buffer : kernel.buffers) add(buffer.sym);
}

Names::Names(const Kernel& kernel, const Nest& nest) : Names(kernel) {
  for (const GridAxis& axis : nest.grid) add(axis.index);
  add(nest.row);
  add(nest.lane);
  for (const Tile& tile : nest.tiles) {
    add(tile.sym);
    for (const TileAxis& axis : tile.axes) add(axis.index);
  }
  add(nest.body);
}

void Names::add(const Sym& sym) {
  if (!sym || text_.count(sym)) return;
  // "m.2" may itself be somebody's name: go on until the text is free.
  std::string text = sym.text();
  while (count_.count(text)) text = fmt::format("{}.{}", sym.text(), ++count_[sym.text()]);
  count_.emplace(text, 1);
  text_.emplace(sym, std::move(text));
}

void Names::add(const Block& block) {
  const auto ranges = [&](const std::vector<Range>& list) {
    for (const Range& range : list) add(range.index);
  };
  for (const Stmt& stmt : block)
    match(
        stmt.kind, [&](const Map& map) { ranges(map.domain); },
        [&](const Accumulate& accumulate) {
          ranges(accumulate.domain);
          ranges(accumulate.over);
        },
        [&](const Contract& contract) {
          ranges(contract.domain);
          ranges(contract.over);
        },
        [&](const Store& store) { ranges(store.domain); }, [&](const Let& let) { add(let.sym); },
        [&](const For& loop) {
          add(loop.index);
          add(loop.blocks);
          add(loop.body);
        },
        [&](const If& branch) {
          add(branch.then);
          add(branch.otherwise);
        });
}

const std::string& Names::of(const Sym& sym) const {
  const auto found = text_.find(sym);
  return found == text_.end() ? sym.text() : found->second;
}

std::string_view name(Op op) {
  switch (op) {
    case Op::sum: return "sum";
    case Op::prod: return "prod";
    case Op::max: return "max";
    case Op::min: return "min";
    case Op::max_any: return "max_any";
    case Op::any: return "any";
    case Op::all: return "all";
    case Op::argmax: return "argmax";
  }
  return "?";
}

namespace {

std::string text(const std::vector<Range>& ranges, const Names& names) {
  std::string out;
  for (const Range& range : ranges)
    out += fmt::format("{}{} in {}..{}", out.empty() ? "" : ", ", names.of(range.index), print(range.lo, names),
                       print(range.hi, names));
  return out;
}

std::string for_all(const std::vector<Range>& domain, const Names& names) {
  return domain.empty() ? "" : "  for " + text(domain, names);
}

/// `dst[i, j]`: a destination's subscripts are the indices of its domain.
std::string element(const Sym& dst, const std::vector<Range>& domain, const Names& names) {
  std::string out;
  for (const Range& range : domain) out += (out.empty() ? "" : ", ") + names.of(range.index);
  return names.of(dst) + "[" + out + "]";
}

std::string line(const Map& map, const Names& names) {
  std::string out = element(map.dst, map.domain, names) + " = " + print(map.value, names);
  if (map.guard) out += " where " + print(map.guard, names);
  out += map.fill ? " else " + print(map.fill, names) : " else keep";
  return out + for_all(map.domain, names);
}

std::string line(const Accumulate& accumulate, const Names& names) {
  std::string dst = element(accumulate.dst, accumulate.domain, names);
  if (accumulate.op == Op::argmax) dst += ", " + element(accumulate.dst_index, accumulate.domain, names);
  std::string out = fmt::format("{} = reduce[{}] {}({}", dst, text(accumulate.over, names), name(accumulate.op),
                                print(accumulate.value, names));
  if (accumulate.guard) out += " where " + print(accumulate.guard, names);
  return out + ") with " + dst + for_all(accumulate.domain, names);
}

std::string operand(const Expr& expr, const Names& names) {
  const std::string out = print(expr, names);
  return tensor::get_if<tensor::Access>(expr) ? out : "(" + out + ")";
}

std::string line(const Contract& contract, const Names& names) {
  const std::string dst = element(contract.dst, contract.domain, names);
  std::string out = dst + " = ";
  if (contract.scale) out += dst + " * " + operand(contract.scale, names) + " + ";
  return out +
         fmt::format("contract[{}] {} * {}", text(contract.over, names), operand(contract.a, names),
                     operand(contract.b, names)) +
         for_all(contract.domain, names);
}

std::string line(const Store& store, const Names& names) {
  std::string subscripts;
  for (const Expr& subscript : store.subscripts)
    subscripts += (subscripts.empty() ? "" : ", ") + print(subscript, names);
  return fmt::format("store {}[{}] = {}", names.of(store.target), subscripts, print(store.value, names)) +
         for_all(store.domain, names);
}

std::string line(const Let& let, const Names& names) {
  return "let " + names.of(let.sym) + " = " + print(let.value, names);
}

std::string line(const For& loop, const Names& names) {
  std::string out = fmt::format("for {} in {}..{} step {}", names.of(loop.index), print(loop.lo, names),
                                print(loop.hi, names), print(loop.step, names));
  if (loop.blocks) out += " of " + names.of(loop.blocks);
  if (loop.guard) out += " where " + print(loop.guard, names);
  out += loop.kind == ForKind::serial ? " : serial" : " : unrolled";
  return loop.tag.empty() ? out : out + "  # " + loop.tag;
}

std::string line(const If& branch, const Names& names) { return "if " + print(branch.condition, names); }

void write(std::string& out, const Block& block, const Names& names, std::size_t depth) {
  const std::string indent(2 * depth, ' ');
  for (const Stmt& stmt : block) {
    out += indent + print(stmt, names) + "\n";
    if (const auto* loop = std::get_if<For>(&stmt.kind)) write(out, loop->body, names, depth + 1);
    if (const auto* branch = std::get_if<If>(&stmt.kind)) {
      write(out, branch->then, names, depth + 1);
      if (branch->otherwise.empty()) continue;
      out += indent + "else\n";
      write(out, branch->otherwise, names, depth + 1);
    }
  }
}

/// The order of a tile's storage, outermost first, where it is not that of its axes.
std::string storage(const Tile& tile, const Nest& nest, const Names& names) {
  std::string others;
  bool split = false;
  for (const TileAxis& axis : tile.axes) {
    if (axis.index == nest.lane && nest.lane)
      split = true;
    else
      others += names.of(axis.index) + ", ";
  }
  if (!split) return "";
  const std::string& lane = names.of(nest.lane);
  return fmt::format("  # stored {}/{}, {}{}%{}", lane, nest.lanes, others, lane, nest.lanes);
}

std::string_view name(Role role) {
  switch (role) {
    case Role::input: return "input";
    case Role::result: return "result";
    case Role::temporary: return "temporary";
  }
  return "?";
}

void write(std::string& out, const Buffer& buffer, const Names& names) {
  std::string extents;
  for (const Expr& extent : buffer.extents) extents += (extents.empty() ? "" : ", ") + print(extent, names);
  out += fmt::format("  {} {}: {}[{}]", name(buffer.role), names.of(buffer.sym), attune::name(buffer.dtype), extents);
  if (buffer.presence) out += " present " + names.of(buffer.presence);
  if (buffer.unit_axis >= 0) out += fmt::format(" unit {}", buffer.unit_axis);
  if (!buffer.why.empty()) out += "  # " + buffer.why;
  out += "\n";
}

void write(std::string& out, const Kernel& kernel, const Nest& nest) {
  const Names names(kernel, nest);
  out += fmt::format("  nest {}\n", nest.name);
  for (const GridAxis& axis : nest.grid) {
    out += fmt::format("    grid {} in {}..{} step {}", names.of(axis.index), print(axis.lo, names),
                       print(axis.hi, names), print(axis.step, names));
    out += axis.descending ? " descending\n" : "\n";
  }
  if (nest.row) out += fmt::format("    rows {}", names.of(nest.row));
  if (nest.row && nest.lane_limit && !nest.lane) out += " below " + print(nest.lane_limit, names);
  if (nest.row) out += "\n";
  if (nest.lane)
    out += fmt::format("    lanes {} by {} below {}\n", names.of(nest.lane), nest.lanes, print(nest.lane_limit, names));
  for (const Tile& tile : nest.tiles) {
    std::string axes;
    for (const TileAxis& axis : tile.axes)
      axes += fmt::format("{}{} = {} + {}", axes.empty() ? "" : ", ", names.of(axis.index), print(axis.base, names),
                          print(axis.extent, names));
    out += fmt::format("    tile {}: {}[{}] {}{}\n", names.of(tile.sym), attune::name(tile.dtype), axes,
                       tile.scope == Scope::stack ? "stack" : "packed", storage(tile, nest, names));
  }
  write(out, nest.body, names, 2);
}

}  // namespace

std::string print(const Stmt& stmt, const Names& names) {
  return std::visit([&](const auto& kind) { return line(kind, names); }, stmt.kind);
}

std::string print(const Kernel& kernel) {
  const Names names(kernel);
  std::string out = "kernel " + kernel.name;
  if (kernel.trusted) out += " trusted";
  if (kernel.index_bits != 64) out += fmt::format(" index {}", kernel.index_bits);
  out += "\n  schedule";
  for (const auto& [key, value] : kernel.schedule.values()) out += fmt::format(" {}={}", key, value);
  out += "\n";
  for (const Sym& dim : kernel.dims) out += fmt::format("  dim {}\n", names.of(dim));
  for (std::size_t k = 0; k < kernel.scalars.size(); ++k)
    out += fmt::format("  scalar {}: {}\n", names.of(kernel.scalars[k]),
                       k < kernel.scalar_types.size() ? attune::name(kernel.scalar_types[k].dtype) : "?");
  for (const Buffer& buffer : kernel.buffers) write(out, buffer, names);
  for (const Nest& nest : kernel.nests) write(out, kernel, nest);
  return out;
}

}  // namespace attune::loop
