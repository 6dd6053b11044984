// SPDX-License-Identifier: Apache-2.0
// Turns "expected this, found that token" into a finding with the cause and the cure, where one can be guessed.
#pragma once
#include <span>
#include <string_view>

#include "syntax/reporter.hpp"
#include "syntax/token.hpp"

namespace attune::syntax {

/// What the grammar asked for. The texts below are the names of its rules and tokens.
namespace want {
inline constexpr const char* expression = "an expression";
inline constexpr const char* item = "a definition, `fn` or `}`";
inline constexpr const char* declaration = "`use`, `fn` or `kernel`";
inline constexpr const char* item_end = "an operator or the end of the line";
inline constexpr const char* use_end = "`.` or the end of the line";
inline constexpr const char* dtype = "a dtype";
inline constexpr const char* name = "a name";
inline constexpr const char* after_argument = "an operator, `,` or `)`";
inline constexpr const char* after_operand = "an operator or `)`";
inline constexpr const char* after_subscript = "an operator, `,` or `]`";
inline constexpr const char* after_index = "`in`, `where`, `,` or `]`";
inline constexpr const char* after_left_index = "`in`, `,` or `]`";
inline constexpr const char* after_range = "`..`";
inline constexpr const char* after_parameter = "`,` or `)`";
inline constexpr const char* otherwise = "`else`";
inline constexpr const char* arrow = "`->`";
inline constexpr const char* assign = "`=`";
inline constexpr const char* body = "`(`";
inline constexpr const char* subscripts = "`[`";
}  // namespace want

/// Reports that `wanted` was expected at tokens[at].
void report_expected(Reporter& reporter, std::span<const Token> tokens, std::size_t at, std::string_view wanted);

}  // namespace attune::syntax
