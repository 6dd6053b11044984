// SPDX-License-Identifier: Apache-2.0
// The entry points of the front end: text -> tokens -> AST -> text.
#pragma once
#include <attune/diagnostic.hpp>

#include "syntax/ast.hpp"

namespace attune {

/// Limits for untrusted text (language.md, rule 21).
inline constexpr std::size_t max_text_bytes = std::size_t{1} << 20;
inline constexpr int max_nesting = 256;
inline constexpr std::size_t max_nodes = 100'000;

/// Text to AST. Reports every independent syntax error of the text (recovery at item ends).
Result<ast::Module> parse(const Source& source);

/// Canonical text; parse(print(m)) == m. Indices, spans and comments are not kept.
std::string print(const ast::Module& module);
std::string print(const ast::Kernel& kernel);
std::string print(const ast::Expr& expr);
/// The lexer's view, one token a line: `line:column kind text` (`attune show --stage tokens`).
Result<std::string> print_tokens(const Source& source);
/// The tree, indented, one node a line (`attune show --stage ast`).
std::string print_tree(const ast::Module& module);

}  // namespace attune
