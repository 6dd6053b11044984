// SPDX-License-Identifier: Apache-2.0
// Memory of GPUs for programs and for the command, through the driver's table.
#include "backend/cuda/device.hpp"

#include <fmt/format.h>

#include <attune/device.hpp>
#include <utility>

namespace attune {
namespace {

cuda::driver::CUdeviceptr address_of(const void* data) { return reinterpret_cast<std::uintptr_t>(data); }

Diagnostic beyond_the_end(std::uint64_t wanted, std::uint64_t size) {
  Diagnostic diagnostic;
  diagnostic.code = "A0609";
  diagnostic.message = fmt::format("a copy of {} bytes does not fit a buffer of {}", wanted, size);
  return diagnostic;
}

}  // namespace

std::vector<GpuInfo> gpus() {
  std::vector<GpuInfo> out;
  for (const cuda::GpuDevice& device : cuda::devices())
    out.push_back({device.index, device.target.name, device.target.arch(), device.memory_bytes,
                   device.target.processors, device.target.shared_per_block, device.target.shared_per_sm,
                   device.target.registers_per_sm, device.target.l2_bytes, device.problem});
  return out;
}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  if (this == &other) return *this;
  release();
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  device_ = other.device_;
  return *this;
}

Result<DeviceBuffer> DeviceBuffer::allocate(std::uint64_t bytes, int device) {
  if (const auto found = cuda::find_device(device); !found) return found.diagnostics();
  DeviceBuffer buffer;
  buffer.device_ = device;
  if (bytes == 0) return buffer;
  const std::string doing = fmt::format("allocating {} bytes", bytes);
  const cuda::Current current(device);
  if (current.result() != cuda::driver::success) return cuda::driver::failed(current.result(), doing);
  cuda::driver::CUdeviceptr address = 0;
  if (const auto result = cuda::driver::api()->cuMemAlloc(&address, bytes); result != cuda::driver::success)
    return cuda::driver::failed(result, doing);
  buffer.data_ = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
  buffer.bytes_ = bytes;
  return buffer;
}

Result<DeviceBuffer> DeviceBuffer::copy_of(const void* host, std::uint64_t bytes, int device) {
  Result<DeviceBuffer> buffer = allocate(bytes, device);
  if (!buffer) return buffer;
  if (const Result<bool> copied = buffer->fill_from(host, bytes); !copied) return copied.diagnostics();
  return buffer;
}

Result<bool> DeviceBuffer::fill_from(const void* host, std::uint64_t bytes) {
  if (bytes > bytes_) return beyond_the_end(bytes, bytes_);
  if (bytes == 0) return true;
  const cuda::Current current(device_);
  auto result = current.result();
  if (result == cuda::driver::success) result = cuda::driver::api()->cuMemcpyHtoD(address_of(data_), host, bytes);
  if (result != cuda::driver::success) return cuda::driver::failed(result, "copying to the GPU");
  return true;
}

Result<bool> DeviceBuffer::copy_to(void* host, std::uint64_t bytes) const {
  if (bytes > bytes_) return beyond_the_end(bytes, bytes_);
  if (bytes == 0) return true;
  const cuda::Current current(device_);
  auto result = current.result();
  if (result == cuda::driver::success) result = cuda::driver::api()->cuMemcpyDtoH(host, address_of(data_), bytes);
  if (result != cuda::driver::success) return cuda::driver::failed(result, "copying from the GPU");
  return true;
}

void DeviceBuffer::release() noexcept {
  if (data_ == nullptr) return;
  const cuda::Current current(device_);
  // A context that an error has spoilt refuses; its memory goes with the process.
  if (current.result() == cuda::driver::success) cuda::driver::api()->cuMemFree(address_of(data_));
  data_ = nullptr;
  bytes_ = 0;
}

TensorRef DeviceBuffer::view(const TensorRef& like) const {
  TensorRef out = like;
  out.data = data_;
  out.device = device();
  return out;
}

}  // namespace attune
