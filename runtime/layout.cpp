// SPDX-License-Identifier: Apache-2.0
// Layout facts: unit axes are assumptions of the code, rows that lie far apart only steer the schedule.
#include "runtime/layout.hpp"

#include <algorithm>
#include <cstdlib>

namespace attune {
namespace {

/// Whether the axis may be taken to have stride 1.
bool unit(const TensorRef& tensor, std::size_t axis) { return tensor.shape[axis] <= 1 || tensor.strides[axis] == 1; }

/// The last axis that steps by 1 with more than one element, or -1.
std::int64_t stepping_axis(const TensorRef& tensor) {
  for (std::size_t axis = tensor.rank(); axis-- > 0;)
    if (tensor.shape[axis] > 1 && tensor.strides[axis] == 1) return static_cast<std::int64_t>(axis);
  return -1;
}

/// The axis to bake in: the last one where it qualifies, else the last one that truly steps by 1, else -1.
std::int64_t unit_axis(const TensorRef& tensor) {
  if (tensor.rank() > 0 && unit(tensor, tensor.rank() - 1)) return static_cast<std::int64_t>(tensor.rank()) - 1;
  return stepping_axis(tensor);
}

enum class Rows { unknown, near, far };

/// Rows lie far apart where other rows are interleaved with them (tokens of one head beside those of the others). A row
/// distance alone would not do: a slice of a padded buffer has one that depends on the buffer's length, and then a new
/// length would look like a new layout.
Rows rows(const TensorRef& tensor) {
  if (tensor.rank() < 3) return Rows::near;
  const std::size_t last = tensor.rank() - 1;
  if (tensor.shape[last] > 1 && tensor.strides[last] != 1) return Rows::near;
  if (tensor.shape[last - 1] <= 1) return Rows::unknown;
  const std::int64_t row = std::max<std::int64_t>(tensor.shape[last], 1), distance = std::abs(tensor.strides[last - 1]);
  if (distance <= 4 * row) return Rows::near;
  for (std::size_t axis = 0; axis + 1 < last; ++axis) {
    const std::int64_t stride = std::abs(tensor.strides[axis]);
    if (tensor.shape[axis] > 1 && row <= stride && stride < distance) return Rows::far;
  }
  return Rows::near;
}

template <class F>
void for_each_tensor(const tensor::Program& program, const Binding& binding, F&& visit) {
  const auto one = [&](const tensor::Tensor& tensor) {
    if (auto found = binding.tensors.find(tensor.sym); found != binding.tensors.end())
      visit(tensor.sym.text(), found->second);
  };
  for (const tensor::Tensor& tensor : program.tensors) one(tensor);
  for (const tensor::Tensor& tensor : program.results) one(tensor);
}

}  // namespace

loop::LayoutFacts layout_facts(const tensor::Program& program, const Binding& binding) {
  loop::LayoutFacts facts;
  for_each_tensor(program, binding, [&](const std::string& name, const TensorRef& tensor) {
    if (const std::int64_t axis = unit_axis(tensor); axis >= 0) facts.unit_axes[name] = axis;
    if (rows(tensor) == Rows::far) facts.strided[name] = true;
  });
  // The depth of the first float operand with rows: a hint for the schedule, taken from the first call only.
  for (const tensor::Tensor& tensor : program.tensors) {
    const auto found = binding.tensors.find(tensor.sym);
    if (!tensor.type.is_float() || found == binding.tensors.end() || found->second.rank() < 2) continue;
    facts.depth_hint = std::max<std::int64_t>(found->second.shape.back(), 1);
    break;
  }
  return facts;
}

loop::LayoutFacts contiguous_facts(const tensor::Program& program) {
  loop::LayoutFacts facts;
  const auto one = [&](const tensor::Tensor& tensor) {
    if (!tensor.extents.empty())
      facts.unit_axes[tensor.sym.text()] = static_cast<std::int64_t>(tensor.extents.size()) - 1;
  };
  for (const tensor::Tensor& tensor : program.tensors) one(tensor);
  for (const tensor::Tensor& tensor : program.results) one(tensor);
  return facts;
}

bool layout_fits(const loop::LayoutFacts& facts, const tensor::Program& program, const Binding& binding) {
  bool fits = true;
  for_each_tensor(program, binding, [&](const std::string& name, const TensorRef& tensor) {
    const auto axis = facts.unit_axes.find(name);
    if (axis == facts.unit_axes.end())
      fits = fits && stepping_axis(tensor) < 0;  // right for every layout, but slow: only where nothing better is known
    else
      fits = fits && unit(tensor, static_cast<std::size_t>(axis->second));
    const Rows found = rows(tensor);
    const auto strided = facts.strided.find(name);
    const bool assumed = strided != facts.strided.end() && strided->second;
    fits = fits && (found == Rows::unknown || (found == Rows::far) == assumed);
  });
  return fits;
}

std::vector<std::string> describe(const loop::LayoutFacts& facts) {
  std::vector<std::string> lines;
  for (const auto& [name, axis] : facts.unit_axes)
    lines.push_back(name + ": axis " + std::to_string(axis) + " has stride 1");
  for (const auto& [name, strided] : facts.strided)
    if (strided) lines.push_back(name + ": rows lie far apart");
  return lines;
}

}  // namespace attune
