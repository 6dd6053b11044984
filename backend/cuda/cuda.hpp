// SPDX-License-Identifier: Apache-2.0
// The GPU backend: scheduled loop nest -> CUDA C++ text -> machine code (NVRTC, opened at run time) -> loaded functions
// (CUDA Driver API, opened at run time).
#pragma once
#include <attune/diagnostic.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loop/ir.hpp"
#include "loop/passes.hpp"
#include "schedule/schedule.hpp"

namespace attune::cuda {

/// A GPU to compile for: what the device reports, or, for one that is not here, what its architecture guarantees.
struct GpuTarget {
  std::string name;                   ///< "NVIDIA H200", or the architecture
  int major = 8, minor = 0;           ///< compute capability
  bool arch_specific = false;         ///< the `a` of sm_90a
  std::int64_t shared_per_block = 0;  ///< bytes that one block may opt in to
  std::int64_t shared_per_sm = 0;     ///< bytes
  std::int64_t registers_per_sm = 65536;
  int processors = 1;  ///< streaming multiprocessors
  std::int64_t l2_bytes = 0;
  std::string arch() const;  ///< "sm_80", "sm_90a"
  Machine machine() const;   ///< the same for choose()
};

/// One launch: a nest of the kernel.
struct Launch {
  std::string function;           ///< extern "C" name
  int threads = 128;              ///< of a block, one-dimensional
  std::int64_t shared_bytes = 0;  ///< dynamic shared memory
  /// Blocks of the one-dimensional grid: tasks of the nest (the product of its grid axes' lengths), each one block, or,
  /// where `tasks_per_block` > 1, that many tasks a block.
  int tasks_per_block = 1;
};

/// CUDA C++ of a kernel. It needs no header. Every function takes one parameter, `const Params p` by value: an array of
/// `words` 64-bit words:
///   kernel.dims                 i64 each
///   kernel.scalars              i64, or the bits of an f32 in the low half, or 0/1
///   for each of kernel.buffers  the device address, then its strides in elements, outermost axis first
///                               (the stride of an axis of size 1 is passed as 0, of Buffer::unit_axis as 1)
///   out_of_range                device address of an i32 that evaluated gathers that leave their tensor set to 1
struct Source {
  std::string text;
  std::vector<Launch> launches;  ///< one for each of kernel.nests, in order
  std::size_t words = 0;
  /// Whether a function may set the out-of-range flag. Where none does, a launch neither clears nor passes it.
  bool may_flag = true;
};

/// The dims that generated text needs as literals, because arrays of a thread have their size: to be fixed
/// (tensor::fix_dims) before the kernel that emit() takes is built. A new size of any other dim needs no new code.
Result<std::vector<Sym>> dims_to_fix(const tensor::Program& program, loop::LowerOptions options);
/// The text and the launches. Errors: tiles beyond the memory of a thread (A0403, names the limit and the
/// value); a kernel that breaks the rules of the loop IR (A0901).
Result<Source> emit(const loop::Kernel& kernel, const GpuTarget& target);

/// What emit() calls from now on instead of the generator, so that what surrounds it can be tested; null: nothing.
using Generator = Result<Source> (*)(const loop::Kernel&, const GpuTarget&);
void replace_generator(Generator with);

/// What generated code calls: the device functions, as CUDA C++ with inline PTX. emit() puts it in front of its text.
std::string_view prelude();
/// The line that ends the prelude in Source::text. What follows calls nothing but the functions of the prelude.
inline constexpr std::string_view prelude_end = "// ---- end of the prelude ----\n";

}  // namespace attune::cuda
