// SPDX-License-Identifier: Apache-2.0
// Inputs and definitions as the evaluator reads them: dense where that is affordable, definitions filled on demand.
#pragma once
#include <attune/tensor_ref.hpp>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#include "backend/reference/value.hpp"

namespace attune::reference {

/// Bits of an element's state. A flag belongs to the element: it counts for whoever reads it, not for who filled it.
namespace state {
inline constexpr std::uint8_t evaluated = 1, present = 2, flagged = 4;
}

/// How many words the dense arrays of one call may still take.
struct Budget {
  std::int64_t words = std::int64_t{1} << 27;
};

class Array {
 public:
  /// An input; converted to a dense array if the budget allows, else read where it lies.
  Array(const TensorRef& view, Budget& budget);
  /// A definition; elements are kept once evaluated if `keep` and the budget allows.
  Array(std::vector<std::int64_t> extents, bool keep, Budget& budget);

  /// The element, by demand. Outside the extents: absent and the flag.
  Value read(Frame& frame, const std::int64_t* subscripts) {
    std::int64_t offset = 0;
    for (std::size_t k = 0; k < extents_.size(); ++k) {
      if (static_cast<std::uint64_t>(subscripts[k]) >= static_cast<std::uint64_t>(extents_[k])) {
        frame.out_of_range = true;
        return absent();
      }
      offset += subscripts[k] * strides_[k];
    }
    if (!values_) return recompute(frame, subscripts);
    Value value;
    if (!states_) {
      value.word = values_[offset];
      value.present = true;
      return value;
    }
    std::uint8_t& element = states_[offset];
    if (!(element & state::evaluated)) evaluate(frame, subscripts, offset);
    if (element & state::flagged) frame.out_of_range = true;
    value.word = values_[offset];
    value.present = (element & state::present) != 0;
    return value;
  }
  /// Evaluates an element of a dense definition; its flag stays with it.
  void evaluate(Frame& frame, const std::int64_t* subscripts, std::int64_t offset);
  /// Evaluates every element of a dense definition.
  void fill(Frame& frame);

  bool is_dense() const { return values_ != nullptr; }
  bool is_input() const { return view_ != nullptr; }
  const std::vector<std::int64_t>& extents() const { return extents_; }

  /// Dense elements in some order of axes. `states` is null for inputs, whose elements are all present.
  struct Layout {
    const Word* values;
    std::uint8_t* states;
    std::vector<std::int64_t> strides;
  };
  /// With the axis contiguous where that is cheap: inputs are copied once per axis, definitions stay as they are.
  const Layout& layout_along(std::size_t axis);

  /// Of a definition: what gives an element, and the slots of its indices. Set once its body is compiled.
  Code body;
  std::vector<int> slots;

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  Value recompute(Frame& frame, const std::int64_t* subscripts);
  Word load(const std::int64_t* subscripts) const;
  /// Row-major elements of an input with the axes in the given order.
  std::unique_ptr<Word[], Free> convert(const std::vector<std::size_t>& order) const;

  const TensorRef* view_ = nullptr;
  std::vector<std::int64_t> extents_, strides_;
  std::int64_t count_ = 1;
  std::unique_ptr<Word[], Free> values_;
  std::unique_ptr<std::uint8_t[], Free> states_;
  std::map<std::size_t, Layout> layouts_;
  std::vector<std::unique_ptr<Word[], Free>> copies_;
  Budget* budget_;
};

}  // namespace attune::reference
