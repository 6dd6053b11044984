// SPDX-License-Identifier: Apache-2.0
// Canonical text of the tensor IR: the notation with types and ranges, for golden tests, dumps and `attune show`.
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "tensor/ir.hpp"

namespace attune::tensor {
namespace {

/// Binding strength of the notation, weakest first.
enum Level : int { conditional, either, both, inverse, comparison, sum, product, negation, power, postfix };

constexpr const char* unary_names[] = {"-",    "not ",  "abs", "exp",      "exp2",  "log",     "log2",
                                       "sqrt", "rsqrt", "sin", "cos",      "tanh",  "sigmoid", "silu",
                                       "relu", "gelu",  "erf", "softplus", "floor", "ceil",    "round"};
constexpr const char* relation_names[] = {" < ", " <= ", " > ", " >= ", " == ", " != "};
constexpr const char* reduce_names[] = {"sum", "max", "min",       "mean",   "prod",
                                        "any", "all", "logsumexp", "argmax", "bound"};

std::string text_of(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string text_of(const Type& type) { return type.var ? type.var.text() : std::string(name(type.dtype)); }

class Printer {
 public:
  std::string run(const Program& program);
  std::string run(const Expr& expr) {
    put(expr, conditional);
    return std::move(out_);
  }

 private:
  // ---- names ------------------------------------------------------------------------------------
  /// Gives the Sym a text that no other visible Sym has.
  const std::string& enter(const Sym& sym) {
    std::string text = sym.text().empty() ? "_" : sym.text();
    if (taken_.contains(text)) {
      int number = 2;
      while (taken_.contains(text + "." + std::to_string(number))) ++number;
      text += "." + std::to_string(number);
    }
    taken_.insert(text);
    return names_[sym] = text;
  }
  void leave(const Sym& sym) {
    auto at = names_.find(sym);
    if (at == names_.end()) return;
    taken_.erase(at->second);
    names_.erase(at);
  }
  const std::string& name_of(const Sym& sym) {
    auto at = names_.find(sym);
    return at != names_.end() ? at->second : enter(sym);
  }

  // ---- parts ------------------------------------------------------------------------------------
  template <class List>
  void list(const List& expressions) {
    const char* between = "";
    for (const Expr& expr : expressions) {
      out_ += between;
      put(expr, conditional);
      between = ", ";
    }
  }
  void bound(const Expr& expr) {
    if (expr)
      put(expr, sum);
    else
      out_ += '?';
  }
  /// `j in 0..N`; the index must be named already.
  void range(const IndexRange& range) {
    out_ += name_of(range.index) + " in ";
    bound(range.lo);
    out_ += "..";
    bound(range.hi);
  }
  void ranges(const std::vector<IndexRange>& list) {
    const char* between = "";
    for (const IndexRange& each : list) {
      out_ += between;
      range(each);
      between = ", ";
    }
  }
  void guarded(const Expr& guard, const Expr& body, const Expr& extra) {
    if (guard) {
      out_ += " where ";
      put(guard, conditional);
    }
    out_ += "](";
    put(body, conditional);
    if (extra) {
      out_ += ", extra = ";
      put(extra, conditional);
    }
    out_ += ')';
  }
  void tensor(const Tensor& tensor) {
    out_ += name_of(tensor.sym) + ": " + text_of(tensor.type) + "[";
    list(tensor.extents);
    out_ += ']';
  }

  static Level level_of(const Node& node);
  void put(const Expr& expr, Level least);
  void put_chain(const Chain& chain);

  std::string out_;
  std::map<Sym, std::string> names_;
  std::set<std::string> taken_;
};

Level Printer::level_of(const Node& node) {
  return match(
      node.kind,
      [](const Literal& k) {
        if (const auto* value = std::get_if<std::int64_t>(&k.value)) return *value < 0 ? negation : postfix;
        if (const auto* value = std::get_if<double>(&k.value)) return std::signbit(*value) ? negation : postfix;
        return postfix;
      },
      [](const Index&) { return postfix; }, [](const Dim&) { return postfix; }, [](const Scalar&) { return postfix; },
      [](const Access&) { return postfix; },
      [](const Unary& k) {
        return k.op == UnaryOp::negate ? negation : k.op == UnaryOp::logical_not ? inverse : postfix;
      },
      [](const Chain& k) {
        switch (k.links[0]) {
          case LinkOp::add:
          case LinkOp::sub: return sum;
          case LinkOp::min:
          case LinkOp::max: return postfix;
          case LinkOp::both: return both;
          case LinkOp::either: return either;
          default: return product;
        }
      },
      [](const Power&) { return power; }, [](const Compare&) { return comparison; },
      [](const Select&) { return conditional; }, [](const Cast&) { return postfix; },
      [](const Random&) { return postfix; }, [](const Reduce&) { return postfix; },
      [](const Softmax&) { return postfix; }, [](const Cumsum&) { return postfix; },
      [](const Where&) { return postfix; });
}

void Printer::put_chain(const Chain& chain) {
  const LinkOp first = chain.links[0];
  if (first == LinkOp::min || first == LinkOp::max) {
    out_ += first == LinkOp::min ? "min(" : "max(";
    list(chain.args);
    out_ += ')';
    return;
  }
  constexpr const char* texts[] = {" + ", " - ", " * ", " / ", " / ", " % ", "", "", " and ", " or "};
  const Level level = first == LinkOp::both                          ? both
                      : first == LinkOp::either                      ? either
                      : first == LinkOp::add || first == LinkOp::sub ? sum
                                                                     : product;
  put(chain.args[0], level);
  for (std::size_t k = 0; k < chain.links.size(); ++k) {
    out_ += texts[static_cast<std::size_t>(chain.links[k])];
    put(chain.args[k + 1], static_cast<Level>(level + 1));
  }
}

void Printer::put(const Expr& expr, Level least) {
  if (!expr) {
    out_ += '?';
    return;
  }
  const bool enclosed = level_of(*expr) < least;
  if (enclosed) out_ += '(';
  match(
      expr->kind,
      [&](const Literal& k) {
        if (const auto* value = std::get_if<std::int64_t>(&k.value))
          out_ += std::to_string(*value);
        else if (const auto* number = std::get_if<double>(&k.value))
          out_ += text_of(*number);
        else
          out_ += std::get<bool>(k.value) ? "true" : "false";
      },
      [&](const Index& k) { out_ += name_of(k.index); }, [&](const Dim& k) { out_ += name_of(k.dim); },
      [&](const Scalar& k) { out_ += name_of(k.scalar); },
      [&](const Access& k) {
        out_ += name_of(k.target) + "[";
        list(k.subscripts);
        out_ += ']';
      },
      [&](const Unary& k) {
        out_ += unary_names[static_cast<std::size_t>(k.op)];
        if (k.op == UnaryOp::negate || k.op == UnaryOp::logical_not) {
          put(k.operand, k.op == UnaryOp::negate ? negation : inverse);
        } else {
          out_ += '(';
          put(k.operand, conditional);
          out_ += ')';
        }
      },
      [&](const Chain& k) { put_chain(k); },
      [&](const Power& k) {
        put(k.base, postfix);
        out_ += " ^ ";
        put(k.exponent, negation);
      },
      [&](const Compare& k) {
        put(k.args[0], sum);
        for (std::size_t i = 0; i < k.relations.size(); ++i) {
          out_ += relation_names[static_cast<std::size_t>(k.relations[i])];
          put(k.args[i + 1], sum);
        }
      },
      [&](const Select& k) {
        put(k.then, either);
        out_ += " if ";
        put(k.condition, either);
        out_ += " else ";
        put(k.otherwise, conditional);
      },
      [&](const Cast& k) {
        out_ += text_of(expr->type) + "(";
        put(k.operand, conditional);
        out_ += ')';
      },
      [&](const Random& k) {
        out_ += "rand(";
        put(k.seed, conditional);
        out_ += ", ";
        list(k.coordinates);
        out_ += ')';
      },
      [&](const Reduce& k) {
        for (const IndexRange& each : k.over) enter(each.index);
        out_ += std::string(reduce_names[static_cast<std::size_t>(k.op)]) + "[";
        ranges(k.over);
        guarded(k.guard, k.body, k.extra);
        for (const IndexRange& each : k.over) leave(each.index);
      },
      [&](const Softmax& k) {
        out_ += "softmax[";
        ranges(k.along);
        guarded(k.guard, k.body, k.extra);
      },
      [&](const Cumsum& k) {
        out_ += "cumsum[";
        range(k.along);
        guarded(k.guard, k.body, {});
      },
      [&](const Where& k) {
        out_ += "where(";
        put(k.condition, conditional);
        out_ += ", ";
        put(k.body, conditional);
        out_ += ')';
      });
  if (enclosed) out_ += ')';
}

std::string Printer::run(const Program& program) {
  for (const Sym& sym : program.dims) enter(sym);
  for (const Tensor& each : program.tensors) enter(each.sym);
  for (const ScalarParam& each : program.scalars) enter(each.sym);
  for (const Definition& each : program.definitions) enter(each.sym);

  out_ += "kernel " + program.name;
  if (!program.type_variables.empty()) {
    const char* between = "<";
    for (const Sym& sym : program.type_variables) {
      out_ += between + sym.text();
      between = ", ";
    }
    out_ += '>';
  }
  out_ += '(';
  const char* between = "";
  for (const Tensor& each : program.tensors) {
    out_ += between;
    tensor(each);
    between = ", ";
  }
  for (const ScalarParam& each : program.scalars) {
    out_ += between + name_of(each.sym) + ": " + (each.is_const ? "const " : "") + text_of(each.type);
    if (each.default_value) {
      out_ += " = ";
      put(each.default_value, conditional);
    }
    between = ", ";
  }
  out_ += ") -> (";
  between = "";
  for (const Tensor& each : program.results) {
    out_ += between;
    tensor(each);
    between = ", ";
  }
  out_ += ") {\n";
  for (const Definition& each : program.definitions) {
    for (const IndexRange& index : each.indices) enter(index.index);
    out_ += "  " + name_of(each.sym) + "[";
    ranges(each.indices);
    out_ += "]: " + (each.body ? text_of(each.body->type) : "?") + " = ";
    put(each.body, conditional);
    out_ += '\n';
    for (const IndexRange& index : each.indices) leave(index.index);
  }
  for (const ExactQuotient& each : program.exact_quotients)
    out_ += "  exact " + name_of(each.dividend) + " / " + name_of(each.divisor) + "\n";
  for (const RangeCheck& each : program.range_checks) {
    out_ += "  check ";
    bound(each.lo);
    out_ += "..";
    bound(each.hi);
    out_ += " within axis " + std::to_string(each.axis) + " of " + name_of(each.target) + ": ";
    bound(each.extent);
    out_ += '\n';
  }
  out_ += "}\n";
  return std::move(out_);
}

}  // namespace

std::string print(const Program& program) { return Printer().run(program); }
std::string print(const Expr& expr) { return Printer().run(expr); }

}  // namespace attune::tensor
