// SPDX-License-Identifier: Apache-2.0
// Generated CUDA on the host: what stands behind the prelude is plain C++, so this build's compiler takes it together
// with a prelude of its own, and the fake driver runs the threads one after the other.
#pragma once
#include <string>

namespace emulated {

/// The prelude for the host: the functions that one thread can do by itself.
const char* prelude();
/// The fake driver and compiler in place, launches executed. False, with a warning, where there is no compiler.
bool install();

}  // namespace emulated
