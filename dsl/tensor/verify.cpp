// SPDX-License-Identifier: Apache-2.0
// Structural checks of a tensor program, run after every pass in debug builds: types, scopes, ranks, ranges.
#include <set>

#include "tensor/ir.hpp"

namespace attune::tensor {
namespace {

enum class Form : std::uint8_t { real, integral, boolean };
Form form_of(const Type& type) {
  return type.is_float() ? Form::real : type.is_integer() ? Form::integral : Form::boolean;
}

class Verifier {
 public:
  explicit Verifier(const Program& program) : program_(program) {}

  std::string run() {
    declarations();
    for (const Definition& definition : program_.definitions) {
      if (!first_.empty()) break;
      this->definition(definition);
    }
    if (first_.empty()) results();
    return first_;
  }

 private:
  void fail(const std::string& text) {
    if (first_.empty()) first_ = place_ + ": " + text;
  }
  bool check(bool holds, const std::string& text) {
    if (!holds) fail(text);
    return holds;
  }

  void declarations() {
    place_ = "kernel " + program_.name;
    std::set<Sym> vars(program_.type_variables.begin(), program_.type_variables.end());
    auto known_var = [&](const Type& type) { check(!type.var || vars.contains(type.var), "unknown type variable"); };
    auto declare = [&](const Sym& sym) {
      check(static_cast<bool>(sym), "an empty name");
      check(globals_.insert(sym).second, "`" + sym.text() + "` is declared twice");
    };
    for (const Sym& sym : program_.dims) {
      declare(sym);
      dims_.insert(sym);
    }
    auto extents = [&](const Tensor& tensor) {
      known_var(tensor.type);
      for (const Expr& extent : tensor.extents) bound(extent, "an extent of `" + tensor.sym.text() + "`");
    };
    for (const ScalarParam& scalar : program_.scalars) {
      declare(scalar.sym);
      known_var(scalar.type);
      if (scalar.default_value) {
        expression(scalar.default_value);
        check(form_of(scalar.default_value->type) == form_of(scalar.type),
              "the default of `" + scalar.sym.text() + "` has another kind than its type");
      }
      scalars_.insert(scalar.sym);
    }
    for (const Tensor& tensor : program_.tensors) {
      declare(tensor.sym);
      extents(tensor);
      ranks_[tensor.sym] = tensor.extents.size();
    }
    for (const Tensor& tensor : program_.results) extents(tensor);
  }

  void definition(const Definition& definition) {
    place_ = "definition " + definition.sym.text();
    check(static_cast<bool>(definition.sym) && globals_.insert(definition.sym).second, "the name is declared twice");
    for (const IndexRange& range : definition.indices) {
      bound(range.lo, "the lower bound of `" + range.index.text() + "`");
      bound(range.hi, "the upper bound of `" + range.index.text() + "`");
      const auto* literal = get_if<Literal>(range.lo);
      check(literal && literal->value == Literal{std::int64_t{0}}.value,
            "the range of the left-hand index `" + range.index.text() + "` does not start at 0");
      check(indices_.insert(range.index).second, "the index `" + range.index.text() + "` is bound twice");
    }
    expression(definition.body);
    indices_.clear();
    ranks_[definition.sym] = definition.indices.size();
  }

  void results() {
    for (const Tensor& tensor : program_.results) {
      place_ = "result " + tensor.sym.text();
      const Definition* definition = program_.find_definition(tensor.sym);
      if (!check(definition != nullptr, "has no definition")) return;
      check(definition->indices.size() == tensor.extents.size(), "has another rank than its definition");
      check(form_of(definition->body->type) == form_of(tensor.type), "has another kind than its definition");
    }
    place_ = "kernel " + program_.name;
    for (const ExactQuotient& quotient : program_.exact_quotients)
      check(dims_.contains(quotient.dividend) && dims_.contains(quotient.divisor), "an exact quotient of no dims");
    for (const RangeCheck& range : program_.range_checks) {
      bound(range.lo, "a checked range");
      bound(range.hi, "a checked range");
      bound(range.extent, "a checked extent");
      auto at = ranks_.find(range.target);
      check(at != ranks_.end() && range.axis < at->second, "a checked range names no axis");
    }
  }

  /// Bounds and extents: integers of literals, dims and scalars.
  void bound(const Expr& expr, const std::string& what) {
    if (!check(static_cast<bool>(expr), what + " is missing")) return;
    check(expr->type.is_integer(), what + " is no integer");
    walk(expr, [&](const Expr& at) {
      const bool other = get_if<Index>(at) || get_if<Access>(at) || get_if<Reduce>(at) || get_if<Softmax>(at) ||
                         get_if<Cumsum>(at) || get_if<Random>(at) || get_if<Where>(at);
      check(!other, what + " uses more than literals, dims and scalars");
      if (const auto* kind = get_if<Dim>(at)) check(dims_.contains(kind->dim), what + " uses an unknown dim");
      return first_.empty();
    });
  }

  void form(const Expr& expr, Form wanted, const std::string& what) {
    check(!expr || form_of(expr->type) == wanted, what + " has the wrong kind in `" + print(expr) + "`");
  }
  void optional(const Expr& expr, Form wanted, const std::string& what) {
    if (!expr) return;
    expression(expr);
    if (first_.empty()) form(expr, wanted, what);
  }
  /// Every expression that must be there.
  bool required(const Expr& expr, const std::string& what) {
    if (!check(static_cast<bool>(expr), what + " is missing")) return false;
    expression(expr);
    return first_.empty();
  }

  void expression(const Expr& expr) {
    if (!first_.empty() || !check(static_cast<bool>(expr), "an expression is missing")) return;
    const Form own = form_of(expr->type);
    match(
        expr->kind,
        [&](const Literal& k) {
          const Form stored = std::holds_alternative<double>(k.value)         ? Form::real
                              : std::holds_alternative<std::int64_t>(k.value) ? Form::integral
                                                                              : Form::boolean;
          check(stored == own, "the literal `" + print(expr) + "` is stored as another kind than its type");
        },
        [&](const Index& k) {
          check(indices_.contains(k.index), "the index `" + k.index.text() + "` is not in scope");
        },
        [&](const Dim& k) { check(dims_.contains(k.dim), "the dim `" + k.dim.text() + "` is unknown"); },
        [&](const Scalar& k) {
          check(scalars_.contains(k.scalar), "the scalar `" + k.scalar.text() + "` is unknown here");
        },
        [&](const Access& k) {
          auto at = ranks_.find(k.target);
          if (!check(at != ranks_.end(), "`" + k.target.text() + "` is read before it is known")) return;
          check(at->second == k.subscripts.size(), "`" + k.target.text() + "` is read with another rank");
          for (const Expr& subscript : k.subscripts)
            if (required(subscript, "a subscript")) form(subscript, Form::integral, "a subscript");
        },
        [&](const Unary& k) {
          if (!required(k.operand, "an operand")) return;
          const bool keeps = k.op == UnaryOp::negate || k.op == UnaryOp::abs;
          const Form wanted = k.op == UnaryOp::logical_not ? Form::boolean : keeps ? own : Form::real;
          check(own == wanted && own == form_of(k.operand->type) && (own != Form::boolean || wanted == Form::boolean),
                "an operand has the wrong kind in `" + print(expr) + "`");
          if (keeps) check(own != Form::boolean, "arithmetic on bool in `" + print(expr) + "`");
        },
        [&](const Chain& k) { chain(expr, k, own); },
        [&](const Power& k) {
          if (!required(k.base, "a base") || !required(k.exponent, "an exponent")) return;
          form(k.base, own, "the base");
          check(own != Form::boolean, "arithmetic on bool in `" + print(expr) + "`");
          if (own == Form::integral) {
            const auto* literal = get_if<Literal>(k.exponent);
            const auto* value = literal ? std::get_if<std::int64_t>(&literal->value) : nullptr;
            check(value && *value >= 0, "an integer power without a literal exponent");
          }
        },
        [&](const Compare& k) {
          check(!k.relations.empty() && k.args.size() == k.relations.size() + 1, "a comparison of the wrong length");
          check(own == Form::boolean, "a comparison is not bool");
          for (const Expr& arg : k.args)
            if (!required(arg, "an operand")) return;
          for (const Expr& arg : k.args) form(arg, form_of(k.args[0]->type), "a side of a comparison");
        },
        [&](const Select& k) {
          if (!required(k.condition, "a condition") || !required(k.then, "a branch") ||
              !required(k.otherwise, "a branch"))
            return;
          form(k.condition, Form::boolean, "the condition");
          form(k.then, own, "a branch");
          form(k.otherwise, own, "a branch");
        },
        [&](const Cast& k) {
          if (required(k.operand, "an operand"))
            check(own != Form::boolean || k.operand->type.is_bool(), "a cast of a number to bool");
        },
        [&](const Random& k) {
          if (!required(k.seed, "a seed")) return;
          form(k.seed, Form::integral, "the seed");
          check(!k.coordinates.empty() && k.coordinates.size() <= 4, "rand with the wrong number of coordinates");
          for (const Expr& coordinate : k.coordinates)
            if (required(coordinate, "a coordinate")) form(coordinate, Form::integral, "a coordinate");
        },
        [&](const Reduce& k) { reduce(expr, k, own); },
        [&](const Softmax& k) {
          check(!k.along.empty(), "softmax along nothing");
          for (const IndexRange& range : k.along) along(range);
          optional(k.guard, Form::boolean, "a guard");
          if (required(k.body, "a body")) form(k.body, Form::real, "the body");
          optional(k.extra, Form::real, "extra");
        },
        [&](const Cumsum& k) {
          along(k.along);
          optional(k.guard, Form::boolean, "a guard");
          if (required(k.body, "a body")) form(k.body, own, "the body");
        },
        [&](const Where& k) {
          if (!required(k.condition, "a condition") || !required(k.body, "a body")) return;
          form(k.condition, Form::boolean, "the condition");
          form(k.body, own, "the body");
        });
  }

  void chain(const Expr& expr, const Chain& k, Form own) {
    if (!check(!k.links.empty() && k.args.size() == k.links.size() + 1, "a chain of the wrong length")) return;
    for (LinkOp op : k.links) {
      const LinkOp first = k.links[0];
      bool fits = op == first;
      if (first == LinkOp::add || first == LinkOp::sub) fits = op == LinkOp::add || op == LinkOp::sub;
      if (first == LinkOp::mul || first == LinkOp::div || first == LinkOp::floordiv || first == LinkOp::mod)
        fits =
            op == LinkOp::mul || (own == Form::real ? op == LinkOp::div : op == LinkOp::floordiv || op == LinkOp::mod);
      check(fits, "links of several groups in `" + print(expr) + "`");
    }
    const bool logical = k.links[0] == LinkOp::both || k.links[0] == LinkOp::either;
    check((own == Form::boolean) == logical, "a chain of the wrong type: `" + print(expr) + "`");
    for (const Expr& arg : k.args)
      if (required(arg, "an operand")) form(arg, own, "the operand `" + print(arg) + "`");
  }

  void along(const IndexRange& range) {
    check(indices_.contains(range.index), "the index `" + range.index.text() + "` is not in scope");
    bound(range.lo, "the lower bound of `" + range.index.text() + "`");
    bound(range.hi, "the upper bound of `" + range.index.text() + "`");
  }

  void reduce(const Expr& expr, const Reduce& k, Form own) {
    check(!k.over.empty(), "a reduction over nothing");
    for (const IndexRange& range : k.over) {
      bound(range.lo, "the lower bound of `" + range.index.text() + "`");
      bound(range.hi, "the upper bound of `" + range.index.text() + "`");
    }
    optional(k.extra, Form::real, "extra");
    check(!k.extra || k.op == ReduceOp::logsumexp, "extra beside another reducer than logsumexp");
    for (const IndexRange& range : k.over)
      check(indices_.insert(range.index).second, "the index `" + range.index.text() + "` is bound twice");
    optional(k.guard, Form::boolean, "a guard");
    if (!required(k.body, "a body")) return;
    const Form body = form_of(k.body->type);
    bool fits = body == own && own != Form::boolean;
    switch (k.op) {
      case ReduceOp::any:
      case ReduceOp::all: fits = body == Form::boolean && own == Form::boolean; break;
      case ReduceOp::argmax: fits = body != Form::boolean && own == Form::integral; break;
      case ReduceOp::mean:
      case ReduceOp::logsumexp:
      case ReduceOp::bound: fits = body == Form::real && own == Form::real; break;
      default: break;
    }
    check(fits, "a body of the wrong kind in `" + print(expr) + "`");
    check(k.op != ReduceOp::argmax || k.over.size() == 1, "argmax over several indices");
    for (const IndexRange& range : k.over) indices_.erase(range.index);
  }

  const Program& program_;
  std::string place_, first_;
  std::set<Sym> globals_, dims_, scalars_, indices_;
  std::unordered_map<Sym, std::size_t> ranks_;
};

}  // namespace

std::string verify(const Program& program) { return Verifier(program).run(); }

}  // namespace attune::tensor
