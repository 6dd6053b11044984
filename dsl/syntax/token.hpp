// SPDX-License-Identifier: Apache-2.0
// The tokens of the notation: one table of kinds, and the record that the lexer makes and the grammar reads.
#pragma once
#include <attune/source.hpp>
#include <bit>
#include <cstdint>
#include <string_view>

namespace attune::syntax {

// X(kind, spelling as it appears in messages)
#define ATTUNE_TOKENS(X)            \
  X(name, "a name")                 \
  X(reducer, "a reducer")           \
  X(dtype, "a dtype")               \
  X(integer, "an integer")          \
  X(real, "a number")               \
  X(kw_use, "`use`")                \
  X(kw_fn, "`fn`")                  \
  X(kw_kernel, "`kernel`")          \
  X(kw_const, "`const`")            \
  X(kw_in, "`in`")                  \
  X(kw_where, "`where`")            \
  X(kw_if, "`if`")                  \
  X(kw_else, "`else`")              \
  X(kw_and, "`and`")                \
  X(kw_or, "`or`")                  \
  X(kw_not, "`not`")                \
  X(kw_true, "`true`")              \
  X(kw_false, "`false`")            \
  X(kw_inf, "`inf`")                \
  X(kw_extra, "`extra`")            \
  X(plus, "`+`")                    \
  X(minus, "`-`")                   \
  X(star, "`*`")                    \
  X(slash, "`/`")                   \
  X(percent, "`%`")                 \
  X(caret, "`^`")                   \
  X(less, "`<`")                    \
  X(less_equal, "`<=`")             \
  X(greater, "`>`")                 \
  X(greater_equal, "`>=`")          \
  X(equal, "`==`")                  \
  X(not_equal, "`!=`")              \
  X(assign, "`=`")                  \
  X(arrow, "`->`")                  \
  X(comma, "`,`")                   \
  X(colon, "`:`")                   \
  X(dot, "`.`")                     \
  X(dotdot, "`..`")                 \
  X(lparen, "`(`")                  \
  X(rparen, "`)`")                  \
  X(lbracket, "`[`")                \
  X(rbracket, "`]`")                \
  X(lbrace, "`{`")                  \
  X(rbrace, "`}`")                  \
  X(semicolon, "`;`")               \
  X(newline, "the end of the line") \
  X(end, "the end of the text")     \
  X(bad, "a character that is no token")

enum class TokenKind : std::uint8_t {
#define ATTUNE_TOKEN_KIND(kind, text) kind,
  ATTUNE_TOKENS(ATTUNE_TOKEN_KIND)
#undef ATTUNE_TOKEN_KIND
};

/// How messages call a kind: "a name", "`)`", "the end of the line".
constexpr std::string_view describe(TokenKind kind) {
  constexpr std::string_view texts[] = {
#define ATTUNE_TOKEN_TEXT(kind, text) text,
      ATTUNE_TOKENS(ATTUNE_TOKEN_TEXT)
#undef ATTUNE_TOKEN_TEXT
  };
  return texts[static_cast<int>(kind)];
}

/// The enumerator's own word; keywords without their prefix. For `attune show --stage tokens`.
constexpr std::string_view kind_word(TokenKind kind) {
  constexpr std::string_view words[] = {
#define ATTUNE_TOKEN_WORD(kind, text) #kind,
      ATTUNE_TOKENS(ATTUNE_TOKEN_WORD)
#undef ATTUNE_TOKEN_WORD
  };
  std::string_view word = words[static_cast<int>(kind)];
  return word.substr(0, 3) == "kw_" ? std::string_view("keyword") : word;
}

/// A set of kinds, for the grammar's choices of one token.
using TokenSet = std::uint64_t;
template <class... Kinds>
constexpr TokenSet token_set(Kinds... kinds) {
  return ((TokenSet{1} << static_cast<int>(kinds)) | ...);
}
constexpr bool contains(TokenSet set, TokenKind kind) { return (set >> static_cast<int>(kind)) & 1; }
static_assert(static_cast<int>(TokenKind::bad) < 64);

struct Token {
  TokenKind kind = TokenKind::end;
  bool first_on_line = false;
  bool repaired = false;    ///< invented or changed to repair brackets: errors around it are echoes of a reported one
  std::uint32_t begin = 0;  ///< byte range in the text
  std::uint32_t end = 0;
  std::uint32_t match = 0;  ///< of a bracket: the index of its partner
  std::uint64_t bits = 0;   ///< of an integer its value, of a real its bit pattern

  Span span() const { return {begin, end}; }
  double real() const { return std::bit_cast<double>(bits); }
};

}  // namespace attune::syntax
