// SPDX-License-Identifier: Apache-2.0
// A call of generated CUDA code: the words that its functions take, and how many blocks each launch has.
#pragma once
#include <cstdint>
#include <vector>

#include "backend/binding.hpp"
#include "backend/cuda/cuda.hpp"

namespace attune::cuda {

/// The parameter of every function of a kernel (cuda.hpp, Source), all but the addresses filled in.
struct Words {
  std::vector<std::uint64_t> values;
  std::vector<std::size_t> address_at;  ///< for each of kernel.buffers: which word takes its device address
  std::size_t flag_at = 0;              ///< which word takes the address of the out-of-range flag
};
/// `dims` and `scalars` in the kernel's order; `strides` of all buffers one after another, in elements.
Words lay_out(const loop::Kernel& kernel, const std::vector<std::int64_t>& dims,
              const std::vector<std::int64_t>& scalars, const std::vector<std::int64_t>& strides);

inline constexpr std::int64_t most_blocks = 2147483647;  ///< of a one-dimensional grid

/// Blocks of a nest's launch in a call: 0 where an axis of its grid is empty. Errors: more than most_blocks (A0608), an
/// axis without a step (A0904).
Result<std::int64_t> block_count(const loop::Kernel& kernel, const loop::Nest& nest, const Launch& launch,
                                 const Binding& binding);

}  // namespace attune::cuda
