// SPDX-License-Identifier: Apache-2.0
// libLLVM's C API, opened at run time: own declarations of its handles and a table of its entry points.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/cpu/cpu.hpp"

namespace attune::cpu::llvm {

// Opaque handles under LLVM's own names, so that the table reads like the C headers.
using LLVMContextRef = struct OpaqueContext*;
using LLVMModuleRef = struct OpaqueModule*;
using LLVMMemoryBufferRef = struct OpaqueMemoryBuffer*;
using LLVMTargetRef = struct OpaqueTarget*;
using LLVMTargetMachineRef = struct OpaqueTargetMachine*;
using LLVMTargetDataRef = struct OpaqueTargetData*;
using LLVMDiagnosticInfoRef = struct OpaqueDiagnosticInfo*;
using LLVMErrorRef = struct OpaqueError*;
using LLVMOrcLLJITRef = struct OpaqueLLJIT*;
using LLVMOrcLLJITBuilderRef = struct OpaqueLLJITBuilder*;
using LLVMOrcExecutionSessionRef = struct OpaqueExecutionSession*;
using LLVMOrcJITDylibRef = struct OpaqueJITDylib*;
using LLVMOrcSymbolRef = struct OpaqueSymbolStringPoolEntry*;

/// LLVMOrcCJITDylibSearchOrderElement.
struct OrcSearchElement {
  LLVMOrcJITDylibRef dylib;
  int flags;  ///< 0: exported symbols only
};
/// LLVMOrcCLookupSetElement.
struct OrcLookupElement {
  LLVMOrcSymbolRef name;
  int flags;  ///< 0: required
};
/// LLVMOrcCSymbolMapPair.
struct OrcSymbolPair {
  LLVMOrcSymbolRef name;
  std::uint64_t address;
  std::uint8_t generic_flags, target_flags;
};

/// The entry points, each listed once in llvm_symbols.inc.
struct Api {
#define ATTUNE_LLVM_FUNCTION(result, name, arguments) result(*name) arguments = nullptr;
#include "backend/cpu/llvm_symbols.inc"
#undef ATTUNE_LLVM_FUNCTION
};

/// The opened library, or null (llvm_report() says why). Opens it at the first call; any thread.
const Api* api();
/// A0603 with what was tried and what to install.
Diagnostic missing();
/// A0901 with LLVM's words.
Diagnostic refused(std::string what, const std::string& reason);
/// Takes an LLVM error's message and frees it; "" for success.
std::string take(const Api& llvm, LLVMErrorRef error);
/// The processor's name as the opened LLVM knows it: the next older one where it is too new for that version.
std::string processor(const std::string& name);

/// A range of bytes that somebody else owns.
struct Bytes {
  const std::uint8_t* begin;
  std::size_t size;
};
/// Objects of one kernel as one piece of code, and back: its parts, or nothing where it is cut short. What is not
/// packed is one object.
std::vector<std::uint8_t> pack(const std::vector<std::vector<std::uint8_t>>& objects);
std::optional<std::vector<Bytes>> unpack(const std::vector<std::uint8_t>& code);

inline constexpr const char* triple = "x86_64-unknown-linux-gnu";

}  // namespace attune::cpu::llvm
