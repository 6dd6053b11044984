// SPDX-License-Identifier: Apache-2.0
// Blocks of device memory by stream.
#include "runtime/gpu_scratch.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <thread>

namespace attune {

Result<bool> GpuScratch::reserve(std::uint64_t bytes, int device) {
  if (has(bytes)) return true;
  Result<DeviceBuffer> larger = DeviceBuffer::allocate(std::max(bytes, 2 * memory.size()), device);
  if (!larger) larger = DeviceBuffer::allocate(bytes, device);
  if (!larger) return larger.diagnostics();
  if (memory.size() > 0) retired.push_back(std::move(memory));
  memory = std::move(*larger);
  return true;
}

std::shared_ptr<GpuScratch> GpuScratchPool::of(int device, void* stream) {
  // CU_STREAM_PER_THREAD is one handle for as many streams as there are threads.
  constexpr std::uintptr_t per_thread = 2;
  const std::size_t thread = reinterpret_cast<std::uintptr_t>(stream) == per_thread
                                 ? std::hash<std::thread::id>{}(std::this_thread::get_id())
                                 : 0;
  const std::lock_guard lock(mutex_);
  std::shared_ptr<GpuScratch>& scratch = streams_[{device, stream, thread}];
  if (!scratch) scratch = std::make_shared<GpuScratch>();
  return scratch;
}

}  // namespace attune
