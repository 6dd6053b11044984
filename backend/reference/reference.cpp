// SPDX-License-Identifier: Apache-2.0
// One call of the reference: compile to closures, evaluate every element of every result, store it rounded.
#include "backend/reference/reference.hpp"

#include <new>

#include "backend/reference/evaluator.hpp"

namespace attune::reference {
namespace {

/// Stored, absent is 0.
void store(const TensorRef& view, std::int64_t offset, const Value& value, const tensor::Type& type) {
  if (!value.present)
    store_integer(view.data, view.dtype, offset, 0);
  else if (type.is_float())
    store_element(view.data, view.dtype, offset, value.word.real);
  else if (is_float(view.dtype))
    store_element(view.data, view.dtype, offset, to_real(value, type));
  else
    store_integer(view.data, view.dtype, offset, value.word.whole);
}

Diagnostic failure(std::string code, std::string message) {
  Diagnostic diagnostic;
  diagnostic.code = std::move(code);
  diagnostic.message = std::move(message);
  return diagnostic;
}

bool evaluate_result(Evaluator& evaluator, const tensor::Tensor& result, const tensor::Type& type,
                     const TensorRef& view) {
  for (const std::int64_t extent : view.shape)
    if (extent <= 0) return false;
  Array& array = evaluator.array(result.sym);
  Frame& frame = evaluator.frame();
  frame.out_of_range = false;
  std::vector<std::int64_t> at(view.shape.size(), 0);
  while (true) {
    std::int64_t offset = 0;
    for (std::size_t k = 0; k < at.size(); ++k) offset += at[k] * view.strides[k];
    store(view, offset, array.read(frame, at.data()), type);
    std::size_t k = at.size();
    for (; k > 0; --k) {
      if (++at[k - 1] < view.shape[k - 1]) break;
      at[k - 1] = 0;
    }
    if (k == 0) return frame.out_of_range;
  }
}

}  // namespace

Result<Outcome> run(const tensor::Program& program, const Binding& binding) {
  try {
    Evaluator evaluator(program, binding);
    if (const std::string name = evaluator.prepare(); !name.empty()) {
      Diagnostic diagnostic = failure("A0521", "`" + name +
                                                   "` must be complete before later definitions are evaluated, "
                                                   "but it does not fit in memory");
      diagnostic.help = "let fewer definitions depend on each other, or run on another target";
      return diagnostic;
    }
    Outcome outcome;
    for (const tensor::Tensor& result : program.results) {
      const tensor::Definition* definition = program.find_definition(result.sym);
      const bool raised = evaluate_result(evaluator, result, definition->body->type, binding.tensors.at(result.sym));
      outcome.out_of_range = outcome.out_of_range || raised;
    }
    return outcome;
  } catch (const std::bad_alloc&) {
    return failure("A0522", "the reference ran out of memory");
  }
}

}  // namespace attune::reference
