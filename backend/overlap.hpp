// SPDX-License-Identifier: Apache-2.0
// Whether strided views share memory: results must not alias inputs, each other, or themselves.
#pragma once
#include <attune/tensor_ref.hpp>

namespace attune {

/// Whether two elements of the view lie at one address. Axes must nest (each stride exceeds the span of the smaller
/// ones); a layout that does not nest counts as overlapping although it might just avoid it.
bool overlaps_itself(const TensorRef& view);

/// Whether the addresses of all elements can be computed and lie within one address space: the strides of a view are
/// the caller's and may be anything.
bool addressable(const TensorRef& view);

/// Whether any byte belongs to both. Exact for interleaved slices of one allocation (a result between packed Q, K and
/// V is fine); where strides are so irregular that the search grows beyond 10 000 steps, overlapping address ranges
/// count as overlap.
bool overlap(const TensorRef& a, const TensorRef& b);

}  // namespace attune
