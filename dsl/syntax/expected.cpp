// SPDX-License-Identifier: Apache-2.0
// The messages of the parser: what was expected and found, why that is probably so, and what to write instead.
#include "syntax/expected.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "syntax/words.hpp"

namespace attune::syntax {
namespace {

using K = TokenKind;

constexpr TokenSet reserved_words =
    token_set(K::kw_use, K::kw_fn, K::kw_kernel, K::kw_const, K::kw_in, K::kw_where, K::kw_if, K::kw_else, K::kw_and,
              K::kw_or, K::kw_not, K::kw_true, K::kw_false, K::kw_inf, K::kw_extra, K::dtype);
constexpr TokenSet operators =
    token_set(K::plus, K::minus, K::star, K::slash, K::percent, K::caret, K::less, K::less_equal, K::greater,
              K::greater_equal, K::equal, K::not_equal, K::kw_and, K::kw_or);
constexpr TokenSet operands = token_set(K::name, K::integer, K::real, K::reducer, K::dtype);
constexpr const char* line_rule =
    "a line goes on in the next one where it ends in an operator, `,` or `=`, or in brackets";

struct Failure {
  Reporter& reporter;
  std::span<const Token> tokens;
  std::size_t at;
  std::string_view wanted;

  const Token& found() const { return tokens[at]; }
  const Token& before(std::size_t back = 1) const {
    static const Token none{K::newline, false, false, 0, 0, 0, 0};
    return at >= back ? tokens[at - back] : none;
  }
  const Token& after(std::size_t ahead = 1) const {
    return at + ahead < tokens.size() ? tokens[at + ahead] : tokens.back();
  }
  std::string text(const Token& token) const { return std::string(reporter.text(token.span())); }
  bool wants(const char* what) const { return wanted == what; }
  /// The grammar had an expression and asked how it goes on or ends.
  bool wants_continuation() const {
    return wanted.substr(0, 11) == "an operator" || wants(want::after_index) || wants(want::after_left_index);
  }
  std::string found_text() const {
    const Token& t = found();
    if (t.repaired) return std::string(describe(K::newline));
    if (t.kind == K::newline || t.kind == K::end || t.kind == K::bad) return std::string(describe(t.kind));
    return fmt::format("`{}`", text(t));
  }
};

/// Where the caret goes: under the token, or under the last one before where the text or line just ends.
Span place(const Failure& f) {
  const Token& found = f.found();
  bool ends = found.kind == K::newline || found.kind == K::end || found.repaired;
  if (!ends || f.at == 0) return found.span();
  return f.before().span();
}

std::string misspelt(const Failure& f, std::vector<std::string> candidates) {
  if (f.found().kind != K::name) return "";
  std::string meant = did_you_mean(f.text(f.found()), candidates);
  return meant.empty() ? "" : fmt::format("did you mean `{}`?", meant);
}

std::string help_for_item(const Failure& f) {
  const Token& found = f.found();
  if (contains(operators, found.kind))
    return fmt::format("to go on with the line before, end that line with `{}`", f.text(found));
  if (found.kind == K::dot) return "a dotted path stands on one line: `use std.masks`";
  if (f.wants(want::declaration)) {
    if (found.kind == K::name || found.kind == K::reducer) {
      if (f.after().kind == K::lbracket) return "a definition stands inside the braces of a `kernel`";
      if (f.after().kind == K::lparen)
        return "a function is written `fn name(x) = ...`, a kernel `kernel name(...) -> ... { ... }`";
    }
    return misspelt(f, {"use", "fn", "kernel"});
  }
  if (found.kind == K::kw_use) return "`use` stands outside of kernels";
  if (found.kind == K::kw_kernel) return "kernels do not nest; close the one before with `}`";
  return "a definition is written `S[i, j] = ...`, a scalar one `s[] = ...`";
}

std::string help_for_expression(const Failure& f) {
  K found = f.found().kind, before = f.before().kind;
  if (found == K::kw_not) return "put `not` and its condition in parentheses: `a == (not b)`";
  if (before == K::comma && (found == K::rparen || found == K::rbracket)) return "remove the `,` before it";
  if (before == K::lparen && found == K::rparen) return "an expression is missing in the parentheses";
  if (found == K::dtype) return "";
  if (found == K::kw_where) return "`where` stands in a reduction's brackets: `sum[j where p](x)`";
  if (found == K::kw_if) return "a choice is written `a if condition else b`";
  if (found == K::lbracket) return "a subscript follows a name: `x[i, j]`; there are no lists";
  if (found == K::lbrace) return "braces hold a kernel's body; group with `(` and `)`";
  if (found == K::plus) return "there is no unary `+`";
  if (found == K::assign && contains(operators, before)) return "an equality is written `==`";
  return "";
}

/// `name[...](`: a misspelt reducer, or a product.
std::string help_for_reducer(const Failure& f) {
  std::size_t open = f.at, depth = 0;
  while (open-- > 0) {
    if (f.tokens[open].kind == K::rbracket) ++depth;
    if (f.tokens[open].kind == K::lbracket && --depth == 0) break;
  }
  if (open > 0 && open < f.at && f.tokens[open - 1].kind == K::name) {
    std::vector<std::string> reducers(std::begin(ast::reducer_words), std::end(ast::reducer_words));
    if (std::string meant = did_you_mean(f.text(f.tokens[open - 1]), reducers); !meant.empty())
      return fmt::format("did you mean `{}`?", meant);
  }
  return "only reducers have brackets before parentheses, such as `sum[j](x)`; a product is written with `*`";
}

std::string help_for_continuation(const Failure& f) {
  const Token& found = f.found();
  K before = f.before().kind;
  switch (found.kind) {
    case K::assign: return "an equality is written `==`";
    case K::kw_where: return "`where` stands in a reduction's brackets: `sum[j where p](x)`";
    case K::kw_else: return "a choice is written `a if condition else b`";
    case K::kw_if: return "put the inner choice in parentheses: `a if (b if p else c) else d`";
    case K::colon:
      return f.wants(want::after_index) || f.wants(want::after_left_index) || f.wants(want::after_subscript)
                 ? "a range is written `j in 0..N`"
                 : "";
    case K::dotdot: return "a range stands in the brackets of a definition or reduction: `j in 0..N`";
    case K::dot: return "names have no members; `use` takes a dotted path";
    case K::lbracket:
      if (before == K::rbracket) return "several subscripts stand in one pair of brackets: `x[i, j]`";
      return "only a name can be subscripted";
    case K::lparen:
      if (before == K::integer || before == K::real || before == K::rparen) return "a product is written with `*`";
      if (before == K::rbracket) return help_for_reducer(f);
      return "";
    case K::kw_not: return "write `and not` or `or not`";
    case K::kw_in: return "a range stands in the brackets of a definition or reduction: `j in 0..N`";
    case K::lbrace: return "braces hold a kernel's body; group with `(` and `)`";
    default: break;
  }
  if (std::string meant = misspelt(f, {"and", "or", "if", "else", "where", "in"}); !meant.empty()) return meant;
  if (contains(operands, found.kind) &&
      contains(token_set(K::integer, K::real, K::rparen, K::rbracket, K::name), before))
    return f.wants(want::item_end) ? "write an operator between them (a product is `a * b`), or start a new line"
                                   : "write an operator between them, or a `,`; a product is `a * b`";
  return "";
}

std::string help_for_header(const Failure& f) {
  K found = f.found().kind;
  if (f.wants(want::arrow)) {
    if (found == K::colon) return "results follow `->`: `kernel f(...) -> O: f32[M] { ... }`";
    if (found == K::lbrace) return "a kernel states its results before the `{`: `-> O: T[B, H, M, E]`";
    if (found == K::minus && f.after().kind == K::greater) return "write `->` without a blank";
    return "results are written `-> O: T[B, H, M, E]`";
  }
  if (f.wants("`:`")) return "a parameter or result is written `Q: f16[B, H, M, D]` or `scale: f32`";
  if (f.wants("`{`")) return "the kernel's definitions stand in braces";
  if (f.wants(want::after_parameter)) {
    if (found == K::lbracket) return "a tensor cannot be `const`; only scalars can";
    if (found == K::assign) return "only a scalar has a default value";
    if (found == K::name) return "parameters are separated by `,`";
  }
  if (f.wants(want::dtype) && found == K::kw_const) return "a result cannot be `const`";
  if (f.wants(want::dtype)) return "a type is a dtype such as `f32` or a type variable: `kernel f<T>(Q: T[M, D])`";
  return "";
}

std::string help(const Failure& f) {
  K found = f.found().kind;
  if (f.wants(want::item) || f.wants(want::declaration)) return help_for_item(f);
  if (f.wants(want::expression)) {
    if (std::string text = help_for_expression(f); !text.empty()) return text;
  }
  if (f.wants_continuation())
    if (std::string text = help_for_continuation(f); !text.empty()) return text;
  if (std::string text = help_for_header(f); !text.empty()) return text;
  if (f.wants(want::assign)) {
    if (found == K::equal) return "a definition is written with one `=`; `==` compares";
    if (found == K::arrow) return "a function has no result type: `fn f(x) = ...`";
    if (found == K::lbrace) return "the body of a function is one expression: `fn f(x) = ...`";
    if (found == K::colon) return "a definition takes its type from its right-hand side";
    if (found == K::lparen && f.before().kind == K::rbracket) return "a definition is written `S[i, j] = ...`";
    if (found == K::newline) return line_rule;
  }
  if (f.wants(want::otherwise) && found == K::assign) return "an equality is written `==`";
  if (f.wants(want::otherwise)) return "a choice needs both branches: `a if condition else b`";
  if (f.wants(want::subscripts)) {
    if (found == K::assign) return fmt::format("a scalar definition is written `{}[] = ...`", f.text(f.before()));
    if (found == K::lparen) return fmt::format("a function is written `fn {}(...) = ...`", f.text(f.before()));
    if (f.before().kind == K::dtype || f.before().kind == K::name)
      return "a result is a tensor; a scalar one is written `f32[]`";
  }
  if (f.wants(want::body) && f.before().kind == K::rbracket)
    return "a reduction's body stands in parentheses: `sum[j](x)`";
  if (f.wants("`(`") && f.before().kind == K::dtype) return "a dtype in an expression is a cast: `f32(x)`";
  if (f.wants("`extra`")) return "a reduction has one body; extra terms are written `softmax[j](s, extra = t)`";
  if (f.wants(want::after_range) && found == K::colon) return "a range is written `0..N`";
  if (found == K::newline && !f.wants(want::item_end)) return line_rule;
  return "";
}

}  // namespace

void report_expected(Reporter& reporter, std::span<const Token> tokens, std::size_t at, std::string_view wanted) {
  Failure f{reporter, tokens, at, wanted};
  const Token& found = f.found();
  bool wants_name = f.wants(want::name);
  if (wants_name && contains(reserved_words, found.kind)) {
    std::string word = f.text(found);
    reporter.error("A0116", found.span(), fmt::format("`{}` is a reserved word and cannot be a name", word),
                   "expected a name", fmt::format("choose another name, such as `{}_`", word));
    return;
  }
  bool closes_line = found.kind == K::newline || found.kind == K::end || found.repaired;
  const char* code = "A0115";
  if (f.wants(want::item) || f.wants(want::declaration))
    code = "A0120";
  else if (f.wants_continuation() && found.kind == K::assign)
    code = "A0121";
  else if (f.wants(want::assign) && found.kind == K::equal)
    code = "A0121";
  else if (f.wants(want::arrow))
    code = "A0122";
  else if (f.wants(want::otherwise))
    code = found.kind == K::assign ? "A0121" : "A0123";
  reporter.error(code, place(f), fmt::format("expected {}, found {}", wanted, f.found_text()),
                 closes_line ? fmt::format("expected {} after this", wanted) : fmt::format("expected {}", wanted),
                 help(f));
}

}  // namespace attune::syntax
