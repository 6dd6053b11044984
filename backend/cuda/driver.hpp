// SPDX-License-Identifier: Apache-2.0
// The CUDA Driver API, opened at run time: own declarations of its handles and a table of its entry points.
#pragma once
#include <attune/diagnostic.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/library.hpp"

namespace attune::cuda {

namespace driver {

// Handles and results under CUDA's own names, so that the table reads like its headers.
using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct OpaqueContext*;
using CUmodule = struct OpaqueModule*;
using CUfunction = struct OpaqueFunction*;
using CUstream = struct OpaqueStream*;
using CUevent = struct OpaqueEvent*;

// The values that attune uses, as cuda.h numbers them.
inline constexpr CUresult success = 0, error_out_of_memory = 2, error_no_device = 100, error_not_found = 500,
                          error_illegal_address = 700, error_launch_failed = 719;
enum DeviceAttribute : int {
  multiprocessor_count = 16,
  l2_cache_size = 38,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  shared_memory_per_multiprocessor = 81,
  registers_per_multiprocessor = 82,
  shared_memory_per_block_optin = 97,
};
enum FunctionAttribute : int {
  function_shared_bytes = 1,
  function_local_bytes = 3,
  function_registers = 4,
  function_max_dynamic_shared_bytes = 8,
};

/// The entry points, each listed once in driver_symbols.inc.
struct Api {
#define ATTUNE_CUDA_FUNCTION(name, exported, arguments) CUresult(*name) arguments = nullptr;
#include "backend/cuda/driver_symbols.inc"
#undef ATTUNE_CUDA_FUNCTION
};

/// The opened library, initialised, or null (report() says why). Opens it at the first call; any thread.
const Api* api();
const LibraryReport& report();
/// For tests: the process uses this table instead of opening a library, from now on; null: none is found. What was made
/// through an earlier table must be gone.
void replace(const Api* table);
/// How often replace() was called: what was found through a table is stale when this has changed.
unsigned generation();

/// A0606 with the driver's own name for the result: "CUDA_ERROR_ILLEGAL_ADDRESS: ... while `doing`"; A0607 where the
/// device has not enough memory.
Diagnostic failed(CUresult result, const std::string& doing);

}  // namespace driver
}  // namespace attune::cuda
