// SPDX-License-Identifier: Apache-2.0
// The CPU backend: loop nest -> LLVM IR text -> object bytes (libLLVM opened at run time) -> loaded functions.
#pragma once
#include <attune/diagnostic.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/library.hpp"
#include "loop/ir.hpp"
#include "schedule/schedule.hpp"

namespace attune::cpu {

enum class Isa : std::uint8_t { generic, avx2, avx512 };

/// A CPU to compile for. `features` and `name` are LLVM's ("znver2", "+avx2,+fma,...").
struct CpuTarget {
  Isa isa = Isa::generic;
  std::string name;
  std::string features;
  int vector_lanes = 4;  ///< f32 per vector
  int vector_registers = 16;
  bool f16c = false;
  bool avx512_bf16 = false;
  std::int64_t l1_bytes = 32 << 10;
  std::int64_t l2_bytes = 512 << 10;
  Machine machine() const;  ///< the same for choose()
};

/// The CPU this process runs on, by cpuid (no LLVM needed). $ATTUNE_CPU=avx512|avx2|generic lowers it, never raises it.
const CpuTarget& host();
/// A CPU that need not be here, by LLVM's name ("x86-64-v3", "znver4", ...), with no more than every machine of its
/// level of the x86-64 ABI has; nothing for a name that is not known. Cache sizes are the defaults.
std::optional<CpuTarget> named_target(std::string_view name);
/// The names that named_target() knows.
std::vector<std::string> target_names();

/// The attributes that every generated function carries, as the inside of an `attributes #0 = { ... }` line:
/// `"target-cpu"="znver2" "target-features"="..." "prefer-vector-width"="256" nounwind`.
std::string function_attributes(const CpuTarget& target);

/// What generated code reads. Arrays follow the order of loop::Kernel::buffers, dims, scalars. Strides are those of all
/// buffers one after the other (elements), extents likewise. A scalar slot holds an i64, or the bits of an f32 in the
/// low half, or 0/1.
struct Frame {
  void* const* pointers;
  const std::int64_t* strides;
  const std::int64_t* extents;
  const std::int64_t* dims;
  const std::int64_t* scalars;
  std::int32_t* out_of_range;  ///< set to 1 by evaluated gathers that leave their tensor
};

/// LLVM IR of a kernel. For nest number k it defines
///   i64  @nest<k>_tasks(ptr frame)                          number of tasks
///   i64  @nest<k>_scratch(ptr frame)                        bytes of scratch a task needs (64-byte aligned)
///   void @nest<k>_run(ptr frame, i64 task, ptr scratch)     one task
Result<std::string> emit(const loop::Kernel& kernel, const CpuTarget& target);
/// The same code spread over a few modules of about equal size, to be compiled side by side. How many depends on the
/// kernel alone.
Result<std::vector<std::string>> emit_modules(const loop::Kernel& kernel, const CpuTarget& target);

/// IR to object bytes. Errors: no libLLVM (A0603, says what to install), IR that LLVM refuses (A0901, a bug of ours).
Result<std::vector<std::uint8_t>> compile(const std::string& ir, const CpuTarget& target);
/// Runs job(context, k) for each k below count, in any order, on any threads, and returns when all are done.
using Parallel = std::function<void(std::int64_t count, void (*job)(void* context, std::int64_t k), void* context)>;
/// Modules to one piece of code for load(): their objects one after another.
Result<std::vector<std::uint8_t>> compile(const std::vector<std::string>& modules, const CpuTarget& target,
                                          const Parallel& parallel);
/// Assembly of the same, for people.
Result<std::string> assembly(const std::string& ir, const CpuTarget& target);

struct NestCode {
  std::int64_t (*tasks)(const Frame*) = nullptr;
  std::int64_t (*scratch)(const Frame*) = nullptr;
  void (*run)(const Frame*, std::int64_t task, void* scratch) = nullptr;
};

/// Loaded code; unloads when the last reference goes.
class Loaded {
 public:
  virtual ~Loaded() = default;
  std::vector<NestCode> nests;
};

/// What either compile() made to callable code.
Result<std::shared_ptr<Loaded>> load(const std::vector<std::uint8_t>& code, std::size_t nest_count);

/// What was found of libLLVM; its version is "19.1.7"-like.
const LibraryReport& llvm_report();
/// "19.1.7"-like identity for cache keys; "" without libLLVM.
std::string llvm_identity();

/// FMA peak of one core measured now, in GFLOP/s, for the target's vector width (about 20 ms of work).
double measure_fma_peak(const CpuTarget& target);

}  // namespace attune::cpu
