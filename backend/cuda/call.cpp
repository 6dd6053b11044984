// SPDX-License-Identifier: Apache-2.0
// Words and grids of a call, from the loop kernel's own account of both.
#include "backend/cuda/call.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace attune::cuda {

Words lay_out(const loop::Kernel& kernel, const std::vector<std::int64_t>& dims,
              const std::vector<std::int64_t>& scalars, const std::vector<std::int64_t>& strides) {
  Words words;
  const auto add = [&](std::int64_t value) { words.values.push_back(static_cast<std::uint64_t>(value)); };
  for (const std::int64_t dim : dims) add(dim);
  for (const std::int64_t scalar : scalars) add(scalar);
  auto stride = strides.begin();
  for (const loop::Buffer& buffer : kernel.buffers) {
    words.address_at.push_back(words.values.size());
    add(0);
    for (std::size_t axis = 0; axis < buffer.extents.size(); ++axis) add(*stride++);
  }
  words.flag_at = words.values.size();
  add(0);
  return words;
}

Result<std::int64_t> block_count(const loop::Kernel& kernel, const loop::Nest& nest, const Launch& launch,
                                 const Binding& binding) {
  using Wide = __int128;
  constexpr Wide beyond = Wide{1} << 62;  // too many, and a product of it and a length still fits
  Wide tasks = 1;
  bool empty = false;
  for (const loop::GridAxis& axis : nest.grid) {
    const std::int64_t lo = evaluate_extent(axis.lo, binding), hi = evaluate_extent(axis.hi, binding),
                       step = evaluate_extent(axis.step, binding);
    if (step <= 0) {
      Diagnostic diagnostic;
      diagnostic.code = "A0904";
      diagnostic.message =
          fmt::format("internal error: grid axis `{}` of `{}` has step {}", axis.index.text(), nest.name, step);
      diagnostic.help = "please report this together with the program";
      return diagnostic;
    }
    const Wide length = hi > lo ? (Wide{hi} - lo + step - 1) / step : 0;
    empty |= length == 0;
    tasks = std::min(tasks * std::max<Wide>(length, 1), beyond);
  }
  if (empty) return std::int64_t{0};
  const Wide each = std::max(launch.tasks_per_block, 1);
  const Wide blocks = (tasks + each - 1) / each;
  if (blocks > most_blocks) {
    Diagnostic diagnostic;
    diagnostic.code = "A0608";
    diagnostic.message =
        fmt::format("nest `{}` of `{}` would be a launch of more than {} blocks", nest.name, kernel.name, most_blocks);
    diagnostic.help = "split the batch over several calls";
    return diagnostic;
  }
  return static_cast<std::int64_t>(blocks);
}

}  // namespace attune::cuda
