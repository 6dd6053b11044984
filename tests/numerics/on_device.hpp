// SPDX-License-Identifier: Apache-2.0
// Calls on whatever target a kernel is for: a GPU gets copies of the tensors, whatever their strides, and what it made
// comes back to where the call wanted it.
#pragma once
#include <attune/attune.hpp>
#include <attune/device.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/catch.hpp"

namespace attune::test {

/// A tensor's memory from its first to its last element, on the GPU.
class Copied {
 public:
  Copied(TensorRef& tensor, int device) {
    std::int64_t first = 0, last = 0;
    for (std::size_t k = 0; k < tensor.shape.size(); ++k) {
      if (tensor.shape[k] == 0) {  // nothing to copy, nothing to point at
        tensor.device = {DeviceKind::cuda, device};
        return;
      }
      const std::int64_t reach = tensor.shape[k] == 1 ? 0 : (tensor.shape[k] - 1) * tensor.strides[k];
      (reach < 0 ? first : last) += reach;
    }
    const auto size = static_cast<std::int64_t>(size_of(tensor.dtype));
    host_ = static_cast<std::byte*>(tensor.data) + first * size;
    bytes_ = static_cast<std::uint64_t>((last - first + 1) * size);
    buffer_ = DeviceBuffer::copy_of(host_, bytes_, device).value();
    tensor = buffer_.view(tensor);
    tensor.data = static_cast<std::byte*>(tensor.data) - first * size;
  }
  void fetch() const {
    if (bytes_ > 0) REQUIRE(buffer_.copy_to(host_, bytes_));
  }

 private:
  DeviceBuffer buffer_;
  std::byte* host_ = nullptr;
  std::uint64_t bytes_ = 0;
};

inline auto run(const Kernel& kernel, const Arguments& call) {
  if (kernel.target().kind != TargetKind::cuda) return kernel.run(call);
  Arguments there = call;
  std::vector<Copied> copies;
  copies.reserve(there.size());
  for (Argument& argument : there)
    if (auto* tensor = std::get_if<TensorRef>(&argument.value); tensor && tensor->data)
      copies.emplace_back(*tensor, kernel.target().device);
  RunOptions options;
  options.wait = true;  // the flag is known only then
  auto report = kernel.run(there, options);
  if (report)
    for (const Copied& copy : copies) copy.fetch();
  return report;
}

/// Whether a call failed only because the target is not there.
inline bool is_missing(const Diagnostics& diagnostics) {
  return diagnostics[0].code == "A0602" || diagnostics[0].code == "A0603";
}

inline auto run(Engine& engine, const Program& program, const Arguments& call, const CompileOptions& options) {
  const Result<Kernel> kernel = engine.compile(program, options);
  using Report = decltype(kernel->run(call));
  if (!kernel) return Report(kernel.diagnostics());
  return run(*kernel, call);
}

}  // namespace attune::test
