// SPDX-License-Identifier: Apache-2.0
// From a scheduled loop nest to code on a GPU, with the caches between.
#pragma once
#include <string_view>

#include "runtime/state.hpp"

namespace attune {

struct GpuCodeFound {
  std::shared_ptr<const cuda::Loaded> code;
  std::string_view cache = "memory";  ///< "memory", "disk" or "miss"
  double compile_ms = 0, load_ms = 0;
};

/// The code of a kernel on a device: in memory, on disk, or emitted, compiled and loaded now.
Result<GpuCodeFound> find_gpu_code(Engine::State& engine, const loop::Kernel& kernel, const cuda::GpuDevice& device);

}  // namespace attune
