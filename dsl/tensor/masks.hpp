// SPDX-License-Identifier: Apache-2.0
// Guards over tiles: given the range of every index in a tile, is a condition true everywhere, false everywhere, or
// neither? And which part of a streamed index can be true at all? Interval arithmetic on expressions, exact for affine
// predicates; ranges of gathered values are asked of the caller.
#pragma once
#include <functional>
#include <optional>
#include <unordered_map>

#include "tensor/algebra.hpp"

namespace attune::tensor {

/// Inclusive bounds of an integer expression over a tile. `total` (null: true) says that no element is absent.
struct Interval {
  Expr lo, hi;
  Expr total;
};

class TileAnalysis {
 public:
  /// Bounds of a gathered value over the tile, or nothing where the caller cannot tell.
  using Gather = std::function<std::optional<Interval>(const Expr& access)>;

  TileAnalysis(std::unordered_map<Sym, Interval> ranges, Gather gather)
      : ranges_(std::move(ranges)), gather_(std::move(gather)) {}

  /// True only if the condition holds for every element of the tile.
  Expr must(const Expr& condition) const;
  /// False only if it holds for no element.
  Expr may(const Expr& condition) const;
  /// Bounds of an integer expression; nothing where they are not known.
  std::optional<Interval> interval(const Expr& expr) const;

 private:
  bool varies(const Expr& expr) const;
  std::optional<Interval> chain(const Expr& expr) const;

  std::unordered_map<Sym, Interval> ranges_;
  Gather gather_;
};

/// Conjuncts of a guard solved for one index: index >= every `lower`, index < every `upper` (bounds do not mention it).
struct Solved {
  std::vector<Expr> lower, upper;
};
Solved solve(const Expr& guard, const Sym& index);

}  // namespace attune::tensor
