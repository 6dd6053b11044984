// SPDX-License-Identifier: Apache-2.0
// Text to tokens. Knows characters, not lines or brackets: layout.hpp does those.
#pragma once
#include <vector>

#include "syntax/reporter.hpp"
#include "syntax/token.hpp"

namespace attune::syntax {

/// The tokens of the reporter's source, the last of kind `end`. Never fails: what is no token is reported and
/// becomes the token that was meant where that is clear (`&&` becomes `and`), else one of kind `bad`.
std::vector<Token> lex(Reporter& reporter);

/// Whether the text is short enough to look at, and reports it where not.
bool check_length(Reporter& reporter);

}  // namespace attune::syntax
