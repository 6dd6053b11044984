// SPDX-License-Identifier: Apache-2.0
// The AST as an indented tree, one node a line, for `attune show --stage ast` and golden tests.
#include <fmt/format.h>

#include <string>

#include "syntax/syntax.hpp"
#include "syntax/words.hpp"

namespace attune {
namespace {

using namespace ast;

class Tree {
 public:
  std::string out;

  void module(const Module& module) {
    line(0, "module");
    for (const Declaration& declaration : module.declarations)
      match(
          declaration,
          [&](const Use& use) {
            std::string path;
            for (const std::string& part : use.path) path += (path.empty() ? "" : ".") + part;
            line(1, "use " + path);
          },
          [&](const FunctionDecl& f) { function(1, f); }, [&](const Kernel& k) { kernel(1, k); });
  }

 private:
  void line(int depth, std::string_view text, std::string_view label = "") {
    out.append(static_cast<std::size_t>(depth) * 2, ' ');
    if (!label.empty()) (out += label) += ": ";
    (out += text) += '\n';
  }

  void function(int depth, const FunctionDecl& f) {
    std::string text = "function " + f.name;
    for (const std::string& parameter : f.parameters) text += ' ' + parameter;
    line(depth, text);
    expr(depth + 1, f.body);
  }

  void tensor(int depth, const char* role, const TensorDecl& t) {
    line(depth, fmt::format("{} {} {}[]", role, t.name, t.type.text));
    for (const Expr& extent : t.extents) expr(depth + 1, extent);
  }

  void kernel(int depth, const Kernel& k) {
    std::string text = "kernel " + k.name;
    for (const std::string& variable : k.type_variables) text += " <" + variable + '>';
    line(depth, text);
    for (const Param& param : k.params)
      match(
          param, [&](const TensorDecl& t) { tensor(depth + 1, "tensor", t); },
          [&](const ScalarDecl& s) {
            line(depth + 1, fmt::format("scalar {} {}{}", s.name, s.is_const ? "const " : "", s.type.text));
            if (s.default_value) expr(depth + 2, s.default_value, "default");
          });
    for (const TensorDecl& result : k.results) tensor(depth + 1, "result", result);
    for (const Item& item : k.items)
      match(
          item, [&](const FunctionDecl& f) { function(depth + 1, f); },
          [&](const Definition& d) {
            line(depth + 1, "definition " + d.name);
            for (const Index& i : d.indices) index(depth + 2, i);
            expr(depth + 2, d.body);
          });
  }

  void index(int depth, const Index& index) {
    line(depth, "index " + index.name);
    if (index.lo) expr(depth + 1, index.lo, "from");
    if (index.hi) expr(depth + 1, index.hi, "to");
  }

  void exprs(int depth, const std::vector<Expr>& list) {
    for (const Expr& e : list) expr(depth, e);
  }

  template <class Operator, std::size_t N>
  static std::string operators(std::string text, const std::vector<Operator>& list,
                               const std::string_view (&words)[N]) {
    for (Operator op : list) (text += ' ') += words[static_cast<int>(op)];
    return text;
  }

  void expr(int depth, const Expr& e, std::string_view label = "") {
    static constexpr std::string_view links[] = {"+", "-", "*", "/", "%", "and", "or"};
    static constexpr std::string_view relations[] = {"<", "<=", ">", ">=", "==", "!="};
    match(
        e->kind, [&](const Integer& k) { line(depth, fmt::format("integer {}", k.value), label); },
        [&](const Float& k) { line(depth, fmt::format("float {}", k.value), label); },
        [&](const Boolean& k) { line(depth, k.value ? "true" : "false", label); },
        [&](const Infinity&) { line(depth, "inf", label); },
        [&](const Name& k) { line(depth, "name " + k.name, label); },
        [&](const Subscript& k) {
          line(depth, "subscript " + k.name, label);
          exprs(depth + 1, k.subscripts);
        },
        [&](const Call& k) {
          line(depth, "call " + k.name, label);
          exprs(depth + 1, k.arguments);
        },
        [&](const Cast& k) {
          line(depth, "cast " + k.type.text, label);
          expr(depth + 1, k.operand);
        },
        [&](const Negate& k) {
          line(depth, "negate", label);
          expr(depth + 1, k.operand);
        },
        [&](const Not& k) {
          line(depth, "not", label);
          expr(depth + 1, k.operand);
        },
        [&](const Chain& k) {
          line(depth, operators("chain", k.links, links), label);
          exprs(depth + 1, k.operands);
        },
        [&](const Comparison& k) {
          line(depth, operators("comparison", k.relations, relations), label);
          exprs(depth + 1, k.operands);
        },
        [&](const Power& k) {
          line(depth, "power", label);
          expr(depth + 1, k.base);
          expr(depth + 1, k.exponent);
        },
        [&](const Conditional& k) {
          line(depth, "conditional", label);
          expr(depth + 1, k.then, "then");
          expr(depth + 1, k.condition, "if");
          expr(depth + 1, k.otherwise, "else");
        },
        [&](const Reduction& k) {
          line(depth, fmt::format("reduction {}", word(k.reducer)), label);
          for (const Index& i : k.indices) index(depth + 1, i);
          if (k.guard) expr(depth + 1, k.guard, "where");
          expr(depth + 1, k.body, "body");
          if (k.extra) expr(depth + 1, k.extra, "extra");
        });
  }
};

}  // namespace

std::string print_tree(const Module& module) {
  Tree tree;
  tree.module(module);
  return std::move(tree.out);
}

}  // namespace attune
