// SPDX-License-Identifier: Apache-2.0
// A kernel as CUDA C++: the prelude, the plain device functions, one function for each nest.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <limits>

#include "backend/cuda/cuda.hpp"
#include "backend/cuda/expressions.hpp"
#include "tensor/algebra.hpp"
#include "tensor/passes.hpp"

namespace attune::cuda {
namespace {

std::atomic<Generator> generator{nullptr};

constexpr int threads_of_scalar_block = 128;
constexpr std::int64_t most_local_bytes = 512
                                          << 10;  ///< of a thread (CUDA C++ programming guide, compute capabilities)

std::string identifier(const std::string& name, std::size_t nest) {
  std::string out;
  for (const char c : name)
    out += (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ? c : '_';
  return fmt::format("attune_{}_{}", out, nest);
}

/// Bytes of the tiles of one thread.
std::int64_t local_bytes(const loop::Nest& nest) {
  std::int64_t total = 0;
  for (const loop::Tile& tile : nest.tiles) {
    std::int64_t count = is_float(tile.dtype) ? sizeof(float) : is_bool(tile.dtype) ? 1 : sizeof(std::int64_t);
    for (const loop::TileAxis& axis : tile.axes)
      if (const auto extent = largest(axis.extent); extent && __builtin_mul_overflow(count, *extent, &count))
        return std::numeric_limits<std::int64_t>::max();
    if (__builtin_add_overflow(total, count, &total)) return std::numeric_limits<std::int64_t>::max();
  }
  return total;
}

Result<Source> generate(const loop::Kernel& kernel) {
  const ParameterWords words(kernel);
  Source source;
  source.words = words.count;
  source.may_flag = false;
  source.text = std::string(prelude()) + std::string(prelude_end) + std::string(functions());
  source.text += fmt::format("typedef {} Int;\nstruct Params {{ i64 w[{}]; }};\n",
                             kernel.index_bits == 32 ? "int" : "i64", words.count);
  for (std::size_t k = 0; k < kernel.nests.size(); ++k) {
    const loop::Nest& nest = kernel.nests[k];
    if (const std::int64_t bytes = local_bytes(nest); bytes > most_local_bytes) {
      Diagnostic diagnostic;
      diagnostic.code = "A0403";
      diagnostic.message = fmt::format("a thread of nest `{}` would hold {} bytes of tiles; a GPU gives a thread {}",
                                       nest.name, bytes, most_local_bytes);
      diagnostic.expected = fmt::format("at most {} bytes", most_local_bytes);
      diagnostic.found = std::to_string(bytes);
      diagnostic.help = "make `tile.m`, `tile.n` or `lanes` smaller, where the sizes of the call leave that room";
      return diagnostic;
    }
    const NestCode code = emit_by_threads(kernel, nest, words, threads_of_scalar_block);
    Launch launch;
    launch.function = identifier(kernel.name, k);
    launch.threads = threads_of_scalar_block;
    launch.tasks_per_block = threads_of_scalar_block;
    source.text += fmt::format("\n// nest {}\nATTUNE_KERNEL({}, 1) {}(const Params p) {{\n{}}}\n", nest.name,
                               launch.threads, launch.function, code.text);
    source.launches.push_back(std::move(launch));
    source.may_flag = source.may_flag || code.may_flag;
  }
  return source;
}

}  // namespace

std::optional<std::int64_t> largest(const Expr& extent) {
  const Expr simple = tensor::simplify(extent);
  if (const auto whole = tensor::integer_value(simple)) return whole;
  const auto* chain = tensor::get_if<tensor::Chain>(simple);
  if (!chain || chain->links[0] != tensor::LinkOp::min) return std::nullopt;
  std::optional<std::int64_t> least;
  for (const Expr& arg : chain->args)
    if (const auto bound = largest(arg)) least = std::min(least.value_or(*bound), *bound);
  return least;
}

Result<std::vector<Sym>> dims_to_fix(const tensor::Program& program, loop::LowerOptions options) {
  options.observer = nullptr;
  const Result<loop::Lowered> lowered = loop::build(program, options);
  if (!lowered) return lowered.diagnostics();
  std::vector<Sym> dims;
  for (const loop::Nest& nest : lowered->kernel.nests)
    for (const loop::Tile& tile : nest.tiles)
      for (const loop::TileAxis& axis : tile.axes) {
        if (largest(axis.extent)) continue;
        tensor::walk(axis.extent, [&](const Expr& e) {
          const auto* dim = tensor::get_if<tensor::Dim>(e);
          if (dim && std::find(dims.begin(), dims.end(), dim->dim) == dims.end()) dims.push_back(dim->dim);
          return true;
        });
      }
  return dims;
}

void replace_generator(Generator with) { generator.store(with, std::memory_order_release); }

Result<Source> emit(const loop::Kernel& kernel, const GpuTarget& target) {
  if (const Generator other = generator.load(std::memory_order_acquire)) return other(kernel, target);
  try {
    return generate(kernel);
  } catch (const Malformed& problem) {
    Diagnostic diagnostic;
    diagnostic.code = "A0901";
    diagnostic.message = fmt::format("internal error: no code for `{}`: {}", kernel.name, problem.what);
    diagnostic.help = "please report this together with the program";
    return diagnostic;
  }
}

}  // namespace attune::cuda
