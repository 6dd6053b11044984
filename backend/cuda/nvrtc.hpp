// SPDX-License-Identifier: Apache-2.0
// NVRTC, opened at run time: CUDA C++ text to machine code, and what its assembler says of each function.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/cuda.hpp"
#include "backend/cuda/driver.hpp"

namespace attune::cuda {

/// What the assembler reports of one function of a compiled kernel.
struct FunctionUsage {
  std::string name;
  int registers = 0;                ///< of a thread, at entry
  std::int64_t stack_bytes = 0;     ///< local memory of a thread, spills included
  std::int64_t spill_stores = 0;    ///< bytes
  std::int64_t spill_loads = 0;     ///< bytes
  std::int64_t shared_bytes = 0;    ///< static shared memory
  std::vector<std::string> losses;  ///< notes C75xx: serialised tensor-core instructions, ignored register budgets
};

/// NVRTC's program log taken apart.
struct CompileLog {
  std::vector<FunctionUsage> functions;
  std::vector<std::string> losses;  ///< notes C75xx that name no function
  const FunctionUsage* find(std::string_view function) const;
};
CompileLog parse_log(std::string_view log);

/// Machine code for one architecture, with the log of its making.
struct Binary {
  std::vector<std::uint8_t> cubin;
  std::string log;
};

/// Text to machine code. Errors: no NVRTC, or one that does not know the architecture (A0602); text that NVRTC refuses
/// (A0901, a bug of ours, with its log: places are those of `#line` directives in the text).
Result<Binary> compile(const Source& source, const GpuTarget& target);
/// The same as PTX, for people.
Result<std::string> ptx(const Source& source, const GpuTarget& target);

const LibraryReport& nvrtc_report();
/// "13.0"-like identity for cache keys; "" without NVRTC.
std::string nvrtc_identity();

namespace nvrtc {

using nvrtcProgram = struct OpaqueProgram*;

/// The entry points, each listed once in nvrtc_symbols.inc.
struct Api {
#define ATTUNE_NVRTC_FUNCTION(result, name, arguments) result(*name) arguments = nullptr;
#include "backend/cuda/nvrtc_symbols.inc"
#undef ATTUNE_NVRTC_FUNCTION
};

/// The opened library, or null (nvrtc_report() says why). Opens it at the first call; any thread.
const Api* api();
/// For tests: as driver::replace().
void replace(const Api* table);
/// A0602 with what was tried and what to install.
Diagnostic missing();

}  // namespace nvrtc
}  // namespace attune::cuda
