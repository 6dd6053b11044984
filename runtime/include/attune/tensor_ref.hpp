// SPDX-License-Identifier: Apache-2.0
// TensorRef: a view of the caller's memory with any strides. attune never owns or copies what it points to.
#pragma once
#include <attune/dtype.hpp>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace attune {

/// Non-owning tensor view. Strides count elements (not bytes), may be zero or negative; those of size-1 axes are
/// ignored. `data` points at element [0, 0, ...].
struct TensorRef {
  void* data = nullptr;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;

  TensorRef() = default;
  /// Contiguous (row-major) view.
  TensorRef(void* memory, DType type, std::vector<std::int64_t> sizes);
  TensorRef(void* memory, DType type, std::vector<std::int64_t> sizes, std::vector<std::int64_t> steps)
      : data(memory), dtype(type), shape(std::move(sizes)), strides(std::move(steps)) {}
  /// Inputs may be const; attune never writes to a parameter.
  TensorRef(const void* memory, DType type, std::vector<std::int64_t> sizes)
      : TensorRef(const_cast<void*>(memory), type, std::move(sizes)) {}

  std::int64_t element_count() const;
  std::size_t rank() const { return shape.size(); }
};

/// Row-major strides of a shape.
std::vector<std::int64_t> contiguous_strides(std::span<const std::int64_t> shape);

}  // namespace attune
