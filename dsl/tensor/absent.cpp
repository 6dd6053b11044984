// SPDX-License-Identifier: Apache-2.0
// may_be_absent(): a conservative answer to where presence masks are needed at all.
#include <algorithm>

#include "tensor/algebra.hpp"

namespace attune::tensor {
namespace {

class Absence {
 public:
  Absence(const Program& program, std::vector<IndexRange> ranges) : program_(program), ranges_(std::move(ranges)) {}

  bool of(const Expr& expr) {
    if (!expr) return false;
    if (get_if<Where>(expr)) return true;
    if (const auto* cast = get_if<Cast>(expr))
      if (expr->type.is_integer() && cast->operand->type.is_float()) return true;
    if (const auto* chain = get_if<Chain>(expr))
      for (std::size_t k = 0; k < chain->links.size(); ++k)
        if ((chain->links[k] == LinkOp::floordiv || chain->links[k] == LinkOp::mod) && varies(chain->args[k + 1]))
          return true;
    if (get_if<Reduce>(expr)) {
      // A reduction itself is always present; only its ranges matter to what is inside, which it skips.
      return false;
    }
    if (get_if<Cumsum>(expr)) return false;
    if (get_if<Softmax>(expr)) return true;
    if (const auto* access = get_if<Access>(expr)) {
      if (!in_range(*access)) return true;
      if (const auto* definition = program_.find_definition(access->target)) {
        Absence inner(program_, definition->indices);
        if (inner.of(definition->body)) return true;
      }
    }
    bool any = false;
    visit_children(expr, [&](const Expr& child) { any = any || of(child); });
    return any;
  }

 private:
  /// A divisor that depends on an index or data may be zero at one element; a uniform zero is a call error.
  static bool varies(const Expr& expr) {
    bool found = false;
    walk(expr, [&](const Expr& e) {
      found = found || get_if<Index>(e) || get_if<Access>(e);
      return !found;
    });
    return found;
  }

  bool in_range(const Access& access) const {
    const std::vector<Expr>* extents = nullptr;
    std::vector<Expr> definition_extents;
    if (const Tensor* tensor = program_.find_tensor(access.target)) {
      extents = &tensor->extents;
    } else if (const Definition* definition = program_.find_definition(access.target)) {
      for (const auto& range : definition->indices) definition_extents.push_back(range.hi);
      extents = &definition_extents;
    } else {
      return true;  // a tile
    }
    for (std::size_t axis = 0; axis < access.subscripts.size(); ++axis) {
      const auto* direct = get_if<Index>(access.subscripts[axis]);
      if (!direct) return false;
      const IndexRange* range = find(direct->index);
      // An index without a known range here is one that inference fixed to this very axis.
      if (range && !(range->hi == (*extents)[axis] && integer_value(range->lo) == 0)) {
        // A written range within the axis is checked at the call.
        bool checked =
            std::any_of(program_.range_checks.begin(), program_.range_checks.end(), [&](const RangeCheck& c) {
              return c.target == access.target && c.axis == axis && c.lo == range->lo && c.hi == range->hi;
            });
        if (!checked) return false;
      }
    }
    return true;
  }

  const IndexRange* find(const Sym& sym) const {
    auto at = std::find_if(ranges_.begin(), ranges_.end(), [&](const IndexRange& r) { return r.index == sym; });
    return at == ranges_.end() ? nullptr : &*at;
  }

  const Program& program_;
  std::vector<IndexRange> ranges_;
};

}  // namespace

bool may_be_absent(const Expr& expr, const Program& program) { return Absence(program, {}).of(expr); }

bool may_be_absent(const Expr& expr, const Program& program, const std::vector<IndexRange>& ranges) {
  return Absence(program, ranges).of(expr);
}

}  // namespace attune::tensor
