// SPDX-License-Identifier: Apache-2.0
// What is known of GPU architectures without a device.
#include "backend/cuda/target.hpp"

#include <fmt/format.h>

namespace attune::cuda {
namespace {

constexpr std::int64_t KiB = 1 << 10, MiB = 1 << 20;

/// Shared memory by compute capability from the CUDA programming guide; a block may have all of a processor's but 1
/// KiB.
struct Architecture {
  int major, minor;
  std::int64_t shared_per_sm;
  int processors;
  std::int64_t l2_bytes;
};
constexpr Architecture architectures[] = {
    {8, 0, 164 * KiB, 108, 40 * MiB},  {8, 6, 100 * KiB, 84, 6 * MiB},     {8, 9, 100 * KiB, 128, 72 * MiB},
    {9, 0, 228 * KiB, 132, 50 * MiB},  {10, 0, 228 * KiB, 148, 126 * MiB}, {10, 3, 228 * KiB, 148, 126 * MiB},
    {12, 0, 100 * KiB, 170, 96 * MiB}, {12, 1, 100 * KiB, 48, 24 * MiB},
};

GpuTarget target_of(const Architecture& known, bool arch_specific) {
  GpuTarget target;
  target.major = known.major;
  target.minor = known.minor;
  target.arch_specific = arch_specific;
  target.name = target.arch();
  target.shared_per_sm = known.shared_per_sm;
  target.shared_per_block = known.shared_per_sm - 1 * KiB;
  target.processors = known.processors;
  target.l2_bytes = known.l2_bytes;
  return target;
}

}  // namespace

std::string GpuTarget::arch() const { return fmt::format("sm_{}{}{}", major, minor, arch_specific ? "a" : ""); }

Machine GpuTarget::machine() const {
  Machine machine;
  machine.name = arch();
  machine.gpu = true;
  machine.vector_lanes = 1;
  machine.vector_registers = 255;
  machine.l1_bytes = shared_per_block > 0 ? shared_per_block : machine.l1_bytes;
  machine.l2_bytes = l2_bytes > 0 ? l2_bytes : machine.l2_bytes;
  return machine;
}

bool wants_arch_specific(int major, int minor) { return major == 9 && minor == 0; }

bool is_supported(const GpuTarget& target) { return target.major >= 8; }

std::optional<GpuTarget> named_target(std::string_view arch) {
  for (const Architecture& known : architectures)
    for (const bool specific : {false, true}) {
      // Architecture-specific code exists from 9.0 on.
      if (specific && known.major < 9) continue;
      if (GpuTarget target = target_of(known, specific); target.arch() == arch) return target;
    }
  return std::nullopt;
}

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const Architecture& known : architectures) {
    names.push_back(target_of(known, false).arch());
    if (known.major >= 9) names.push_back(target_of(known, true).arch());
  }
  return names;
}

}  // namespace attune::cuda
