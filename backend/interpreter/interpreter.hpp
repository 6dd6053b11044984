// SPDX-License-Identifier: Apache-2.0
// Executes any scheduled loop nest element by element in f32: the meaning of the loop IR, for tests and `--target
// interpreter`. Independent of every code generator.
#pragma once
#include "backend/binding.hpp"
#include "loop/ir.hpp"

namespace attune::interpreter {

struct Outcome {
  bool out_of_range = false;
};

/// Runs all nests. Tiles are poisoned (NaN, large integers) at the start of each task; reading an element that nothing
/// wrote, a subscript outside a tile, or a Store outside its buffer is an error A0902 that names the statement.
Result<Outcome> run(const loop::Kernel& kernel, const Binding& binding);

}  // namespace attune::interpreter
