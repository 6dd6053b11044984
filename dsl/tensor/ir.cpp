// SPDX-License-Identifier: Apache-2.0
// Construction and rewriting helpers of the tensor IR: literals, flat chains, substitution, renaming, look-ups.
#include "tensor/ir.hpp"

#include <algorithm>

namespace attune::tensor {

const Tensor* Program::find_tensor(const Sym& sym) const {
  for (const Tensor& tensor : tensors)
    if (tensor.sym == sym) return &tensor;
  return nullptr;
}

const ScalarParam* Program::find_scalar(const Sym& sym) const {
  for (const ScalarParam& scalar : scalars)
    if (scalar.sym == sym) return &scalar;
  return nullptr;
}

const Definition* Program::find_definition(const Sym& sym) const {
  for (const Definition& definition : definitions)
    if (definition.sym == sym) return &definition;
  return nullptr;
}

// ---- construction -------------------------------------------------------------------------------
Expr integer(std::int64_t value) { return Expr(Literal{value}, type_i64); }
Expr real(double value) { return Expr(Literal{value}, type_f32); }
Expr boolean(bool value) { return Expr(Literal{value}, type_bool); }
Expr index(const Sym& sym) { return Expr(Index{sym}, type_i64); }
Expr dim(const Sym& sym) { return Expr(Dim{sym}, type_i64); }

Expr unary(UnaryOp op, Expr operand, Span span) {
  Type type = type_f32;
  if (op == UnaryOp::logical_not)
    type = type_bool;
  else if ((op == UnaryOp::negate || op == UnaryOp::abs) && operand->type.is_integer())
    type = type_i64;
  return Expr(Unary{op, std::move(operand)}, type, span);
}

namespace {

enum class Group : std::uint8_t { sum, product, minimum, maximum, both, either };

Group group_of(LinkOp op) {
  switch (op) {
    case LinkOp::add:
    case LinkOp::sub: return Group::sum;
    case LinkOp::mul:
    case LinkOp::div:
    case LinkOp::floordiv:
    case LinkOp::mod: return Group::product;
    case LinkOp::min: return Group::minimum;
    case LinkOp::max: return Group::maximum;
    case LinkOp::both: return Group::both;
    case LinkOp::either: return Group::either;
  }
  return Group::sum;
}

}  // namespace

Expr link(LinkOp op, Expr a, Expr b, Span span) {
  Type type = type_bool;
  if (op != LinkOp::both && op != LinkOp::either) {
    const bool floats = op == LinkOp::div || a->type.is_float() || b->type.is_float();
    type = floats ? type_f32 : type_i64;
    auto convert = [&](Expr& operand) {
      if (operand->type.is_bool() || (floats && operand->type.is_integer())) operand = cast(operand, type);
    };
    convert(a);
    convert(b);
  }
  Chain chain;
  const Chain* left = get_if<Chain>(a);
  if (left && group_of(left->links[0]) == group_of(op) && a->type == type)
    chain = *left;
  else
    chain.args.push_back(std::move(a));
  chain.links.push_back(op);
  chain.args.push_back(std::move(b));
  return Expr(std::move(chain), type, span);
}

Expr and_also(const Expr& a, const Expr& b) {
  if (!a) return b;
  return b ? link(LinkOp::both, a, b) : a;
}

Expr compare(Relation relation, Expr a, Expr b, Span span) {
  return Expr(Compare{{relation}, {std::move(a), std::move(b)}}, type_bool, span);
}

Expr cast(Expr operand, Type type, Span span) {
  if (operand->type == type) return operand;
  if (type == type_f32)
    if (const auto* literal = get_if<Literal>(operand))
      if (const auto* value = std::get_if<std::int64_t>(&literal->value))
        return Expr(Literal{static_cast<double>(*value)}, type_f32, operand->span);
  return Expr(Cast{std::move(operand)}, std::move(type), span);
}

// ---- rewriting ----------------------------------------------------------------------------------
namespace {

using Replacements = std::unordered_map<Sym, Expr>;

/// The replacement if there is one and it is no plain index.
const Expr* moved(const Replacements& replacements, const Sym& sym) {
  auto at = replacements.find(sym);
  return at != replacements.end() && !get_if<Index>(at->second) ? &at->second : nullptr;
}

/// A range whose index is renamed where the replacement is another index.
IndexRange renamed(const IndexRange& range, const Replacements& replacements) {
  IndexRange result = range;
  if (result.lo) result.lo = substitute(result.lo, replacements);
  if (result.hi) result.hi = substitute(result.hi, replacements);
  if (auto at = replacements.find(range.index); at != replacements.end())
    if (const auto* other = get_if<Index>(at->second)) result.index = other->index;
  return result;
}

/// A running sum read at another place than its own index: the sum of the elements up to there.
Expr cumsum_at(const Expr& expr, const Cumsum& cumsum, const Expr& place, const Replacements& outer) {
  const Sym fresh = Sym::fresh(cumsum.along.index.text());
  Replacements inner = outer;
  inner[cumsum.along.index] = index(fresh);
  Reduce sum{ReduceOp::sum, {cumsum.along}, {}, substitute(cumsum.body, inner), {}};
  sum.over[0] = renamed(cumsum.along, inner);
  const Expr guard = cumsum.guard ? substitute(cumsum.guard, inner) : Expr();
  sum.guard = and_also(compare(Relation::less_equal, index(fresh), place), guard);
  return Expr(std::move(sum), expr->type, expr->span);
}

/// Softmax weights read at another place: exp of the score there, less the row's logarithm of the sum.
Expr softmax_at(const Expr& expr, const Softmax& softmax, const Replacements& outer) {
  Replacements inner = outer;
  Reduce row{ReduceOp::logsumexp, {}, {}, {}, {}};
  for (const IndexRange& range : softmax.along) {
    inner[range.index] = index(Sym::fresh(range.index.text()));
    row.over.push_back(renamed(range, inner));
  }
  row.body = refresh(substitute(softmax.body, inner));
  if (softmax.guard) row.guard = refresh(substitute(softmax.guard, inner));
  if (softmax.extra) row.extra = substitute(softmax.extra, outer);
  const Expr score = substitute(softmax.body, outer);
  const Expr weight =
      unary(UnaryOp::exp, link(LinkOp::sub, score, Expr(std::move(row), type_f32, expr->span)), expr->span);
  if (!softmax.guard) return weight;
  return Expr(Where{substitute(softmax.guard, outer), weight}, expr->type, expr->span);
}

}  // namespace

Expr substitute(const Expr& expr, const Replacements& replacements) {
  if (!expr || replacements.empty()) return expr;
  auto replaced = [&](const Sym& sym) {
    auto at = replacements.find(sym);
    return at == replacements.end() ? expr : at->second;
  };
  auto below = [&](const Expr& child) { return substitute(child, replacements); };
  if (const auto* kind = get_if<Index>(expr)) return replaced(kind->index);
  if (const auto* kind = get_if<Dim>(expr)) return replaced(kind->dim);
  if (const auto* kind = get_if<Scalar>(expr)) return replaced(kind->scalar);
  if (const auto* kind = get_if<Reduce>(expr)) {
    // What is bound here is not free here.
    const bool binds = std::any_of(kind->over.begin(), kind->over.end(),
                                   [&](const IndexRange& range) { return replacements.contains(range.index); });
    if (binds) {
      Replacements free = replacements;
      for (const IndexRange& range : kind->over) free.erase(range.index);
      return substitute(expr, free);
    }
  }
  if (const auto* kind = get_if<Softmax>(expr)) {
    for (const IndexRange& range : kind->along)
      if (moved(replacements, range.index)) return softmax_at(expr, *kind, replacements);
    Softmax copy = *kind;
    bool changed = false;
    for (IndexRange& range : copy.along) {
      range = renamed(range, replacements);
      changed |= !(range.index == kind->along[static_cast<std::size_t>(&range - copy.along.data())].index);
    }
    if (changed) {
      copy.body = below(copy.body);
      if (copy.guard) copy.guard = below(copy.guard);
      if (copy.extra) copy.extra = below(copy.extra);
      return Expr(std::move(copy), expr->type, expr->span);
    }
  }
  if (const auto* kind = get_if<Cumsum>(expr)) {
    if (const Expr* place = moved(replacements, kind->along.index)) return cumsum_at(expr, *kind, *place, replacements);
    if (replacements.contains(kind->along.index)) {
      Cumsum copy = *kind;
      copy.along = renamed(copy.along, replacements);
      copy.body = below(copy.body);
      if (copy.guard) copy.guard = below(copy.guard);
      return Expr(std::move(copy), expr->type, expr->span);
    }
  }
  return map_children(expr, below);
}

namespace {

Expr refresh(const Expr& expr, std::unordered_map<Sym, Sym>& names) {
  auto below = [&](const Expr& child) { return refresh(child, names); };
  auto rename = [&](Sym& sym) {
    auto at = names.find(sym);
    if (at == names.end()) return false;
    sym = at->second;
    return true;
  };
  if (const auto* kind = get_if<Index>(expr)) {
    Sym sym = kind->index;
    return rename(sym) ? Expr(Index{sym}, expr->type, expr->span) : expr;
  }
  if (const auto* kind = get_if<Reduce>(expr)) {
    Reduce copy = *kind;
    for (IndexRange& range : copy.over) names[range.index] = Sym::fresh(range.index.text());
    for (IndexRange& range : copy.over) rename(range.index);
    update_children<Expr>(copy, below);
    return Expr(std::move(copy), expr->type, expr->span);
  }
  if (const auto* kind = get_if<Softmax>(expr)) {
    Softmax copy = *kind;
    bool changed = false;
    for (IndexRange& range : copy.along) changed |= rename(range.index);
    changed |= update_children<Expr>(copy, below);
    return changed ? Expr(std::move(copy), expr->type, expr->span) : expr;
  }
  if (const auto* kind = get_if<Cumsum>(expr)) {
    Cumsum copy = *kind;
    bool changed = rename(copy.along.index);
    changed |= update_children<Expr>(copy, below);
    return changed ? Expr(std::move(copy), expr->type, expr->span) : expr;
  }
  return map_children(expr, below);
}

}  // namespace

Expr refresh(const Expr& expr) {
  std::unordered_map<Sym, Sym> names;
  return expr ? refresh(expr, names) : expr;
}

bool mentions(const Expr& expr, const Sym& sym) {
  if (!expr) return false;
  bool found = false;
  walk(expr, [&](const Expr& at) {
    if (found) return false;
    if (const auto* kind = get_if<Index>(at)) found = kind->index == sym;
    if (const auto* kind = get_if<Dim>(at)) found = kind->dim == sym;
    if (const auto* kind = get_if<Scalar>(at)) found = kind->scalar == sym;
    if (const auto* kind = get_if<Access>(at)) found = kind->target == sym;
    if (const auto* kind = get_if<Cumsum>(at)) found = kind->along.index == sym;
    if (const auto* kind = get_if<Softmax>(at))
      found =
          std::any_of(kind->along.begin(), kind->along.end(), [&](const auto& range) { return range.index == sym; });
    if (const auto* kind = get_if<Reduce>(at))
      if (std::any_of(kind->over.begin(), kind->over.end(), [&](const auto& range) { return range.index == sym; }))
        return false;
    return !found;
  });
  return found;
}

}  // namespace attune::tensor
