// SPDX-License-Identifier: Apache-2.0
// Device memory that calls need besides their tensors: one block for each stream, kept between calls.
#pragma once
#include <attune/device.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

namespace attune {

/// Where the out-of-range flag and the temporaries lie in a workspace.
inline constexpr std::uint64_t workspace_head = 256;  ///< bytes before the temporaries; the flag is the first i32

/// The block of one stream. Work on a stream runs in order, so that the calls there can share it; `mutex` keeps the
/// launches of one call together.
struct GpuScratch {
  std::mutex mutex;
  DeviceBuffer memory;
  /// Blocks that were too small. Work that is queued, and graphs that were captured, still use them.
  std::vector<DeviceBuffer> retired;

  bool has(std::uint64_t bytes) const { return memory.size() >= bytes; }
  /// Room for `bytes`; grows by doubling, so that what is retired never exceeds what is used.
  Result<bool> reserve(std::uint64_t bytes, int device);
};

class GpuScratchPool {
 public:
  std::shared_ptr<GpuScratch> of(int device, void* stream);

 private:
  std::mutex mutex_;
  /// Device, stream, and the thread where the stream's handle means another stream in each.
  std::map<std::tuple<int, void*, std::size_t>, std::shared_ptr<GpuScratch>> streams_;
};

}  // namespace attune
