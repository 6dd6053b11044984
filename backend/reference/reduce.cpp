// SPDX-License-Identifier: Apache-2.0
// Reductions of the reference, element by element: absent bodies are skipped, the empty set has a value.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/reference/arithmetic.hpp"
#include "backend/reference/evaluator.hpp"

namespace attune::reference {

using namespace tensor;

namespace {

/// The elements of a reduction that are there.
struct Elements {
  Box box;
  Code guard;  ///< null: always
  Code body;
  template <class F>
  void each(Frame& frame, F&& visit) const {
    box.walk(frame, [&] {
      if (guard && !holds(guard(frame))) return;
      const Value value = body(frame);
      if (value.present) visit(value);
    });
  }
};

Code sum(Elements elements, bool integers) {
  if (integers)
    return [elements = std::move(elements)](Frame& frame) {
      std::int64_t total = 0;
      elements.each(frame, [&](const Value& value) { total = add(total, value.word.whole); });
      return whole(total);
    };
  return [elements = std::move(elements)](Frame& frame) {
    double total = 0;
    elements.each(frame, [&](const Value& value) { total += value.word.real; });
    return real(total);
  };
}

Code product(Elements elements, bool integers) {
  if (integers)
    return [elements = std::move(elements)](Frame& frame) {
      std::int64_t total = 1;
      elements.each(frame, [&](const Value& value) { total = multiply(total, value.word.whole); });
      return whole(total);
    };
  return [elements = std::move(elements)](Frame& frame) {
    double total = 1;
    elements.each(frame, [&](const Value& value) { total *= value.word.real; });
    return real(total);
  };
}

/// Divides by the number present; integers give a float.
Code mean(Elements elements, Type type) {
  return [elements = std::move(elements), type](Frame& frame) {
    double total = 0;
    std::int64_t present = 0;
    elements.each(frame, [&](const Value& value) {
      total += type.is_float() ? value.word.real : static_cast<double>(value.word.whole);
      ++present;
    });
    return real(present == 0 ? 0.0 : total / static_cast<double>(present));
  };
}

std::int64_t empty_extremum(DType dtype, bool largest) {
  const auto end = [&]<class T>(T) -> std::int64_t {
    return largest ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
  };
  switch (dtype) {
    case DType::i32: return end(std::int32_t{});
    case DType::i8: return end(std::int8_t{});
    case DType::u8: return end(std::uint8_t{});
    default: return end(std::int64_t{});
  }
}

Code extremum(Elements elements, bool largest, bool integers, DType dtype) {
  if (integers)
    return [elements = std::move(elements), largest, start = empty_extremum(dtype, largest)](Frame& frame) {
      bool any = false;
      std::int64_t best = start;
      elements.each(frame, [&](const Value& value) {
        const std::int64_t x = value.word.whole;
        best = !any ? x : largest ? std::max(best, x) : std::min(best, x);
        any = true;
      });
      return whole(best);
    };
  return [elements = std::move(elements), largest](Frame& frame) {
    double best = largest ? -infinity : infinity;
    elements.each(frame, [&](const Value& value) {
      best = largest ? maximum(best, value.word.real) : minimum(best, value.word.real);
    });
    return real(best);
  };
}

/// What desugaring shifts exponents by: at least the floor, and NaN does not count.
Code bound(Elements elements) {
  return [elements = std::move(elements)](Frame& frame) {
    double best = exponent_floor;
    elements.each(frame, [&](const Value& value) {
      if (value.word.real > best) best = value.word.real;
    });
    return real(best);
  };
}

Code any_or_all(Elements elements, bool any) {
  return [elements = std::move(elements), any](Frame& frame) {
    bool result = !any;
    elements.each(frame, [&](const Value& value) {
      if ((value.word.whole != 0) == any) result = any;
    });
    return truth(result);
  };
}

/// The index's value at the first of the largest, a NaN before all; -1 where nothing is there.
Code argmax(Elements elements, bool integers) {
  const auto slot = static_cast<std::size_t>(elements.box.slots[0]);
  return [elements = std::move(elements), integers, slot](Frame& frame) {
    bool any = false;
    Word best{};
    std::int64_t at = -1;
    elements.each(frame, [&](const Value& value) {
      const bool better = integers
                              ? value.word.whole > best.whole
                              : value.word.real > best.real || (std::isnan(value.word.real) && !std::isnan(best.real));
      if (any && !better) return;
      any = true;
      best = value.word;
      at = frame.slots[slot];
    });
    return whole(at);
  };
}

/// max + log(sum of exp(x - max)) in two passes over what is there; `extra` is one more term, absent is none.
Code logsumexp(Elements elements, Type type, Code extra, Type extra_type) {
  return [elements = std::move(elements), type, extra = std::move(extra), extra_type](Frame& frame) {
    std::vector<double> terms;
    elements.each(frame, [&](const Value& value) { terms.push_back(to_real(value, type)); });
    if (extra)
      if (const Value term = extra(frame); term.present) terms.push_back(to_real(term, extra_type));
    double largest = -infinity;
    for (const double term : terms) largest = maximum(largest, term);
    if (!std::isfinite(largest)) return real(largest);  // nothing but -inf, a +inf, or a NaN
    double total = 0;
    for (const double term : terms) total += std::exp(term - largest);
    return real(largest + std::log(total));
  };
}

}  // namespace

Code Evaluator::reduce(const Reduce& node, const Type& result) {
  // The empty maximum is an integer of this type: inference gives that of the result where it applies.
  const DType dtype = result.dtype;
  const Type type = node.body->type;
  const bool integers = type.is_integer();
  Code extra = node.extra ? compile(node.extra) : nullptr;
  Outer outer;
  Elements elements;
  const Box box = bind_box(node.over, outer);
  elements.box = box;
  if (node.guard) elements.guard = compile(node.guard);
  elements.body = compile(node.body);
  Code code;
  switch (node.op) {
    case ReduceOp::sum:
      code = sum(std::move(elements), integers);
      if (Code fast = contraction(node, box, code)) code = std::move(fast);
      break;
    case ReduceOp::prod: code = product(std::move(elements), integers); break;
    case ReduceOp::mean: code = mean(std::move(elements), type); break;
    case ReduceOp::max: code = extremum(std::move(elements), true, integers, dtype); break;
    case ReduceOp::min: code = extremum(std::move(elements), false, integers, dtype); break;
    case ReduceOp::any: code = any_or_all(std::move(elements), true); break;
    case ReduceOp::all: code = any_or_all(std::move(elements), false); break;
    case ReduceOp::argmax: code = argmax(std::move(elements), integers); break;
    case ReduceOp::bound: code = bound(std::move(elements)); break;
    case ReduceOp::logsumexp:
      code = logsumexp(std::move(elements), type, std::move(extra), node.extra ? node.extra->type : type);
      break;
  }
  unbind(outer);
  return code;
}

}  // namespace attune::reference
