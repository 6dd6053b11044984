// SPDX-License-Identifier: Apache-2.0
// Tokens to tokens: which newlines end an item, which bracket closes which, and how deep the text nests.
#pragma once
#include <vector>

#include "syntax/reporter.hpp"
#include "syntax/token.hpp"

namespace attune::syntax {

/// Adds `newline` tokens where a newline ends an item, pairs brackets (Token::match), marks reducers, repairs misspelt
/// leading keywords. In the result all brackets are balanced within their item and no expression nests deeper than
/// max_nesting: the token that would go deeper is of kind `bad`, so the grammar stops there.
std::vector<Token> arrange(const std::vector<Token>& tokens, Reporter& reporter);

}  // namespace attune::syntax
