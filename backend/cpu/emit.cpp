// SPDX-License-Identifier: Apache-2.0
// Loop kernel -> LLVM IR text: the module and the three functions of each nest.
#include "backend/cpu/emit.hpp"

#include <algorithm>

namespace attune::cpu {

namespace {

void collect_stores(const loop::Block& block, const loop::Kernel& kernel, std::set<Sym>& stored) {
  for (const loop::Stmt& stmt : block) {
    if (const auto* store = std::get_if<loop::Store>(&stmt.kind)) {
      stored.insert(store->target);
      const loop::Buffer* buffer = kernel.find_buffer(store->target);
      if (buffer && buffer->presence) stored.insert(buffer->presence);
    } else if (const auto* loop = std::get_if<loop::For>(&stmt.kind)) {
      collect_stores(loop->body, kernel, stored);
    } else if (const auto* branch = std::get_if<loop::If>(&stmt.kind)) {
      collect_stores(branch->then, kernel, stored);
      collect_stores(branch->otherwise, kernel, stored);
    }
  }
}

}  // namespace

Module::Module(const loop::Kernel& k, const CpuTarget& t) : kernel(k), target(t) {
  std::size_t axes = 0;
  for (std::size_t b = 0; b < kernel.buffers.size(); ++b) {
    buffer_index.emplace(kernel.buffers[b].sym, b);
    first_axis.push_back(axes);
    axes += kernel.buffers[b].extents.size();
  }
}

void Module::declare(const std::string& text) {
  const std::size_t at = text.find('@'), end = text.find('(', at);
  if (at != std::string::npos && end != std::string::npos) declarations.emplace(text.substr(at, end - at), text);
}

Emitter::Emitter(Module& module, const loop::Nest& nest)
    : module_(module), kernel_(module.kernel), nest_(nest), target_(module.target) {
  vector_integer_ = kernel_.index_bits == 32 ? Kind::i32 : Kind::i64;
  mask_registers_ = target_.isa == Isa::avx512;
  if (nest.lane)
    while (nest.lanes % (2 * lane_width_) == 0 && 2 * lane_width_ <= target_.vector_lanes) lane_width_ *= 2;
  for (const loop::Tile& tile : nest.tiles) {
    TileInfo info{&tile, -1, Kind::f32};
    for (std::size_t k = 0; k < tile.axes.size(); ++k)
      if (nest.lane && tile.axes[k].index == nest.lane) info.lane_axis = static_cast<int>(k);
    tiles_.emplace(tile.sym, info);
  }
  collect_stores(nest.body, kernel_, stored_);
}

std::string Emitter::tasks(std::size_t number) {
  begin();
  V count = integer(1);
  for (const loop::GridAxis& axis : nest_.grid) count = mul(count, grid_count(axis));
  return finish("define i64 @nest" + std::to_string(number) + "_tasks(ptr noalias %frame) #0 {\nentry:\n",
                "  ret i64 " + count.s + "\n}\n");
}

V Emitter::grid_count(const loop::GridAxis& axis) {
  const V step = uniform(axis.step), length = maximum(sub(uniform(axis.hi), uniform(axis.lo)), integer(0));
  if (step.whole == 1) return length;
  return binary("udiv", add(length, sub(step, integer(1))), maximum(step, integer(1)));
}

std::string Emitter::scratch(std::size_t number) {
  begin();
  V bytes = integer(0);
  for (const loop::Tile& tile : nest_.tiles) bytes = add(bytes, tile_bytes(tile));
  return finish("define i64 @nest" + std::to_string(number) + "_scratch(ptr noalias %frame) #0 {\nentry:\n",
                "  ret i64 " + bytes.s + "\n}\n");
}

std::string Emitter::run(std::size_t number) {
  begin();
  V task{"%task", Kind::i64, 1, 0, {}, {}};
  for (std::size_t k = nest_.grid.size(); k-- > 0;) {
    const loop::GridAxis& axis = nest_.grid[k];
    const V count = grid_count(axis);
    V place = task;
    if (k > 0) {
      place = binary("urem", task, count);
      task = binary("udiv", task, count);
    }
    if (axis.descending) place = sub(sub(count, integer(1)), place);
    bind({axis.index, axis.lo, axis.hi}, add(uniform(axis.lo), mul(place, uniform(axis.step))));
  }
  emit(nest_.body);
  return finish(
      "define void @nest" + std::to_string(number) +
          "_run(ptr noalias %frame, i64 %task, ptr noalias align 64 %scratch) #0 {\nentry:\n"
          "  %zero = alloca i64, align 8\n  %sink = alloca [16 x float], align 64\n  store i64 0, ptr %zero, align 8\n",
      "  ret void\n}\n");
}

Result<std::string> emit(const loop::Kernel& kernel, const CpuTarget& target) {
  Module module(kernel, target);
  std::string functions;
  try {
    for (std::size_t k = 0; k < kernel.nests.size(); ++k) {
      Emitter emitter(module, kernel.nests[k]);
      functions += emitter.tasks(k) + "\n" + emitter.scratch(k) + "\n" + emitter.run(k) + "\n";
    }
  } catch (const Malformed& malformed) {
    Diagnostic diagnostic;
    diagnostic.code = "A0901";
    diagnostic.message = "the CPU backend cannot translate kernel `" + kernel.name + "`: " + malformed.message;
    diagnostic.span = malformed.span;
    return diagnostic;
  }
  // Both may declare the same intrinsic, and text allows each only once.
  std::vector<int> widths{1, 4, 8, 16};
  for (const int width : widths) {
    const std::string lines = math_declarations(width, target);
    for (std::size_t at = 0; at < lines.size();) {
      const std::size_t end = std::min(lines.find('\n', at), lines.size());
      module.declare(lines.substr(at, end - at));
      at = end + 1;
    }
  }
  std::string text = "; kernel " + kernel.name + "\n" + functions;
  for (const auto& [name, declaration] : module.declarations)
    if (functions.find(name + "(") != std::string::npos) text += declaration + "\n";
  return text + "attributes #0 = { " + function_attributes(target) + " }\n!0 = !{}\n";
}

}  // namespace attune::cpu
