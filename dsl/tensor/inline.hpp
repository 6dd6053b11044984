// SPDX-License-Identifier: Apache-2.0
// Which definitions are stored and which are copied into their readers; what is left are the values to compute.
#pragma once
#include <vector>

#include "tensor/stream.hpp"

namespace attune::tensor {

/// A value to compute for every point of `indices` and store in `target`; reads inputs and temporaries only.
struct Root {
  Sym target;
  std::vector<IndexRange> indices;
  Expr value;  ///< a Cumsum at the top for a running sum, nowhere else
};

struct Inlined {
  Program program;
  std::vector<Temporary> temporaries;
  std::vector<Root> roots;  ///< temporaries in dependence order, then results
};

Inlined inline_definitions(const Program& program);

}  // namespace attune::tensor
