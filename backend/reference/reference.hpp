// SPDX-License-Identifier: Apache-2.0
// The oracle: evaluates the tensor IR as written, in f64, with Eigen. Shares no lowering code with any backend.
#pragma once
#include "backend/binding.hpp"

namespace attune::reference {

struct Outcome {
  bool out_of_range = false;
};

/// Evaluates every result of `program` (as infer() + bind_types() made it, not desugared) into the binding's result
/// tensors. Exact semantics of language.md; definitions and contractions in f64. Narrow casts round.
Result<Outcome> run(const tensor::Program& program, const Binding& binding);

}  // namespace attune::reference
