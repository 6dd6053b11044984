// SPDX-License-Identifier: Apache-2.0
// Copies of a call's tensors on a GPU and back.
#include "on_device.hpp"

#include <algorithm>

namespace attune::tool {
namespace {

std::uint64_t bytes_of(const TensorRef& tensor) {
  return static_cast<std::uint64_t>(tensor.element_count()) * size_of(tensor.dtype);
}

}  // namespace

OnDevice::OnDevice(const Session& session, const Target& target) : arguments_(session.arguments) {
  if (target.kind != TargetKind::cuda) return;
  for (Argument& argument : arguments_) {
    auto* tensor = std::get_if<TensorRef>(&argument.value);
    const bool scalar = std::any_of(session.bound.scalars.begin(), session.bound.scalars.end(),
                                    [&](const auto& known) { return known.sym.text() == argument.name; });
    if (!tensor || scalar) continue;
    // The command's tensors are contiguous. Results go there too: what they hold before shows what is not written.
    copies_.push_back({argument.name, expect(DeviceBuffer::copy_of(tensor->data, bytes_of(*tensor), target.device))});
    *tensor = copies_.back().buffer.view(*tensor);
  }
}

void OnDevice::fetch(const Session& session) {
  for (const auto& [name, tensor] : session.results)
    for (const Copy& copy : copies_)
      if (copy.name == name) expect(copy.buffer.copy_to(tensor.data, bytes_of(tensor)));
}

}  // namespace attune::tool
