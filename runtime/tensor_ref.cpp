// SPDX-License-Identifier: Apache-2.0
// Views of the caller's memory: row-major strides and element counts.
#include <attune/tensor_ref.hpp>

namespace attune {

std::vector<std::int64_t> contiguous_strides(std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> strides(shape.size());
  // Unsigned, so that absurd shapes of untrusted callers wrap here and are refused where the call is checked.
  std::uint64_t stride = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = static_cast<std::int64_t>(stride);
    stride *= static_cast<std::uint64_t>(shape[axis] > 1 ? shape[axis] : 1);
  }
  return strides;
}

TensorRef::TensorRef(void* its_data, DType its_dtype, std::vector<std::int64_t> its_shape)
    : data(its_data), dtype(its_dtype), shape(std::move(its_shape)), strides(contiguous_strides(shape)) {}

std::int64_t TensorRef::element_count() const {
  std::uint64_t count = 1;
  for (std::int64_t extent : shape) count *= static_cast<std::uint64_t>(extent);
  return static_cast<std::int64_t>(count);
}

}  // namespace attune
