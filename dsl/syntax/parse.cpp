// SPDX-License-Identifier: Apache-2.0
// The front end in a straight line: text, tokens, arranged tokens, AST; and the token view.
#include <fmt/format.h>

#include "syntax/grammar.hpp"
#include "syntax/layout.hpp"
#include "syntax/lexer.hpp"
#include "syntax/syntax.hpp"

namespace attune {

Result<ast::Module> parse(const Source& source) {
  syntax::Reporter reporter(source);
  if (!syntax::check_length(reporter)) return reporter.take();
  std::vector<syntax::Token> tokens = syntax::arrange(syntax::lex(reporter), reporter);
  if (tokens.empty() || tokens.front().kind == syntax::TokenKind::end) {  // nothing to parse
    if (reporter.failed()) return reporter.take();
  }
  ast::Module module = syntax::parse_tokens(tokens, reporter);
  if (reporter.failed()) return reporter.take();
  return module;
}

Result<std::string> print_tokens(const Source& source) {
  syntax::Reporter reporter(source);
  if (!syntax::check_length(reporter)) return reporter.take();
  std::vector<syntax::Token> tokens = syntax::arrange(syntax::lex(reporter), reporter);
  if (reporter.failed()) return reporter.take();
  std::string out;
  for (const syntax::Token& token : tokens) {
    Source::Position position = source.position(token.begin);
    out += fmt::format("{}:{} {}", position.line, position.column, syntax::kind_word(token.kind));
    if (token.kind != syntax::TokenKind::newline && token.kind != syntax::TokenKind::end)
      out += fmt::format(" {}", reporter.text(token.span()));
    out += '\n';
  }
  return out;
}

}  // namespace attune
