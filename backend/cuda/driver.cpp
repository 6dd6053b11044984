// SPDX-License-Identifier: Apache-2.0
// Opens libcuda, or uses the table that a test gave.
#include "backend/cuda/driver.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <mutex>

#include "backend/cuda/library.hpp"

namespace attune::cuda::driver {
namespace {

struct Library {
  Api api;
  bool usable = false;
  LibraryReport report;
};

/// The first entry point that `handle` lacks, or null with the table filled.
const char* resolve(void* handle, Api& api) {
  // dlsym gives an object pointer; copying its bytes is the form of the conversion that POSIX guarantees.
#define ATTUNE_CUDA_FUNCTION(name, exported, arguments) \
  if (void* symbol = dlsym(handle, #exported)) {        \
    std::memcpy(&api.name, &symbol, sizeof symbol);     \
  } else {                                              \
    return #exported;                                   \
  }
#include "backend/cuda/driver_symbols.inc"
#undef ATTUNE_CUDA_FUNCTION
  return nullptr;
}

std::string name_of(const Api& api, CUresult result) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (api.cuGetErrorName(result, &name) != success || name == nullptr) return fmt::format("error {}", result);
  if (api.cuGetErrorString(result, &text) != success || text == nullptr) return name;
  return fmt::format("{} ({})", name, text);
}

/// Initialises a filled table; "" or why it cannot be used.
std::string start(Library& library) {
  const Api& api = library.api;
  if (const CUresult result = api.cuInit(0); result != success) return "cuInit gives " + name_of(api, result);
  int version = 0;
  api.cuDriverGetVersion(&version);
  library.usable = true;
  library.report.version = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  return {};
}

Library* opened() {
  // Never closed and never destroyed: loaded code lives until the process ends.
  auto* library = new Library;
  std::vector<std::string> paths;
  if (std::string path = variable("ATTUNE_CUDA_PATH"); !path.empty())
    paths.push_back(std::move(path));
  else
    // The last one is where the driver's files lie under WSL.
    paths = {"libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1"};
  open_library(
      paths,
      [&](void* handle) -> std::string {
        if (const char* name = resolve(handle, library->api)) return fmt::format("lacks {}: too old a driver", name);
        return start(*library);
      },
      library->report);
  return library;
}

std::mutex mutex;
std::atomic<const Library*> current{nullptr};
std::atomic<unsigned> replacements{0};

const Library& library() {
  if (const Library* known = current.load(std::memory_order_acquire)) return *known;
  const std::lock_guard lock(mutex);
  if (const Library* known = current.load(std::memory_order_acquire)) return *known;
  const Library* made = opened();
  current.store(made, std::memory_order_release);
  return *made;
}

}  // namespace

const Api* api() {
  const Library& found = library();
  return found.usable ? &found.api : nullptr;
}

const LibraryReport& report() { return library().report; }

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
  replacements.fetch_add(1);
}

unsigned generation() { return replacements.load(); }

Diagnostic failed(CUresult result, const std::string& doing) {
  const Api* table = api();
  const std::string name = table != nullptr ? name_of(*table, result) : fmt::format("error {}", result);
  Diagnostic diagnostic;
  if (result == error_out_of_memory) {
    diagnostic.code = "A0607";
    diagnostic.message = fmt::format("out of memory on the GPU while {}", doing);
    diagnostic.notes.push_back(name);
    return diagnostic;
  }
  diagnostic.code = "A0606";
  diagnostic.message = fmt::format("the GPU driver reports {} while {}", name, doing);
  if (result == error_illegal_address || result == error_launch_failed)
    diagnostic.help =
        "the error stays with this process: nothing more runs on this GPU until it is started again (the targets "
        "`cpu`, `interpreter` and `reference` still work); work queued before may be the cause";
  return diagnostic;
}

}  // namespace attune::cuda::driver
