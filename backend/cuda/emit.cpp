// SPDX-License-Identifier: Apache-2.0
// Where code generation for GPUs joins the runtime. This version has none of its own: the target is refused before
// anything is compiled, and a test of the runtime brings a generator with it.
#include <atomic>

#include "backend/cuda/cuda.hpp"

namespace attune::cuda {
namespace {

std::atomic<Generator> generator{nullptr};

}  // namespace

void replace_generator(Generator with) { generator.store(with, std::memory_order_release); }

std::optional<Diagnostic> not_generated() {
  if (generator.load(std::memory_order_acquire) != nullptr) return std::nullopt;
  Diagnostic diagnostic;
  diagnostic.code = "A0602";
  diagnostic.message = "this version of attune generates no code for GPUs yet";
  diagnostic.help = "use the target `cpu`";
  return diagnostic;
}

Result<Source> emit(const loop::Kernel& kernel, const GpuTarget& target) {
  if (std::optional<Diagnostic> refused = not_generated()) return *std::move(refused);
  return generator.load(std::memory_order_acquire)(kernel, target);
}

}  // namespace attune::cuda
