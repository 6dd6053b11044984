// SPDX-License-Identifier: Apache-2.0
// The small attention call of tests/runtime with its tensors on the fake GPU.
#pragma once
#include <attune/device.hpp>

#include "tests/cuda/fake.hpp"
#include "tests/runtime/calls.hpp"

namespace calls {

/// Words of a launch of `attention`: dims B H M N D, scale, address and four strides of Q K V O, the flag.
inline constexpr std::size_t attention_words = 5 + 1 + 4 * 5 + 1;

inline CompileOptions on_gpu(int device = 0) {
  CompileOptions options;
  options.target = {TargetKind::cuda, device};
  return options;
}

/// Contents do not matter to a driver that executes nothing.
struct GpuCall {
  std::vector<DeviceBuffer> buffers;
  Arguments arguments;

  GpuCall(std::int64_t b, std::int64_t h, std::int64_t m, std::int64_t n, std::int64_t d, DType type = DType::f16,
          int device = 0) {
    const char* names[] = {"Q", "K", "V", "O"};
    for (int k = 0; k < 4; ++k) {
      TensorRef view(static_cast<void*>(nullptr), type, {b, h, k == 0 || k == 3 ? m : n, d});
      const auto bytes = static_cast<std::uint64_t>(view.element_count()) * size_of(type);
      buffers.push_back(DeviceBuffer::allocate(bytes, device).value());
      arguments.emplace_back(names[k], buffers.back().view(view));
    }
  }
  TensorRef& tensor(std::size_t k) { return std::get<TensorRef>(arguments[k].value); }
};

/// The only error's code, or "" where there is none.
template <class T>
std::string code_of(const Result<T>& result) {
  return result ? "" : result.diagnostics().at(0).code;
}

}  // namespace calls
