// SPDX-License-Identifier: Apache-2.0
// GPUs that need not be here, by the name of their architecture.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/cuda.hpp"

namespace attune::cuda {

/// A GPU of an architecture ("sm_80", "sm_90a", ...), with the shared memory and registers that all of them have and
/// the processors and L2 of a large one; nothing for a name that is not known.
std::optional<GpuTarget> named_target(std::string_view arch);
/// The names that named_target() knows.
std::vector<std::string> target_names();

/// Whether the device functions of attune run on it: compute capability 8.0 or newer.
bool is_supported(const GpuTarget& target);
/// Whether the architecture has instructions that only code for exactly it may use and that attune wants (sm_90a).
bool wants_arch_specific(int major, int minor);

}  // namespace attune::cuda
