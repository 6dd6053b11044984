// SPDX-License-Identifier: Apache-2.0
// Aliasing of strided views as a bounded integer equation, solved from the largest stride down.
#include "backend/overlap.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace attune {
namespace {

// Strides are the caller's and may be anything; products of them with extents fit in 128 bits.
using Wide = __int128;

/// One step length in bytes (positive) with the counts that it may be taken.
struct Step {
  Wide stride;
  Wide lo, hi;
};

/// Adds the axes of a view, with sign, to the steps.
void add_axes(const TensorRef& view, int sign, std::vector<Step>& steps) {
  for (std::size_t k = 0; k < view.rank(); ++k) {
    const Wide stride = static_cast<Wide>(view.strides[k]) * static_cast<Wide>(size_of(view.dtype)) * sign;
    if (view.shape[k] <= 1 || stride == 0) continue;
    const Wide count = view.shape[k] - 1;
    steps.push_back(stride > 0 ? Step{stride, 0, count} : Step{-stride, -count, 0});
  }
}

Wide least(Wide a, Wide b) { return a < b ? a : b; }
Wide most(Wide a, Wide b) { return a < b ? b : a; }

/// Finds counts with `low < sum of stride * count < high`.
struct Search {
  std::vector<Step> steps;            ///< by falling stride, no stride twice
  std::vector<Wide> lowest, highest;  ///< of the sums of the steps from k on
  int budget = 10000;

  bool reaches(std::size_t k, Wide low, Wide high) {
    if (highest[k] <= low || lowest[k] >= high) return false;
    if (k == steps.size()) return true;
    if (--budget < 0) return true;
    const Step& step = steps[k];
    // Only counts that leave the rest within reach of the smaller steps.
    Wide first = (low - highest[k + 1]) / step.stride - 1, last = (high - lowest[k + 1]) / step.stride + 1;
    first = most(first, step.lo);
    last = least(last, step.hi);
    for (Wide count = first; count <= last; ++count) {
      if (reaches(k + 1, low - count * step.stride, high - count * step.stride)) return true;
      if (budget < 0) return true;
    }
    return false;
  }
};

bool is_empty(const TensorRef& view) {
  return std::any_of(view.shape.begin(), view.shape.end(), [](std::int64_t extent) { return extent == 0; });
}

}  // namespace

bool addressable(const TensorRef& view) {
  if (is_empty(view)) return true;
  // Addresses have 57 bits at most (of user space 56), and an element's begins at or above 0.
  constexpr Wide most_bytes = Wide{1} << 56;
  Wide first = static_cast<Wide>(reinterpret_cast<std::uintptr_t>(view.data)), last = first;
  for (std::size_t k = 0; k < view.rank(); ++k) {
    if (view.shape[k] <= 1) continue;
    const Wide reach =
        static_cast<Wide>(view.strides[k]) * static_cast<Wide>(size_of(view.dtype)) * (view.shape[k] - 1);
    (reach < 0 ? first : last) += reach;
  }
  return first >= 0 && last < most_bytes;
}

bool overlaps_itself(const TensorRef& view) {
  if (is_empty(view)) return false;
  std::vector<Step> steps;
  for (std::size_t k = 0; k < view.rank(); ++k)
    if (view.shape[k] > 1 && view.strides[k] == 0) return true;
  add_axes(view, 1, steps);
  std::sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.stride < b.stride; });
  Wide span = 0;
  for (const Step& step : steps) {
    if (step.stride <= span) return true;
    span += step.stride * (step.hi - step.lo);
  }
  return false;
}

bool overlap(const TensorRef& a, const TensorRef& b) {
  if (is_empty(a) || is_empty(b)) return false;
  Search search;
  add_axes(a, 1, search.steps);
  add_axes(b, -1, search.steps);
  auto& steps = search.steps;
  std::sort(steps.begin(), steps.end(), [](const Step& x, const Step& y) { return x.stride > y.stride; });
  std::size_t kept = 0;
  for (const Step& step : steps) {
    if (kept > 0 && steps[kept - 1].stride == step.stride) {
      steps[kept - 1].lo += step.lo;
      steps[kept - 1].hi += step.hi;
    } else {
      steps[kept++] = step;
    }
  }
  steps.resize(kept);
  search.lowest.assign(kept + 1, 0);
  search.highest.assign(kept + 1, 0);
  for (std::size_t k = kept; k-- > 0;) {
    search.lowest[k] = search.lowest[k + 1] + steps[k].stride * steps[k].lo;
    search.highest[k] = search.highest[k + 1] + steps[k].stride * steps[k].hi;
  }
  // Elements share a byte where address(a) - address(b) lies between -size(a) and size(b), both exclusive.
  const Wide apart = static_cast<Wide>(reinterpret_cast<std::uintptr_t>(a.data)) -
                     static_cast<Wide>(reinterpret_cast<std::uintptr_t>(b.data));
  return search.reaches(0, -static_cast<Wide>(size_of(a.dtype)) - apart, static_cast<Wide>(size_of(b.dtype)) - apart);
}

}  // namespace attune
