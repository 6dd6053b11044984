// SPDX-License-Identifier: Apache-2.0
// Sums as terms, products as factors, and the questions passes ask of expressions.
#include "tensor/algebra.hpp"

#include <algorithm>
#include <cmath>

namespace attune::tensor {

namespace {

void collect_terms(const Expr& expr, bool negative, std::vector<Term>& out) {
  if (const auto* chain = get_if<Chain>(expr);
      chain && (chain->links[0] == LinkOp::add || chain->links[0] == LinkOp::sub)) {
    for (std::size_t k = 0; k < chain->args.size(); ++k)
      collect_terms(chain->args[k], negative != (k > 0 && chain->links[k - 1] == LinkOp::sub), out);
    return;
  }
  if (const auto* minus = get_if<Unary>(expr); minus && minus->op == UnaryOp::negate)
    return collect_terms(minus->operand, !negative, out);
  out.push_back({negative, expr});
}

bool is_product(const Chain& chain, bool floats) {
  return std::all_of(chain.links.begin(), chain.links.end(),
                     [&](LinkOp op) { return op == LinkOp::mul || (floats && op == LinkOp::div); });
}

void collect_factors(const Expr& expr, bool inverse, std::vector<Factor>& out) {
  if (const auto* chain = get_if<Chain>(expr); chain && is_product(*chain, expr->type.is_float())) {
    for (std::size_t k = 0; k < chain->args.size(); ++k)
      collect_factors(chain->args[k], inverse != (k > 0 && chain->links[k - 1] == LinkOp::div), out);
    return;
  }
  if (const auto* minus = get_if<Unary>(expr); minus && minus->op == UnaryOp::negate) {
    out.push_back({false, expr->type.is_float() ? real(-1) : integer(-1)});
    return collect_factors(minus->operand, inverse, out);
  }
  out.push_back({inverse, expr});
}

}  // namespace

std::vector<Term> terms(const Expr& expr) {
  std::vector<Term> out;
  collect_terms(expr, false, out);
  return out;
}

Expr sum_of(const std::vector<Term>& list, const Type& type) {
  if (list.empty()) return type.is_float() ? real(0) : integer(0);
  // A leading positive term avoids a negation.
  std::vector<Term> ordered = list;
  auto first = std::find_if(ordered.begin(), ordered.end(), [](const Term& t) { return !t.negative; });
  if (first != ordered.end()) std::rotate(ordered.begin(), first, first + 1);
  Expr out = ordered[0].negative ? unary(UnaryOp::negate, ordered[0].expr) : ordered[0].expr;
  for (std::size_t k = 1; k < ordered.size(); ++k)
    out = link(ordered[k].negative ? LinkOp::sub : LinkOp::add, out, ordered[k].expr);
  return out;
}

std::vector<Factor> factors(const Expr& expr) {
  std::vector<Factor> out;
  collect_factors(expr, false, out);
  return out;
}

Expr product_of(const std::vector<Factor>& list, const Type& type) {
  std::vector<Factor> ordered = list;
  auto first = std::find_if(ordered.begin(), ordered.end(), [](const Factor& f) { return !f.inverse; });
  if (first != ordered.end()) std::rotate(ordered.begin(), first, first + 1);
  if (ordered.empty()) return type.is_float() ? real(1) : integer(1);
  Expr out = ordered[0].inverse ? link(LinkOp::div, real(1), ordered[0].expr) : ordered[0].expr;
  for (std::size_t k = 1; k < ordered.size(); ++k)
    out = link(ordered[k].inverse ? LinkOp::div : LinkOp::mul, out, ordered[k].expr);
  return out;
}

std::vector<Expr> conjuncts(const Expr& condition) {
  std::vector<Expr> out;
  if (!condition) return out;
  if (const auto* chain = get_if<Chain>(condition); chain && chain->links[0] == LinkOp::both) {
    for (const Expr& arg : chain->args)
      for (const Expr& part : conjuncts(arg)) out.push_back(part);
    return out;
  }
  // A comparison chain is the conjunction of its pairs (the middle is pure, so evaluating it twice changes nothing).
  if (const auto* cmp = get_if<Compare>(condition); cmp && cmp->relations.size() > 1) {
    for (std::size_t k = 0; k < cmp->relations.size(); ++k)
      out.push_back(compare(cmp->relations[k], cmp->args[k], cmp->args[k + 1], condition->span));
    return out;
  }
  if (const auto* lit = get_if<Literal>(condition); lit && lit->value == std::variant<std::int64_t, double, bool>(true))
    return out;
  out.push_back(condition);
  return out;
}

Expr conjunction(const std::vector<Expr>& list) {
  Expr out;
  for (const Expr& part : list) out = out ? link(LinkOp::both, out, part) : part;
  return out;
}

std::optional<std::int64_t> integer_value(const Expr& expr) {
  if (const auto* lit = get_if<Literal>(expr))
    if (const auto* value = std::get_if<std::int64_t>(&lit->value)) return *value;
  return std::nullopt;
}

std::optional<double> real_value(const Expr& expr) {
  if (const auto* lit = get_if<Literal>(expr)) {
    if (const auto* value = std::get_if<double>(&lit->value)) return *value;
    if (const auto* value = std::get_if<std::int64_t>(&lit->value)) return static_cast<double>(*value);
  }
  return std::nullopt;
}

bool is_literal(const Expr& expr, double value) {
  auto found = real_value(expr);
  return found && *found == value;
}

bool mentions_any(const Expr& expr, const std::vector<Sym>& syms) {
  return std::any_of(syms.begin(), syms.end(), [&](const Sym& sym) { return mentions(expr, sym); });
}

std::vector<Sym> free_indices(const Expr& expr) {
  std::vector<Sym> found, bound;
  walk(expr, [&](const Expr& e) {
    if (const auto* idx = get_if<Index>(e)) {
      if (std::find(found.begin(), found.end(), idx->index) == found.end()) found.push_back(idx->index);
    } else if (const auto* red = get_if<Reduce>(e)) {
      for (const auto& range : red->over) bound.push_back(range.index);
    }
    return true;
  });
  std::erase_if(found, [&](const Sym& sym) { return std::find(bound.begin(), bound.end(), sym) != bound.end(); });
  return found;
}

bool has_reduction(const Expr& expr) {
  bool found = false;
  walk(expr, [&](const Expr& e) {
    found = found || get_if<Reduce>(e) || get_if<Softmax>(e) || get_if<Cumsum>(e);
    return !found;
  });
  return found;
}

namespace {
bool unify_sym(const Sym& a, const Sym& b, std::unordered_map<Sym, Sym>& renaming) {
  auto [at, fresh] = renaming.try_emplace(a, b);
  return fresh || at->second == b;
}
bool unify_all(const std::vector<Expr>& a, const std::vector<Expr>& b, std::unordered_map<Sym, Sym>& renaming) {
  if (a.size() != b.size()) return false;
  for (std::size_t k = 0; k < a.size(); ++k)
    if (!unify(a[k], b[k], renaming)) return false;
  return true;
}
bool unify_ranges(const std::vector<IndexRange>& a, const std::vector<IndexRange>& b,
                  std::unordered_map<Sym, Sym>& renaming) {
  if (a.size() != b.size()) return false;
  for (std::size_t k = 0; k < a.size(); ++k)
    if (!unify(a[k].lo, b[k].lo, renaming) || !unify(a[k].hi, b[k].hi, renaming) ||
        !unify_sym(a[k].index, b[k].index, renaming))
      return false;
  return true;
}
}  // namespace

bool unify(const Expr& a, const Expr& b, std::unordered_map<Sym, Sym>& renaming) {
  if (!a || !b) return !a && !b;
  if (a->type != b->type || a->kind.index() != b->kind.index()) return false;
  return match(
      a->kind, [&](const Literal& x) { return x == std::get<Literal>(b->kind); },
      [&](const Index& x) { return unify_sym(x.index, std::get<Index>(b->kind).index, renaming); },
      [&](const Dim& x) { return x == std::get<Dim>(b->kind); },
      [&](const Scalar& x) { return x == std::get<Scalar>(b->kind); },
      [&](const Access& x) {
        const auto& y = std::get<Access>(b->kind);
        return x.target == y.target && unify_all(x.subscripts, y.subscripts, renaming);
      },
      [&](const Unary& x) {
        const auto& y = std::get<Unary>(b->kind);
        return x.op == y.op && unify(x.operand, y.operand, renaming);
      },
      [&](const Chain& x) {
        const auto& y = std::get<Chain>(b->kind);
        return x.links == y.links && unify_all(x.args, y.args, renaming);
      },
      [&](const Power& x) {
        const auto& y = std::get<Power>(b->kind);
        return unify(x.base, y.base, renaming) && unify(x.exponent, y.exponent, renaming);
      },
      [&](const Compare& x) {
        const auto& y = std::get<Compare>(b->kind);
        return x.relations == y.relations && unify_all(x.args, y.args, renaming);
      },
      [&](const Select& x) {
        const auto& y = std::get<Select>(b->kind);
        return unify(x.condition, y.condition, renaming) && unify(x.then, y.then, renaming) &&
               unify(x.otherwise, y.otherwise, renaming);
      },
      [&](const Cast& x) { return unify(x.operand, std::get<Cast>(b->kind).operand, renaming); },
      [&](const Random& x) {
        const auto& y = std::get<Random>(b->kind);
        return unify(x.seed, y.seed, renaming) && unify_all(x.coordinates, y.coordinates, renaming);
      },
      [&](const Reduce& x) {
        const auto& y = std::get<Reduce>(b->kind);
        return x.op == y.op && unify_ranges(x.over, y.over, renaming) && unify(x.guard, y.guard, renaming) &&
               unify(x.body, y.body, renaming) && unify(x.extra, y.extra, renaming);
      },
      [&](const Softmax& x) {
        const auto& y = std::get<Softmax>(b->kind);
        return unify_ranges(x.along, y.along, renaming) && unify(x.guard, y.guard, renaming) &&
               unify(x.body, y.body, renaming) && unify(x.extra, y.extra, renaming);
      },
      [&](const Cumsum& x) {
        const auto& y = std::get<Cumsum>(b->kind);
        return unify_ranges({x.along}, {y.along}, renaming) && unify(x.guard, y.guard, renaming) &&
               unify(x.body, y.body, renaming);
      },
      [&](const Where& x) {
        const auto& y = std::get<Where>(b->kind);
        return unify(x.condition, y.condition, renaming) && unify(x.body, y.body, renaming);
      });
}

}  // namespace attune::tensor
