// SPDX-License-Identifier: Apache-2.0
// What is known of indices without running: linear subscripts, and subscripts that provably lie inside an axis.
// Backends ask this before they generate a check.
#pragma once
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "loop/ir.hpp"

namespace attune::loop {

/// Whether the value of an index takes part in an expression.
bool depends_on(const Expr& expr, const Sym& index);
/// c where an integer expression is c * index + (what does not depend on the index), with a literal c.
std::optional<std::int64_t> coefficient(const Expr& expr, const Sym& index);

/// What holds at one place of a nest.
struct Proofs {
  std::unordered_map<Sym, Range> ranges;  ///< of all indices in scope
  std::unordered_map<Sym, Expr> lets;     ///< values of Lets in scope
  Sym lane;                               ///< the nest's lane index, or null
  Expr lane_limit;                        ///< lanes at or beyond it load nothing

  // Each is true only where it is proved for all values of the indices in scope.
  bool never_negative(const Expr& expr, int depth = 0) const;
  bool at_most(const Expr& bound, const Expr& extent, int depth = 0) const;
  /// 0 <= subscript < extent.
  bool in_range(const Expr& subscript, const Expr& extent, int depth = 0) const;
};

}  // namespace attune::loop
