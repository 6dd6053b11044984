// SPDX-License-Identifier: Apache-2.0
// Makes AST nodes from what the grammar recognises: one method per semantic action, explicit stacks, no recursion.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "syntax/ast.hpp"
#include "syntax/reporter.hpp"
#include "syntax/token.hpp"

namespace attune::syntax {

/// Thrown out of the grammar where going on makes no sense (too many nodes, too many errors). Already reported.
struct ParsingStopped {};

class Builder {
 public:
  Builder(Reporter& reporter, std::span<const Token> tokens, ast::Module& module)
      : reporter_(reporter), tokens_(tokens), module_(module) {}

  // Expressions: operators come in written order, precedence is resolved here. So the grammar recurses once per
  // bracket and not once per precedence, and chains come out flat.
  void begin_expression();
  void end_expression();
  void prefix(const Token& op);
  void binary(const Token& op);  ///< also `if` and `else`
  void literal(const Token& token);
  void close_group(const Token& closer);  ///< `)` of a parenthesised expression

  // Forms: a head and what stands in its brackets. Also the left sides of definitions and functions.
  void begin_form(const Token& head);
  void end_name();
  void end_subscript(const Token& closer);
  void end_call(const Token& closer);  ///< also casts
  void index(const Token& name);
  void range();
  void guard();
  void body();
  void extra();
  void end_reduction(const Token& closer);

  // Items.
  void use_part(const Token& name);
  void end_use();
  void begin_function(const Token& keyword);
  void parameter(const Token& name);
  void end_function();
  void end_definition();

  void begin_kernel(const Token& keyword);
  void kernel_name(const Token& name);
  void type_variable(const Token& name);
  void declare(const Token& name);  ///< a parameter or result
  void declare_const();
  void declare_type(const Token& type);
  void begin_extents();
  void end_extents(const Token& closer);
  void default_value();
  void end_parameter();
  void end_result();
  void end_kernel(const Token& closer);

  /// Reports a failure at `at` unless the item already has a reported one, drops the unfinished item and gives the
  /// token where the next one can start.
  const Token* recover(const Token* at, const std::string& wanted);
  /// The same inside a kernel's header, which ends at its `{`.
  const Token* recover_header(const Token* at, const std::string& wanted);

 private:
  /// An expression with the span it has for what surrounds it: with its parentheses.
  struct Parsed {
    ast::Expr expr;
    Span span;
  };
  /// An operator that waits for its last operand.
  struct Frame {
    int level = 0;
    Span start;  ///< of the prefix operator or the first operand
    std::vector<ast::Expr> operands;
    std::vector<TokenKind> operators;
    std::vector<Span> operator_spans;
  };
  struct Form {
    Token head;
    std::size_t values = 0;  ///< size of the value stack at its start
    std::vector<ast::Index> indices;
    std::vector<Token> names;
    ast::Expr guard, body, extra;
  };
  struct Declared {
    Token name, type;
    bool is_const = false, is_tensor = false;
    std::size_t values = 0;
    std::vector<ast::Expr> extents;
    ast::Expr default_value;
    Span span;
  };

  std::string text(const Token& token) const { return std::string(reporter_.text(token.span())); }
  template <class Kind>
  ast::Expr make(Kind kind, Span span);
  void push(ast::Expr expr, Span span) { values_.push_back({std::move(expr), span}); }
  Parsed pop();
  std::vector<ast::Expr> pop_from(std::size_t base);
  Form pop_form();
  Parsed close(Frame frame, Parsed last);
  Parsed close_above(int level, Parsed last);
  bool is_type_variable(std::string_view name) const;
  void check_definable(const Token& name);
  void check_extent(const ast::Expr& extent);
  ast::TensorDecl tensor();
  void abandon();
  bool echoes(const Token* from, const Token* at, const Token* to) const;
  void report(const Token* at, const Token* to, const std::string& wanted);

  Reporter& reporter_;
  std::span<const Token> tokens_;
  ast::Module& module_;
  std::size_t nodes_ = 0;
  std::vector<Parsed> values_;
  std::vector<Frame> frames_;
  std::vector<Form> forms_;
  std::vector<Token> path_;  ///< of the `use` being read
  Declared declared_;
  ast::Kernel kernel_;
  bool in_kernel_ = false;
  bool header_failed_ = false;
};

}  // namespace attune::syntax
