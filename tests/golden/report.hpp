// SPDX-License-Identifier: Apache-2.0
// What a text reports: every finding of its kernels, or of the call that its comments describe.
#pragma once
#include <attune/attune.hpp>
#include <string>

namespace attune::golden {

/// Findings of parsing and inference, and, where a line `# call: ...` is there, of compiling and calling it on the
/// reference. The parts of such a line are separated by `;`:
///   Q f32[5, 4]              a tensor parameter or result; strides as `strides 1, 5`, memory as `memory null`,
///                            `memory of Q`, elements as `values 1, 2`
///   scale 0.5, N 7, flag true   scalars and dims
///   type T f16, const c 2, schedule tile.m 0, require_fused   options of the compile
Diagnostics findings(const std::string& text, const std::string& name);

}  // namespace attune::golden
