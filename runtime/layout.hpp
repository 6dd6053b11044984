// SPDX-License-Identifier: Apache-2.0
// What a call's strides allow compiled code to assume.
#pragma once
#include <attune/kernel.hpp>

#include "backend/binding.hpp"
#include "loop/passes.hpp"

namespace attune {

/// The facts to bake in for a call: for each parameter and result an axis of stride 1 (absent where there is none),
/// and whether its rows lie far apart.
loop::LayoutFacts layout_facts(const tensor::Program& program, const Binding& binding);
/// What to assume before the first call: everything contiguous.
loop::LayoutFacts contiguous_facts(const tensor::Program& program);
/// Whether code with these facts is right, and the right choice, for a call. Strides of axes of size 1 mean nothing, so
/// that a length of 1 fits every layout. Never depends on sizes otherwise.
bool layout_fits(const loop::LayoutFacts& facts, const tensor::Program& program, const Binding& binding);
/// "K: axis 3 has stride 1", ... for people and for keys.
std::vector<std::string> describe(const loop::LayoutFacts& facts);

}  // namespace attune
