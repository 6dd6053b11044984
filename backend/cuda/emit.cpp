// SPDX-License-Identifier: Apache-2.0
// A kernel as CUDA C++: the prelude, the plain device functions, one function for each nest.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "backend/cuda/cuda.hpp"
#include "backend/cuda/expressions.hpp"
#include "tensor/passes.hpp"

namespace attune::cuda {
namespace {

std::atomic<Generator> generator{nullptr};

constexpr int threads_of_scalar_block = 128;

std::string identifier(const std::string& name, std::size_t nest) {
  std::string out;
  for (const char c : name)
    out += (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ? c : '_';
  return fmt::format("attune_{}_{}", out, nest);
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
  if (const auto* node = tensor::get_if<tensor::Literal>(simple))
    if (const auto* whole = std::get_if<std::int64_t>(&node->value)) return *whole;
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
