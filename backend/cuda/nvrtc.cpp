// SPDX-License-Identifier: Apache-2.0
// Opens libnvrtc and compiles generated text with it.
#include "backend/cuda/nvrtc.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace attune::cuda {
namespace nvrtc {
namespace {

/// By soname first (what the system or the host program has), newest major version first, then where toolkits lie.
std::vector<std::string> candidates() {
  std::vector<std::string> paths = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "libnvrtc.so.11.2"};
  std::vector<std::string> folders;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const std::string root = variable(name); !root.empty()) folders.push_back(root);
  folders.emplace_back("/usr/local/cuda");
  std::vector<std::string> versions;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/usr/local", error), end; !error && entry != end;
       entry.increment(error))
    if (entry->path().filename().string().starts_with("cuda-")) versions.push_back(entry->path().string());
  std::sort(versions.rbegin(), versions.rend());
  folders.insert(folders.end(), versions.begin(), versions.end());
  folders.emplace_back("/opt/cuda");
  for (const std::string& folder : folders)
    for (const char* part : {"/lib64/libnvrtc.so", "/lib/libnvrtc.so", "/targets/x86_64-linux/lib/libnvrtc.so"})
      // A path that does not exist would only lengthen the account of what was tried.
      if (std::filesystem::exists(folder + part, error)) paths.push_back(folder + part);
  return paths;
}

/// The name of the first entry point that `handle` lacks, or null with the table filled.
const char* resolve(void* handle, Api& api) {
#define ATTUNE_NVRTC_FUNCTION(result, name, arguments) \
  if (!resolve_symbol(handle, #name, api.name)) return #name;
#include "backend/cuda/nvrtc_symbols.inc"
#undef ATTUNE_NVRTC_FUNCTION
  return nullptr;
}

struct Compiler : Library<Api> {
  std::vector<int> archs;  ///< compute capabilities as numbers, 90 for 9.0

  std::string start() {
    int major = 0, minor = 0, count = 0;
    if (const int result = api.nvrtcVersion(&major, &minor); result != 0)
      return fmt::format("nvrtcVersion gives {}", api.nvrtcGetErrorString(result));
    if (api.nvrtcGetNumSupportedArchs(&count) == 0 && count > 0) {
      archs.resize(static_cast<std::size_t>(count));
      if (api.nvrtcGetSupportedArchs(archs.data()) != 0) archs.clear();
    }
    report.version = fmt::format("{}.{}", major, minor);
    return {};
  }
  static Compiler* open() {
    auto* made = new Compiler;
    open_library(
        paths_from("ATTUNE_NVRTC_PATH", candidates()),
        [&](void* handle) -> std::string {
          if (const char* name = resolve(handle, made->api)) return fmt::format("lacks {}: older than 11.2", name);
          return made->start();
        },
        made->report);
    return made;
  }
};

Opened<Compiler> opened;

/// A program of NVRTC, destroyed at the end.
class Translation {
 public:
  explicit Translation(const Api& api) : api_(api) {}
  ~Translation() {
    if (program_ != nullptr) api_.nvrtcDestroyProgram(&program_);
  }
  Translation(const Translation&) = delete;
  Translation& operator=(const Translation&) = delete;

  /// Nothing, or the error.
  std::optional<Diagnostic> run(const Source& source, const GpuTarget& target) {
    if (const int result = api_.nvrtcCreateProgram(&program_, source.text.c_str(), "attune.cu", 0, nullptr, nullptr))
      return refused("NVRTC does not take the generated code", result);
    const std::string arch = "--gpu-architecture=" + target.arch();
    const char* options[] = {arch.c_str(), "-std=c++17", "-default-device", "--ptxas-options=-v"};
    const int result = api_.nvrtcCompileProgram(program_, 4, options);
    std::size_t size = 0;
    if (api_.nvrtcGetProgramLogSize(program_, &size) == 0 && size > 1) {
      log_.resize(size);
      if (api_.nvrtcGetProgramLog(program_, log_.data()) != 0) log_.clear();
      log_.resize(std::strlen(log_.c_str()));  // NVRTC counts the final zero
    }
    if (result != 0) return refused("NVRTC refuses the generated code", result);
    return std::nullopt;
  }

  /// What one of the pairs of functions gives: the cubin or the PTX.
  Result<std::string> output(int (*size_of)(nvrtcProgram, std::size_t*), int (*read)(nvrtcProgram, char*)) const {
    std::size_t size = 0;
    if (const int result = size_of(program_, &size)) return refused("NVRTC made no code", result);
    std::string bytes(size, '\0');
    if (size == 0) return refused("NVRTC made no code", 0);
    if (const int result = read(program_, bytes.data())) return refused("NVRTC made no code", result);
    return bytes;
  }
  const std::string& log() const { return log_; }

 private:
  Diagnostic refused(const char* what, int result) const {
    Diagnostic diagnostic;
    diagnostic.code = "A0901";
    diagnostic.message = what;
    // The first complaint says most; the whole log follows.
    if (const std::size_t at = log_.find("error"); at != std::string::npos) {
      const std::size_t begin = log_.rfind('\n', at) == std::string::npos ? 0 : log_.rfind('\n', at) + 1;
      diagnostic.message += ": " + log_.substr(begin, log_.find('\n', at) - begin);
    } else if (result != 0) {
      diagnostic.message += fmt::format(": {}", api_.nvrtcGetErrorString(result));
    }
    if (!log_.empty()) diagnostic.notes.push_back(log_);
    diagnostic.help = "please report this together with the program";
    return diagnostic;
  }

  const Api& api_;
  nvrtcProgram program_ = nullptr;
  std::string log_;
};

/// The opened library, where it knows the architecture.
Result<const Compiler*> compiler_for(const GpuTarget& target) {
  const Compiler& found = opened.get();
  if (!found.usable()) return missing();
  const int arch = target.major * 10 + target.minor;
  if (!found.archs.empty() && std::find(found.archs.begin(), found.archs.end(), arch) == found.archs.end()) {
    Diagnostic diagnostic;
    diagnostic.code = "A0602";
    diagnostic.message = fmt::format("NVRTC {} does not know the architecture {}", found.report.version, target.arch());
    diagnostic.notes.push_back("it is " + found.report.path);
    diagnostic.help = arch > found.archs.back() ? "install a newer NVRTC, or name one in ATTUNE_NVRTC_PATH"
                                                : "install an older NVRTC, or name one in ATTUNE_NVRTC_PATH";
    return diagnostic;
  }
  return &found;
}

/// The text in the form that one of the pairs of functions reads, and the log of its making.
struct Translated {
  std::string bytes, log;
};
Result<Translated> translate(const Source& source, const GpuTarget& target,
                             int (*Api::*size_of)(nvrtcProgram, std::size_t*), int (*Api::*read)(nvrtcProgram, char*)) {
  const auto found = compiler_for(target);
  if (!found) return found.diagnostics();
  const Api& api = (*found)->api;
  Translation translation(api);
  if (auto error = translation.run(source, target)) return *std::move(error);
  Result<std::string> bytes = translation.output(api.*size_of, api.*read);
  if (!bytes) return bytes.diagnostics();
  return Translated{*std::move(bytes), translation.log()};
}

}  // namespace

const Api* api() {
  const Compiler& found = opened.get();
  return found.usable() ? &found.api : nullptr;
}

void replace(const Api* table) { opened.replace(table); }

Diagnostic missing() {
  Diagnostic diagnostic;
  diagnostic.code = "A0602";
  diagnostic.message = "the target `cuda` needs NVRTC (libnvrtc), which was not found";
  for (const std::string& tried : opened.get().report.tried) diagnostic.notes.push_back("tried " + tried);
  diagnostic.help =
      "install it (it is part of the CUDA toolkit and of the Python package nvidia-cuda-nvrtc), or name the library in "
      "ATTUNE_NVRTC_PATH";
  return diagnostic;
}

}  // namespace nvrtc

Result<Binary> compile(const Source& source, const GpuTarget& target) {
  auto made = nvrtc::translate(source, target, &nvrtc::Api::nvrtcGetCUBINSize, &nvrtc::Api::nvrtcGetCUBIN);
  if (!made) return made.diagnostics();
  return Binary{{made->bytes.begin(), made->bytes.end()}, std::move(made->log)};
}

Result<std::string> ptx(const Source& source, const GpuTarget& target) {
  auto made = nvrtc::translate(source, target, &nvrtc::Api::nvrtcGetPTXSize, &nvrtc::Api::nvrtcGetPTX);
  if (!made) return made.diagnostics();
  made->bytes.resize(std::strlen(made->bytes.c_str()));  // NVRTC counts the final zero
  return std::move(made->bytes);
}

const LibraryReport& nvrtc_report() { return nvrtc::opened.get().report; }

std::string nvrtc_identity() { return nvrtc::opened.get().report.version; }

}  // namespace attune::cuda
