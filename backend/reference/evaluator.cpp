// SPDX-License-Identifier: Apache-2.0
// Definitions in dependence order, scopes and slots; the kinds of expressions are in the files beside this one.
#include "backend/reference/evaluator.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "backend/reference/arithmetic.hpp"
#include "common/node.hpp"

namespace attune::reference {

using namespace tensor;

namespace {

/// Frames of closures that evaluation may nest. Far below what an 8 MiB stack holds, also with sanitizers.
constexpr std::size_t deepest = 1000;

std::size_t depth_of(const Expr& expr) {
  std::size_t deepest_child = 0;
  visit_children(expr, [&](const Expr& child) { deepest_child = std::max(deepest_child, depth_of(child)); });
  return deepest_child + 1;
}

bool is_constant(const Expr& expr) {
  bool constant = true;
  walk(expr, [&](const Expr& node) {
    if (get_if<Index>(node) || get_if<Access>(node) || get_if<Reduce>(node) || get_if<Softmax>(node) ||
        get_if<Cumsum>(node))
      constant = false;
    return constant;
  });
  return constant;
}

}  // namespace

std::int64_t Box::count() const {
  for (std::size_t k = 0; k < lo.size(); ++k)
    if (lo[k] >= hi[k]) return 0;
  std::int64_t count = 1;
  for (std::size_t k = 0; k < lo.size(); ++k) {
    const std::int64_t extent = hi[k] - lo[k];
    if (extent > (std::int64_t{1} << 62) / count) return std::int64_t{1} << 62;
    count *= extent;
  }
  return count;
}

Evaluator::Evaluator(const Program& program, const Binding& binding) : program_(program), binding_(binding) {
  std::unordered_set<Sym> read;  // by another definition
  for (const Definition& definition : program.definitions)
    walk(definition.body, [&](const Expr& node) {
      if (const auto* access_node = get_if<Access>(node)) read.insert(access_node->target);
      return true;
    });
  for (const Tensor& tensor : program.tensors)
    if (read.count(tensor.sym))
      arrays_.emplace(tensor.sym, std::make_unique<Array>(binding.tensors.at(tensor.sym), budget_));
  std::unordered_map<Sym, std::size_t> nesting;
  for (const Definition& definition : program.definitions) {
    std::size_t below = 0;
    walk(definition.body, [&](const Expr& node) {
      if (const auto* access_node = get_if<Access>(node))
        if (const auto found = nesting.find(access_node->target); found != nesting.end())
          below = std::max(below, found->second);
      return true;
    });
    std::vector<std::int64_t> extents;
    for (const IndexRange& range : definition.indices)
      extents.push_back(std::max<std::int64_t>(0, evaluate_extent(range.hi, binding)));
    auto array = std::make_unique<Array>(std::move(extents), read.count(definition.sym) != 0, budget_);

    slots_.clear();
    for (const IndexRange& range : definition.indices) {
      const int at = new_slot();
      slots_[range.index] = at;
      array->slots.push_back(at);
    }
    array->body = compile(definition.body);

    std::size_t& own = nesting[definition.sym];
    own = below + depth_of(definition.body);
    if (own > deepest) {
      own = 0;
      if (array->is_dense())
        stages_.push_back(array.get());
      else if (read.count(definition.sym) && too_large_.empty())
        too_large_ = definition.sym.text();
    }
    arrays_.emplace(definition.sym, std::move(array));
  }
}

std::string Evaluator::prepare() {
  if (!too_large_.empty()) return too_large_;
  for (Array* stage : stages_) stage->fill(frame_);
  return {};
}

int Evaluator::new_slot() {
  frame_.slots.push_back(0);
  return static_cast<int>(frame_.slots.size()) - 1;
}

Box Evaluator::bind_box(const std::vector<IndexRange>& ranges, Outer& outer) {
  Box box;
  for (const IndexRange& range : ranges) {
    box.lo.push_back(evaluate_extent(range.lo, binding_));
    box.hi.push_back(evaluate_extent(range.hi, binding_));
    box.slots.push_back(new_slot());
    const auto found = slots_.find(range.index);
    outer.emplace_back(range.index, found == slots_.end() ? -1 : found->second);
    slots_[range.index] = box.slots.back();
  }
  return box;
}

void Evaluator::unbind(const Outer& outer) {
  for (auto entry = outer.rbegin(); entry != outer.rend(); ++entry) {
    if (entry->second < 0)
      slots_.erase(entry->first);
    else
      slots_[entry->first] = entry->second;
  }
}

std::vector<int> Evaluator::free_slots(const std::vector<Expr>& exprs) const {
  // Bound Syms are unique, so what is in scope here and occurs inside is free there.
  std::vector<int> slots;
  for (const Expr& expr : exprs)
    walk(expr, [&](const Expr& node) {
      if (const auto* index_node = get_if<Index>(node))
        if (const auto found = slots_.find(index_node->index); found != slots_.end()) slots.push_back(found->second);
      return true;
    });
  std::sort(slots.begin(), slots.end());
  slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  return slots;
}

std::vector<Code> Evaluator::compile(const std::vector<Expr>& exprs) {
  std::vector<Code> codes;
  codes.reserve(exprs.size());
  for (const Expr& expr : exprs) codes.push_back(compile(expr));
  return codes;
}

Code Evaluator::compile(const Expr& expr) {
  Code code = compile_node(expr);
  if (get_if<Literal>(expr) || !is_constant(expr)) return code;
  // The same for every element: evaluate once, unless the flag would be raised too early.
  Frame empty;
  const Value value = code(empty);
  if (empty.out_of_range) return code;
  return [value](Frame&) { return value; };
}

Code Evaluator::compile_node(const Expr& expr) {
  const Type& type = expr->type;
  return match(
      expr->kind,
      [&](const Literal& node) -> Code {
        Value value;
        if (const auto* number = std::get_if<std::int64_t>(&node.value))
          value = type.is_float() ? real(static_cast<float>(*number)) : whole(*number);
        else if (const auto* number64 = std::get_if<double>(&node.value))
          value = real(static_cast<float>(*number64));
        else
          value = truth(std::get<bool>(node.value));
        return [value](Frame&) { return value; };
      },
      [&](const Index& node) -> Code {
        return [at = static_cast<std::size_t>(slot(node.index))](Frame& frame) { return whole(frame.slots[at]); };
      },
      [&](const Dim& node) -> Code { return [size = binding_.dims.at(node.dim)](Frame&) { return whole(size); }; },
      [&](const tensor::Scalar& node) -> Code {
        const ScalarValue& bound = binding_.scalars.at(node.scalar);
        Value value;
        if (const auto* number = std::get_if<std::int64_t>(&bound))
          value = whole(*number);
        else if (const auto* number64 = std::get_if<double>(&bound))
          value = real(*number64);
        else
          value = truth(std::get<bool>(bound));
        return [value](Frame&) { return value; };
      },
      [&](const Access& node) { return access(node); }, [&](const Unary& node) { return unary(node, type); },
      [&](const Chain& node) { return chain(node, type); },
      [&](const Power& node) -> Code {
        return [base = compile(node.base), exponent = compile(node.exponent), base_type = node.base->type,
                exponent_type = node.exponent->type, integers = type.is_integer()](Frame& frame) {
          const Value x = base(frame), y = exponent(frame);
          if (!x.present || !y.present) return absent();
          if (integers) return whole(power(x.word.whole, y.word.whole));
          return real(std::pow(to_real(x, base_type), to_real(y, exponent_type)));
        };
      },
      [&](const Compare& node) { return compare(node); },
      [&](const Select& node) -> Code {
        return [condition = compile(node.condition), then = compile(node.then),
                otherwise = compile(node.otherwise)](Frame& frame) {
          const Value decided = condition(frame);
          if (!decided.present) return absent();
          return decided.word.whole != 0 ? then(frame) : otherwise(frame);
        };
      },
      [&](const Cast& node) { return cast(node, type); }, [&](const Random& node) { return random(node); },
      [&](const Reduce& node) { return reduce(node, type); }, [&](const Softmax& node) { return softmax(node); },
      [&](const Cumsum& node) { return cumsum(node, type); },
      [&](const Where& node) -> Code {
        return [condition = compile(node.condition), body = compile(node.body)](Frame& frame) {
          return holds(condition(frame)) ? body(frame) : absent();
        };
      });
}

}  // namespace attune::reference
