// SPDX-License-Identifier: Apache-2.0
// Devices of a call's tensors against the target's, before any memory is touched.
#include "runtime/place.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace attune {
namespace {

/// Kinds come as numbers from other languages, and there are more than attune knows.
bool host_reads(const Device& device) {
  return device.kind == DeviceKind::cpu || device.kind == DeviceKind::cuda_host ||
         device.kind == DeviceKind::cuda_managed;
}

bool gpu_reads(const Device& device, int index) {
  switch (device.kind) {
    case DeviceKind::cpu: return false;
    case DeviceKind::cuda: return device.index == index;
    case DeviceKind::cuda_host:
    case DeviceKind::cuda_managed: return true;
  }
  return false;
}

}  // namespace

std::string text(const Device& device) {
  switch (device.kind) {
    case DeviceKind::cpu: return "the host";
    case DeviceKind::cuda: return fmt::format("GPU {}", device.index);
    case DeviceKind::cuda_host: return "pinned memory of the host";
    case DeviceKind::cuda_managed: return "managed memory";
  }
  return fmt::format("a device of kind {}", static_cast<int>(device.kind));
}

std::optional<int> gpu_of(const Arguments& arguments) {
  for (const Argument& argument : arguments)
    if (const auto* tensor = std::get_if<TensorRef>(&argument.value); tensor && tensor->device.kind == DeviceKind::cuda)
      return tensor->device.index;
  return std::nullopt;
}

Diagnostics check_places(const tensor::Program& program, const Arguments& arguments, const Target& target) {
  Diagnostics errors;
  const bool on_gpu = target.kind == TargetKind::cuda;
  for (const Argument& argument : arguments) {
    const auto* tensor = std::get_if<TensorRef>(&argument.value);
    if (!tensor) continue;
    const bool scalar = std::any_of(program.scalars.begin(), program.scalars.end(),
                                    [&](const auto& known) { return known.sym.text() == argument.name; });
    const bool reached = on_gpu && !scalar ? gpu_reads(tensor->device, target.device) : host_reads(tensor->device);
    Diagnostic diagnostic;
    diagnostic.tensor = argument.name;
    if (!reached) {
      diagnostic.code = "A0523";
      diagnostic.expected = on_gpu && !scalar ? text(Device{DeviceKind::cuda, target.device}) : text(Device{});
      diagnostic.found = text(tensor->device);
      diagnostic.message = scalar ? fmt::format("scalar `{}` is given as a tensor on {}; the host reads it",
                                                argument.name, diagnostic.found)
                                  : fmt::format("`{}` is on {}, the target `{}` needs it on {}", argument.name,
                                                diagnostic.found, target.text(), diagnostic.expected);
      diagnostic.help = scalar ? "give its value"
                        : on_gpu
                            ? "nothing is copied behind your back: copy it first (attune::DeviceBuffer, or your own "
                              "CUDA code), and say so in TensorRef::device"
                            : "copy it to the host, or compile for the target `cuda`";
      errors.push_back(std::move(diagnostic));
      continue;
    }
    const std::size_t size = size_of(tensor->dtype);
    const auto address = reinterpret_cast<std::uintptr_t>(tensor->data);
    if (!on_gpu || scalar || address % size == 0 || tensor->element_count() == 0) continue;
    diagnostic.code = "A0524";
    diagnostic.expected = fmt::format("a multiple of {}", size);
    diagnostic.found = fmt::format("{:#x}", address);
    diagnostic.message =
        fmt::format("`{}` begins at {:#x}, which is not aligned for {}", argument.name, address, name(tensor->dtype));
    diagnostic.help = "a GPU reads elements only at multiples of their size";
    errors.push_back(std::move(diagnostic));
  }
  return errors;
}

}  // namespace attune
