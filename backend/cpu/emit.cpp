// SPDX-License-Identifier: Apache-2.0
// Loop kernel -> LLVM IR text: the module and the three functions of each nest.
#include "backend/cpu/emit.hpp"

#include <algorithm>
#include <numeric>

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
  number_ = number;
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
  return finish("define void @nest" + std::to_string(number) +
                    "_run(ptr noalias %frame, i64 %task, ptr noalias align 64 %scratch) #0 {\nentry:\n" + locals,
                "  ret void\n}\n");
}

namespace {

/// One function: what stands before and after its linkage.
struct Function {
  std::string result;     ///< its type
  std::string signature;  ///< name and parameters
  std::string body;
  bool entry = false;  ///< called from outside
};

/// All functions of a kernel and the intrinsics that they may need.
struct Code {
  std::vector<Function> functions;
  std::map<std::string, std::string> declarations;
};

Result<Code> functions_of(const loop::Kernel& kernel, const CpuTarget& target) {
  Module module(kernel, target);
  Code code;
  const auto entry = [&](const char* result, const std::string& text) {
    // `define TYPE @name(...) #0 {`: the emitter writes entries whole.
    const std::size_t at = text.find('@'), end = text.find(" #0 {");
    code.functions.push_back({result, text.substr(at, end - at), text.substr(end), true});
  };
  try {
    for (std::size_t k = 0; k < kernel.nests.size(); ++k) {
      Emitter emitter(module, kernel.nests[k]);
      entry("i64", emitter.tasks(k));
      entry("i64", emitter.scratch(k));
      entry("void", emitter.run(k));
      for (const Emitter::Part& part : emitter.parts())
        code.functions.push_back({"void", "@" + part.name + part.parameters, part.body, false});
    }
  } catch (const Malformed& malformed) {
    Diagnostic diagnostic;
    diagnostic.code = "A0901";
    diagnostic.message = "the CPU backend cannot translate kernel `" + kernel.name + "`: " + malformed.message;
    diagnostic.span = malformed.span;
    return diagnostic;
  }
  // Both may declare the same intrinsic, and text allows each only once.
  for (const int width : {1, 4, 8, 16}) {
    const std::string lines = math_declarations(width, target);
    for (std::size_t at = 0; at < lines.size();) {
      const std::size_t end = std::min(lines.find('\n', at), lines.size());
      module.declare(lines.substr(at, end - at));
      at = end + 1;
    }
  }
  code.declarations = std::move(module.declarations);
  return code;
}

/// A module of some of the functions; `alone` where they are all.
std::string module_text(const Code& code, const std::vector<std::size_t>& members, const loop::Kernel& kernel,
                        const CpuTarget& target, bool alone) {
  std::string functions;
  for (const std::size_t k : members) {
    const Function& function = code.functions[k];
    const char* linkage = function.entry ? "" : alone ? "internal " : "hidden ";
    functions += std::string("define ") + linkage + function.result + " " + function.signature + function.body + "\n";
  }
  std::string text = "; kernel " + kernel.name + "\n" + functions;
  for (const auto& [name, declaration] : code.declarations)
    if (functions.find(name + "(") != std::string::npos) text += declaration + "\n";
  for (std::size_t k = 0; k < code.functions.size(); ++k) {
    const Function& other = code.functions[k];
    const std::string name = other.signature.substr(0, other.signature.find('(') + 1);
    if (std::find(members.begin(), members.end(), k) == members.end() && functions.find(name) != std::string::npos)
      text += "declare hidden " + other.result + " " + other.signature + "\n";
  }
  const std::string attributes = function_attributes(target);
  return text + "attributes #0 = { " + attributes + " }\nattributes #1 = { " + attributes +
         " cold noinline optnone }\n!0 = !{}\n";
}

}  // namespace

Result<std::string> emit(const loop::Kernel& kernel, const CpuTarget& target) {
  Result<Code> code = functions_of(kernel, target);
  if (!code) return code.diagnostics();
  std::vector<std::size_t> all(code->functions.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return module_text(*code, all, kernel, target, true);
}

Result<std::vector<std::string>> emit_modules(const loop::Kernel& kernel, const CpuTarget& target) {
  Result<Code> code = functions_of(kernel, target);
  if (!code) return code.diagnostics();
  // The largest function first, each to the module that is the smallest so far.
  constexpr std::size_t most = 4, worth_a_module = 8000;
  std::vector<std::size_t> order(code->functions.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto size = [&](std::size_t k) { return code->functions[k].body.size(); };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return size(a) > size(b); });
  std::size_t total = 0;
  for (const std::size_t k : order) total += size(k);
  std::vector<std::vector<std::size_t>> members(std::clamp<std::size_t>(total / worth_a_module, 1, most));
  std::vector<std::size_t> filled(members.size());
  for (const std::size_t k : order) {
    const auto smallest = static_cast<std::size_t>(std::min_element(filled.begin(), filled.end()) - filled.begin());
    members[smallest].push_back(k);
    filled[smallest] += size(k);
  }
  std::vector<std::string> modules;
  for (const auto& some : members)
    if (!some.empty()) modules.push_back(module_text(*code, some, kernel, target, false));
  return modules;
}

}  // namespace attune::cpu
