// SPDX-License-Identifier: Apache-2.0
// Opens libcuda, or uses the table that a test gave.
#include "backend/cuda/driver.hpp"

#include <fmt/format.h>

namespace attune::cuda::driver {
namespace {

/// The first entry point that `handle` lacks, or null with the table filled.
const char* resolve(void* handle, Api& api) {
#define ATTUNE_CUDA_FUNCTION(name, exported, arguments) \
  if (!resolve_symbol(handle, #exported, api.name)) return #exported;
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

struct Driver : Library<Api> {
  std::string start() {
    if (const CUresult result = api.cuInit(0); result != success) return "cuInit gives " + name_of(api, result);
    int version = 0;
    api.cuDriverGetVersion(&version);
    report.version = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
    return {};
  }
  static Driver* open() {
    auto* made = new Driver;
    // The last one is where the driver's files lie under WSL.
    open_library(
        paths_from("ATTUNE_CUDA_PATH", {"libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1"}),
        [&](void* handle) -> std::string {
          if (const char* name = resolve(handle, made->api)) return fmt::format("lacks {}: too old a driver", name);
          return made->start();
        },
        made->report);
    return made;
  }
};

Opened<Driver> opened;

}  // namespace

const Api* api() {
  const Driver& found = opened.get();
  return found.usable() ? &found.api : nullptr;
}

const LibraryReport& report() { return opened.get().report; }

void replace(const Api* table) { opened.replace(table); }

unsigned generation() { return opened.replacements(); }

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
