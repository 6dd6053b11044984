// SPDX-License-Identifier: Apache-2.0
// Sums of products along one index over dense arrays, with Eigen where every element is there. The same meaning as the
// element-by-element sum, to which everything unusual is left.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "backend/reference/evaluator.hpp"

namespace attune::reference {

using namespace tensor;

namespace {

/// A factor that is an element of an array, with the summation index standing alone in some subscripts.
struct Operand {
  Array* array = nullptr;
  std::vector<Code> subscripts;  ///< null where the summation index stands
  std::size_t along = 0;         ///< one such axis
  // Of the sum that is being evaluated:
  std::vector<std::int64_t> at;
  const Word* values = nullptr;
  std::uint8_t* states = nullptr;
  std::int64_t first = 0;  ///< offset of the first element
  std::int64_t step = 0;

  /// Finds the first element; false where a subscript is absent, out of range or raises the flag.
  bool locate(Frame& frame, std::int64_t lo) {
    const Array::Layout& layout = array->layout_along(along);
    const std::vector<std::int64_t>& extents = array->extents();
    std::int64_t offset = 0;
    step = 0;
    for (std::size_t k = 0; k < subscripts.size(); ++k) {
      at[k] = lo;
      if (subscripts[k]) {
        const Value subscript = subscripts[k](frame);
        if (!subscript.present || frame.out_of_range) return false;
        at[k] = subscript.word.whole;
      } else {
        step += layout.strides[k];
      }
      if (at[k] < 0 || at[k] >= extents[k]) return false;
      offset += at[k] * layout.strides[k];
    }
    values = layout.values + offset;
    states = layout.states ? layout.states + offset : nullptr;
    first = offset;
    return true;
  }

  /// The state of the n-th element, evaluated now if it was not.
  std::uint8_t state_of(Frame& frame, std::int64_t lo, std::int64_t n) {
    std::uint8_t& element = states[n * step];
    if (!(element & state::evaluated)) {
      for (std::size_t k = 0; k < subscripts.size(); ++k)
        if (!subscripts[k]) at[k] = lo + n;
      array->evaluate(frame, at.data(), first + n * step);
    }
    return element;
  }

  /// Whether the elements are all there without a flag; evaluates them.
  bool complete(Frame& frame, std::int64_t lo, std::int64_t count) {
    constexpr std::uint8_t good = state::evaluated | state::present;
    bool all = true, pending = false;
    if (step == 1) {
      for (std::int64_t n = 0; n < count; ++n) {
        all &= states[n] == good;
        pending |= !(states[n] & state::evaluated);
      }
      if (!pending) return all;
    }
    all = true;
    for (std::int64_t n = 0; n < count; ++n) all &= state_of(frame, lo, n) == good;
    return all;
  }
};

using Vector = Eigen::Map<const Eigen::VectorXd, 0, Eigen::InnerStride<>>;
static_assert(sizeof(Word) == sizeof(double));

Vector vector_of(const Operand& operand, std::int64_t count) {
  return {&operand.values->real, static_cast<Eigen::Index>(count),
          Eigen::InnerStride<>(static_cast<Eigen::Index>(operand.step))};
}

/// The sum over n of the product of the operands' n-th elements, all of which are there.
double dense_sum(const std::vector<Operand>& operands, std::int64_t count) {
  using Contiguous = Eigen::Map<const Eigen::VectorXd>;
  if (operands.size() == 1) return vector_of(operands[0], count).sum();
  if (operands.size() == 2) {
    const Operand &a = operands[0], &b = operands[1];
    if (a.step == 1 && b.step == 1)
      return Contiguous(&a.values->real, static_cast<Eigen::Index>(count))
          .dot(Contiguous(&b.values->real, static_cast<Eigen::Index>(count)));
    return vector_of(a, count).dot(vector_of(b, count));
  }
  double total = 0;
  for (std::int64_t n = 0; n < count; ++n) {
    double product = 1;
    for (const Operand& operand : operands) product *= operand.values[n * operand.step].real;
    total += product;
  }
  return total;
}

/// The same where some are absent or flagged: the product rule, element by element.
double sparse_sum(Frame& frame, std::vector<Operand>& operands, std::int64_t lo, std::int64_t count, double scale) {
  double total = 0;
  for (std::int64_t n = 0; n < count; ++n) {
    double product = scale;
    bool raised = false, lost = false, gone = false;
    for (Operand& operand : operands) {
      if (operand.states) {
        const std::uint8_t element = operand.state_of(frame, lo, n);
        const bool flagged = (element & state::flagged) != 0;
        if (!(element & state::present)) {
          lost = true;
          if (!flagged) {
            gone = true;
            break;
          }
        }
        raised = raised || flagged;
      }
      product *= operand.values[n * operand.step].real;
    }
    if (gone) continue;
    if (raised) frame.out_of_range = true;
    if (!lost) total += product;
  }
  return total;
}

bool mentions_index(const Expr& expr, const Sym& sym) {
  bool found = false;
  walk(expr, [&](const Expr& node) {
    const auto* index_node = get_if<Index>(node);
    found = found || (index_node && index_node->index == sym);
    return !found;
  });
  return found;
}

/// Without casts to f32, which do not round in f64.
Expr without_widening(Expr expr) {
  while (const auto* node = get_if<Cast>(expr)) {
    if (expr->type.dtype != DType::f32 || !node->operand->type.is_float()) break;
    expr = node->operand;
  }
  return expr;
}

}  // namespace

Code Evaluator::contraction(const Reduce& node, const Box& box, Code element_by_element) {
  if (node.guard || node.over.size() != 1 || !node.body->type.is_float()) return nullptr;
  const Sym& sym = node.over[0].index;
  const std::int64_t lo = box.lo[0], hi = box.hi[0];
  std::vector<Expr> factors{node.body};
  const Expr body = without_widening(node.body);
  if (const auto* product = get_if<Chain>(body)) {
    for (const LinkOp link : product->links)
      if (link != LinkOp::mul) return nullptr;
    factors = product->args;
  }
  std::vector<Operand> operands;
  std::vector<Code> invariants;
  std::vector<Type> invariant_types;
  for (const Expr& written : factors) {
    const Expr factor = without_widening(written);
    if (!mentions_index(factor, sym)) {
      invariants.push_back(compile(factor));
      invariant_types.push_back(factor->type);
      continue;
    }
    const auto* access_node = get_if<Access>(factor);
    if (!access_node || !factor->type.is_float()) return nullptr;
    Operand operand;
    operand.array = arrays_.at(access_node->target).get();
    if (!operand.array->is_dense()) return nullptr;
    bool stands_alone = false;
    for (std::size_t k = 0; k < access_node->subscripts.size(); ++k) {
      const Expr& subscript = access_node->subscripts[k];
      const auto* index_node = get_if<Index>(subscript);
      if (index_node && index_node->index == sym) {
        if (lo < 0 || hi > operand.array->extents()[k]) return nullptr;
        operand.subscripts.emplace_back();
        operand.along = k;
        stands_alone = true;
      } else if (mentions_index(subscript, sym)) {
        return nullptr;
      } else {
        operand.subscripts.push_back(compile(subscript));
      }
    }
    if (!stands_alone) return nullptr;
    operand.at.resize(operand.subscripts.size());
    operands.push_back(std::move(operand));
  }
  if (operands.empty()) return nullptr;

  // The operands hold places of the sum in progress. A sum is not entered again before it ends (definitions read only
  // earlier ones), except as a copy of its closure, which has its own.
  return [operands = std::move(operands), invariants = std::move(invariants),
          invariant_types = std::move(invariant_types), lo, count = hi - lo,
          element_by_element = std::move(element_by_element)](Frame& frame) mutable {
    if (count <= 0) return real(0);
    const bool before = frame.out_of_range;
    const auto usual = [&](double& scale) {
      for (std::size_t k = 0; k < invariants.size(); ++k) {
        const Value factor = invariants[k](frame);
        if (!factor.present || frame.out_of_range) return false;
        scale *= to_real(factor, invariant_types[k]);
      }
      if (!std::isfinite(scale)) return false;  // it could not be taken out of the sum
      for (Operand& operand : operands)
        if (!operand.locate(frame, lo)) return false;
      return true;
    };
    frame.out_of_range = false;
    double scale = 1;
    if (!usual(scale)) {
      frame.out_of_range = before;
      return element_by_element(frame);
    }
    bool complete = true;
    for (Operand& operand : operands) complete = complete && (!operand.states || operand.complete(frame, lo, count));
    const double total = complete ? scale * dense_sum(operands, count) : sparse_sum(frame, operands, lo, count, scale);
    frame.out_of_range = frame.out_of_range || before;
    return real(total);
  };
}

}  // namespace attune::reference
