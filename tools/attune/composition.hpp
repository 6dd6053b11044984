// SPDX-License-Identifier: Apache-2.0
// The formula as a sequence of whole-matrix Eigen operations: the peer that `attune bench --against eigen` times.
#pragma once
#include <functional>

#include "command.hpp"

namespace attune::tool {

struct Composition {
  /// Computes the whole result into memory of its own with up to `threads` threads.
  std::function<void(int threads)> run;
};

/// For programs whose only stream multiplies one contraction of rows and columns by a matrix, with contiguous f32
/// inputs; others have no such sequence here and are refused with the reason.
Result<Composition> compose(const Session& session);

/// The threads an engine uses by default.
int kernel_threads(Engine& engine);

}  // namespace attune::tool
