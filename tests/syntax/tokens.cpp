// SPDX-License-Identifier: Apache-2.0
// The lexer and the layout rules: kinds, numbers, characters, and which newlines end an item.
#include "support.hpp"

using namespace attune;
using namespace attune::test;

namespace {

/// Token texts and kinds on one line; a newline token is `|`.
std::string tokens(const std::string& text) {
  Result<std::string> lines = print_tokens(Source("t", text));
  if (!lines) return errors(text) == "none\n" ? render(lines.diagnostics()) : errors(text);
  std::string out, line;
  for (char c : *lines) {
    if (c != '\n') {
      line += c;
      continue;
    }
    std::string word = line.substr(line.find(' ') + 1);
    out += (out.empty() ? "" : ", ") + (word == "newline" ? "|" : word);
    line.clear();
  }
  return out;
}

}  // namespace

TEST_CASE("tokens: the printed view has positions, kinds and texts") {
  CHECK(*print_tokens(Source("t", "use std.masks\nfn f(x) = x <= 1.5 # c\n")) ==
        "1:1 keyword use\n1:5 name std\n1:8 dot .\n1:9 name masks\n1:14 newline\n"
        "2:1 keyword fn\n2:4 name f\n2:5 lparen (\n2:6 name x\n2:7 rparen )\n2:9 assign =\n2:11 name x\n"
        "2:13 less_equal <=\n2:16 real 1.5\n3:1 end\n");
}

TEST_CASE("tokens: numbers") {
  CHECK(tokens("12 0x1f 1_000 0xFF_ff") == "integer 12, integer 0x1f, integer 1_000, integer 0xFF_ff, end");
  CHECK(tokens("1.5 .5 1. 1e-3 2E+4 1.e5 1_0.2_5") ==
        "real 1.5, real .5, real 1., real 1e-3, real 2E+4, real 1.e5, real 1_0.2_5, end");
  CHECK(tokens("0..N") == "integer 0, dotdot .., name N, end");
  CHECK(tokens("1.5..2.") == "real 1.5, dotdot .., real 2., end");
  CHECK(tokens("16*R") == "integer 16, star *, name R, end");
  for (const char* bad :
       {"2x", "1e", "1_", "1__0", "_0.5", "0x", "0xg", "1.5.2", "1.5f", "1.x", "1e5e", "0b1", "1._5"}) {
    INFO(bad);
    CHECK(errors(std::string("fn f() = ") + bad).substr(0, 5) == "A0106");
  }
  CHECK(std::get<ast::Integer>(expression("0x1f")->kind).value == 31);
  CHECK(std::get<ast::Integer>(expression("1_000")->kind).value == 1000);
  CHECK(std::get<ast::Integer>(expression("9223372036854775807")->kind).value == 9223372036854775807u);
  CHECK(std::get<ast::Integer>(expression("0x7fff_ffff_ffff_ffff")->kind).value == 9223372036854775807u);
  CHECK(std::get<ast::Float>(expression("1.")->kind).value == 1.0);
  CHECK(std::get<ast::Float>(expression("1_0.2_5e1")->kind).value == 102.5);
  CHECK(std::get<ast::Float>(expression("1e-9999")->kind).value == 0.0);
  CHECK(std::get<ast::Float>(expression("0.0000001e-400")->kind).value == 0.0);
  CHECK(std::get<ast::Float>(expression("0e9999")->kind).value == 0.0);
  CHECK(errors("fn f() = 9223372036854775808").substr(0, 5) == "A0107");
  CHECK(errors("fn f() = 0x1_0000_0000_0000_0000").substr(0, 5) == "A0107");
  CHECK(errors("fn f() = 1e400").substr(0, 5) == "A0108");
}

TEST_CASE("tokens: reducers before brackets only, dtypes and words always") {
  CHECK(tokens("max[ max( maxi[ max") == errors("max[ max( maxi[ max"));  // unclosed: reported, not crashed
  CHECK(tokens("fn f(a) = max[j](a)") ==
        "keyword fn, name f, lparen (, name a, rparen ), assign =, reducer max, lbracket [, name j, rbracket ], "
        "lparen (, name a, rparen ), end");
  CHECK(tokens("max(a) f8e4m3 bool f33 wherefore inf") ==
        "name max, lparen (, name a, rparen ), dtype f8e4m3, dtype bool, name f33, name wherefore, keyword inf, end");
}

TEST_CASE("tokens: line ends, blanks and the byte-order mark") {
  CHECK(tokens("\xEF\xBB\xBFuse a\r\nuse b\n") == "keyword use, name a, |, keyword use, name b, end");
  CHECK(tokens("\t use\ta # caf\xC3\xA9 \xE2\x89\xA4\n\n\n# nothing\nuse b") ==
        "keyword use, name a, |, keyword use, name b, end");
  CHECK(tokens("") == "end");
  CHECK(tokens("# only a comment") == "end");
}

TEST_CASE("layout: a newline ends an item unless the line goes on") {
  auto body = [](const std::string& text) {
    std::string all = tokens("fn f(a, b) = " + text);
    return all.substr(
        std::string("keyword fn, name f, lparen (, name a, comma ,, name b, rparen ), assign =, ").size());
  };
  CHECK(body("a\nb") == "name a, |, name b, end");
  CHECK(body("a +\n# in between\n\n b") == "name a, plus +, name b, end");
  CHECK(body("(a\n)\nb") == "lparen (, name a, rparen ), |, name b, end");
  CHECK(body("a[1,\n2\n]") == "name a, lbracket [, integer 1, comma ,, integer 2, rbracket ], end");
  for (const char* op : {"+",   "-",  "*",   "/",  "%",    "^",  "<",     "<=", ">", ">=", "==", "!=",
                         "and", "or", "not", "if", "else", "in", "where", ",",  ":", "..", "=",  "->"}) {
    INFO(op);
    CHECK(body(std::string("a ") + op + " # comment\n b").find('|') == std::string::npos);
  }
  for (const char* end : {"true", "inf", ".", "extra", "const", "f32", "1", "use"}) {
    INFO(end);
    CHECK(body(std::string("a ") + end + "\n b").find('|') != std::string::npos);
  }
  CHECK(tokens("kernel\nk\n<T>\n(x: T[N])\n->\nO: T[N]\n{\nO[i] = x[i] }\n\n").find('|') == std::string::npos);
  CHECK(tokens("kernel k(x: f32[N]) -> O: f32[N] {\nO[i] = x[i]\nP[i] = 1\n}\nuse a\n").find("|, name P") !=
        std::string::npos);
}

TEST_CASE("layout: semicolons and braces end items too") {
  CHECK(parsed("fn f(x) = x; fn g(x) = x;;; use a;") == parsed("fn f(x) = x\nfn g(x) = x\nuse a"));
  CHECK(parsed("kernel k(x: f32[N]) -> O: f32[N] { ;; P[i] = x[i];; O[i] = P[i] }; fn f() = 1") ==
        parsed("kernel k(x: f32[N]) -> O: f32[N] {\n P[i] = x[i]\n O[i] = P[i]\n}\nfn f() = 1"));
}

TEST_CASE("tokens: what is no token") {
  CHECK(errors("fn f(x) = x + @y") ==
        "A0104 1:15 \"@\" unexpected character `@` | a product of matrices is written `sum[k](A[i, k] * B[k, j])`\n");
  CHECK(errors(std::string("use a\0b", 7)) ==
        std::string("A0103 1:6 \"\0\" NUL byte in the text | remove it; blanks, tabs and line ends separate tokens\n",
                    91) +
            "A0115 1:7 \"b\" expected `.` or the end of the line, found `b`\n");
  CHECK(errors("use a # \x1b[1m") ==
        "A0103 1:9 \"\x1b\" control character U+001B in the text | remove it; blanks, tabs and line ends separate "
        "tokens\n");
  CHECK(errors("use a\ruse b").substr(0, 5) == "A0103");
  CHECK(errors("use a # \xC2\x85").substr(0, 5) == "A0103");
  for (const char* bad :
       {"\xFF", "\xC0\x80", "\xED\xA0\x80", "\xF5\x80\x80\x80", "\xE2\x82", "\x80", "\xF0\x80\x80\x80"}) {
    CHECK(errors(std::string("use a # ") + bad).substr(0, 5) == "A0102");
    CHECK(errors(std::string("use a ") + bad + "\n").substr(0, 5) == "A0102");
  }
  CHECK(
      errors("fn f(\xCE\xB1) = \xCE\xB1x") ==
      "A0104 1:6 \"\xCE\xB1\" `\xCE\xB1` is not a name | names are made of `A-Z`, `a-z`, `0-9` and `_`; write a Greek "
      "letter as its name, like `alpha`\n"
      "A0104 1:11 \"\xCE\xB1x\" `\xCE\xB1x` is not a name | names are made of `A-Z`, `a-z`, `0-9` and `_`; write a "
      "Greek letter as its name, like `alpha`\n");
  CHECK(errors("fn f(a, b) = a \xE2\x89\xA4 b \xC3\x97 2") ==
        "A0104 1:16 \"\xE2\x89\xA4\" unexpected character `\xE2\x89\xA4` | write `<=`\n"
        "A0104 1:20 \"\xC3\x97\" unexpected character `\xC3\x97` | write `*`\n");
  CHECK(errors("fn f(a) =\xC2\xA0"
               "a") == "A0104 1:10 \"\xC2\xA0\" invisible character U+00A0 | write a plain blank\n");
}

TEST_CASE("tokens: operators of other languages are named once and stand for ours") {
  CHECK(errors("fn f(a, b) = a && !b || a") ==
        "A0105 1:16 \"&&\" `&&` is not an operator | write `and`\n"
        "A0105 1:19 \"!\" `!` is not an operator | write `not`\n"
        "A0105 1:22 \"||\" `||` is not an operator | write `or`\n");
  CHECK(errors(kernel("O[i] := x[i]")) ==
        "A0105 2:6 \":=\" `:=` is not an operator | a definition is written with `=`\n");
  CHECK(errors("fn f(a) = a ** 2") == "A0105 1:13 \"**\" `**` is not an operator | a power is written `x^2`\n");
  CHECK(errors("// a comment\nfn f(a) = a") ==
        "A0105 1:1 \"//\" `//` does not start a comment | a comment starts with `#`\n");
  CHECK(errors("fn f(a) = sum[j in 0...4](a)") ==
        "A0105 1:21 \"...\" `...` is not an operator | a half-open range is written `lo..hi`\n");
}
