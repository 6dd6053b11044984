// SPDX-License-Identifier: Apache-2.0
// Tokens to AST by the X3 grammar; the header is free of Boost.
#pragma once
#include <vector>

#include "syntax/ast.hpp"
#include "syntax/reporter.hpp"
#include "syntax/token.hpp"

namespace attune::syntax {

/// Parses arranged tokens (layout.hpp). Items with errors are reported and left out of the module.
ast::Module parse_tokens(const std::vector<Token>& tokens, Reporter& reporter);

}  // namespace attune::syntax
