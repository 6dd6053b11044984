// SPDX-License-Identifier: Apache-2.0
// Dense f64 copies of inputs and the memory of definitions.
#include "backend/reference/array.hpp"

#include <numeric>

#include "backend/binding.hpp"

namespace attune::reference {
namespace {

/// The number of elements, saturating far above every budget.
std::int64_t count_of(const std::vector<std::int64_t>& extents) {
  constexpr std::int64_t huge = std::int64_t{1} << 40;
  for (const std::int64_t extent : extents)
    if (extent <= 0) return 0;
  std::int64_t count = 1;
  for (const std::int64_t extent : extents) {
    if (extent > huge / count) return huge;
    count *= extent;
  }
  return count;
}

}  // namespace

Array::Array(const TensorRef& view, Budget& budget)
    : view_(&view),
      extents_(view.shape),
      strides_(contiguous_strides(view.shape)),
      count_(count_of(view.shape)),
      budget_(&budget) {
  if (count_ > budget.words) return;
  std::vector<std::size_t> order(extents_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  values_ = convert(order);
  if (values_) budget.words -= count_;
}

Array::Array(std::vector<std::int64_t> extents, bool keep, Budget& budget)
    : extents_(std::move(extents)),
      strides_(contiguous_strides(extents_)),
      count_(count_of(extents_)),
      budget_(&budget) {
  if (!keep || count_ > budget.words) return;
  const auto size = static_cast<std::size_t>(count_ > 0 ? count_ : 1);
  values_.reset(static_cast<Word*>(std::malloc(size * sizeof(Word))));
  states_.reset(static_cast<std::uint8_t*>(std::calloc(size, 1)));
  if (!values_ || !states_) {  // then elements are recomputed
    values_.reset();
    states_.reset();
    return;
  }
  budget.words -= count_;
}

Word Array::load(const std::int64_t* subscripts) const {
  std::int64_t offset = 0;
  for (std::size_t k = 0; k < extents_.size(); ++k) offset += subscripts[k] * view_->strides[k];
  Word word;
  if (is_float(view_->dtype))
    word.real = load_element(view_->data, view_->dtype, offset);
  else
    word.whole = load_integer(view_->data, view_->dtype, offset);
  return word;
}

std::unique_ptr<Word[], Array::Free> Array::convert(const std::vector<std::size_t>& order) const {
  std::unique_ptr<Word[], Free> words(
      static_cast<Word*>(std::malloc(static_cast<std::size_t>(count_ > 0 ? count_ : 1) * sizeof(Word))));
  if (!words) return words;
  std::vector<std::int64_t> at(extents_.size(), 0);
  for (std::int64_t n = 0; n < count_; ++n) {
    words[static_cast<std::size_t>(n)] = load(at.data());
    for (std::size_t k = order.size(); k-- > 0;) {
      if (++at[order[k]] < extents_[order[k]]) break;
      at[order[k]] = 0;
    }
  }
  return words;
}

Value Array::recompute(Frame& frame, const std::int64_t* subscripts) {
  if (view_) {
    Value value;
    value.word = load(subscripts);
    value.present = true;
    return value;
  }
  for (std::size_t k = 0; k < slots.size(); ++k) frame.slots[static_cast<std::size_t>(slots[k])] = subscripts[k];
  return body(frame);
}

void Array::evaluate(Frame& frame, const std::int64_t* subscripts, std::int64_t offset) {
  for (std::size_t k = 0; k < slots.size(); ++k) frame.slots[static_cast<std::size_t>(slots[k])] = subscripts[k];
  const bool before = frame.out_of_range;
  frame.out_of_range = false;
  const Value value = body(frame);
  values_[static_cast<std::size_t>(offset)] = value.word;
  states_[static_cast<std::size_t>(offset)] = static_cast<std::uint8_t>(
      state::evaluated | (value.present ? state::present : 0) | (frame.out_of_range ? state::flagged : 0));
  frame.out_of_range = before;
}

void Array::fill(Frame& frame) {
  std::vector<std::int64_t> at(extents_.size(), 0);
  for (std::int64_t n = 0; n < count_; ++n) {
    if (!(states_[static_cast<std::size_t>(n)] & state::evaluated)) evaluate(frame, at.data(), n);
    for (std::size_t k = at.size(); k-- > 0;) {
      if (++at[k] < extents_[k]) break;
      at[k] = 0;
    }
  }
}

const Array::Layout& Array::layout_along(std::size_t axis) {
  if (const auto found = layouts_.find(axis); found != layouts_.end()) return found->second;
  Layout layout{values_.get(), states_.get(), strides_};
  if (is_input() && strides_[axis] != 1 && count_ <= budget_->words) {
    std::vector<std::size_t> order;
    std::vector<std::int64_t> shape;
    for (std::size_t k = 0; k < extents_.size(); ++k)
      if (k != axis) order.push_back(k);
    order.push_back(axis);
    for (const std::size_t k : order) shape.push_back(extents_[k]);
    if (auto copy = convert(order)) {
      budget_->words -= count_;
      const std::vector<std::int64_t> strides = contiguous_strides(shape);
      for (std::size_t k = 0; k < order.size(); ++k) layout.strides[order[k]] = strides[k];
      layout.values = copy.get();
      copies_.push_back(std::move(copy));
    }
  }
  return layouts_.emplace(axis, std::move(layout)).first->second;
}

}  // namespace attune::reference
