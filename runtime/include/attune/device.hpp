// SPDX-License-Identifier: Apache-2.0
// GPUs of this machine and memory on them, through the driver that attune opened: for programs that bring none of
// their own. Programs that use CUDA themselves pass their own pointers and streams.
#pragma once
#include <attune/diagnostic.hpp>
#include <attune/tensor_ref.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace attune {

/// A GPU that the driver lists.
struct GpuInfo {
  int index = 0;     ///< the driver's ordinal, as in the target `cuda:1`
  std::string name;  ///< "NVIDIA H200"
  std::string arch;  ///< "sm_90a"
  std::uint64_t memory_bytes = 0;
  int processors = 0;                 ///< streaming multiprocessors
  std::int64_t shared_per_block = 0;  ///< bytes that one block may have
  std::int64_t shared_per_processor = 0;
  std::int64_t registers_per_processor = 0;
  std::int64_t l2_bytes = 0;
  std::string problem;  ///< why attune cannot use it, or ""
};
/// All of them; empty where there is no driver or no device. Never fails, prints nothing.
std::vector<GpuInfo> gpus();

/// Owned memory of one GPU; freed at the end. Movable. All copies are finished when they return, and wait for the work
/// that was queued on the default stream before.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer() { release(); }

  /// Contents are undefined. 0 bytes allocate nothing. Errors: no such GPU (A0602), no memory (A0607), driver (A0606).
  static Result<DeviceBuffer> allocate(std::uint64_t bytes, int device = 0);
  /// A copy of host memory.
  static Result<DeviceBuffer> copy_of(const void* host, std::uint64_t bytes, int device = 0);

  /// The first `bytes` from and to the host; true, or the driver's error (A0606; A0609 beyond the end).
  Result<bool> fill_from(const void* host, std::uint64_t bytes);
  Result<bool> copy_to(void* host, std::uint64_t bytes) const;
  void release() noexcept;

  void* data() const { return data_; }
  std::uint64_t size() const { return bytes_; }
  Device device() const { return {DeviceKind::cuda, device_}; }
  /// The same shape and strides at this buffer's address.
  TensorRef view(const TensorRef& like) const;

 private:
  void* data_ = nullptr;
  std::uint64_t bytes_ = 0;
  int device_ = 0;
};

}  // namespace attune
