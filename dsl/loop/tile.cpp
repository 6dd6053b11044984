// SPDX-License-Identifier: Apache-2.0
// The tile pass: symbolic tile sizes become the schedule's numbers.
#include "loop/passes.hpp"
#include "loop/rewrite.hpp"
#include "tensor/passes.hpp"

namespace attune::loop {

Kernel tile(Kernel kernel, const Schedule& schedule) {
  const std::unordered_map<Sym, Expr> sizes = {{tile_m_symbol(), tensor::integer(schedule.tile_m)},
                                               {tile_n_symbol(), tensor::integer(schedule.tile_n)}};
  for (Nest& nest : kernel.nests)
    each_expr(nest, [&](Expr& expr) { expr = tensor::simplify(tensor::substitute(expr, sizes)); });
  kernel.schedule = schedule;
  return kernel;
}

}  // namespace attune::loop
