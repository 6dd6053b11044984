// SPDX-License-Identifier: Apache-2.0
// Asks the driver for its devices, holds their primary contexts, loads modules.
#include "backend/cuda/device.hpp"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "backend/cuda/target.hpp"

namespace attune::cuda {
namespace {

using driver::CUresult;

/// The devices and contexts of one table of the driver.
struct Machinery {
  const driver::Api* api = nullptr;
  std::string problem;  ///< why no device is listed
  std::vector<GpuDevice> devices;
  std::mutex mutex;  // guards the contexts
  std::map<int, driver::CUcontext> contexts;
};

GpuDevice describe_device(const driver::Api& api, int index) {
  GpuDevice device;
  device.index = index;
  if (const CUresult result = api.cuDeviceGet(&device.handle, index); result != driver::success) {
    device.problem = driver::failed(result, "asking for the device").message;
    return device;
  }
  char name[256] = "";
  if (api.cuDeviceGetName(name, sizeof name - 1, device.handle) == driver::success) device.target.name = name;
  std::size_t bytes = 0;
  if (api.cuDeviceTotalMem(&bytes, device.handle) == driver::success) device.memory_bytes = bytes;
  const auto attribute = [&](driver::DeviceAttribute which, int otherwise) {
    int value = 0;
    return api.cuDeviceGetAttribute(&value, which, device.handle) == driver::success ? value : otherwise;
  };
  GpuTarget& target = device.target;
  target.major = attribute(driver::compute_capability_major, 0);
  target.minor = attribute(driver::compute_capability_minor, 0);
  target.arch_specific = wants_arch_specific(target.major, target.minor);
  target.processors = attribute(driver::multiprocessor_count, 1);
  target.shared_per_block = attribute(driver::shared_memory_per_block_optin, 48 << 10);
  target.shared_per_sm = attribute(driver::shared_memory_per_multiprocessor, 64 << 10);
  target.registers_per_sm = attribute(driver::registers_per_multiprocessor, 65536);
  target.l2_bytes = attribute(driver::l2_cache_size, 0);
  if (!is_supported(target))
    device.problem = fmt::format("compute capability {}.{}; 8.0 or newer is needed", target.major, target.minor);
  return device;
}

Machinery* find_devices() {
  auto* found = new Machinery;  // never destroyed: contexts are held until the process ends
  found->api = driver::api();
  if (found->api == nullptr) {
    found->problem = "no usable CUDA driver was found";
    return found;
  }
  int count = 0;
  if (const CUresult result = found->api->cuDeviceGetCount(&count); result != driver::success)
    found->problem = driver::failed(result, "counting devices").message;
  for (int index = 0; index < count; ++index) found->devices.push_back(describe_device(*found->api, index));
  if (found->devices.empty() && found->problem.empty()) found->problem = "the CUDA driver lists no GPU";
  return found;
}

Machinery& machinery() {
  static std::mutex mutex;
  static Machinery* current = nullptr;
  static std::vector<Machinery*> all;  // references to what was before may be held
  static unsigned made_for = 0;
  const std::lock_guard lock(mutex);
  if (current == nullptr || made_for != driver::generation()) {
    made_for = driver::generation();
    current = find_devices();
    all.push_back(current);
  }
  return *current;
}

}  // namespace

const std::vector<GpuDevice>& devices() { return machinery().devices; }

Result<const GpuDevice*> find_device(int index) {
  const Machinery& all = machinery();
  Diagnostic diagnostic;
  diagnostic.code = "A0602";
  if (all.devices.empty()) {
    diagnostic.message = fmt::format("the target `cuda` is not available here: {}", all.problem);
    for (const std::string& tried : driver::report().tried) diagnostic.notes.push_back("tried " + tried);
    diagnostic.help =
        "install NVIDIA's driver (it brings libcuda.so.1), or name the library in ATTUNE_CUDA_PATH; the target `cpu` "
        "works without it";
    return diagnostic;
  }
  if (index < 0 || index >= static_cast<int>(all.devices.size())) {
    diagnostic.message = fmt::format("there is no GPU {}: the driver lists {}", index, all.devices.size());
    diagnostic.help = "`attune env` lists the devices; CUDA_VISIBLE_DEVICES may hide some";
    return diagnostic;
  }
  const GpuDevice& device = all.devices[static_cast<std::size_t>(index)];
  if (!device.problem.empty()) {
    diagnostic.message = fmt::format("GPU {} ({}) cannot be used: {}", index, device.target.name, device.problem);
    return diagnostic;
  }
  return &device;
}

std::string missing_for(int index) {
  const auto device = find_device(index);
  if (!device) return device.diagnostics()[0].message;
  if (nvrtc::api() == nullptr) return nvrtc::missing().message;
  return {};
}

Current::Current(int device) {
  Machinery& all = machinery();
  if (all.api == nullptr || device < 0 || device >= static_cast<int>(all.devices.size())) {
    result_ = driver::error_no_device;
    return;
  }
  driver::CUcontext context = nullptr;
  {
    const std::lock_guard lock(all.mutex);
    driver::CUcontext& kept = all.contexts[device];
    if (kept == nullptr)
      result_ = all.api->cuDevicePrimaryCtxRetain(&kept, all.devices[static_cast<std::size_t>(device)].handle);
    context = kept;
  }
  if (result_ == driver::success) result_ = all.api->cuCtxPushCurrent(context);
  if (result_ == driver::success) api_ = all.api;
}

Current::~Current() {
  driver::CUcontext popped = nullptr;
  if (api_ != nullptr) api_->cuCtxPopCurrent(&popped);
}

Loaded::~Loaded() {
  if (module == nullptr) return;
  const Current current(device);
  if (current.result() != driver::success) return;
  // Launches may still be queued. Where the device cannot be waited for, the code stays.
  const driver::Api& api = *driver::api();
  if (api.cuCtxSynchronize() == driver::success) api.cuModuleUnload(module);
}

Result<std::shared_ptr<const Loaded>> load(const Binary& binary, const Source& source, int device,
                                           const std::string& kernel) {
  const auto found = find_device(device);
  if (!found) return found.diagnostics();
  const driver::Api& api = *driver::api();
  const auto failed = [&](CUresult result, const char* doing) {
    return driver::failed(result, fmt::format("{} `{}`", doing, kernel));
  };
  const Current current(device);
  if (current.result() != driver::success) return failed(current.result(), "making a context for");
  auto loaded = std::make_shared<Loaded>();
  loaded->device = device;
  loaded->launches = source.launches;
  loaded->words = source.words;
  loaded->may_flag = source.may_flag;
  if (const CUresult result = api.cuModuleLoadData(&loaded->module, binary.cubin.data()); result != driver::success) {
    loaded->module = nullptr;
    return failed(result, "loading");
  }
  const CompileLog log = parse_log(binary.log);
  for (const Launch& launch : source.launches) {
    Loaded::Function function;
    if (const CUresult result = api.cuModuleGetFunction(&function.handle, loaded->module, launch.function.c_str());
        result != driver::success)
      return failed(result, "finding a function of");
    // Beyond 48 KiB a function has to ask; asking for less is allowed too.
    if (launch.shared_bytes > 0)
      if (const CUresult result = api.cuFuncSetAttribute(function.handle, driver::function_max_dynamic_shared_bytes,
                                                         static_cast<int>(launch.shared_bytes));
          result != driver::success)
        return failed(result, "asking for the shared memory of");
    if (const FunctionUsage* usage = log.find(launch.function)) function.usage = *usage;
    function.usage.name = launch.function;
    const auto ask = [&](driver::FunctionAttribute which, auto& into) {
      int value = 0;
      if (into == 0 && api.cuFuncGetAttribute(&value, which, function.handle) == driver::success) into = value;
    };
    ask(driver::function_registers, function.usage.registers);
    ask(driver::function_local_bytes, function.usage.stack_bytes);
    ask(driver::function_shared_bytes, function.usage.shared_bytes);
    loaded->functions.push_back(std::move(function));
  }
  return std::shared_ptr<const Loaded>(std::move(loaded));
}

}  // namespace attune::cuda
