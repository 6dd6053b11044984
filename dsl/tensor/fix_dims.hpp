// SPDX-License-Identifier: Apache-2.0
// Sizes that become literals of a program: those that code for a GPU bakes in (of arrays of a thread).
#pragma once
#include <map>
#include <string>

#include "tensor/ir.hpp"

namespace attune::tensor {

/// The program with the given dims (by name) replaced by literals in every expression. Its list of dims stays.
Program fix_dims(const Program& program, const std::map<std::string, std::int64_t>& sizes);

}  // namespace attune::tensor
