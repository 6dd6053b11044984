// SPDX-License-Identifier: Apache-2.0
// Item ends, bracket pairs, nesting: what the grammar needs to know that is not context-free or must be bounded first.
#include "syntax/layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "syntax/syntax.hpp"
#include "syntax/words.hpp"

namespace attune::syntax {
namespace {

using K = TokenKind;

/// A line that ends in one of these goes on in the next.
constexpr TokenSet continues =
    token_set(K::assign, K::comma, K::arrow, K::colon, K::dotdot, K::plus, K::minus, K::star, K::slash, K::percent,
              K::caret, K::less, K::less_equal, K::greater, K::greater_equal, K::equal, K::not_equal, K::kw_and,
              K::kw_or, K::kw_not, K::kw_if, K::kw_else, K::kw_in, K::kw_where);
/// After these no item is open, so a newline says nothing.
constexpr TokenSet between_items = token_set(K::newline, K::semicolon, K::lbrace, K::rbrace);
constexpr TokenSet operand_ends = token_set(K::name, K::reducer, K::dtype, K::integer, K::real, K::kw_true, K::kw_false,
                                            K::kw_inf, K::rparen, K::rbracket, K::bad);

constexpr K closer_of(K opener) {
  return opener == K::lparen ? K::rparen : opener == K::lbracket ? K::rbracket : K::rbrace;
}

// ---- pairs and newlines -----------------------------------------------------------------------
class Pairing {
 public:
  Pairing(const std::vector<Token>& in, Reporter& reporter) : in_(in), reporter_(reporter) {}

  std::vector<Token> run() {
    out_.reserve(in_.size() + in_.size() / 4);
    for (at_ = 0; at_ < in_.size(); ++at_) {
      const Token& token = in_[at_];
      if (token.first_on_line) start_of_line(token);
      place(token);
    }
    return std::move(out_);
  }

 private:
  void start_of_line(const Token& token) {
    bool item_word = token.kind == K::kw_fn || token.kind == K::kw_use || token.kind == K::kw_kernel;
    if (!open_.empty() && (item_word || starts_definition())) unclosed(token, true);
    if (brace_ && (token.kind == K::kw_use || token.kind == K::kw_kernel)) unclosed_brace();
    if (item_word) header_ = false;
    if (out_.empty() || !open_.empty() || header_) return;
    const Token& previous = out_.back();
    if (contains(continues | between_items, previous.kind) || token.kind == K::end) return;
    Token newline;
    newline.kind = K::newline;
    newline.begin = previous.end;
    newline.end = previous.end + 1;
    out_.push_back(newline);
  }

  void place(Token token) {
    switch (token.kind) {
      case K::kw_kernel: header_ = !brace_; break;
      case K::semicolon:
      case K::arrow:
        if (!open_.empty()) unclosed(token);
        break;
      case K::lparen:
      case K::lbracket:
        open_parentheses_ += token.kind == K::lparen;
        open_.push_back(out_.size());
        break;
      case K::rparen:
      case K::rbracket: close(token); break;
      case K::lbrace:
        if (!open_.empty()) unclosed(token);
        header_ = false;
        if (!brace_)
          brace_ = out_.size() + 1;
        else
          inner_braces_.push_back(out_.size());
        break;
      case K::rbrace:
        if (!open_.empty()) unclosed(token);
        close_brace(token);
        break;
      case K::end:
        if (!open_.empty()) unclosed(token);
        if (brace_) unclosed_brace();
        break;
      default: break;
    }
    out_.push_back(token);
  }

  /// Whether `name[...] =` stands here: inside brackets that is the sign of one forgotten before.
  bool starts_definition() const {
    constexpr std::size_t far = 64;  // tokens looked at, so that hostile text stays linear
    if (in_[at_].kind != K::name || in_[at_ + 1].kind != K::lbracket) return false;
    int depth = 0;
    for (std::size_t i = at_ + 1; i < std::min(in_.size(), at_ + far); ++i) {
      if (in_[i].kind == K::lbracket) ++depth;
      if (in_[i].kind == K::rbracket && --depth == 0) return in_[i + 1].kind == K::assign;
    }
    return false;
  }

  void link(std::size_t opener, Token& closer, std::size_t closer_at) {
    out_[opener].match = static_cast<std::uint32_t>(closer_at);
    closer.match = static_cast<std::uint32_t>(opener);
  }

  void pop_open() {
    open_parentheses_ -= out_[open_.back()].kind == K::lparen;
    open_.pop_back();
  }

  void insert_closer(std::size_t opener) {
    Token closer;
    closer.kind = closer_of(out_[opener].kind);
    closer.repaired = true;
    closer.begin = closer.end = out_.back().end;
    link(opener, closer, out_.size());
    out_.push_back(closer);
  }

  Label opened_here(std::size_t opener) const {
    return {out_[opener].span(), fmt::format("{} is opened here", describe(out_[opener].kind))};
  }

  /// The item ends at `token` with brackets open: one finding for the innermost, the others as labels.
  void unclosed(const Token& token, bool starts_item = false) {
    std::size_t opener = open_.back();
    K wanted = closer_of(out_[opener].kind);
    Span last = out_.back().span();
    Diagnostic& d = reporter_.error(
        "A0110", last,
        fmt::format("expected {}, found {}", describe(wanted),
                    token.first_on_line && token.kind != K::end ? describe(K::newline) : describe(token.kind)),
        fmt::format("{} is missing after this", describe(wanted)));
    d.labels.push_back(opened_here(opener));
    for (std::size_t i = open_.size() - 1; i-- > 0 && d.labels.size() < 4;) d.labels.push_back(opened_here(open_[i]));
    if (starts_item) d.labels.push_back({token.span(), "the next item starts here"});
    while (!open_.empty()) {
      insert_closer(open_.back());
      pop_open();
    }
  }

  void unclosed_brace() {
    std::size_t opener = *brace_ - 1;
    Diagnostic& d = reporter_.error("A0110", out_.back().span(), "expected `}` at the end of the kernel",
                                    "`}` is missing after this");
    d.labels.push_back(opened_here(opener));
    while (!inner_braces_.empty()) {
      insert_closer(inner_braces_.back());
      inner_braces_.pop_back();
    }
    insert_closer(opener);
    brace_.reset();
  }

  void close(Token& token) {
    auto fits = [&](std::size_t opener) { return closer_of(out_[opener].kind) == token.kind; };
    if (open_.empty()) {
      reporter_.error("A0111", token.span(), fmt::format("{} closes nothing", describe(token.kind)),
                      "no bracket is open here", "remove it, or add the bracket that it should close");
      token.kind = K::bad;
      return;
    }
    bool fits_an_outer = (token.kind == K::rparen ? open_parentheses_ : open_.size() - open_parentheses_) > 0;
    if (!fits(open_.back())) {
      std::size_t opener = open_.back();
      K wanted = closer_of(out_[opener].kind);
      Diagnostic& d =
          fits_an_outer
              ? reporter_.error("A0110", token.span(),
                                fmt::format("expected {}, found {}", describe(wanted), describe(token.kind)),
                                fmt::format("{} is missing before this", describe(wanted)))
              : reporter_.error("A0111", token.span(),
                                fmt::format("{} does not close {}", describe(token.kind), describe(out_[opener].kind)),
                                fmt::format("expected {}", describe(wanted)));
      d.labels.push_back(opened_here(opener));
      if (!fits_an_outer) {
        token.kind = wanted;
        token.repaired = true;
      }
      while (!fits(open_.back())) {
        insert_closer(open_.back());
        pop_open();
      }
    }
    link(open_.back(), token, out_.size());
    pop_open();
  }

  void close_brace(Token& token) {
    if (!inner_braces_.empty()) {
      link(inner_braces_.back(), token, out_.size());
      inner_braces_.pop_back();
    } else if (brace_) {
      link(*brace_ - 1, token, out_.size());
      brace_.reset();
    } else {
      reporter_.error("A0111", token.span(), "`}` closes nothing", "no kernel is open here",
                      "remove it, or add the `{` that it should close");
      token.kind = K::bad;
    }
  }

  const std::vector<Token>& in_;
  Reporter& reporter_;
  std::vector<Token> out_;
  std::size_t at_ = 0;
  std::vector<std::size_t> open_;          ///< ( and [ that are open, as indices into out_
  std::size_t open_parentheses_ = 0;       ///< how many of them are (
  std::optional<std::size_t> brace_;       ///< 1 + index of the kernel's {
  std::vector<std::size_t> inner_braces_;  ///< { inside a kernel: an error, but they pair
  bool header_ = false;                    ///< between `kernel` and its {
};

// ---- leading keywords -------------------------------------------------------------------------
struct Synonym {
  std::string_view word, instead;
};
constexpr Synonym synonyms[] = {{"def", "fn"},      {"func", "fn"},     {"fun", "fn"},
                                {"function", "fn"}, {"import", "use"},  {"using", "use"},
                                {"from", "use"},    {"include", "use"}, {"program", "kernel"}};
constexpr std::string_view declarators[] = {"let", "var", "auto", "tensor", "out", "output"};
/// Statements of other languages: there is nothing to go on with in their line.
constexpr std::pair<std::string_view, const char*> statements[] = {
    {"return", "the results are the definitions that the header names after `->`: `O[i] = ...`"},
    {"for", "there are no loops: an index takes all of its values, `O[i] = X[i]`; sum over one with `sum[j](...)`"},
    {"while", "there are no loops: sum over an index with `sum[j](...)`, or run along one with `cumsum[j](...)`"}};

/// An item that starts with two names is led by a misspelt or foreign keyword: say so once and go on with the right
/// one.
void repair_keywords(std::vector<Token>& tokens, Reporter& reporter) {
  bool in_kernel = false;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    Token& token = tokens[i];
    if (token.kind == K::lbrace) in_kernel = true;
    if (token.kind == K::rbrace) in_kernel = false;
    bool first = i == 0 || contains(between_items, tokens[i - 1].kind);
    if (first && token.kind == K::name && i + 1 < tokens.size() && tokens[i + 1].kind == K::name) {
      std::string word(reporter.text(token.span()));
      const auto* statement = std::find_if(std::begin(statements), std::end(statements),
                                           [&](const auto& entry) { return in_kernel && entry.first == word; });
      if (statement != std::end(statements)) {
        reporter.error("A0114", token.span(), fmt::format("`{}` is not a keyword", word), "not part of the notation",
                       statement->second);
        // The line is left out; its brackets are in pairs, or have been reported.
        for (std::size_t depth = 0; i < tokens.size() && tokens[i].kind != K::end; ++i) {
          if (depth == 0 && (tokens[i].kind == K::newline || tokens[i].kind == K::rbrace)) break;
          if (tokens[i].kind == K::lbrace) ++depth;
          if (tokens[i].kind == K::rbrace) --depth;
          tokens[i].kind = K::newline;
        }
        --i;
        continue;
      }
      std::string instead;
      for (const Synonym& s : synonyms)
        if (s.word == word && (!in_kernel || s.instead == "fn")) instead = s.instead;
      if (instead.empty())
        instead = did_you_mean(
            word, in_kernel ? std::vector<std::string>{"fn"} : std::vector<std::string>{"kernel", "use", "fn"});
      if (!instead.empty()) {
        reporter.error("A0114", token.span(), fmt::format("`{}` is not a keyword", word), "expected a keyword",
                       fmt::format("did you mean `{}`?", instead));
        token.kind = instead == "fn" ? K::kw_fn : instead == "use" ? K::kw_use : K::kw_kernel;
      } else if (in_kernel &&
                 std::find(std::begin(declarators), std::end(declarators), word) != std::end(declarators)) {
        reporter.error("A0114", token.span(), fmt::format("`{}` is not a keyword", word), "remove this",
                       "a definition has no keyword: `S[i, j] = ...`");
        token.kind = K::newline;  // an empty item in its place keeps all indices valid
      }
    }
  }
}

void mark_reducers(std::vector<Token>& tokens, Reporter& reporter) {
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i)
    if (tokens[i].kind == K::name && tokens[i + 1].kind == K::lbracket &&
        ast::parse_reducer(reporter.text(tokens[i].span())))
      tokens[i].kind = K::reducer;
}

// ---- nesting ----------------------------------------------------------------------------------
/// What one bracket pair (or the top of an item) holds open: each counts one level until its operand ends.
struct Level {
  int conditionals = 0;  ///< `else` branches: to the end of the expression
  int negations = 0;     ///< `not`: to the next `and`, `or`, `if`, `else`
  int unaries = 0;       ///< `-` and `^`: to the next operator of lower precedence
  int total() const { return conditionals + negations + unaries; }
};

void limit_nesting(std::vector<Token>& tokens, Reporter& reporter) {
  std::vector<Level> levels(1);
  int depth = 0;  // open brackets and the totals of all levels
  bool reported = false;
  auto reset = [&](Level to) {
    depth += to.total() - levels.back().total();
    levels.back() = to;
  };
  K previous = K::newline;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    Token& token = tokens[i];
    Level level = levels.back();
    switch (token.kind) {
      case K::lparen:
      case K::lbracket:
        ++depth;
        levels.emplace_back();
        break;
      case K::rparen:
      case K::rbracket:
        if (levels.size() == 1) break;
        reset({});
        levels.pop_back();
        --depth;
        break;
      case K::minus:
        if (contains(operand_ends, previous))
          level.unaries = 0;
        else
          ++level.unaries;
        reset(level);
        break;
      case K::caret:
        ++level.unaries;
        reset(level);
        break;
      case K::kw_not:
        ++level.negations;
        reset(level);
        break;
      case K::plus:
      case K::star:
      case K::slash:
      case K::percent:
      case K::less:
      case K::less_equal:
      case K::greater:
      case K::greater_equal:
      case K::equal:
      case K::not_equal:
        level.unaries = 0;
        reset(level);
        break;
      case K::kw_and:
      case K::kw_or:
      case K::kw_if: reset({level.conditionals, 0, 0}); break;
      case K::kw_else: reset({level.conditionals + 1, 0, 0}); break;
      case K::comma:
      case K::kw_where:
      case K::kw_in:
      case K::dotdot:
      case K::assign: reset({}); break;
      case K::newline:
      case K::semicolon:
      case K::lbrace:
      case K::rbrace:
        levels.assign(1, {});
        depth = 0;
        reported = false;
        break;
      default: break;
    }
    previous = token.kind;
    if (depth <= max_nesting || reported) continue;
    reported = true;
    reporter.error("A0112", token.span(), fmt::format("the expression nests deeper than {} levels", max_nesting),
                   "one level too many", "name a part of it as a definition or function");
    token.kind = K::bad;
  }
}

}  // namespace

std::vector<Token> arrange(const std::vector<Token>& tokens, Reporter& reporter) {
  std::vector<Token> arranged = Pairing(tokens, reporter).run();
  repair_keywords(arranged, reporter);
  mark_reducers(arranged, reporter);
  limit_nesting(arranged, reporter);
  return arranged;
}

}  // namespace attune::syntax
