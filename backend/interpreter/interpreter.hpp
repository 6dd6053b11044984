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

struct Options {
  bool reverse_tasks = false;  ///< tasks are independent: any order gives the same bits
};

/// Runs all nests. Tiles are poisoned (NaN, large integers) at the start of each task; reading an element that nothing
/// wrote, a subscript outside a tile, a Store outside its buffer, two tasks of a nest that touch one element of which
/// one stores it, or a result element that nothing stores is an error A0902 that names the statement.
Result<Outcome> run(const loop::Kernel& kernel, const Binding& binding, const Options& options = {});

}  // namespace attune::interpreter
