// SPDX-License-Identifier: Apache-2.0
// From a checked call to the frames that compiled code reads, and through its nests.
#pragma once
#include <attune/engine.hpp>

#include "backend/binding.hpp"
#include "backend/cpu/cpu.hpp"

namespace attune {

struct Variant;

/// A checked kind of call: everything but the pointers. A later call with the same names, dtypes, shapes, strides and
/// scalars needs no checks besides those of its pointers.
struct Plan {
  std::shared_ptr<const Variant> variant;
  Arguments arguments;   ///< the call that was checked; its pointers are not used again
  bool reusable = true;  ///< false where a value came out of memory that may have changed since

  struct Extent {  ///< of a tensor argument: bytes [lo, hi) from its data pointer; lo == hi for no elements
    std::int64_t lo = 0, hi = 0;
    bool result = false;
    bool tensor = false;
  };
  std::vector<Extent> extents_of_arguments;

  std::vector<std::int64_t> strides, extents, dims, scalars;  ///< as cpu::Frame wants them
  struct Pointer {
    std::ptrdiff_t argument = -1;  ///< index into arguments, or -1 for a temporary
    std::uint64_t offset = 0;      ///< of a temporary in the workspace
  };
  std::vector<Pointer> pointers;
  std::uint64_t temporary_bytes = 0;
};

/// Lays out a call of a CPU variant. Errors: temporaries beyond what can be addressed (A0607).
Result<std::shared_ptr<const Plan>> make_plan(std::shared_ptr<const Variant> variant, const Binding& binding,
                                              const Arguments& arguments);

/// Whether `arguments` are the plan's call with other pointers, which overlap nowhere. False proves nothing.
bool same_call(const Plan& plan, const Arguments& arguments);

/// Runs all nests; the call's out-of-range flag. Nothing has been written where it fails (A0607: no memory).
Result<bool> execute(Engine::State& engine, const Plan& plan, const Arguments& arguments);

}  // namespace attune
