// SPDX-License-Identifier: Apache-2.0
// What the tests of the front end share: parsing that must work, expressions out of context, errors as short lines.
#pragma once
#include <fmt/format.h>

#include <string>

#include "syntax/syntax.hpp"
#include "tests/catch.hpp"

namespace attune::test {

inline ast::Module parsed(const std::string& text) {
  INFO(text);
  Result<ast::Module> module = parse(Source("test.attn", text));
  INFO(render(module.diagnostics()));
  REQUIRE(module);
  return *module;
}

/// The expression `text`, read as the body of a function.
inline ast::Expr expression(const std::string& text) {
  ast::Module module = parsed("fn f(x) = (" + text + ")");
  return std::get<ast::FunctionDecl>(module.declarations.at(0)).body;
}

/// A kernel around definitions, so that a test shows only what it is about. The body starts on line 2.
inline std::string kernel(const std::string& body) {
  return "kernel k<T>(x: T[N], y: T[M, N]) -> O: T[N] {\n" + body + "\n}\n";
}

/// One line an error: `code line:column "text under the caret" message | help`.
inline std::string errors(const std::string& text) {
  Source source("test.attn", text);
  Result<ast::Module> module = parse(source);
  std::string out;
  if (module) return "none\n";
  for (const Diagnostic& d : module.diagnostics()) {
    Source::Position p = source.position(d.span.begin);
    out += fmt::format("{} {}:{} \"{}\" {}", d.code, p.line, p.column,
                       source.text().substr(d.span.begin, d.span.end - d.span.begin), d.message);
    for (const Label& label : d.labels) {
      Source::Position at = source.position(label.span.begin);
      out += fmt::format(" | {}:{} {}", at.line, at.column, label.text);
    }
    if (!d.help.empty()) out += fmt::format(" | {}", d.help);
    out += '\n';
  }
  return out;
}

}  // namespace attune::test
