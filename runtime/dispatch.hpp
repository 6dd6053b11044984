// SPDX-License-Identifier: Apache-2.0
// From a checked call to the frames that compiled code reads, and through its nests.
#pragma once
#include <attune/engine.hpp>

#include "backend/binding.hpp"
#include "backend/cpu/cpu.hpp"
#include "backend/cuda/call.hpp"

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

  // cuda only:
  cuda::Words words;                 ///< addresses open
  std::vector<std::int64_t> blocks;  ///< of each nest's launch
};

/// Lays out a call of a variant with code. Errors: temporaries beyond what can be addressed (A0607), more blocks than a
/// GPU launches (A0608).
Result<std::shared_ptr<const Plan>> make_plan(std::shared_ptr<const Variant> variant, const Binding& binding,
                                              const Arguments& arguments);

/// Whether `arguments` are the plan's call with other pointers, which overlap nowhere. False proves nothing.
bool same_call(const Plan& plan, const Arguments& arguments);

/// Runs all nests; the call's out-of-range flag. Nothing has been written where it fails (A0607: no memory).
Result<bool> execute(Engine::State& engine, const Plan& plan, const Arguments& arguments);

/// The same on a GPU: queues all nests on the stream of the options; the flag is false unless they say to wait. Errors:
/// a workspace that is too small or needs memory while its stream is captured (A0610), the driver's (A0606, A0607).
Result<bool> launch(Engine::State& engine, const Plan& plan, const Arguments& arguments, const RunOptions& options);
/// Bytes of RunOptions::workspace for a call of this plan.
std::uint64_t workspace_bytes(const Plan& plan);
/// Whether a graph is being captured on the stream.
bool is_capturing(int device, void* stream);

}  // namespace attune
