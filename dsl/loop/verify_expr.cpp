// SPDX-License-Identifier: Apache-2.0
// Checks one expression of a loop nest: names, arity, kinds of operands.
#include "loop/verify_expr.hpp"

#include <fmt/format.h>

namespace attune::loop {

Numbers numbers_of(DType dtype) {
  if (is_float(dtype)) return Numbers::real;
  return is_integer(dtype) ? Numbers::whole : Numbers::truth;
}

std::string_view name(Numbers numbers) {
  switch (numbers) {
    case Numbers::real: return "float";
    case Numbers::whole: return "integer";
    case Numbers::truth: return "boolean";
  }
  return "?";
}

namespace {

using namespace tensor;

Numbers numbers_of(const Expr& expr) { return loop::numbers_of(expr->type.dtype); }

class Checker {
 public:
  Checker(const Bound& bound, const Names& names) : bound_(bound), names_(names) {}

  std::string check(const Expr& expr) const {
    if (!expr) return "an expression is missing";
    if (expr->type.var) return "`" + print(expr, names_) + "` has a type variable that is not bound";
    std::string problem = std::visit([&](const auto& kind) { return rule(kind, expr); }, expr->kind);
    if (!problem.empty()) return problem;
    visit_children(expr, [&](const Expr& child) {
      if (problem.empty()) problem = check(child);
    });
    return problem;
  }

 private:
  std::string text(const Expr& expr) const { return "`" + print(expr, names_) + "`"; }
  std::string want(const Expr& operand, Numbers numbers, const Expr& in) const {
    if (!operand) return text(in) + " lacks an operand";
    if (numbers_of(operand) == numbers) return "";
    return fmt::format("{} in {} is {}, not {}", text(operand), text(in), name(numbers_of(operand)), name(numbers));
  }
  std::string want_all(const std::vector<Expr>& operands, Numbers numbers, const Expr& in) const {
    for (const Expr& operand : operands)
      if (std::string problem = want(operand, numbers, in); !problem.empty()) return problem;
    return "";
  }
  /// The node's own type.
  std::string gives(const Expr& expr, Numbers numbers) const {
    return numbers_of(expr) == numbers ? "" : fmt::format("{} is typed {}", text(expr), attune::name(expr->type.dtype));
  }
  static std::string first(std::string a, std::string b) { return a.empty() ? std::move(b) : std::move(a); }

  std::string rule(const Literal& literal, const Expr& expr) const {
    const Numbers held = std::holds_alternative<double>(literal.value) ? Numbers::real
                         : std::holds_alternative<bool>(literal.value) ? Numbers::truth
                                                                       : Numbers::whole;
    return gives(expr, held);
  }
  std::string rule(const Index& index, const Expr& expr) const {
    if (!bound_.outer.count(index.index) && !bound_.inner.count(index.index))
      return "index " + text(expr) + " is not bound here";
    return gives(expr, Numbers::whole);
  }
  std::string rule(const Dim& dim, const Expr& expr) const {
    if (!bound_.dims.count(dim.dim)) return "dim " + text(expr) + " is not a dim of the kernel";
    return gives(expr, Numbers::whole);
  }
  std::string rule(const Scalar& scalar, const Expr& expr) const {
    const auto found = bound_.scalars.find(scalar.scalar);
    if (found == bound_.scalars.end()) return "scalar " + text(expr) + " is not bound here";
    return gives(expr, loop::numbers_of(found->second));
  }
  std::string rule(const Access& access, const Expr& expr) const {
    std::string problem = want_all(access.subscripts, Numbers::whole, expr);
    if (!problem.empty()) return problem;
    if (const auto buffer = bound_.buffers.find(access.target); buffer != bound_.buffers.end()) {
      if (access.subscripts.size() != buffer->second->extents.size())
        return fmt::format("{} has {} subscripts, the buffer {} axes", text(expr), access.subscripts.size(),
                           buffer->second->extents.size());
      return gives(expr, loop::numbers_of(buffer->second->dtype));
    }
    const auto tile = bound_.tiles.find(access.target);
    if (tile == bound_.tiles.end()) return text(expr) + " reads something that is neither buffer nor tile of the nest";
    if (access.subscripts.size() != tile->second->axes.size())
      return fmt::format("{} has {} subscripts, the tile {} axes", text(expr), access.subscripts.size(),
                         tile->second->axes.size());
    for (const TileAxis& axis : tile->second->axes)
      if (!known(axis.base))
        return fmt::format("{} reads a tile whose base {} is not bound here", text(expr), text(axis.base));
    return gives(expr, loop::numbers_of(tile->second->dtype));
  }
  /// Whether a tile's base has its names in scope; it never follows the statement's own indices.
  bool known(const Expr& base) const {
    bool good = true;
    walk(base, [&](const Expr& e) {
      if (const auto* index = tensor::get_if<Index>(e)) good = good && bound_.outer.count(index->index) != 0;
      if (const auto* scalar = tensor::get_if<Scalar>(e)) good = good && bound_.scalars.count(scalar->scalar) != 0;
      return good;
    });
    return good;
  }
  std::string rule(const Unary& unary, const Expr& expr) const {
    if (unary.op == UnaryOp::logical_not)
      return first(want(unary.operand, Numbers::truth, expr), gives(expr, Numbers::truth));
    if ((unary.op == UnaryOp::negate || unary.op == UnaryOp::abs) && numbers_of(expr) == Numbers::whole)
      return want(unary.operand, Numbers::whole, expr);
    return first(want(unary.operand, Numbers::real, expr), gives(expr, Numbers::real));
  }
  std::string rule(const Chain& chain, const Expr& expr) const {
    if (chain.links.empty() || chain.args.size() != chain.links.size() + 1)
      return fmt::format("a chain has {} links and {} operands", chain.links.size(), chain.args.size());
    const LinkOp lead = chain.links[0];
    const bool logical = lead == LinkOp::both || lead == LinkOp::either;
    const Numbers numbers = logical ? Numbers::truth : numbers_of(expr);
    if (!logical && numbers == Numbers::truth) return text(expr) + " computes with booleans";
    for (const LinkOp link : chain.links) {
      if (group(link) != group(lead)) return text(expr) + " mixes operators of different groups";
      if (link == LinkOp::div && numbers != Numbers::real) return text(expr) + " divides integers as floats";
      if ((link == LinkOp::floordiv || link == LinkOp::mod) && numbers != Numbers::whole)
        return text(expr) + " divides floats as integers";
    }
    return first(want_all(chain.args, numbers, expr), gives(expr, numbers));
  }
  static LinkOp group(LinkOp op) {
    switch (op) {
      case LinkOp::sub: return LinkOp::add;
      case LinkOp::div:
      case LinkOp::floordiv:
      case LinkOp::mod: return LinkOp::mul;
      default: return op;
    }
  }
  std::string rule(const Power& power, const Expr& expr) const {
    if (numbers_of(expr) != Numbers::whole)
      return first(first(want(power.base, Numbers::real, expr), gives(expr, Numbers::real)),
                   power.exponent && numbers_of(power.exponent) != Numbers::truth
                       ? ""
                       : text(expr) + " has no exponent that is a number");
    const auto* literal = tensor::get_if<Literal>(power.exponent);
    const auto* exponent = literal ? std::get_if<std::int64_t>(&literal->value) : nullptr;
    if (!exponent || *exponent < 0)
      return text(expr) + " raises an integer to something that is no literal of at least 0";
    return want(power.base, Numbers::whole, expr);
  }
  std::string rule(const Compare& compare, const Expr& expr) const {
    if (compare.relations.empty() || compare.args.size() != compare.relations.size() + 1)
      return fmt::format("a comparison has {} relations and {} operands", compare.relations.size(),
                         compare.args.size());
    for (const Expr& arg : compare.args)
      if (!arg) return text(expr) + " lacks an operand";
    for (std::size_t k = 0; k + 1 < compare.args.size(); ++k)
      if (numbers_of(compare.args[k]) != numbers_of(compare.args[k + 1]))
        return text(expr) + " compares values of different kinds";
    return gives(expr, Numbers::truth);
  }
  std::string rule(const Select& select, const Expr& expr) const {
    return first(want(select.condition, Numbers::truth, expr),
                 first(want(select.then, numbers_of(expr), expr), want(select.otherwise, numbers_of(expr), expr)));
  }
  std::string rule(const Cast& cast, const Expr& expr) const {
    if (!cast.operand) return text(expr) + " lacks an operand";
    if (numbers_of(expr) == Numbers::truth) return want(cast.operand, Numbers::truth, expr);
    return "";
  }
  std::string rule(const Random& random, const Expr& expr) const {
    if (random.coordinates.empty() || random.coordinates.size() > 4)
      return fmt::format("{} has {} coordinates, not one to four", text(expr), random.coordinates.size());
    return first(first(want(random.seed, Numbers::whole, expr), want_all(random.coordinates, Numbers::whole, expr)),
                 gives(expr, Numbers::real));
  }
  std::string rule(const Reduce&, const Expr& expr) const {
    return "reduction " + text(expr) + " inside an expression";
  }
  std::string rule(const Softmax&, const Expr& expr) const { return text(expr) + " inside an expression"; }
  std::string rule(const Cumsum&, const Expr& expr) const { return text(expr) + " inside an expression"; }
  std::string rule(const Where& where, const Expr& expr) const {
    return first(want(where.condition, Numbers::truth, expr), want(where.body, numbers_of(expr), expr));
  }

  const Bound& bound_;
  const Names& names_;
};

}  // namespace

std::string verify(const Expr& expr, const Bound& bound, const Names& names) {
  return Checker(bound, names).check(expr);
}

}  // namespace attune::loop
