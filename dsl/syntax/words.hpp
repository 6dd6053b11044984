// SPDX-License-Identifier: Apache-2.0
// The words of the notation: reducers and built-in functions, for the parser, the printer and name checks.
#pragma once
#include <iterator>
#include <optional>
#include <string_view>

#include "syntax/ast.hpp"

namespace attune::ast {

/// In the order of the enumeration Reducer.
inline constexpr std::string_view reducer_words[] = {"sum", "max",       "min",    "mean",    "prod",  "any",
                                                     "all", "logsumexp", "argmax", "softmax", "cumsum"};
inline constexpr std::string_view function_words[] = {
    "abs",  "exp",  "exp2", "log",      "log2",  "sqrt", "rsqrt", "sin", "cos", "tanh",  "sigmoid", "silu",
    "relu", "gelu", "erf",  "softplus", "floor", "ceil", "round", "min", "max", "clamp", "rand"};

constexpr std::string_view word(Reducer reducer) { return reducer_words[static_cast<int>(reducer)]; }

constexpr std::optional<Reducer> parse_reducer(std::string_view text) {
  for (int i = 0; i < static_cast<int>(std::size(reducer_words)); ++i)
    if (reducer_words[i] == text) return static_cast<Reducer>(i);
  return std::nullopt;
}

/// Whether `text(` is a built-in function.
constexpr bool is_function_word(std::string_view text) {
  for (std::string_view known : function_words)
    if (known == text) return true;
  return false;
}

}  // namespace attune::ast
