// SPDX-License-Identifier: Apache-2.0
// Sizes that become literals of a program: those that code for a GPU bakes in (widths of register tiles).
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tensor/ir.hpp"

namespace attune::tensor {

/// The dims whose sizes code for a GPU is made for, in the order of Program::dims. A new size of any other dim needs no
/// new code.
std::vector<Sym> fixed_dims(const Program& program);
/// The program with the given dims (by name) replaced by literals in every expression. Its list of dims stays.
Program fix_dims(const Program& program, const std::map<std::string, std::int64_t>& sizes);

}  // namespace attune::tensor
