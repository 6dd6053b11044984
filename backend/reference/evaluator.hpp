// SPDX-License-Identifier: Apache-2.0
// Turns the tensor IR of one call into closures: sizes and scalars are constants, every bound index gets a slot.
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "backend/binding.hpp"
#include "backend/reference/array.hpp"
#include "backend/reference/value.hpp"
#include "tensor/ir.hpp"

namespace attune::reference {

/// Ranges of bound indices, walked in row-major order.
struct Box {
  std::vector<int> slots;
  std::vector<std::int64_t> lo, hi;
  std::int64_t count() const;
  /// Calls visit() with the slots at each point.
  template <class F>
  void walk(Frame& frame, F&& visit) const {
    if (count() == 0) return;
    for (std::size_t k = 0; k < slots.size(); ++k) frame.slots[static_cast<std::size_t>(slots[k])] = lo[k];
    while (true) {
      visit();
      std::size_t k = slots.size();
      for (; k > 0; --k) {
        std::int64_t& at = frame.slots[static_cast<std::size_t>(slots[k - 1])];
        if (++at < hi[k - 1]) break;
        at = lo[k - 1];
      }
      if (k == 0) return;
    }
  }
};

class Evaluator {
 public:
  /// Compiles every definition. `program` and `binding` must outlive the evaluator.
  Evaluator(const tensor::Program& program, const Binding& binding);

  /// Evaluates the definitions that later ones need complete, because nesting all would exhaust the stack. The name of
  /// one that does not fit in memory, or "".
  std::string prepare();
  Array& array(const Sym& sym) { return *arrays_.at(sym); }
  Frame& frame() { return frame_; }

 private:
  struct Contraction;

  Code compile(const tensor::Expr& expr);
  std::vector<Code> compile(const std::vector<tensor::Expr>& exprs);
  Code compile_node(const tensor::Expr& expr);  ///< without evaluating constants
  // expression.cpp
  Code access(const tensor::Access& node);
  Code unary(const tensor::Unary& node, const tensor::Type& type);
  Code chain(const tensor::Chain& node, const tensor::Type& type);
  Code compare(const tensor::Compare& node);
  Code cast(const tensor::Cast& node, const tensor::Type& type);
  Code random(const tensor::Random& node);
  // reduce.cpp
  Code reduce(const tensor::Reduce& node, const tensor::Type& type);
  /// A sum of products of elements along one index, where its form allows; null otherwise.
  Code contraction(const tensor::Reduce& node, const Box& box, Code element_by_element);
  // rows.cpp
  Code softmax(const tensor::Softmax& node);
  Code cumsum(const tensor::Cumsum& node, const tensor::Type& type);

  /// Fresh slots for the indices; what they meant outside is in the result, for unbind().
  using Outer = std::vector<std::pair<Sym, int>>;
  Box bind_box(const std::vector<tensor::IndexRange>& ranges, Outer& outer);
  void unbind(const Outer& outer);
  int new_slot();
  int slot(const Sym& index) const { return slots_.at(index); }
  /// Slots of the indices that occur free.
  std::vector<int> free_slots(const std::vector<tensor::Expr>& exprs) const;

  const tensor::Program& program_;
  const Binding& binding_;
  Budget budget_;
  Frame frame_;
  std::unordered_map<Sym, int> slots_;
  std::unordered_map<Sym, std::unique_ptr<Array>> arrays_;
  std::vector<Array*> stages_;  ///< to be filled first, in order
  std::string too_large_;
};

/// The f32 value of a number of any type, as f64.
double to_real(const Value& value, const tensor::Type& type);

}  // namespace attune::reference
