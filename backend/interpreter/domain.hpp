// SPDX-License-Identifier: Apache-2.0
// Rectangular index domains: the elements of a statement, one after the other, outermost index first.
#pragma once
#include <vector>

#include "backend/interpreter/statement.hpp"

namespace attune::interpreter {

struct CompiledRange {
  std::size_t slot = 0;
  Code lo, hi;
  bool lane = false;
};
using Domain = std::vector<CompiledRange>;

/// The index whose values at or beyond the lane limit are padding: the lanes', before rows are lanes the rows'; or
/// null.
inline const Sym& padded_index(const loop::Nest& nest) {
  static const Sym none;
  if (!nest.lane_limit) return none;
  return nest.lane ? nest.lane : nest.row;
}

inline Domain compile(const std::vector<loop::Range>& ranges, const loop::Nest& nest, Compiler& compiler) {
  Domain domain;
  for (const loop::Range& range : ranges)
    domain.push_back({static_cast<std::size_t>(compiler.slot(range.index)), compiler.compile(range.lo),
                      compiler.compile(range.hi), range.index == padded_index(nest)});
  return domain;
}

struct Bounds {
  std::int64_t lo = 0, hi = 0;
  std::int64_t count() const { return hi > lo ? hi - lo : 0; }
};

inline std::vector<Bounds> evaluate(Frame& frame, const Domain& domain, const Site& site) {
  std::vector<Bounds> bounds;
  for (const CompiledRange& range : domain) {
    const std::int64_t lo = whole(frame, range.lo, site);
    bounds.push_back({lo, whole(frame, range.hi, site)});
  }
  return bounds;
}

/// Calls `body()` with the slots set for each element from index `first` on. The lane index decides what is padding.
template <class Body>
void for_each_element(Frame& frame, const Domain& domain, const std::vector<Bounds>& bounds, Body&& body,
                      std::size_t first = 0) {
  if (first == domain.size()) {
    body();
    return;
  }
  const CompiledRange& range = domain[first];
  for (std::int64_t index = bounds[first].lo; index < bounds[first].hi; ++index) {
    frame.slots[range.slot] = of(index);
    if (range.lane) frame.padding = index >= frame.lane_limit;
    for_each_element(frame, domain, bounds, body, first + 1);
  }
  if (range.lane) frame.padding = false;
}

}  // namespace attune::interpreter
