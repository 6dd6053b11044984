// SPDX-License-Identifier: Apache-2.0
// GPUs of this machine, and code loaded on one of them.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/nvrtc.hpp"

namespace attune::cuda {

/// A GPU that the driver lists, whether attune can use it or not.
struct GpuDevice {
  int index = 0;  ///< the driver's ordinal
  driver::CUdevice handle = 0;
  GpuTarget target;
  std::uint64_t memory_bytes = 0;
  std::string problem;  ///< why it cannot be used, or ""
};

/// All that the driver lists; empty without a driver. Asked once.
const std::vector<GpuDevice>& devices();
/// The device, where it is there and can be used; else A0602 with what is missing: driver, device, compute capability.
Result<const GpuDevice*> find_device(int index);
/// What the target `cuda` misses on this machine for a device, or "": driver, NVRTC, device. Nothing is printed.
std::string missing_for(int index);

/// Makes a device's primary context the calling thread's for as long as it lives. The context is retained at its first
/// use and kept until the process ends, as frameworks do with theirs.
class Current {
 public:
  explicit Current(int device);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  /// Why there is no context: the driver's result, success where there is one.
  driver::CUresult result() const { return result_; }

 private:
  const driver::Api* api_ = nullptr;
  driver::CUresult result_ = driver::success;
};

/// Code on a device; unloads when the last reference goes.
struct Loaded {
  Loaded() = default;
  ~Loaded();
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

  int device = 0;
  driver::CUmodule module = nullptr;
  std::vector<Launch> launches;  ///< Source::launches
  std::size_t words = 0;         ///< Source::words
  bool may_flag = true;          ///< Source::may_flag
  struct Function {
    driver::CUfunction handle = nullptr;
    FunctionUsage usage;  ///< of the log, completed by what the driver says
  };
  std::vector<Function> functions;  ///< one for each launch
};

/// Loads a binary and makes its functions ready to launch with their shared memory. `kernel` is for errors: A0606,
/// A0607, A0602.
Result<std::shared_ptr<const Loaded>> load(const Binary& binary, const Source& source, int device,
                                           const std::string& kernel);

}  // namespace attune::cuda
