// SPDX-License-Identifier: Apache-2.0
// Interval analysis of integer expressions for one call's sizes. Everything is kept in __int128 magnitudes, so that
// the analysis itself cannot overflow: intervals saturate far beyond what counts as too large.
#include "runtime/narrow.hpp"

#include <algorithm>
#include <limits>
#include <optional>

namespace attune {
namespace {

using tensor::Expr;
using Wide = __int128;

constexpr Wide huge = Wide{1} << 100;
constexpr Wide lowest = std::numeric_limits<std::int32_t>::min();
constexpr Wide highest = std::numeric_limits<std::int32_t>::max();
/// Lowered code looks beyond an index' range by at most a few tiles (padding lanes, the next tile's start).
constexpr Wide slack = 1 << 16;

struct Interval {
  Wide lo = 0, hi = 0;
  bool uniform = false;  ///< the same for the whole launch: computed in 64 bits
};

Wide clip(Wide value) { return std::clamp(value, -huge, huge); }
Wide magnitude(const Interval& range) {
  return std::max(range.lo < 0 ? -range.lo : range.lo, range.hi < 0 ? -range.hi : range.hi);
}
Wide times(Wide a, Wide b) {
  if (a != 0 && (b < 0 ? -b : b) > huge / (a < 0 ? -a : a)) return (a < 0) == (b < 0) ? huge : -huge;
  return a * b;
}
Interval join(const Interval& a, const Interval& b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi), false}; }

Interval range_of(DType type) {
  switch (type) {
    case DType::i32: return {lowest, highest, false};
    case DType::i8: return {-128, 127, false};
    case DType::u8: return {0, 255, false};
    case DType::boolean: return {0, 1, false};
    default: return {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max(), false};
  }
}

class Analysis {
 public:
  Analysis(const tensor::Program& program, const Binding& binding) : program_(program), binding_(binding) {}

  bool run() {
    for (const tensor::Definition& definition : program_.definitions) {
      for (const tensor::IndexRange& index : definition.indices) enter(index);
      const tensor::Tensor* result = nullptr;
      for (const tensor::Tensor& candidate : program_.results)
        if (candidate.sym == definition.sym) result = &candidate;
      whole_right_side_ = definition.body.get();
      whole_type_ = result ? result->type.dtype : DType::i64;
      const Interval value = visit(definition.body);
      if (definition.body->type.is_integer()) values_[definition.sym] = value;
      if (!fits_) return false;
    }
    return fits_;
  }

 private:
  void require(const Interval& range) {
    fits_ = fits_ && (range.uniform || (range.lo >= lowest && range.hi <= highest));
  }
  void require_magnitude(Wide size) { fits_ = fits_ && size <= highest; }

  void enter(const tensor::IndexRange& index) {
    const Interval lo = visit(index.lo), hi = visit(index.hi);
    Interval range{lo.lo, std::max(lo.lo, hi.hi - 1), false};
    require({range.lo - slack, range.hi + slack, false});
    indices_[index.index] = range;
  }

  Interval dim(const Sym& sym) {
    const auto found = binding_.dims.find(sym);
    if (found == binding_.dims.end()) return range_of(DType::i64);
    return {found->second, found->second, true};
  }

  Interval scalar(const Expr& expr, const Sym& sym) {
    const auto found = binding_.scalars.find(sym);
    if (found != binding_.scalars.end()) {
      if (const auto* integer = std::get_if<std::int64_t>(&found->second)) return {*integer, *integer, true};
      if (const auto* boolean = std::get_if<bool>(&found->second)) return {*boolean, *boolean, true};
    }
    Interval range = range_of(expr->type.dtype);
    range.uniform = true;
    return range;
  }

  /// The interval of an expression (meaningful where it is an integer or boolean); notes on the way what does not fit.
  Interval visit(const Expr& expr) {
    if (!fits_) return {};
    const bool counts = expr->type.is_integer();
    Interval range = match(
        expr->kind,
        [&](const tensor::Literal& literal) -> Interval {
          if (const auto* integer = std::get_if<std::int64_t>(&literal.value)) return {*integer, *integer, true};
          if (const auto* boolean = std::get_if<bool>(&literal.value)) return {*boolean, *boolean, true};
          return {0, 0, true};
        },
        [&](const tensor::Index& index) -> Interval {
          const auto found = indices_.find(index.index);
          return found == indices_.end() ? range_of(DType::i64) : found->second;
        },
        [&](const tensor::Dim& size) { return dim(size.dim); },
        [&](const tensor::Scalar& value) { return scalar(expr, value.scalar); },
        [&](const tensor::Access& access) -> Interval {
          for (const Expr& subscript : access.subscripts) require(varying(visit(subscript)));
          if (const auto found = values_.find(access.target); found != values_.end()) return found->second;
          return range_of(expr->type.dtype);
        },
        [&](const tensor::Unary& unary) -> Interval {
          const Interval a = visit(unary.operand);
          if (unary.op == tensor::UnaryOp::negate) return {-a.hi, -a.lo, a.uniform};
          if (unary.op == tensor::UnaryOp::abs) return {a.lo > 0 ? a.lo : 0, magnitude(a), a.uniform};
          return {0, 1, a.uniform};  // logical_not; all others are floats
        },
        [&](const tensor::Chain& chain) { return visit_chain(expr, chain); },
        [&](const tensor::Power& power) { return visit_power(expr, power); },
        [&](const tensor::Compare& compare) -> Interval {
          bool uniform = true, data = false;
          Wide total = 0, largest = 0;
          for (const Expr& arg : compare.args) {
            const Interval a = visit(arg);
            uniform = uniform && a.uniform;
            total += magnitude(a);
            largest = std::max(largest, a.lo < 0 ? -a.lo - 1 : a.hi);
            largest = std::max(largest, a.hi);
            data = data || reads(arg);
          }
          // A guard is solved for an index, by differences of its sides; loaded values are compared as they are.
          if (!uniform && compare.args.front()->type.is_integer()) require_magnitude(data ? largest : total);
          return {0, 1, uniform};
        },
        [&](const tensor::Select& select) { return visit_select(expr, select); },
        [&](const tensor::Cast& cast) -> Interval {
          const Interval a = visit(cast.operand);
          if (!counts) return {0, 0, a.uniform};
          Interval target = range_of(expr->type.dtype);
          target.uniform = a.uniform;
          if (cast.operand->type.is_float()) return target;
          return a.lo >= target.lo && a.hi <= target.hi ? a : target;
        },
        [&](const tensor::Random& random) -> Interval {
          const Interval seed = visit(random.seed);
          if (!seed.uniform) require(seed);
          for (const Expr& coordinate : random.coordinates) require(varying(visit(coordinate)));
          return {0, 0, false};
        },
        [&](const tensor::Reduce& reduce) { return visit_reduce(expr, reduce); },
        [&](const tensor::Softmax& softmax) -> Interval {
          for (const tensor::IndexRange& index : softmax.along) enter(index);
          if (softmax.guard) visit(softmax.guard);
          visit(softmax.body);
          if (softmax.extra) visit(softmax.extra);
          return {0, 0, false};
        },
        [&](const tensor::Cumsum& cumsum) -> Interval {
          enter(cumsum.along);
          if (cumsum.guard) visit(cumsum.guard);
          const Interval body = visit(cumsum.body);
          return counts ? summed(body, count_of(cumsum.along)) : Interval{0, 0, false};
        },
        [&](const tensor::Where& where) -> Interval {
          visit(where.condition);
          return varying(visit(where.body));
        });
    range.lo = clip(range.lo);
    range.hi = clip(range.hi);
    if (counts) require(range);
    return range;
  }

  static Interval varying(Interval range) {
    range.uniform = false;
    return range;
  }

  Interval visit_chain(const Expr& expr, const tensor::Chain& chain) {
    Interval total = visit(chain.args[0]);
    Wide absolute = magnitude(total);
    bool uniform = total.uniform;
    for (std::size_t k = 0; k < chain.links.size(); ++k) {
      const Interval next = visit(chain.args[k + 1]);
      uniform = uniform && next.uniform;
      switch (chain.links[k]) {
        case tensor::LinkOp::add:
          absolute += magnitude(next);
          total = {total.lo + next.lo, total.hi + next.hi, uniform};
          break;
        case tensor::LinkOp::sub:
          absolute += magnitude(next);
          total = {total.lo - next.hi, total.hi - next.lo, uniform};
          break;
        case tensor::LinkOp::mul: {
          const Wide products[] = {times(total.lo, next.lo), times(total.lo, next.hi), times(total.hi, next.lo),
                                   times(total.hi, next.hi)};
          total = {*std::min_element(products, products + 4), *std::max_element(products, products + 4), uniform};
          absolute = times(std::max<Wide>(absolute, 1), std::max<Wide>(magnitude(next), 1));
          break;
        }
        case tensor::LinkOp::floordiv: {
          // Rounding down moves at most one away from zero; the quotient is never larger than the dividend otherwise.
          Wide bound = magnitude(total);
          if (next.lo > 0 && total.lo >= 0) {
            total = {total.lo / next.hi, total.hi / next.lo, uniform};
            break;
          }
          bound += total.lo < 0 || next.lo < 0 ? 1 : 0;
          total = {-bound, bound, uniform};
          break;
        }
        case tensor::LinkOp::mod: {
          if (next.lo > 0)
            total = {0, total.lo >= 0 ? std::min(next.hi - 1, total.hi) : next.hi - 1, uniform};
          else
            total = {-magnitude(next), magnitude(next), uniform};
          absolute = std::max(absolute, magnitude(next));
          break;
        }
        case tensor::LinkOp::min:
          total = {std::min(total.lo, next.lo), std::min(total.hi, next.hi), uniform};
          absolute = std::max(absolute, magnitude(next));
          break;
        case tensor::LinkOp::max:
          total = {std::max(total.lo, next.lo), std::max(total.hi, next.hi), uniform};
          absolute = std::max(absolute, magnitude(next));
          break;
        default: total = {0, 1, uniform}; break;  // both, either; div is for floats
      }
      total = {clip(total.lo), clip(total.hi), uniform};
      absolute = clip(absolute);
    }
    // Passes regroup chains, so every partial result of every order has to fit, and so must uniform operands.
    if (expr->type.is_integer() && !uniform) require_magnitude(std::max(absolute, magnitude(total)));
    return total;
  }

  Interval visit_power(const Expr& expr, const tensor::Power& power) {
    const Interval base = visit(power.base), exponent = visit(power.exponent);
    const bool uniform = base.uniform && exponent.uniform;
    if (!expr->type.is_integer()) return {0, 0, uniform};
    Wide bound = 1;
    for (Wide k = 0; k < exponent.hi && bound < huge && magnitude(base) > 1; ++k) bound = times(bound, magnitude(base));
    bound = std::max(bound, magnitude(base));
    return {base.lo >= 0 ? Wide{0} : -bound, bound, uniform};
  }

  Interval visit_select(const Expr& expr, const tensor::Select& select) {
    std::optional<Interval> range;
    bool uniform = true;
    tensor::visit_children(expr, [&](const Expr& child) {
      const Interval a = visit(child);
      uniform = uniform && a.uniform;
      if (child.same(select.condition)) return;
      range = range ? join(*range, a) : a;
    });
    Interval joined = range.value_or(Interval{});
    joined.uniform = uniform;
    return joined;
  }

  Interval visit_reduce(const Expr& expr, const tensor::Reduce& reduce) {
    Wide count = 1;
    for (const tensor::IndexRange& index : reduce.over) {
      enter(index);
      count = times(count, count_of(index));
    }
    const bool is_whole = expr.get() == whole_right_side_;
    if (reduce.guard) visit(reduce.guard);
    const Interval body = varying(visit(reduce.body));
    if (reduce.extra) visit(reduce.extra);
    if (!expr->type.is_integer()) return {0, 1, false};
    switch (reduce.op) {
      case tensor::ReduceOp::sum: return summed(body, count);
      case tensor::ReduceOp::argmax: {
        const Interval over = indices_[reduce.over.front().index];
        return join(over, {-1, -1, false});
      }
      case tensor::ReduceOp::max:
      case tensor::ReduceOp::min: {
        // The value of an empty set: the smallest or largest of the result's type, else of i64.
        const Interval all = range_of(is_whole ? whole_type_ : DType::i64);
        const Wide empty = reduce.op == tensor::ReduceOp::max ? all.lo : all.hi;
        return join(body, {empty, empty, false});
      }
      default: return range_of(DType::i64);
    }
  }

  Wide count_of(const tensor::IndexRange& index) const {
    const Interval& range = indices_.at(index.index);
    return std::max<Wide>(range.hi - range.lo + 1, 0);
  }

  static Interval summed(const Interval& body, Wide count) {
    return {times(std::min<Wide>(body.lo, 0), count), times(std::max<Wide>(body.hi, 0), count), false};
  }

  /// Whether loaded data take part in the value.
  bool reads(const Expr& expr) const {
    bool found = false;
    tensor::walk(expr, [&](const Expr& part) {
      found = found || tensor::get_if<tensor::Access>(part) != nullptr;
      return !found;
    });
    return found;
  }

  const tensor::Program& program_;
  const Binding& binding_;
  std::unordered_map<Sym, Interval> indices_;
  std::unordered_map<Sym, Interval> values_;  ///< of integer definitions
  const tensor::Node* whole_right_side_ = nullptr;
  DType whole_type_ = DType::i64;
  bool fits_ = true;
};

}  // namespace

bool fits_in_32_bits(const tensor::Program& program, const Binding& binding) {
  return Analysis(program, binding).run();
}

}  // namespace attune
