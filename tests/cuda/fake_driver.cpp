// SPDX-License-Identifier: Apache-2.0
// The fake driver's functions. As part of a test they fill a table; with ATTUNE_FAKE_LIBRARY they are a libcuda.so.1
// for the command, under the names that the real one exports.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

#include "backend/cuda/driver.hpp"
#include "tests/cuda/fake.hpp"

#ifdef ATTUNE_FAKE_LIBRARY
#define FAKE(name, exported) extern "C" CUresult exported
#else
#define FAKE(name, exported) extern "C" CUresult fake_##exported
#endif

using namespace attune::cuda::driver;

namespace fake {
namespace {

struct Inside {
  std::recursive_mutex mutex;
  Driver state;
  int sticky = 0;
  std::map<std::uint64_t, std::uint64_t> blocks;
};

Inside*& inside_slot() {
  static Inside* slot = new Inside;
  return slot;
}
Inside& inside() { return *inside_slot(); }

/// Counts a call; its result.
int enter(const char* name) {
  Inside& in = inside();
  ++in.state.calls[name];
  in.state.order.emplace_back(name);
  if (in.sticky != 0) return in.sticky;
  const auto failure = in.state.failures.find(name);
  if (failure == in.state.failures.end()) return success;
  if (failure->second.after-- > 0) return success;
  if (failure->second.sticky) in.sticky = failure->second.result;
  return failure->second.result;
}

thread_local std::vector<int> contexts;  ///< devices of what is current, innermost last

}  // namespace

Driver& driver() { return inside().state; }

/// A new state; the old one stays for what still points into it.
void forget_driver() {
  static std::vector<Inside*> all;
  all.push_back(inside_slot());
  inside_slot() = new Inside;
}

}  // namespace fake

using fake::contexts;
using fake::enter;
using fake::inside;

#define ENTER(name)                           \
  const std::lock_guard lock(inside().mutex); \
  if (const int result = enter(#name); result != success) return result

FAKE(cuInit, cuInit)(unsigned) {
  ENTER(cuInit);
  return success;
}
FAKE(cuDriverGetVersion, cuDriverGetVersion)(int* version) {
  *version = 13000;
  return success;
}
FAKE(cuGetErrorName, cuGetErrorName)(CUresult result, const char** name) {
  *name = result == 2     ? "CUDA_ERROR_OUT_OF_MEMORY"
          : result == 100 ? "CUDA_ERROR_NO_DEVICE"
          : result == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : result == 719 ? "CUDA_ERROR_LAUNCH_FAILED"
                          : "CUDA_ERROR_UNKNOWN";
  return success;
}
FAKE(cuGetErrorString, cuGetErrorString)(CUresult, const char** text) {
  *text = "as the test asked";
  return success;
}
FAKE(cuDeviceGetCount, cuDeviceGetCount)(int* count) {
  ENTER(cuDeviceGetCount);
  *count = static_cast<int>(inside().state.devices.size());
  return success;
}
FAKE(cuDeviceGet, cuDeviceGet)(CUdevice* device, int ordinal) {
  ENTER(cuDeviceGet);
  *device = 70 + ordinal;  // handles are no ordinals
  return success;
}
FAKE(cuDeviceGetName, cuDeviceGetName)(char* name, int length, CUdevice device) {
  const std::string& text = inside().state.devices.at(static_cast<std::size_t>(device - 70)).name;
  std::snprintf(name, static_cast<std::size_t>(length), "%s", text.c_str());
  return success;
}
FAKE(cuDeviceGetAttribute, cuDeviceGetAttribute)(int* value, int attribute, CUdevice device) {
  const fake::Model& model = inside().state.devices.at(static_cast<std::size_t>(device - 70));
  switch (attribute) {
    case multiprocessor_count: *value = model.processors; return success;
    case l2_cache_size: *value = model.l2_bytes; return success;
    case compute_capability_major: *value = model.major; return success;
    case compute_capability_minor: *value = model.minor; return success;
    case shared_memory_per_multiprocessor: *value = model.shared_per_sm; return success;
    case registers_per_multiprocessor: *value = model.registers; return success;
    case shared_memory_per_block_optin: *value = model.shared_per_block; return success;
  }
  return 1;
}
FAKE(cuDeviceTotalMem, cuDeviceTotalMem_v2)(std::size_t* bytes, CUdevice device) {
  *bytes = inside().state.devices.at(static_cast<std::size_t>(device - 70)).memory;
  return success;
}
FAKE(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain)(CUcontext* context, CUdevice device) {
  ENTER(cuDevicePrimaryCtxRetain);
  *context = reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(device));
  return success;
}
FAKE(cuCtxPushCurrent, cuCtxPushCurrent_v2)(CUcontext context) {
  contexts.push_back(static_cast<int>(reinterpret_cast<std::uintptr_t>(context)) - 70);
  return success;
}
FAKE(cuCtxSynchronize, cuCtxSynchronize)() {
  ENTER(cuCtxSynchronize);
  return contexts.empty() ? 201 : success;
}
FAKE(cuCtxPopCurrent, cuCtxPopCurrent_v2)(CUcontext* context) {
  if (contexts.empty()) return 201;
  *context = reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(contexts.back() + 70));
  contexts.pop_back();
  return success;
}

namespace {
struct Function {
  std::string name;
  const std::string* image = nullptr;
};
struct Module {
  std::string image;
  std::vector<std::unique_ptr<Function>> functions;
};
}  // namespace

FAKE(cuModuleLoadData, cuModuleLoadData)(CUmodule* module, const void* image) {
  ENTER(cuModuleLoadData);
  if (contexts.empty()) return 201;
  // The fake compiler's machine code; anything else is no code for this device.
  if (std::strncmp(static_cast<const char*>(image), "fake cubin", 10) != 0 && std::getenv("ATTUNE_FAKE_ANY") == nullptr)
    return 200;
  *module = reinterpret_cast<CUmodule>(new Module{static_cast<const char*>(image), {}});
  ++inside().state.modules;
  return success;
}
FAKE(cuModuleUnload, cuModuleUnload)(CUmodule module) {
  ENTER(cuModuleUnload);
  delete reinterpret_cast<Module*>(module);
  --inside().state.modules;
  return success;
}
FAKE(cuModuleGetFunction, cuModuleGetFunction)(CUfunction* function, CUmodule module, const char* name) {
  ENTER(cuModuleGetFunction);
  auto& loaded = *reinterpret_cast<Module*>(module);
  if (std::getenv("ATTUNE_FAKE_ANY") == nullptr && loaded.image.find(std::string(name) + "(") == std::string::npos)
    return error_not_found;
  loaded.functions.push_back(std::make_unique<Function>(Function{name, &loaded.image}));
  *function = reinterpret_cast<CUfunction>(loaded.functions.back().get());
  return success;
}
FAKE(cuFuncGetAttribute, cuFuncGetAttribute)(int* value, int attribute, CUfunction) {
  *value = attribute == function_registers ? 168 : attribute == function_local_bytes ? 24 : 0;
  return success;
}
FAKE(cuFuncSetAttribute, cuFuncSetAttribute)(CUfunction function, int attribute, int value) {
  ENTER(cuFuncSetAttribute);
  if (attribute == function_max_dynamic_shared_bytes)
    inside().state.shared_asked[reinterpret_cast<Function*>(function)->name] = value;
  return success;
}
FAKE(cuLaunchKernel, cuLaunchKernel)
(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
 unsigned block_z, unsigned shared_bytes, CUstream stream, void** parameters, void**) {
  ENTER(cuLaunchKernel);
  if (contexts.empty()) return 201;
  if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1) return 1;
  fake::Launched launched;
  launched.function = reinterpret_cast<Function*>(function)->name;
  launched.device = contexts.back();
  launched.blocks = grid_x;
  launched.threads = block_x;
  launched.shared_bytes = shared_bytes;
  launched.stream = stream;
  const auto* words = static_cast<const std::uint64_t*>(parameters[0]);
  launched.words.assign(words, words + inside().state.words);
  if (inside().state.raise != 0 && !launched.words.empty() && launched.words.back() != 0)
    *reinterpret_cast<std::int32_t*>(static_cast<std::uintptr_t>(launched.words.back())) = inside().state.raise;
  if (inside().state.execute) {
    const auto& code = *reinterpret_cast<Function*>(function);
    inside().state.execute(*code.image, code.name, grid_x, block_x, parameters[0]);
    return success;
  }
  inside().state.launches.push_back(std::move(launched));
  return success;
}
FAKE(cuMemAlloc, cuMemAlloc_v2)(CUdeviceptr* address, std::size_t bytes) {
  ENTER(cuMemAlloc);
  if (contexts.empty()) return 201;
  if (bytes == 0) return 1;
  if (inside().state.allocated + bytes > inside().state.memory_limit) return error_out_of_memory;
  void* memory = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  std::memset(memory, 0x5a, bytes);
  *address = reinterpret_cast<std::uintptr_t>(memory);
  inside().blocks[*address] = bytes;
  inside().state.allocated += bytes;
  return success;
}
FAKE(cuMemFree, cuMemFree_v2)(CUdeviceptr address) {
  ENTER(cuMemFree);
  const auto found = inside().blocks.find(address);
  if (found == inside().blocks.end()) return 1;
  inside().state.allocated -= found->second;
  inside().blocks.erase(found);
  std::free(reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)));
  return success;
}
FAKE(cuMemcpyHtoD, cuMemcpyHtoD_v2)(CUdeviceptr to, const void* from, std::size_t bytes) {
  ENTER(cuMemcpyHtoD);
  std::memcpy(reinterpret_cast<void*>(static_cast<std::uintptr_t>(to)), from, bytes);
  return success;
}
FAKE(cuMemcpyDtoH, cuMemcpyDtoH_v2)(void* to, CUdeviceptr from, std::size_t bytes) {
  ENTER(cuMemcpyDtoH);
  std::memcpy(to, reinterpret_cast<const void*>(static_cast<std::uintptr_t>(from)), bytes);
  return success;
}
FAKE(cuMemsetD8Async, cuMemsetD8Async)(CUdeviceptr to, unsigned char value, std::size_t bytes, CUstream) {
  ENTER(cuMemsetD8Async);
  std::memset(reinterpret_cast<void*>(static_cast<std::uintptr_t>(to)), value, bytes);
  return success;
}
FAKE(cuMemsetD32Async, cuMemsetD32Async)(CUdeviceptr to, unsigned value, std::size_t count, CUstream) {
  ENTER(cuMemsetD32Async);
  std::fill_n(reinterpret_cast<unsigned*>(static_cast<std::uintptr_t>(to)), count, value);
  return success;
}
FAKE(cuStreamSynchronize, cuStreamSynchronize)(CUstream) {
  ENTER(cuStreamSynchronize);
  return success;
}
FAKE(cuStreamIsCapturing, cuStreamIsCapturing)(CUstream stream, int* status) {
  ENTER(cuStreamIsCapturing);
  *status = inside().state.capturing.contains(stream) ? 1 : 0;
  return success;
}
FAKE(cuEventCreate, cuEventCreate)(CUevent* event, unsigned) {
  ENTER(cuEventCreate);
  *event = reinterpret_cast<CUevent>(new int);
  return success;
}
FAKE(cuEventDestroy, cuEventDestroy_v2)(CUevent event) {
  ENTER(cuEventDestroy);
  delete reinterpret_cast<int*>(event);
  return success;
}
FAKE(cuEventRecord, cuEventRecord)(CUevent, CUstream) {
  ENTER(cuEventRecord);
  return success;
}
FAKE(cuEventSynchronize, cuEventSynchronize)(CUevent) {
  ENTER(cuEventSynchronize);
  return success;
}
FAKE(cuEventElapsedTime, cuEventElapsedTime)(float* milliseconds, CUevent, CUevent) {
  ENTER(cuEventElapsedTime);
  *milliseconds = 0.25f;
  return success;
}

#ifndef ATTUNE_FAKE_LIBRARY
namespace fake {
const Api& driver_table() {
  static const Api table = [] {
    Api api;
#define ATTUNE_CUDA_FUNCTION(name, exported, arguments) api.name = fake_##exported;
#include "backend/cuda/driver_symbols.inc"
#undef ATTUNE_CUDA_FUNCTION
    return api;
  }();
  return table;
}
}  // namespace fake
#endif
