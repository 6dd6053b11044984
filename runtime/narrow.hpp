// SPDX-License-Identifier: Apache-2.0
// Whether 32 bits hold every integer that a call can compute.
#pragma once
#include "backend/binding.hpp"

namespace attune {

/// True where interval analysis of the program with the call's dims and scalars proves that every integer value that
/// depends on an index or on data, intermediate ones in any order of evaluation included, fits in 32 bits.
/// Conservative: false proves nothing. Loaded i64 data never fit; loaded i32 data fit unless something is added to or
/// multiplied with them. Values that are the same for the whole launch are computed in 64 bits and only count where
/// they meet others.
bool fits_in_32_bits(const tensor::Program& program, const Binding& binding);

}  // namespace attune
