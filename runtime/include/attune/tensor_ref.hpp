// SPDX-License-Identifier: Apache-2.0
// TensorRef: a view of the caller's memory with any strides. attune never owns or copies what it points to.
#pragma once
#include <attune/dtype.hpp>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace attune {

/// Kinds of memory, with DLPack's numbers.
enum class DeviceKind : std::uint8_t {
  cpu = 1,
  cuda = 2,          ///< memory of a GPU
  cuda_host = 3,     ///< pinned memory of the host, which a GPU reads too
  cuda_managed = 13  ///< memory that the driver moves between host and GPUs
};

/// Where memory is. `index` is the ordinal of the GPU (0 for the host).
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

/// Non-owning tensor view. Strides count elements (not bytes), may be zero or negative; those of size-1 axes are
/// ignored. `data` points at element [0, 0, ...]; on a GPU it is the device address.
struct TensorRef {
  void* data = nullptr;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  Device device;

  TensorRef() = default;
  /// Contiguous (row-major) view.
  TensorRef(void* memory, DType type, std::vector<std::int64_t> sizes);
  TensorRef(void* memory, DType type, std::vector<std::int64_t> sizes, std::vector<std::int64_t> steps)
      : data(memory), dtype(type), shape(std::move(sizes)), strides(std::move(steps)) {}
  /// Inputs may be const; attune never writes to a parameter.
  TensorRef(const void* memory, DType type, std::vector<std::int64_t> sizes)
      : TensorRef(const_cast<void*>(memory), type, std::move(sizes)) {}

  /// The same view of memory on another device.
  TensorRef on(Device where) const {
    TensorRef view = *this;
    view.device = where;
    return view;
  }

  std::int64_t element_count() const;
  std::size_t rank() const { return shape.size(); }
};

/// Row-major strides of a shape.
std::vector<std::int64_t> contiguous_strides(std::span<const std::int64_t> shape);

}  // namespace attune
