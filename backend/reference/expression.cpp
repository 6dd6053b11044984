// SPDX-License-Identifier: Apache-2.0
// Pointwise expressions of the reference. Absence, demand and the flag follow language.md, rules 11 to 13.
#include <algorithm>

#include "backend/reference/arithmetic.hpp"
#include "backend/reference/evaluator.hpp"

namespace attune::reference {

using namespace tensor;

double to_real(const Value& value, const Type& type) {
  if (type.is_float()) return value.word.real;
  return static_cast<float>(value.word.whole);
}

Code Evaluator::access(const Access& node) {
  Array* array = arrays_.at(node.target).get();
  constexpr std::size_t most_axes = 8;
  bool plain = node.subscripts.size() <= most_axes;
  std::vector<std::size_t> slots;
  for (const Expr& subscript : node.subscripts) {
    const auto* index_node = get_if<Index>(subscript);
    if (index_node)
      slots.push_back(static_cast<std::size_t>(slot(index_node->index)));
    else
      plain = false;
  }
  if (plain)
    return [array, slots](Frame& frame) {
      std::int64_t at[most_axes];
      for (std::size_t k = 0; k < slots.size(); ++k) at[k] = frame.slots[slots[k]];
      return array->read(frame, at);
    };
  return [array, subscripts = compile(node.subscripts)](Frame& frame) {
    std::int64_t few[most_axes];
    std::vector<std::int64_t> many(subscripts.size() > most_axes ? subscripts.size() : 0);
    std::int64_t* at = many.empty() ? few : many.data();
    bool known = true;
    for (std::size_t k = 0; k < subscripts.size(); ++k) {
      const Value subscript = subscripts[k](frame);
      known = known && subscript.present;
      at[k] = subscript.word.whole;
    }
    return known ? array->read(frame, at) : absent();
  };
}

Code Evaluator::unary(const Unary& node, const Type& type) {
  Code operand = compile(node.operand);
  if (node.op == UnaryOp::logical_not)
    return [operand = std::move(operand)](Frame& frame) {
      const Value x = operand(frame);
      return x.present ? truth(x.word.whole == 0) : absent();
    };
  if (type.is_integer())
    return [operand = std::move(operand), negates = node.op == UnaryOp::negate](Frame& frame) {
      const Value x = operand(frame);
      if (!x.present) return absent();
      return negates || x.word.whole < 0 ? whole(subtract(0, x.word.whole)) : x;
    };
  return [operand = std::move(operand), op = node.op, operand_type = node.operand->type](Frame& frame) {
    const Value x = operand(frame);
    return x.present ? real(apply(op, to_real(x, operand_type))) : absent();
  };
}

namespace {

/// Neutral: absent + x is x and absent - x is -x.
Code sum_of_terms(std::vector<LinkOp> links, std::vector<Code> args, bool integers) {
  if (integers)
    return [links = std::move(links), args = std::move(args)](Frame& frame) {
      Value total = args[0](frame);
      for (std::size_t k = 0; k < links.size(); ++k) {
        const Value next = args[k + 1](frame);
        if (!next.present) continue;
        const std::int64_t left = total.present ? total.word.whole : 0;
        total = whole(links[k] == LinkOp::add ? add(left, next.word.whole) : subtract(left, next.word.whole));
      }
      return total;
    };
  return [links = std::move(links), args = std::move(args)](Frame& frame) {
    Value total = args[0](frame);
    for (std::size_t k = 0; k < links.size(); ++k) {
      const Value next = args[k + 1](frame);
      if (!next.present) continue;
      const double signed_next = links[k] == LinkOp::add ? next.word.real : -next.word.real;
      total = real(total.present ? total.word.real + signed_next : signed_next);
    }
    return total;
  };
}

/// Annihilating. No factor counts beside an absent one, in either order: flags of present factors vanish then, and the
/// flag of absent ones stays only where each of them raises it by itself.
Code product_of_factors(std::vector<LinkOp> links, std::vector<Code> args, bool integers) {
  return [links = std::move(links), args = std::move(args), integers](Frame& frame) {
    constexpr std::size_t some = 6;
    Word few[some];
    std::vector<Word> many(args.size() > some ? args.size() : 0);
    Word* factors = many.empty() ? few : many.data();
    const bool before = frame.out_of_range;
    bool raised = false, lost = false;
    for (std::size_t k = 0; k < args.size(); ++k) {
      frame.out_of_range = false;
      const Value factor = args[k](frame);
      factors[k] = factor.word;
      if (factor.present) {
        raised = raised || frame.out_of_range;
        continue;
      }
      if (!frame.out_of_range) {
        frame.out_of_range = before;
        return absent();
      }
      lost = true;
    }
    frame.out_of_range = before || lost || raised;
    if (lost) return absent();
    if (!integers) {
      double product = factors[0].real;
      for (std::size_t k = 0; k < links.size(); ++k)
        product = links[k] == LinkOp::mul ? product * factors[k + 1].real : product / factors[k + 1].real;
      return real(product);
    }
    std::int64_t product = factors[0].whole;
    for (std::size_t k = 0; k < links.size(); ++k) {
      const std::int64_t next = factors[k + 1].whole;
      if (links[k] == LinkOp::mul) {
        product = multiply(product, next);
      } else if (next == 0) {
        frame.out_of_range = true;
        return absent();
      } else {
        product = links[k] == LinkOp::floordiv ? quotient(product, next) : remainder(product, next);
      }
    }
    return whole(product);
  };
}

Code extremum(std::vector<Code> args, bool largest, bool integers) {
  return [args = std::move(args), largest, integers](Frame& frame) {
    Value best = args[0](frame);
    bool known = best.present;
    for (std::size_t k = 1; k < args.size(); ++k) {
      const Value next = args[k](frame);
      known = known && next.present;
      if (integers)
        best.word.whole =
            largest ? std::max(best.word.whole, next.word.whole) : std::min(best.word.whole, next.word.whole);
      else
        best.word.real = largest ? maximum(best.word.real, next.word.real) : minimum(best.word.real, next.word.real);
    }
    return known ? best : absent();
  };
}

/// Kleene, from left to right as far as it decides.
Code logical(std::vector<Code> args, bool deciding) {
  return [args = std::move(args), deciding](Frame& frame) {
    bool known = true;
    for (const Code& arg : args) {
      const Value value = arg(frame);
      if (!value.present)
        known = false;
      else if ((value.word.whole != 0) == deciding)
        return truth(deciding);
    }
    return known ? truth(!deciding) : absent();
  };
}

template <class T>
bool related(Relation relation, T a, T b) {
  switch (relation) {
    case Relation::less: return a < b;
    case Relation::less_equal: return a <= b;
    case Relation::greater: return a > b;
    case Relation::greater_equal: return a >= b;
    case Relation::equal: return a == b;
    case Relation::not_equal: return a != b;
  }
  return false;
}

}  // namespace

Code Evaluator::chain(const Chain& node, const Type& type) {
  std::vector<Code> args = compile(node.args);
  const bool integers = type.is_integer();
  switch (node.links[0]) {
    case LinkOp::add:
    case LinkOp::sub: return sum_of_terms(node.links, std::move(args), integers);
    case LinkOp::mul:
    case LinkOp::div:
    case LinkOp::floordiv:
    case LinkOp::mod: return product_of_factors(node.links, std::move(args), integers);
    case LinkOp::min: return extremum(std::move(args), false, integers);
    case LinkOp::max: return extremum(std::move(args), true, integers);
    case LinkOp::both: return logical(std::move(args), false);
    case LinkOp::either: return logical(std::move(args), true);
  }
  return {};
}

Code Evaluator::compare(const Compare& node) {
  const bool reals = node.args[0]->type.is_float();
  return [args = compile(node.args), relations = node.relations, reals](Frame& frame) {
    bool known = true;
    Value left = args[0](frame);
    for (std::size_t k = 0; k < relations.size(); ++k) {
      const Value right = args[k + 1](frame);
      if (!left.present || !right.present)
        known = false;
      else if (!(reals ? related(relations[k], left.word.real, right.word.real)
                       : related(relations[k], left.word.whole, right.word.whole)))
        return truth(false);
      left = right;
    }
    return known ? truth(true) : absent();
  };
}

Code Evaluator::cast(const Cast& node, const Type& type) {
  const Type from = node.operand->type;
  const DType to = type.dtype;
  Code operand = compile(node.operand);
  // f32 stays f64 here: only narrower types round, and integers on their way to f32.
  if ((from.is_bool() && !type.is_float()) || (from.is_float() && to == DType::f32)) return operand;
  if (type.is_float())
    return [operand = std::move(operand), from, to](Frame& frame) {
      const Value x = operand(frame);
      if (!x.present) return absent();
      const double wide = to_real(x, from);
      return real(to == DType::f32 ? wide : round_to(to, wide));
    };
  if (from.is_integer())
    return [operand = std::move(operand), to](Frame& frame) {
      const Value x = operand(frame);
      return x.present ? whole(wrap_to(to, x.word.whole)) : absent();
    };
  return [operand = std::move(operand), to](Frame& frame) {
    const Value x = operand(frame);
    if (!x.present) return absent();
    const auto truncated = to_integer(to, x.word.real);
    return truncated ? whole(*truncated) : absent();
  };
}

Code Evaluator::random(const Random& node) {
  return [seed = compile(node.seed), coordinates = compile(node.coordinates)](Frame& frame) {
    const Value key = seed(frame);
    bool known = key.present;
    std::int64_t at[4] = {};
    for (std::size_t k = 0; k < coordinates.size(); ++k) {
      const Value coordinate = coordinates[k](frame);
      known = known && coordinate.present;
      at[k] = coordinate.word.whole;
    }
    return known ? real(uniform(key.word.whole, at, coordinates.size())) : absent();
  };
}

}  // namespace attune::reference
