// SPDX-License-Identifier: Apache-2.0
// Opens libLLVM and turns IR text into object bytes or assembly.
#include "backend/cpu/llvm.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <optional>
#include <utility>

namespace attune::cpu {
namespace llvm {
namespace {

constexpr int oldest = 17;

/// Version 19 first, because it is what is tested; then newer ones, then older ones.
std::vector<std::string> candidates() {
  std::vector<std::string> paths;
  for (int version : {19, 20, 21, 18, 17}) {
    paths.push_back(fmt::format("libLLVM.so.{}.1", version));
    paths.push_back(fmt::format("libLLVM-{}.so.1", version));
    paths.push_back(fmt::format("libLLVM-{}.so", version));
    paths.push_back(fmt::format("/usr/lib/llvm-{0}/lib/libLLVM.so.{0}.1", version));
    paths.push_back(fmt::format("/usr/lib/llvm-{0}/lib/libLLVM-{0}.so", version));
    paths.push_back(fmt::format("/usr/lib64/llvm{0}/lib/libLLVM.so.{0}.1", version));
  }
  return paths;
}

/// The name of the first entry point that `handle` lacks, or null with the table filled.
const char* resolve(void* handle, Api& api) {
#define ATTUNE_LLVM_FUNCTION(result, name, arguments) \
  if (!resolve_symbol(handle, #name, api.name)) return #name;
#include "backend/cpu/llvm_symbols.inc"
#undef ATTUNE_LLVM_FUNCTION
  return nullptr;
}

struct Llvm : Library<Api> {
  int major = 0;

  /// Takes a library of a version that is known to do; "" or why it cannot be used.
  std::string accept(void* handle) {
    void (*version_of)(unsigned*, unsigned*, unsigned*) = nullptr;
    // LLVMGetVersion itself came with LLVM 16.
    if (!resolve_symbol(handle, "LLVMGetVersion", version_of))
      return fmt::format("has no LLVMGetVersion: no libLLVM, or older than {}", oldest);
    unsigned numbers[3] = {};
    version_of(&numbers[0], &numbers[1], &numbers[2]);
    const std::string version = fmt::format("{}", fmt::join(numbers, "."));
    if (numbers[0] < static_cast<unsigned>(oldest)) return fmt::format("is version {}, older than {}", version, oldest);
    if (const char* name = resolve(handle, api)) {
      api = {};
      return fmt::format("version {} lacks {}", version, name);
    }
    api.LLVMInitializeX86TargetInfo();
    api.LLVMInitializeX86Target();
    api.LLVMInitializeX86TargetMC();
    api.LLVMInitializeX86AsmPrinter();
    major = static_cast<int>(numbers[0]);
    report.version = version;
    return {};
  }
  static Llvm* open() {
    auto* made = new Llvm;
    open_library(
        paths_from("ATTUNE_LLVM_PATH", candidates()), [&](void* handle) { return made->accept(handle); }, made->report);
    return made;
  }
};

Opened<Llvm> opened;

/// Errors that LLVM reports through the context instead of a return value.
struct Collected {
  const Api* llvm;
  std::string errors;
};

void collect(LLVMDiagnosticInfoRef info, void* context) {
  auto& collected = *static_cast<Collected*>(context);
  if (collected.llvm->LLVMGetDiagInfoSeverity(info) != 0) return;  // 0: an error
  char* text = collected.llvm->LLVMGetDiagInfoDescription(info);
  if (!collected.errors.empty()) collected.errors += "; ";
  collected.errors += text;
  collected.llvm->LLVMDisposeMessage(text);
}

std::string take_message(const Api& llvm, char* message) {
  if (message == nullptr) return {};
  std::string text = message;
  llvm.LLVMDisposeMessage(message);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

/// LLVM's parser says "kernel.ll:12:5: error: ..."; the line itself is what a maintainer wants to see.
void quote_line(Diagnostic& diagnostic, const std::string& ir, const std::string& message) {
  static constexpr std::string_view prefix = "kernel.ll:";
  std::size_t at = message.find(prefix);
  if (at == std::string::npos) return;
  long wanted = std::strtol(message.c_str() + at + prefix.size(), nullptr, 10);
  std::size_t begin = 0;
  for (long line = 1; line < wanted && begin != std::string::npos; ++line) {
    begin = ir.find('\n', begin);
    if (begin != std::string::npos) ++begin;
  }
  if (wanted < 1 || begin == std::string::npos) return;
  diagnostic.notes.push_back(
      fmt::format("line {} of the IR: {}", wanted, ir.substr(begin, ir.find('\n', begin) - begin)));
}

/// Frees what one compilation made, in reverse order, on every way out.
struct Compilation {
  const Api& llvm;
  LLVMContextRef context = nullptr;
  LLVMTargetMachineRef machine = nullptr;
  LLVMModuleRef module = nullptr;
  LLVMMemoryBufferRef output = nullptr;

  explicit Compilation(const Api& table) : llvm(table) {}
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;
  ~Compilation() {
    if (output != nullptr) llvm.LLVMDisposeMemoryBuffer(output);
    if (module != nullptr) llvm.LLVMDisposeModule(module);
    if (machine != nullptr) llvm.LLVMDisposeTargetMachine(machine);
    if (context != nullptr) llvm.LLVMContextDispose(context);
  }
};

enum class FileType : int { assembly = 0, object = 1 };

template <class Bytes>
Result<Bytes> translate(const std::string& ir, const CpuTarget& target, FileType type) {
  const Api* table = api();
  if (table == nullptr) return missing();
  const Api& llvm = *table;
  Compilation c(llvm);
  Collected collected{table, {}};
  char* message = nullptr;

  c.context = llvm.LLVMContextCreate();
  llvm.LLVMContextSetDiagnosticHandler(c.context, collect, &collected);
  // The parser takes the buffer over, also where it fails.
  LLVMMemoryBufferRef text = llvm.LLVMCreateMemoryBufferWithMemoryRange(ir.c_str(), ir.size(), "kernel.ll", 1);
  if (llvm.LLVMParseIRInContext(c.context, text, &c.module, &message) != 0) {
    c.module = nullptr;
    std::string reason = take_message(llvm, message);
    Diagnostic diagnostic = refused("LLVM does not accept the generated code", reason);
    quote_line(diagnostic, ir, reason);
    return diagnostic;
  }

  LLVMTargetRef x86 = nullptr;
  if (llvm.LLVMGetTargetFromTriple(triple, &x86, &message) != 0)
    return refused("LLVM has no x86-64 code generator", take_message(llvm, message));
  constexpr int level_default = 2, reloc_pic = 2, code_model_default = 0;
  c.machine = llvm.LLVMCreateTargetMachine(x86, triple, processor(target.name).c_str(), target.features.c_str(),
                                           level_default, reloc_pic, code_model_default);
  if (c.machine == nullptr) return refused("LLVM has no code generator for " + target.name, {});
  LLVMTargetDataRef layout = llvm.LLVMCreateTargetDataLayout(c.machine);
  llvm.LLVMSetTarget(c.module, triple);
  llvm.LLVMSetModuleDataLayout(c.module, layout);
  llvm.LLVMDisposeTargetData(layout);

  // Always verified: it costs about a hundredth of the code generation, which may crash on what it rejects.
  constexpr int return_status = 2;
  message = nullptr;
  if (llvm.LLVMVerifyModule(c.module, return_status, &message) != 0)
    return refused("LLVM finds the generated code malformed", take_message(llvm, message));
  take_message(llvm, std::exchange(message, nullptr));

  int failed =
      llvm.LLVMTargetMachineEmitToMemoryBuffer(c.machine, c.module, static_cast<int>(type), &message, &c.output);
  if (failed != 0) {
    c.output = nullptr;
    return refused("LLVM cannot generate machine code", take_message(llvm, message));
  }
  if (!collected.errors.empty()) return refused("LLVM cannot generate machine code", collected.errors);
  const char* begin = llvm.LLVMGetBufferStart(c.output);
  return Bytes(begin, begin + llvm.LLVMGetBufferSize(c.output));
}

}  // namespace

const Api* api() {
  const Llvm& found = opened.get();
  return found.usable() ? &found.api : nullptr;
}

Diagnostic missing() {
  Diagnostic diagnostic;
  diagnostic.code = "A0603";
  diagnostic.message = "no usable libLLVM was found";
  diagnostic.notes = opened.get().report.tried;
  diagnostic.help = fmt::format(
      "install LLVM {} or later (Debian, Ubuntu: libllvm19), or set ATTUNE_LLVM_PATH to its shared library", oldest);
  return diagnostic;
}

Diagnostic refused(std::string what, const std::string& reason) {
  Diagnostic diagnostic;
  diagnostic.code = "A0901";
  diagnostic.message = reason.empty() ? std::move(what) : std::move(what) + ": " + reason;
  return diagnostic;
}

std::string take(const Api& llvm, LLVMErrorRef error) {
  if (error == nullptr) return {};
  char* message = llvm.LLVMGetErrorMessage(error);  // consumes the error
  std::string text = message;
  llvm.LLVMDisposeErrorMessage(message);
  return text.empty() ? "unknown error" : text;
}

// Packed code: a magic word, then each object after its size, all numbers 64 bits wide and little endian.
constexpr char pack_magic[8] = {'a', 't', 't', 'u', 'n', 'e', 'O', '\n'};

std::vector<std::uint8_t> pack(const std::vector<std::vector<std::uint8_t>>& objects) {
  std::vector<std::uint8_t> code(pack_magic, pack_magic + sizeof pack_magic);
  for (const auto& object : objects) {
    for (int byte = 0; byte < 8; ++byte) code.push_back(static_cast<std::uint8_t>(object.size() >> (8 * byte)));
    code.insert(code.end(), object.begin(), object.end());
  }
  return code;
}

std::optional<std::vector<Bytes>> unpack(const std::vector<std::uint8_t>& code) {
  std::vector<Bytes> objects;
  if (code.size() < sizeof pack_magic || std::memcmp(code.data(), pack_magic, sizeof pack_magic) != 0) {
    objects.push_back({code.data(), code.size()});
    return objects;
  }
  for (std::size_t at = sizeof pack_magic; at < code.size();) {
    if (code.size() - at < 8) return std::nullopt;
    std::uint64_t size = 0;
    for (std::size_t byte = 0; byte < 8; ++byte) size |= std::uint64_t{code[at + byte]} << (8 * byte);
    at += 8;
    if (size > code.size() - at) return std::nullopt;
    objects.push_back({code.data() + at, static_cast<std::size_t>(size)});
    at += static_cast<std::size_t>(size);
  }
  return objects;
}

std::string processor(const std::string& name) {
  // An unknown name would only be warned about on stderr and scheduled as a bare x86-64.
  if (name == "znver5" && opened.get().major < 19) return "znver4";
  return name;
}

}  // namespace llvm

Result<std::vector<std::uint8_t>> compile(const std::string& ir, const CpuTarget& target) {
  return llvm::translate<std::vector<std::uint8_t>>(ir, target, llvm::FileType::object);
}

Result<std::vector<std::uint8_t>> compile(const std::vector<std::string>& modules, const CpuTarget& target,
                                          const Parallel& parallel) {
  if (llvm::api() == nullptr) return llvm::missing();
  struct Work {
    const std::vector<std::string>& modules;
    const CpuTarget& target;
    std::vector<std::optional<Result<std::vector<std::uint8_t>>>> objects;
  } work{modules, target, {}};
  work.objects.resize(modules.size());
  // Each has an LLVM context of its own, so nothing is shared.
  parallel(
      static_cast<std::int64_t>(modules.size()),
      [](void* context, std::int64_t k) {
        auto& w = *static_cast<Work*>(context);
        const auto at = static_cast<std::size_t>(k);
        w.objects[at] = compile(w.modules[at], w.target);
      },
      &work);
  std::vector<std::vector<std::uint8_t>> objects;
  for (auto& object : work.objects) {
    if (!*object) return object->diagnostics();
    objects.push_back(**std::move(object));
  }
  return llvm::pack(objects);
}

Result<std::string> assembly(const std::string& ir, const CpuTarget& target) {
  return llvm::translate<std::string>(ir, target, llvm::FileType::assembly);
}

const LibraryReport& llvm_report() { return llvm::opened.get().report; }

std::string llvm_identity() { return llvm_report().version; }

}  // namespace attune::cpu
