// SPDX-License-Identifier: Apache-2.0
// Contractions: each operand element is read once per statement into a table, then the products run over the tables.
#include "backend/interpreter/contract.hpp"

namespace attune::interpreter {
namespace {

/// An operand's elements over the indices that it mentions, row-major; index k of the statement moves by strides[k].
struct Table {
  std::vector<float> elements;
  std::vector<std::int64_t> strides;
};

struct Operand {
  Code code;
  std::vector<bool> mentions;  ///< per index of domain and `over`
  const char* name = "";
};

Operand operand(const loop::Expr& expr, const std::vector<loop::Range>& indices, const char* name, Compiler& compiler) {
  Operand out{compiler.compile(expr), {}, name};
  for (const loop::Range& range : indices) {
    bool found = false;
    tensor::walk(expr, [&](const loop::Expr& e) {
      if (const auto* index = tensor::get_if<tensor::Index>(e)) found = found || index->index == range.index;
      return !found;
    });
    out.mentions.push_back(found);
  }
  return out;
}

Table tabulate(Frame& frame, const Operand& operand, const Domain& indices, const std::vector<Bounds>& bounds,
               const Site& site) {
  Table table;
  table.strides.assign(indices.size(), 0);
  Domain mentioned;
  std::vector<Bounds> within;
  std::int64_t size = 1;
  for (std::size_t k = indices.size(); k-- > 0;)
    if (operand.mentions[k]) {
      table.strides[k] = size;
      size *= bounds[k].count();
    }
  for (std::size_t k = 0; k < indices.size(); ++k)
    if (operand.mentions[k]) {
      mentioned.push_back(indices[k]);
      within.push_back(bounds[k]);
    }
  table.elements.reserve(static_cast<std::size_t>(size));
  for_each_element(frame, mentioned, within, [&] {
    const Value value = operand.code(frame);
    check(frame, site);
    if (!value.present && !frame.padding) fail(site, std::string("operand ") + operand.name + " is absent");
    table.elements.push_back(value.present ? value.word.real : 0.0f);
  });
  return table;
}

/// acc + the products over the contracted indices from `k` on, in their order.
float accumulate(float acc, const Table& a, const Table& b, std::int64_t at_a, std::int64_t at_b,
                 const std::vector<Bounds>& bounds, std::size_t k) {
  if (k == bounds.size()) {
    const float product = a.elements[static_cast<std::size_t>(at_a)] * b.elements[static_cast<std::size_t>(at_b)];
    return acc + product;
  }
  const std::int64_t count = bounds[k].count(), step_a = a.strides[k], step_b = b.strides[k];
  if (k + 1 == bounds.size()) {
    const float* x = a.elements.data() + at_a;
    const float* y = b.elements.data() + at_b;
    for (std::int64_t step = 0; step < count; ++step) {
      const float product = x[step * step_a] * y[step * step_b];
      acc += product;
    }
    return acc;
  }
  for (std::int64_t step = 0; step < count; ++step)
    acc = accumulate(acc, a, b, at_a + step * step_a, at_b + step * step_b, bounds, k + 1);
  return acc;
}

}  // namespace

Action compile(const loop::Contract& contract, const Destination& dst, const Site& site, Compiler& compiler) {
  std::vector<loop::Range> indices = contract.domain;
  indices.insert(indices.end(), contract.over.begin(), contract.over.end());
  const std::size_t outer = contract.domain.size();
  return [=, all = compile(indices, *site.nest, compiler), domain = compile(contract.domain, *site.nest, compiler),
          a = operand(contract.a, indices, "a", compiler), b = operand(contract.b, indices, "b", compiler),
          scale = contract.scale ? compiler.compile(contract.scale) : Code{}](Frame& frame) {
    const std::vector<Bounds> bounds = evaluate(frame, all, site);
    for (std::size_t k = 0; k < outer; ++k)
      if (bounds[k].count() == 0) return;
    const Table left = tabulate(frame, a, all, bounds, site);
    const Table right = tabulate(frame, b, all, bounds, site);
    const std::vector<Bounds> within(bounds.begin(), bounds.begin() + static_cast<std::ptrdiff_t>(outer));
    for_each_element(frame, domain, within, [&] {
      std::int64_t at_a = 0, at_b = 0;
      for (std::size_t k = 0; k < outer; ++k) {
        const std::int64_t step = frame.slots[domain[k].slot].word.whole - bounds[k].lo;
        at_a += step * left.strides[k];
        at_b += step * right.strides[k];
      }
      const std::size_t element = dst.element(frame, site);
      float acc = 0;
      if (scale) {
        const Value old = dst.read(frame, element), factor = scale(frame);
        check(frame, site);
        if (!factor.present && !frame.padding) fail(site, "the scale is absent");
        acc = old.word.real * (factor.present ? factor.word.real : 0.0f);
      }
      dst.write(frame, element, of(accumulate(acc, left, right, at_a, at_b, bounds, outer)));
    });
  };
}

}  // namespace attune::interpreter
