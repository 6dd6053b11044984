// SPDX-License-Identifier: Apache-2.0
// AST back to canonical text with no more parentheses than the grammar needs; parsing it gives the same AST.
#include <fmt/format.h>

#include <string>

#include "syntax/syntax.hpp"
#include "syntax/words.hpp"

namespace attune {
namespace {

using namespace ast;

/// The grammar's rules, loosest first: an expression of a looser rule needs parentheses where a tighter one stands.
enum Precedence { conditional, either, both, inverse, comparison, sum, product, unary, power, postfix };

Precedence precedence(Link link) {
  switch (link) {
    case Link::add:
    case Link::subtract: return sum;
    case Link::multiply:
    case Link::divide:
    case Link::remainder: return product;
    case Link::both: return both;
    case Link::either: return either;
  }
  return sum;
}

Precedence precedence(const Expr& expr) {
  return match(
      expr->kind, [](const Conditional&) { return conditional; }, [](const Not&) { return inverse; },
      [](const Comparison&) { return comparison; }, [](const Chain& c) { return precedence(c.links.at(0)); },
      [](const Negate&) { return unary; }, [](const Power&) { return power; }, [](const Integer&) { return postfix; },
      [](const Float&) { return postfix; }, [](const Boolean&) { return postfix; },
      [](const Infinity&) { return postfix; }, [](const Name&) { return postfix; },
      [](const Subscript&) { return postfix; }, [](const Call&) { return postfix; },
      [](const Cast&) { return postfix; }, [](const Reduction&) { return postfix; });
}

std::string_view spelling(Link link) {
  constexpr std::string_view texts[] = {" + ", " - ", " * ", " / ", " % ", " and ", " or "};
  return texts[static_cast<int>(link)];
}
std::string_view spelling(Relation relation) {
  constexpr std::string_view texts[] = {" < ", " <= ", " > ", " >= ", " == ", " != "};
  return texts[static_cast<int>(relation)];
}

class Printer {
 public:
  std::string out;

  /// Prints `expr` where the grammar has `rule`.
  void print(const Expr& expr, Precedence rule = conditional) {
    bool parentheses = precedence(expr) < rule;
    if (parentheses) out += '(';
    match(
        expr->kind, [&](const Integer& k) { out += fmt::to_string(k.value); }, [&](const Float& k) { real(k.value); },
        [&](const Boolean& k) { out += k.value ? "true" : "false"; }, [&](const Infinity&) { out += "inf"; },
        [&](const Name& k) { out += k.name; },
        [&](const Subscript& k) {
          out += k.name;
          list('[', k.subscripts, ']');
        },
        [&](const Call& k) {
          out += k.name;
          list('(', k.arguments, ')');
        },
        [&](const Cast& k) {
          out += k.type.text;
          out += '(';
          print(k.operand);
          out += ')';
        },
        [&](const Negate& k) {
          out += '-';
          print(k.operand, unary);
        },
        [&](const Not& k) {
          out += "not ";
          print(k.operand, inverse);
        },
        [&](const Chain& k) { chain(k.operands, k.links, tighter(precedence(k.links[0]))); },
        [&](const Comparison& k) { chain(k.operands, k.relations, sum); },
        [&](const Power& k) {
          print(k.base, postfix);
          out += '^';
          print(k.exponent, unary);
        },
        [&](const Conditional& k) {
          print(k.then, either);
          out += " if ";
          print(k.condition, either);
          out += " else ";
          print(k.otherwise);
        },
        [&](const Reduction& k) { reduction(k); });
    if (parentheses) out += ')';
  }

  void print(const Module& module) {
    const Declaration* before = nullptr;
    for (const Declaration& declaration : module.declarations) {
      bool apart = before && (before->index() != declaration.index() || std::holds_alternative<Kernel>(declaration));
      if (apart) out += '\n';
      match(
          declaration,
          [&](const Use& use) {
            out += "use ";
            for (std::size_t i = 0; i < use.path.size(); ++i) out += (i ? "." : "") + use.path[i];
            out += '\n';
          },
          [&](const FunctionDecl& f) { function(f, ""); }, [&](const Kernel& k) { print(k); });
      before = &declaration;
    }
  }

  void print(const Kernel& kernel) {
    header(kernel);
    out += " {\n";
    const Item* before = nullptr;
    for (const Item& item : kernel.items) {
      if (before && before->index() != item.index()) out += '\n';
      match(
          item, [&](const FunctionDecl& f) { function(f, "  "); },
          [&](const Definition& d) {
            out += "  " + d.name + '[';
            indices(d.indices);
            out += "] = ";
            print(d.body);
            out += '\n';
          });
      before = &item;
    }
    out += "}\n";
  }

 private:
  static constexpr std::size_t width = 100;  ///< headers break between parameters beyond this

  static Precedence tighter(Precedence rule) { return static_cast<Precedence>(rule + 1); }

  /// The shortest text that reads back as the same value, always a float to the lexer.
  void real(double value) {
    std::string text = fmt::format("{}", value);
    if (text.find_first_of(".en") == std::string::npos) text += ".0";
    out += text;
  }

  void list(char open, const std::vector<Expr>& elements, char close) {
    out += open;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      if (i) out += ", ";
      print(elements[i]);
    }
    out += close;
  }

  template <class Operator>
  void chain(const std::vector<Expr>& operands, const std::vector<Operator>& operators, Precedence rule) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (i) out += spelling(operators[i - 1]);
      print(operands[i], rule);
    }
  }

  void indices(const std::vector<Index>& list) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (i) out += ", ";
      out += list[i].name;
      if (!list[i].lo) continue;
      out += " in ";
      print(list[i].lo, sum);
      out += "..";
      print(list[i].hi, sum);
    }
  }

  void reduction(const Reduction& k) {
    out += word(k.reducer);
    out += '[';
    indices(k.indices);
    if (k.guard) {
      out += " where ";
      print(k.guard);
    }
    out += "](";
    print(k.body);
    if (k.extra) {
      out += ", extra = ";
      print(k.extra);
    }
    out += ')';
  }

  void function(const FunctionDecl& f, const char* indent) {
    out += indent + ("fn " + f.name) + '(';
    for (std::size_t i = 0; i < f.parameters.size(); ++i) out += (i ? ", " : "") + f.parameters[i];
    out += ") = ";
    print(f.body);
    out += '\n';
  }

  static std::string text(const TensorDecl& tensor) {
    Printer printer;
    printer.out = tensor.name + ": " + tensor.type.text + '[';
    for (std::size_t i = 0; i < tensor.extents.size(); ++i) {
      if (i) printer.out += ", ";
      printer.print(tensor.extents[i], sum);
    }
    return printer.out + ']';
  }

  static std::string text(const ScalarDecl& scalar) {
    Printer printer;
    printer.out = scalar.name + ": " + (scalar.is_const ? "const " : "") + scalar.type.text;
    if (scalar.default_value) {
      printer.out += " = ";
      printer.print(scalar.default_value);
    }
    return printer.out;
  }

  /// Appends a piece of a header, on a new line where this one is full.
  void piece(const std::string& text, std::string_view between, std::size_t& line_start) {
    out += between;
    if (out.size() - line_start + text.size() > width && !between.empty()) {
      while (out.back() == ' ') out.pop_back();
      out += '\n';
      line_start = out.size();
      out += "    ";
    }
    out += text;
  }

  void header(const Kernel& kernel) {
    std::size_t line_start = out.size();
    out += "kernel " + kernel.name;
    for (std::size_t i = 0; i < kernel.type_variables.size(); ++i) out += (i ? ", " : "<") + kernel.type_variables[i];
    if (!kernel.type_variables.empty()) out += '>';
    out += '(';
    for (std::size_t i = 0; i < kernel.params.size(); ++i)
      piece(std::visit([](const auto& p) { return text(p); }, kernel.params[i]), i ? ", " : "", line_start);
    out += ')';
    bool several = kernel.results.size() != 1;
    for (std::size_t i = 0; i < kernel.results.size(); ++i)
      piece((i ? "" : several ? "-> (" : "-> ") + text(kernel.results[i]), i ? ", " : " ", line_start);
    if (several) out += kernel.results.empty() ? " -> ()" : ")";
  }
};

}  // namespace

std::string print(const Module& module) {
  Printer printer;
  printer.print(module);
  return std::move(printer.out);
}
std::string print(const Kernel& kernel) {
  Printer printer;
  printer.print(kernel);
  return std::move(printer.out);
}
std::string print(const Expr& expr) {
  Printer printer;
  if (expr) printer.print(expr);
  return std::move(printer.out);
}

}  // namespace attune
