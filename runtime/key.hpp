// SPDX-License-Identifier: Apache-2.0
// Texts that identify compiled code: everything that shapes it is written out, then hashed or compared.
#pragma once
#include <attune/kernel.hpp>
#include <attune/program.hpp>
#include <map>
#include <string>

#include "backend/cpu/cpu.hpp"
#include "backend/cuda/cuda.hpp"
#include "loop/passes.hpp"

namespace attune {

/// Identity of this build of the library: its version and the linker's build id, or the file's size and time without
/// one. Code made by another build is never reused, also where a changed emitter kept its version.
const std::string& build_identity();

/// Program, kernel and options: what two compiles must share to share everything derived.
std::string unit_key(const Program& program, const CompileOptions& options, const Target& target);
/// Types, fixed sizes, layout facts and integer width of one variant within a unit.
std::string variant_key(const std::map<std::string, DType>& types, const std::map<std::string, std::int64_t>& fixed,
                        const loop::LayoutFacts& layout, int index_bits);
/// Build, compiler, processor and the whole scheduled loop nest: equal keys mean equal object code.
std::string code_key(const loop::Kernel& kernel, const cpu::CpuTarget& target);
/// The same for a GPU.
std::string code_key(const loop::Kernel& kernel, const cuda::GpuTarget& target);

}  // namespace attune
