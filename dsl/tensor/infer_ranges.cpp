// SPDX-License-Identifier: Apache-2.0
// Inference: extents as polynomials, and the one range of every index from its direct uses as a subscript.
#include <algorithm>
#include <limits>

#include "tensor/infer.hpp"

namespace attune::tensor::inference {

// ---- polynomials --------------------------------------------------------------------------------
namespace {
constexpr std::size_t most_terms = 64;
constexpr std::size_t highest_degree = 16;

std::int64_t wrapping_add(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
std::int64_t wrapping_multiply(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  const std::int64_t quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}
}  // namespace

Polynomial Polynomial::constant(std::int64_t value) {
  Polynomial result;
  if (value != 0) result.terms_[{}] = value;
  return result;
}

Polynomial Polynomial::atom(std::string text) {
  Polynomial result;
  result.terms_[{std::move(text)}] = 1;
  return result;
}

void Polynomial::add(const Polynomial& other, std::int64_t factor) {
  for (const auto& [monomial, coefficient] : other.terms_) {
    std::int64_t& value = terms_[monomial];
    value = wrapping_add(value, wrapping_multiply(coefficient, factor));
    if (value == 0) terms_.erase(monomial);
  }
}

bool Polynomial::times(const Polynomial& other) {
  if (terms_.size() * other.terms_.size() > most_terms) return false;
  Polynomial result;
  for (const auto& [a, x] : terms_)
    for (const auto& [b, y] : other.terms_) {
      Monomial product;
      std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(product));
      if (product.size() > highest_degree) return false;
      Polynomial term;
      term.terms_[std::move(product)] = wrapping_multiply(x, y);
      result.add(term, 1);
    }
  terms_ = std::move(result.terms_);
  return true;
}

Polynomial Polynomial::divided(const Polynomial& a, const Polynomial& b, bool remainder) {
  const std::int64_t* x = a.constant_value();
  const std::int64_t* y = b.constant_value();
  if (x && y && *y != 0 && *y != -1) {
    const std::int64_t quotient = floor_divide(*x, *y);
    return constant(remainder ? *x - quotient * *y : quotient);
  }
  return atom("(" + a.text() + (remainder ? ") % (" : ") / (") + b.text() + ")");
}

Polynomial::Polynomial(const Expr& expr) {
  if (const auto* literal = get_if<Literal>(expr)) {
    if (const auto* value = std::get_if<std::int64_t>(&literal->value)) {
      *this = constant(*value);
      return;
    }
  } else if (const auto* minus = get_if<Unary>(expr); minus && minus->op == UnaryOp::negate) {
    add(Polynomial(minus->operand), -1);
    return;
  } else if (const auto* power = get_if<Power>(expr)) {
    const auto* exponent = get_if<Literal>(power->exponent);
    const auto* count = exponent ? std::get_if<std::int64_t>(&exponent->value) : nullptr;
    if (count && *count >= 0 && *count <= static_cast<std::int64_t>(highest_degree)) {
      const Polynomial base(power->base);
      Polynomial result = constant(1);
      bool fits = true;
      for (std::int64_t k = 0; k < *count && fits; ++k) fits = result.times(base);
      if (fits) {
        *this = result;
        return;
      }
    }
  } else if (const auto* chain = get_if<Chain>(expr);
             chain && expr->type.is_integer() && chain->links[0] != LinkOp::min && chain->links[0] != LinkOp::max) {
    Polynomial result(chain->args[0]);
    bool fits = true;
    for (std::size_t k = 0; k < chain->links.size() && fits; ++k) {
      const Polynomial next(chain->args[k + 1]);
      switch (chain->links[k]) {
        case LinkOp::add: result.add(next, 1); break;
        case LinkOp::sub: result.add(next, -1); break;
        case LinkOp::mul: fits = result.times(next); break;
        default: result = divided(result, next, chain->links[k] == LinkOp::mod); break;
      }
      fits = fits && result.terms_.size() <= most_terms;
    }
    if (fits) {
      *this = result;
      return;
    }
  }
  *this = atom(print(expr));
}

Polynomial Polynomial::minus(const Polynomial& other) const {
  Polynomial result = *this;
  result.add(other, -1);
  return result;
}

const std::int64_t* Polynomial::constant_value() const {
  if (terms_.empty()) {
    static const std::int64_t zero = 0;
    return &zero;
  }
  return terms_.size() == 1 && terms_.begin()->first.empty() ? &terms_.begin()->second : nullptr;
}

std::string Polynomial::text() const {
  if (terms_.empty()) return "0";
  std::string result;
  for (const auto& [monomial, coefficient] : terms_) {
    if (!result.empty()) result += " + ";
    result += std::to_string(coefficient);
    for (const std::string& factor : monomial) result += " * " + factor;
  }
  return result;
}

// ---- written ranges -------------------------------------------------------------------------------
Expr Inference::bound(const ast::Expr& e, const std::string& index) {
  const Span span = e ? e->span : Span{};
  const Value value = expr(e);
  if (!value) return {};
  if (!value.expr->type.is_integer()) {
    error("A0206", span, "a bound of `" + index + "` is not an integer",
          "this is " + std::string(value.expr->type.is_bool() ? "bool" : "a float"),
          "convert it with `i64(...)` where that is meant");
    return {};
  }
  std::string what;
  walk(value.expr, [&](const Expr& part) {
    if (const auto* kind = get_if<Index>(part)) what = "index `" + kind->index.text() + "`";
    if (const auto* kind = get_if<Access>(part)) what = "tensor `" + kind->target.text() + "`";
    if (const auto* kind = get_if<Scalar>(part); kind && !part->type.is_integer())
      what = "scalar `" + kind->scalar.text() + "`, which is no integer";
    if (get_if<Reduce>(part) || get_if<Softmax>(part) || get_if<Cumsum>(part)) what = "a reduction";
    if (get_if<Random>(part)) what = "`rand`";
    return what.empty();
  });
  if (what.empty()) return value.expr;
  error("A0206", span, "a bound of `" + index + "` uses " + what, "only dims and integer scalars may stand here",
        "give `" + index + "` its whole range and restrict it with `where`");
  return {};
}

void Inference::check_written(const IndexInfo& info) {
  const Polynomial lo(info.lo), hi(info.hi);
  const std::int64_t* first = lo.constant_value();
  const Polynomial count = hi.minus(lo);
  const std::int64_t* length = count.constant_value();
  if (length && *length <= 0) return;  // empty whatever the sizes are
  std::set<std::pair<Sym, std::size_t>> seen;
  for (const Use& use : info.uses) {
    if (!use.extent || !seen.insert({use.target, use.axis}).second) continue;
    const Polynomial beyond = hi.minus(Polynomial(use.extent));
    const std::int64_t* surplus = beyond.constant_value();
    // Extents are at least 0, so a range from 0 or below to the extent or beyond is not empty where it leaves the axis.
    const bool below = first && *first < 0, above = surplus && *surplus > 0;
    const bool filled = length || (first && *first <= 0 && surplus && *surplus >= 0);
    if ((below || above) && filled) {
      Diagnostic& d =
          error("A0208", use.span,
                "the range " + print(info.lo) + ".." + print(info.hi) + " of `" + info.sym.text() +
                    "` does not lie within an axis that it subscripts",
                "axis " + std::to_string(use.axis) + " of " + use.target.text() + " has extent " + print(use.extent));
      d.labels.push_back(
          {at(info.span), "`" + info.sym.text() + "` ranges over " + print(info.lo) + ".." + print(info.hi)});
      return;
    }
    if (first && *first >= 0 && surplus && *surplus <= 0) continue;  // within, whatever the sizes are
    collected_->checks.push_back({info.lo, info.hi, use.target, use.axis, use.extent, use.span});
  }
}

// ---- direct uses ----------------------------------------------------------------------------------
void Inference::use(const Sym& index, const Target& target, std::size_t axis, Span span) {
  auto found = indices_.find(index);
  if (found == indices_.end()) return;
  IndexInfo& info = found->second;
  const Expr extent = axis < target.extents.size() ? target.extents[axis] : Expr();
  if (target.poisoned || !extent) {
    info.poisoned = true;
    return;
  }
  info.uses.push_back({target.sym, axis, extent, at(span)});
  use_log_.push_back(index);
  if (info.written || info.conflicts) return;
  const bool first = info.uses.size() == 1;
  if (first && !info.of_result) return;
  const Polynomial size = target.sizes[axis];
  const Use& other = info.uses.front();
  const bool equal =
      info.of_result ? !info.hi || Polynomial(info.hi) == size : targets_.at(other.target).sizes[other.axis] == size;
  if (equal) return;
  info.conflicts = true;
  info.conflict = info.uses.size() - 1;
  info.conflict_scope.clear();
  for (auto local = frame_->locals.rbegin(); local != frame_->locals.rend(); ++local)
    if (local->index && !(local->index == index)) info.conflict_scope.push_back(local->index);
}

void Inference::forget_uses(std::size_t mark) {
  while (use_log_.size() > mark) {
    IndexInfo& info = indices_.at(use_log_.back());
    info.uses.pop_back();
    if (info.conflicts && info.conflict >= info.uses.size()) info.conflicts = false;
    use_log_.pop_back();
  }
}

void Inference::unclear(const Value& value) {
  if (const auto* index = get_if<Index>(value.expr))
    if (auto found = indices_.find(index->index); found != indices_.end()) found->second.poisoned = true;
}

void Inference::report_conflict(const IndexInfo& info) {
  const Use& here = info.uses[info.conflict];
  const Expr there = info.of_result ? info.hi : info.uses.front().extent;
  auto axis_text = [](const Use& use) {
    return "axis " + std::to_string(use.axis) + " of " + use.target.text() + " has extent " + print(use.extent);
  };
  Diagnostic& d = error(
      "A0203", here.span,
      "index `" + info.sym.text() + "` ranges over " + print(here.extent) + " here and over " + print(there) + " there",
      axis_text(here));
  if (info.of_result)
    d.notes.push_back("`" + info.sym.text() + "` is bound on the left with extent " + print(there));
  else
    d.labels.push_back({info.uses.front().span, axis_text(info.uses.front())});
  const Polynomial wanted(here.extent);
  for (const Sym& sym : info.conflict_scope) {
    const IndexInfo& other = indices_.at(sym);
    const Expr extent = other.hi ? other.hi : other.uses.empty() ? Expr() : other.uses.front().extent;
    if (!extent || Polynomial(extent) != wanted) continue;
    d.help = "did you mean `" + sym.text() + "`?";
    return;
  }
  if (here.extent == integer(1)) {
    d.help = "there is no broadcasting: read the axis at 0, or declare `" + here.target.text() + "` without it";
    return;
  }
  d.help = info.of_result ? "use an index that ranges over " + print(here.extent)
                          : "write the range, `" + info.sym.text() + " in 0.." + print(there) +
                                "`, if a part of the larger axis is meant";
}

IndexRange Inference::close(const Sym& index) {
  IndexInfo& info = indices_.at(index);
  IndexRange range{index, {}, {}};
  if (info.written) {
    if (info.lo && info.hi) check_written(info);
  } else {
    if (info.conflicts) report_conflict(info);
    if (!info.of_result && !info.uses.empty()) info.hi = info.uses.front().extent;
    if (info.hi) info.lo = integer(0);
    if (!info.hi && !info.of_result && !info.poisoned && !stopped_) {
      const std::string& name = info.sym.text();
      error("A0204", info.span, "index `" + name + "` needs a range", "no axis is subscripted by `" + name + "` itself",
            "write one: `" + name + " in 0..N`");
    }
  }
  range.lo = info.lo;
  range.hi = info.hi;
  if (!range.lo || !range.hi) range.lo = range.hi = Expr();
  return range;
}

bool Inference::any_along(const std::vector<IndexRange>& ranges) const {
  return std::any_of(ranges.begin(), ranges.end(), [&](const IndexRange& range) {
    auto found = indices_.find(range.index);
    return found != indices_.end() && found->second.along;
  });
}

Expr Inference::fill_along(const Expr& expr, const std::vector<IndexRange>& ranges) {
  auto fill = [&](IndexRange& range) {
    for (const IndexRange& known : ranges)
      if (known.index == range.index) range = known;
  };
  const Expr next = map_children(expr, [&](const Expr& child) { return fill_along(child, ranges); });
  if (const auto* softmax = get_if<Softmax>(next)) {
    Softmax copy = *softmax;
    for (IndexRange& range : copy.along) fill(range);
    return Expr(std::move(copy), next->type, next->span);
  }
  if (const auto* cumsum = get_if<Cumsum>(next)) {
    Cumsum copy = *cumsum;
    fill(copy.along);
    return Expr(std::move(copy), next->type, next->span);
  }
  return next;
}

}  // namespace attune::tensor::inference
