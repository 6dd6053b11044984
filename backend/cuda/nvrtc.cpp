// SPDX-License-Identifier: Apache-2.0
// Opens libnvrtc and compiles generated text with it.
#include "backend/cuda/nvrtc.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "backend/cuda/library.hpp"

namespace attune::cuda {
namespace nvrtc {
namespace {

struct Library {
  Api api;
  bool usable = false;
  LibraryReport report;
  std::vector<int> archs;  ///< compute capabilities as numbers, 90 for 9.0
};

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
  if (void* symbol = dlsym(handle, #name)) {           \
    std::memcpy(&api.name, &symbol, sizeof symbol);    \
  } else {                                             \
    return #name;                                      \
  }
#include "backend/cuda/nvrtc_symbols.inc"
#undef ATTUNE_NVRTC_FUNCTION
  return nullptr;
}

std::string start(Library& library) {
  const Api& api = library.api;
  int major = 0, minor = 0, count = 0;
  if (const int result = api.nvrtcVersion(&major, &minor); result != 0)
    return fmt::format("nvrtcVersion gives {}", api.nvrtcGetErrorString(result));
  if (api.nvrtcGetNumSupportedArchs(&count) == 0 && count > 0) {
    library.archs.resize(static_cast<std::size_t>(count));
    if (api.nvrtcGetSupportedArchs(library.archs.data()) != 0) library.archs.clear();
  }
  library.usable = true;
  library.report.version = fmt::format("{}.{}", major, minor);
  return {};
}

Library* opened() {
  auto* library = new Library;
  std::vector<std::string> paths;
  if (std::string path = variable("ATTUNE_NVRTC_PATH"); !path.empty())
    paths.push_back(std::move(path));
  else
    paths = candidates();
  open_library(
      paths,
      [&](void* handle) -> std::string {
        if (const char* name = resolve(handle, library->api)) return fmt::format("lacks {}: older than 11.2", name);
        return start(*library);
      },
      library->report);
  return library;
}

std::mutex mutex;
std::atomic<const Library*> current{nullptr};

const Library& library() {
  if (const Library* known = current.load(std::memory_order_acquire)) return *known;
  const std::lock_guard lock(mutex);
  if (const Library* known = current.load(std::memory_order_acquire)) return *known;
  const Library* made = opened();
  current.store(made, std::memory_order_release);
  return *made;
}

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
Result<const Library*> compiler_for(const GpuTarget& target) {
  const Library& found = library();
  if (!found.usable) return missing();
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

}  // namespace

const Api* api() {
  const Library& found = library();
  return found.usable ? &found.api : nullptr;
}

void replace(const Api* table) {
  static std::vector<Library*> all;  // references to what was before may be held
  auto* made = new Library;
  if (table != nullptr) {
    made->api = *table;
    const std::string reason = start(*made);
    made->report.tried.push_back("a table of functions: " + (reason.empty() ? "used" : reason));
    made->report.path = "a table of functions";
  } else {
    made->report.tried.push_back("none, as told");
  }
  const std::lock_guard lock(mutex);
  all.push_back(made);
  current.store(made, std::memory_order_release);
}

Diagnostic missing() {
  Diagnostic diagnostic;
  diagnostic.code = "A0602";
  diagnostic.message = "the target `cuda` needs NVRTC (libnvrtc), which was not found";
  for (const std::string& tried : library().report.tried) diagnostic.notes.push_back("tried " + tried);
  diagnostic.help =
      "install it (it is part of the CUDA toolkit and of the Python package nvidia-cuda-nvrtc), or name the library in "
      "ATTUNE_NVRTC_PATH";
  return diagnostic;
}

}  // namespace nvrtc

Result<Binary> compile(const Source& source, const GpuTarget& target) {
  const auto found = nvrtc::compiler_for(target);
  if (!found) return found.diagnostics();
  const nvrtc::Api& api = (*found)->api;
  nvrtc::Translation translation(api);
  if (auto error = translation.run(source, target)) return *std::move(error);
  Result<std::string> code = translation.output(api.nvrtcGetCUBINSize, api.nvrtcGetCUBIN);
  if (!code) return code.diagnostics();
  return Binary{{code->begin(), code->end()}, translation.log()};
}

Result<std::string> ptx(const Source& source, const GpuTarget& target) {
  const auto found = nvrtc::compiler_for(target);
  if (!found) return found.diagnostics();
  const nvrtc::Api& api = (*found)->api;
  nvrtc::Translation translation(api);
  if (auto error = translation.run(source, target)) return *std::move(error);
  Result<std::string> text = translation.output(api.nvrtcGetPTXSize, api.nvrtcGetPTX);
  if (text) text->resize(std::strlen(text->c_str()));  // NVRTC counts the final zero
  return text;
}

const LibraryReport& nvrtc_report() { return nvrtc::library().report; }

std::string nvrtc_identity() { return nvrtc::library().report.version; }

}  // namespace attune::cuda
