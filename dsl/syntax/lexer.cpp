// SPDX-License-Identifier: Apache-2.0
// The hand-written lexer: characters to tokens, with a finding for everything that is none.
#include "syntax/lexer.hpp"

#include <fmt/format.h>

#include <attune/dtype.hpp>
#include <charconv>
#include <cmath>
#include <string>
#include <unordered_map>

#include "syntax/syntax.hpp"

namespace attune::syntax {
namespace {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_hex_digit(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
constexpr bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
constexpr bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }
constexpr bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

/// One decoded character; length 0 where the bytes are no UTF-8.
struct Character {
  std::uint32_t code = 0;
  std::uint32_t length = 0;
};

Character decode(std::string_view text, std::size_t at) {
  auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  std::uint32_t lead = byte(at);
  if (lead < 0x80) return {lead, 1};
  std::uint32_t length = lead >= 0xF0 && lead <= 0xF4  ? 4
                         : lead >= 0xE0 && lead < 0xF0 ? 3
                         : lead >= 0xC2 && lead < 0xE0 ? 2
                                                       : 0;
  if (length == 0) return {};
  std::uint32_t code = lead & (0xFFu >> (length + 1));
  for (std::uint32_t i = 1; i < length; ++i) {
    std::uint32_t next = byte(at + i);
    if ((next & 0xC0) != 0x80) return {};
    code = code << 6 | (next & 0x3F);
  }
  bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (overlong || surrogate || code > 0x10FFFF) return {};
  return {code, length};
}

constexpr bool is_control(std::uint32_t code) { return code < 0x20 || (code >= 0x7F && code < 0xA0); }

/// Characters that a word processor or a paper uses, and what the notation writes instead.
struct Lookalike {
  std::uint32_t code;
  const char* instead;
  TokenKind kind;  ///< the token it stands for; `bad` where none does, `newline` for a blank
};
constexpr Lookalike lookalikes[] = {
    {0x00D7, "*", TokenKind::star},          {0x00B7, "*", TokenKind::star},
    {0x2217, "*", TokenKind::star},          {0x22C5, "*", TokenKind::star},
    {0x2212, "-", TokenKind::minus},         {0x2013, "-", TokenKind::minus},
    {0x2014, "-", TokenKind::minus},         {0x00F7, "/", TokenKind::slash},
    {0x2264, "<=", TokenKind::less_equal},   {0x2265, ">=", TokenKind::greater_equal},
    {0x2260, "!=", TokenKind::not_equal},    {0x2192, "->", TokenKind::arrow},
    {0x2227, "and", TokenKind::kw_and},      {0x2228, "or", TokenKind::kw_or},
    {0x00AC, "not", TokenKind::kw_not},      {0x221E, "inf", TokenKind::kw_inf},
    {0x2208, "in", TokenKind::kw_in},        {0x2026, "..", TokenKind::dotdot},
    {0x2211, "sum[j](...)", TokenKind::bad}, {0x03A3, "sum[j](...)", TokenKind::bad},
    {0x221A, "sqrt(...)", TokenKind::bad},   {0x00A0, " ", TokenKind::newline},
    {0x200B, "", TokenKind::newline},        {0xFEFF, "", TokenKind::newline},
};
const Lookalike* find_lookalike(std::uint32_t code) {
  for (const Lookalike& l : lookalikes)
    if (l.code == code) return &l;
  return nullptr;
}

/// Operators of other languages and what they become here.
struct Foreign {
  std::string_view spelling;
  TokenKind kind;
  const char* help;
};
constexpr Foreign foreign_operators[] = {
    {"...", TokenKind::dotdot, "a half-open range is written `lo..hi`"},
    {"..=", TokenKind::dotdot, "ranges are half-open: write `lo..hi + 1`"},
    {":=", TokenKind::assign, "a definition is written with `=`"},
    {"&&", TokenKind::kw_and, "write `and`"},
    {"||", TokenKind::kw_or, "write `or`"},
    {"=>", TokenKind::greater_equal, "write `>=` to compare, `->` before the results of a kernel"},
    {"=<", TokenKind::less_equal, "write `<=`"},
    {"<>", TokenKind::not_equal, "write `!=`"},
    {"+=", TokenKind::assign, "a definition is written once, with `=`; sum over an index with `sum[j](...)`"},
    {"-=", TokenKind::assign, "a definition is written once, with `=`"},
    {"*=", TokenKind::assign, "a definition is written once, with `=`; multiply over an index with `prod[j](...)`"},
    {"/=", TokenKind::assign, "a definition is written once, with `=`"},
    {"**", TokenKind::caret, "a power is written `x^2`"},
    {"//", TokenKind::slash, "`/` on integers rounds down already; a comment starts with `#`"},
};

const std::unordered_map<std::string_view, TokenKind>& keywords() {
  static const std::unordered_map<std::string_view, TokenKind> table = [] {
    std::unordered_map<std::string_view, TokenKind> t = {
        {"use", TokenKind::kw_use},     {"fn", TokenKind::kw_fn},     {"kernel", TokenKind::kw_kernel},
        {"const", TokenKind::kw_const}, {"in", TokenKind::kw_in},     {"where", TokenKind::kw_where},
        {"if", TokenKind::kw_if},       {"else", TokenKind::kw_else}, {"and", TokenKind::kw_and},
        {"or", TokenKind::kw_or},       {"not", TokenKind::kw_not},   {"true", TokenKind::kw_true},
        {"false", TokenKind::kw_false}, {"inf", TokenKind::kw_inf},   {"extra", TokenKind::kw_extra}};
    for (DType type : all_dtypes) t.emplace(name(type), TokenKind::dtype);
    return t;
  }();
  return table;
}

class Lexer {
 public:
  explicit Lexer(Reporter& reporter) : reporter_(reporter), text_(reporter.source().text()) {}

  std::vector<Token> run() {
    tokens_.reserve(text_.size() / 3 + 2);
    if (text_.substr(0, 3) == "\xEF\xBB\xBF") at_ = 3;
    if (text_.substr(0, 2) == "\xFF\xFE" || text_.substr(0, 2) == "\xFE\xFF") {
      at_ = 2;
      reporter_.error("A0102", since(0), "the text is UTF-16", "a byte-order mark of UTF-16", "save the file as UTF-8");
      at_ = text_.size();  // every second byte would be one more finding
    }
    while (at_ < text_.size() && foreign_bytes_ < most_foreign_bytes) step();
    if (foreign_bytes_ >= most_foreign_bytes) {
      reporter_.note_last("the rest is not read: this does not look like a text");
      tokens_.clear();  // what stands between such bytes means nothing
    }
    push(TokenKind::end, at_);
    return std::move(tokens_);
  }

 private:
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  Span since(std::size_t begin) const { return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(at_)}; }
  std::string quoted(std::size_t begin) const { return fmt::format("`{}`", text_.substr(begin, at_ - begin)); }

  void push(TokenKind kind, std::size_t begin, std::uint64_t bits = 0) {
    Token token;
    token.kind = kind;
    token.first_on_line = fresh_line_;
    token.begin = static_cast<std::uint32_t>(begin);
    token.end = static_cast<std::uint32_t>(at_);
    token.bits = bits;
    tokens_.push_back(token);
    fresh_line_ = false;
  }

  void step() {
    char c = text_[at_];
    if (c == '\n') {
      fresh_line_ = true;
      ++at_;
    } else if (c == '\r' && peek(1) == '\n') {
      ++at_;
    } else if (c == ' ' || c == '\t') {
      ++at_;
    } else if (c == '#') {
      comment();
    } else if (is_name_start(c)) {
      word();
    } else if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
      number();
    } else if (!is_ascii(c)) {
      beyond_ascii();
    } else if (is_control(static_cast<unsigned char>(c))) {
      control();
    } else {
      punctuation();
    }
  }

  /// Comments may hold any text, but still no control characters and only UTF-8.
  void comment() {
    while (at_ < text_.size() && text_[at_] != '\n') {
      char c = text_[at_];
      if (c == '\t' || (c == '\r' && peek(1) == '\n')) {
        ++at_;
        continue;
      }
      Character character = decode(text_, at_);
      if (character.length == 0)
        malformed();
      else if (is_control(character.code))
        control();
      else
        at_ += character.length;
    }
  }

  void malformed() {
    std::size_t begin = at_;
    while (at_ < text_.size() && decode(text_, at_).length == 0) ++at_;
    ++foreign_bytes_;
    reporter_.error(
        "A0102", since(begin),
        fmt::format("malformed UTF-8 at byte {} (0x{:02x})", begin, static_cast<unsigned char>(text_[begin])),
        "not a character", "save the file as UTF-8");
  }

  void control() {
    std::size_t begin = at_;
    Character first = decode(text_, at_);
    at_ += first.length;
    while (at_ < text_.size() && text_[at_] == text_[begin]) ++at_;
    bool lone_return = first.code == '\r';
    ++foreign_bytes_;
    reporter_.error("A0103", since(begin),
                    first.code == 0 ? std::string("NUL byte in the text")
                                    : fmt::format("control character U+{:04X} in the text", first.code),
                    "not allowed here",
                    lone_return ? "lines end in LF or CRLF" : "remove it; blanks, tabs and line ends separate tokens");
  }

  bool extends_name() const {
    if (at_ >= text_.size()) return false;
    if (is_name_part(text_[at_])) return true;
    if (is_ascii(text_[at_])) return false;
    Character c = decode(text_, at_);
    return c.length != 0 && !is_control(c.code) && !find_lookalike(c.code);
  }

  /// Consumes a run of name characters, ASCII or not; reports the latter.
  void word() {
    std::size_t begin = at_;
    bool ascii = true;
    while (extends_name()) {
      Character c = decode(text_, at_);
      ascii &= c.length == 1;
      at_ += c.length;
    }
    std::string_view spelling = text_.substr(begin, at_ - begin);
    if (!ascii)
      reporter_.error("A0104", since(begin), fmt::format("`{}` is not a name", spelling),
                      "has other letters than ASCII",
                      "names are made of `A-Z`, `a-z`, `0-9` and `_`; write a Greek letter as its name, like `alpha`");
    if (peek() == '.' && is_digit(peek(1))) {
      while (is_name_part(peek()) || (peek() == '.' && is_name_part(peek(1)))) ++at_;
      reporter_.error("A0106", since(begin), fmt::format("the number touches the name `{}`", spelling),
                      "neither a name nor a number", "put an operator or a blank between them");
      push(TokenKind::name, begin);
      return;
    }
    auto keyword = keywords().find(spelling);
    push(keyword == keywords().end() ? TokenKind::name : keyword->second, begin);
  }

  void beyond_ascii() {
    std::size_t begin = at_;
    Character c = decode(text_, at_);
    if (c.length == 0) return malformed();
    if (is_control(c.code)) return control();
    const Lookalike* like = find_lookalike(c.code);
    if (!like) return word();
    at_ += c.length;
    bool blank = like->kind == TokenKind::newline;
    reporter_.error("A0104", since(begin),
                    blank ? fmt::format("invisible character U+{:04X}", c.code)
                          : fmt::format("unexpected character {}", quoted(begin)),
                    "not part of the notation",
                    !blank           ? fmt::format("write `{}`", like->instead)
                    : *like->instead ? "write a plain blank"
                                     : "remove it");
    if (!blank) push(like->kind, begin);
  }

  /// Digits with `_` only between two of them. False where a `_` stands elsewhere.
  template <class IsDigit>
  bool digits(IsDigit is, std::string& out) {
    while (true) {
      if (is(peek())) {
        out += peek();
      } else if (peek() == '_' && !out.empty() && is(text_[at_ - 1]) && is(peek(1))) {
        // a separator, not part of the value
      } else {
        return peek() != '_';
      }
      ++at_;
    }
  }

  void number() {
    std::size_t begin = at_;
    std::string value;
    bool well_formed = true, real = false, hex = peek() == '0' && peek(1) == 'x';
    std::string why = "not a number";
    if (hex) {
      at_ += 2;
      well_formed = digits(is_hex_digit, value) && !value.empty();
    } else {
      well_formed = digits(is_digit, value);
      if (well_formed && peek() == '.' && peek(1) != '.') {
        real = true;
        value += '.';
        ++at_;
        well_formed = !is_digit(peek()) || digits(is_digit, value);
      }
      std::size_t sign = peek(1) == '+' || peek(1) == '-' ? 1 : 0;
      if (well_formed && (peek() == 'e' || peek() == 'E') && is_digit(peek(1 + sign))) {
        real = true;
        value += 'e';
        if (sign) value += peek(1);
        at_ += 1 + sign;
        well_formed = digits(is_digit, value);
      }
    }
    bool touches = extends_name() || (peek() == '.' && peek(1) != '.');
    if (!well_formed || touches) {
      std::size_t number_end = at_;
      while (extends_name() || (peek() == '.' && peek(1) != '.')) at_ += decode(text_, at_).length;
      std::string_view tail = text_.substr(number_end, at_ - number_end);
      std::string help = "write a blank or an operator between a number and a name: `2 * x`";
      if (!well_formed && hex && value.empty())
        help = "`0x` is followed by hexadecimal digits: `0x1f`";
      else if (tail.substr(0, 1) == "_" || tail.find('_') == 0)
        help = "`_` stands between two digits only: `1_000`";
      else if (tail.substr(0, 1) == ".")
        help = "a number has one point; a range is written `0..N`";
      else if (tail == "e" || tail == "E")
        help = "an exponent has digits: `1e-3`";
      else if (tail == "f" || tail == "F")
        help = "literals have no suffix; cast with `f32(x)`";
      reporter_.error("A0106", since(begin), fmt::format("malformed number {}", quoted(begin)), "", std::move(help));
      push(peek() == '[' || peek() == '(' ? TokenKind::name : TokenKind::integer, begin);
      return;
    }
    if (real) return push_real(begin, value);
    std::uint64_t integer = 0;
    auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), integer, hex ? 16 : 10);
    if (error != std::errc{} || integer > 0x7FFF'FFFF'FFFF'FFFFull) {
      reporter_.error("A0107", since(begin), fmt::format("the integer {} is too large", quoted(begin)),
                      "not below 2^63",
                      "integers are 64-bit and signed; write a float such as `1e20` where one is meant");
      integer = 0;
    }
    push(TokenKind::integer, begin, integer);
  }

  void push_real(std::size_t begin, const std::string& value) {
    double real = 0;
    auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), real);
    if (error == std::errc::result_out_of_range) {
      // The library does not say in which direction. Where the first digit that counts stands decides.
      std::size_t exponent_at = value.find('e');
      std::string mantissa = value.substr(0, exponent_at);
      std::size_t point = std::min(mantissa.find('.'), mantissa.size());
      std::size_t first = mantissa.find_first_of("123456789");
      long long place = static_cast<long long>(point) - static_cast<long long>(first);
      bool negative = exponent_at != std::string::npos && value[exponent_at + 1] == '-';
      long long exponent = 0;
      if (exponent_at != std::string::npos)
        for (char c : value.substr(exponent_at + 1))
          if (is_digit(c) && exponent < 1'000'000'000) exponent = exponent * 10 + (c - '0');
      real = first == std::string::npos || place + (negative ? -exponent : exponent) < 0 ? 0.0 : HUGE_VAL;
    }
    if (real == HUGE_VAL) {
      reporter_.error("A0108", since(begin), fmt::format("the number {} is too large", quoted(begin)),
                      "beyond the range of a 64-bit float", "write `inf` for infinity");
      real = 0;
    }
    push(TokenKind::real, begin, std::bit_cast<std::uint64_t>(real));
  }

  void punctuation() {
    std::size_t begin = at_;
    std::string_view rest = text_.substr(at_);
    if (rest.substr(0, 2) == "//" && (fresh_line_ || opens_prose(at_ + 2))) {  // no division, that is
      at_ += 2;
      reporter_.error("A0105", since(begin), "`//` does not start a comment", "", "a comment starts with `#`");
      return comment();
    }
    if (rest.substr(0, 2) == "=>" && after_parameters()) {
      at_ += 2;
      reporter_.error("A0105", since(begin), "`=>` is not an operator", "not part of the notation",
                      "results follow `->`");
      return push(TokenKind::arrow, begin);
    }
    for (const Foreign& foreign : foreign_operators) {
      if (rest.substr(0, foreign.spelling.size()) != foreign.spelling) continue;
      at_ += foreign.spelling.size();
      reporter_.error("A0105", since(begin), fmt::format("`{}` is not an operator", foreign.spelling),
                      "not part of the notation", foreign.help);
      return push(foreign.kind, begin);
    }
    struct Fixed {
      std::string_view spelling;
      TokenKind kind;
    };
    static constexpr Fixed table[] = {
        {"->", TokenKind::arrow},   {"<=", TokenKind::less_equal}, {">=", TokenKind::greater_equal},
        {"==", TokenKind::equal},   {"!=", TokenKind::not_equal},  {"..", TokenKind::dotdot},
        {"+", TokenKind::plus},     {"-", TokenKind::minus},       {"*", TokenKind::star},
        {"/", TokenKind::slash},    {"%", TokenKind::percent},     {"^", TokenKind::caret},
        {"<", TokenKind::less},     {">", TokenKind::greater},     {"=", TokenKind::assign},
        {",", TokenKind::comma},    {":", TokenKind::colon},       {".", TokenKind::dot},
        {"(", TokenKind::lparen},   {")", TokenKind::rparen},      {"[", TokenKind::lbracket},
        {"]", TokenKind::rbracket}, {"{", TokenKind::lbrace},      {"}", TokenKind::rbrace},
        {";", TokenKind::semicolon}};
    for (const Fixed& fixed : table) {
      if (rest.substr(0, fixed.spelling.size()) != fixed.spelling) continue;
      at_ += fixed.spelling.size();
      return push(fixed.kind, begin);
    }
    ++at_;
    char c = text_[begin];
    if (c == '!') {
      reporter_.error("A0105", since(begin), "`!` is not an operator", "not part of the notation", "write `not`");
      return push(TokenKind::kw_not, begin);
    }
    if (c == '"' || c == '\'') {  // to its end, so that it is one finding
      const std::size_t end = text_.find_first_of(std::string{c, '\n'}, at_);
      if (end != std::string_view::npos && text_[end] == c) at_ = end + 1;
    }
    while (peek() == c) ++at_;
    const char* help = c == '"' || c == '\'' ? "there are no strings in the notation"
                       : c == '&'            ? "write `and`"
                       : c == '|'            ? "write `or`"
                       : c == '~'            ? "write `not`"
                       : c == '\\'           ? "a line that ends in an operator or `,` goes on in the next one"
                       : c == '?'            ? "a choice is written `a if condition else b`"
                       : c == '@'            ? "a product of matrices is written `sum[k](A[i, k] * B[k, j])`"
                                             : "remove it";
    reporter_.error("A0104", since(begin), fmt::format("unexpected character {}", quoted(begin)),
                    "not part of the notation", help);
    push(TokenKind::bad, begin);
  }

  /// Whether two words stand beside each other, which no expression has.
  bool opens_prose(std::size_t at) const {
    auto blanks = [&] {
      std::size_t start = at;
      while (at < text_.size() && text_[at] == ' ') ++at;
      return at > start;
    };
    blanks();
    std::size_t start = at;
    while (at < text_.size() && is_name_part(text_[at])) ++at;
    const std::string_view first = text_.substr(start, at - start);
    return at > start && blanks() && at < text_.size() && is_name_start(text_[at]) && !keywords().contains(first) &&
           !keywords().contains(text_.substr(at, text_.find_first_of(" \n", at) - at));
  }
  /// Whether the last token closed a kernel's parameters.
  bool after_parameters() const {
    int depth = 0;
    std::size_t k = tokens_.size();
    while (k-- > 0) {
      if (tokens_[k].kind == TokenKind::rparen) ++depth;
      if (tokens_[k].kind == TokenKind::lparen && --depth == 0) break;
      if (depth == 0) return false;
    }
    while (k-- > 0 && depth == 0)
      if (tokens_[k].kind == TokenKind::kw_kernel)
        return true;
      else if (tokens_[k].kind == TokenKind::lbrace || tokens_[k].kind == TokenKind::lparen)
        return false;
    return false;
  }

  static constexpr int most_foreign_bytes = 8;  ///< a text may hold a few; a binary file holds little else
  int foreign_bytes_ = 0;                       ///< places that are no text
  Reporter& reporter_;
  std::string_view text_;
  std::size_t at_ = 0;
  bool fresh_line_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> lex(Reporter& reporter) { return Lexer(reporter).run(); }

bool check_length(Reporter& reporter) {
  if (reporter.source().text().size() <= max_text_bytes) return true;
  reporter.error("A0101", {static_cast<std::uint32_t>(max_text_bytes), static_cast<std::uint32_t>(max_text_bytes)},
                 fmt::format("the text has more than {} bytes", max_text_bytes), "", "split it into several texts");
  return false;
}

}  // namespace attune::syntax
