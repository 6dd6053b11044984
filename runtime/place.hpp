// SPDX-License-Identifier: Apache-2.0
// Whether a target reaches the memory that a call names.
#pragma once
#include <attune/kernel.hpp>
#include <optional>

#include "tensor/ir.hpp"

namespace attune {

/// Errors for tensors on another device than the target's (A0523), and for misaligned ones on a GPU (A0524). A scalar
/// that is given as a tensor has to be on the host, which reads it.
Diagnostics check_places(const tensor::Program& program, const Arguments& arguments, const Target& target);
/// The GPU that the call's first tensor on one lies on; nothing where all are on the host.
std::optional<int> gpu_of(const Arguments& arguments);
/// "the host", "GPU 1", ...
std::string text(const Device& device);

}  // namespace attune
