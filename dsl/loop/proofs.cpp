// SPDX-License-Identifier: Apache-2.0
// What is known of indices without running: linear subscripts, and subscripts that provably lie inside an axis.
#include "loop/proofs.hpp"

#include <algorithm>

namespace attune::loop {

using tensor::get_if;
using tensor::LinkOp;

namespace {
constexpr int deepest = 24;  // proofs beyond this are not worth their time: a check is cheap

std::optional<std::int64_t> literal(const Expr& expr) {
  if (const auto* node = get_if<tensor::Literal>(expr))
    if (const auto* whole = std::get_if<std::int64_t>(&node->value)) return *whole;
  return std::nullopt;
}

bool all_links(const tensor::Chain& chain, LinkOp op) {
  return std::all_of(chain.links.begin(), chain.links.end(), [op](LinkOp link) { return link == op; });
}
}  // namespace

bool depends_on(const Expr& expr, const Sym& index) {
  bool found = false;
  tensor::walk(expr, [&](const Expr& e) {
    if (const auto* node = get_if<tensor::Index>(e)) found = found || node->index == index;
    return !found;
  });
  return found;
}

std::optional<std::int64_t> coefficient(const Expr& expr, const Sym& index) {
  if (const auto* node = get_if<tensor::Index>(expr)) return node->index == index ? 1 : 0;
  if (!depends_on(expr, index)) return 0;
  if (const auto* unary = get_if<tensor::Unary>(expr)) {
    const auto inner = coefficient(unary->operand, index);
    if (unary->op == tensor::UnaryOp::negate && inner) return -*inner;
    return std::nullopt;
  }
  const auto* chain = get_if<tensor::Chain>(expr);
  if (!chain || !expr->type.is_integer()) return std::nullopt;
  if (chain->links[0] == LinkOp::add || chain->links[0] == LinkOp::sub) {
    std::int64_t total = 0;
    for (std::size_t k = 0; k < chain->args.size(); ++k) {
      const auto part = coefficient(chain->args[k], index);
      if (!part) return std::nullopt;
      total += k > 0 && chain->links[k - 1] == LinkOp::sub ? -*part : *part;
    }
    return total;
  }
  if (!all_links(*chain, LinkOp::mul)) return std::nullopt;
  std::int64_t factor = 1;
  std::optional<std::int64_t> varying;
  for (const Expr& arg : chain->args) {
    if (const auto value = literal(arg)) {
      factor *= *value;
    } else if (!varying) {
      varying = coefficient(arg, index);
      if (!varying) return std::nullopt;
    } else {
      return std::nullopt;
    }
    if (factor > (1 << 30) || factor < -(1 << 30)) return std::nullopt;
  }
  return varying ? std::optional(factor * *varying) : std::nullopt;
}

bool Proofs::never_negative(const Expr& expr, int depth) const {
  if (depth > deepest) return false;
  if (const auto value = literal(expr)) return *value >= 0;
  if (get_if<tensor::Dim>(expr)) return true;
  if (const auto* index = get_if<tensor::Index>(expr)) {
    const auto range = ranges.find(index->index);
    return range != ranges.end() && never_negative(range->second.lo, depth + 1);
  }
  if (const auto* scalar = get_if<tensor::Scalar>(expr)) {
    const auto let = lets.find(scalar->scalar);
    return let != lets.end() && never_negative(let->second, depth + 1);
  }
  const auto* chain = get_if<tensor::Chain>(expr);
  if (!chain) return false;
  const auto good = [&](const Expr& arg) { return never_negative(arg, depth + 1); };
  switch (chain->links[0]) {
    case LinkOp::add:
    case LinkOp::sub:
      return all_links(*chain, LinkOp::add) && std::all_of(chain->args.begin(), chain->args.end(), good);
    case LinkOp::mul:
    case LinkOp::floordiv:
    case LinkOp::mod: return std::all_of(chain->args.begin(), chain->args.end(), good);
    case LinkOp::max: return std::any_of(chain->args.begin(), chain->args.end(), good);
    case LinkOp::min: return std::all_of(chain->args.begin(), chain->args.end(), good);
    default: return false;
  }
}

/// bound <= extent for all values of the indices.
bool Proofs::at_most(const Expr& bound, const Expr& extent, int depth) const {
  if (depth > deepest) return false;
  if (bound == extent) return true;
  const auto a = literal(bound), b = literal(extent);
  if (a && b) return *a <= *b;
  if (const auto* scalar = get_if<tensor::Scalar>(bound)) {
    const auto let = lets.find(scalar->scalar);
    return let != lets.end() && at_most(let->second, extent, depth + 1);
  }
  const auto* chain = get_if<tensor::Chain>(bound);
  if (!chain) return false;
  const auto below = [&](const Expr& arg) { return at_most(arg, extent, depth + 1); };
  switch (chain->links[0]) {
    case LinkOp::min: return std::any_of(chain->args.begin(), chain->args.end(), below);
    case LinkOp::max: return std::all_of(chain->args.begin(), chain->args.end(), below);
    case LinkOp::sub:
      return all_links(*chain, LinkOp::sub) && below(chain->args[0]) &&
             std::all_of(chain->args.begin() + 1, chain->args.end(),
                         [&](const Expr& arg) { return never_negative(arg, depth + 1); });
    default: return false;
  }
}

bool Proofs::in_range(const Expr& subscript, const Expr& extent, int depth) const {
  if (depth > deepest || !never_negative(subscript)) return false;
  const auto value = literal(subscript), size = literal(extent);
  if (value && size) return *value < *size;
  if (const auto* scalar = get_if<tensor::Scalar>(subscript)) {
    const auto let = lets.find(scalar->scalar);
    return let != lets.end() && in_range(let->second, extent, depth + 1);
  }
  if (const auto* index = get_if<tensor::Index>(subscript)) {
    const auto range = ranges.find(index->index);
    if (range == ranges.end()) return false;
    return at_most(range->second.hi, extent) || (lane && index->index == lane && at_most(lane_limit, extent));
  }
  const auto* chain = get_if<tensor::Chain>(subscript);
  if (!chain) return false;
  if (chain->links.size() == 1 && chain->links[0] == LinkOp::mod) return at_most(chain->args[1], extent);
  if (chain->links.size() == 1 && chain->links[0] == LinkOp::floordiv) {
    // h / (H / G) < G for h < H: the quotient of two dims is exact (language.md, rule 5).
    const auto* quotient = get_if<tensor::Chain>(chain->args[1]);
    if (quotient && quotient->links.size() == 1 && quotient->links[0] == LinkOp::floordiv &&
        get_if<tensor::Dim>(quotient->args[0]) && get_if<tensor::Dim>(quotient->args[1]))
      return quotient->args[1] == extent && in_range(chain->args[0], quotient->args[0], depth + 1);
    return false;
  }
  if (chain->links[0] == LinkOp::min)
    return std::any_of(chain->args.begin(), chain->args.end(),
                       [&](const Expr& arg) { return in_range(arg, extent, depth + 1); });
  return false;
}

}  // namespace attune::loop
