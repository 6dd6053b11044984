// SPDX-License-Identifier: Apache-2.0
// Positions and the exact text of diagnostics.
#include <attune/diagnostic.hpp>

#include "tests/catch.hpp"

using namespace attune;

namespace {

/// The place of the n-th occurrence of `word`.
Span find(std::string_view text, std::string_view word, int n = 1) {
  std::size_t at = text.find(word);
  while (--n > 0) at = text.find(word, at + 1);
  REQUIRE(at != text.npos);
  return {static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at + word.size())};
}

Diagnostic at(const std::string& text, std::string_view word, const std::string& span_text, int n = 1) {
  Diagnostic diagnostic;
  diagnostic.code = "A0001";
  diagnostic.message = "message";
  diagnostic.source = Source("f.attn", text);
  diagnostic.span = find(text, word, n);
  diagnostic.span_text = span_text;
  return diagnostic;
}

}  // namespace

TEST_CASE("positions count characters, lines end with LF or CRLF") {
  const std::string text = "ab\r\n\xc3\xbc\xe6\xbc\xa2x\n\nlast";
  const Source source("f", text);
  auto position = [&](std::uint32_t offset) {
    const auto p = source.position(offset);
    return std::pair(p.line, p.column);
  };
  CHECK(position(0) == std::pair(1u, 1u));
  CHECK(position(1) == std::pair(1u, 2u));
  CHECK(position(2) == std::pair(1u, 3u));   // CR
  CHECK(position(3) == std::pair(1u, 3u));   // LF: still the end of the line
  CHECK(position(4) == std::pair(2u, 1u));   // u umlaut
  CHECK(position(5) == std::pair(2u, 1u));   // its second byte
  CHECK(position(6) == std::pair(2u, 2u));   // a character of three bytes
  CHECK(position(9) == std::pair(2u, 3u));   // x
  CHECK(position(11) == std::pair(3u, 1u));  // the empty line
  CHECK(position(12) == std::pair(4u, 1u));
  CHECK(position(16) == std::pair(4u, 5u));
  CHECK(position(99) == std::pair(4u, 5u));  // beyond the end is the end
  CHECK(source.line(1) == "ab");
  CHECK(source.line(2) == "\xc3\xbc\xe6\xbc\xa2x");
  CHECK(source.line(3).empty());
  CHECK(source.line(4) == "last");
  CHECK(source.line(5).empty());
  CHECK(source.line(0).empty());
}

TEST_CASE("a byte-order mark takes no column, malformed bytes take one each") {
  const Source marked("f",
                      "\xef\xbb\xbf"
                      "ab\nc");
  CHECK(marked.position(3).column == 1);
  CHECK(marked.position(4).column == 2);
  CHECK(marked.position(0).line == 1);
  CHECK(marked.position(6).line == 2);
  CHECK(marked.line(1) == "ab");
  const Source broken("f", "\xff\xc3(\xed\xa0\x80x");  // a lone byte, a cut sequence, a surrogate
  CHECK(broken.position(2).column == 3);
  CHECK(broken.position(6).column == 7);
  const Source none;
  CHECK(none.name().empty());
  CHECK(none.text().empty());
  CHECK(none.position(5).line == 1);
  CHECK(none.line(1).empty());
  CHECK(Source("f", "").position(3).column == 1);
}

TEST_CASE("the example of the notation's description") {
  std::string text = "\n\n\n\n\n  O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, kv(h), i, e])\n";
  Diagnostic diagnostic = at(text, "i, e])", "axis 2 of V has extent N");
  diagnostic.span.end = diagnostic.span.begin + 1;
  diagnostic.code = "A0203";
  diagnostic.source = Source("alibi.attn", text);
  diagnostic.message = "index `j` ranges over N here and over M there";
  diagnostic.notes = {"`i` is bound on the left with extent M"};
  diagnostic.help = "did you mean `j`?";
  CHECK(render(diagnostic) ==
        "error[A0203]: index `j` ranges over N here and over M there\n"
        "  --> alibi.attn:6:54\n"
        "   |\n"
        " 6 |   O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, kv(h), i, e])\n"
        "   |                                                      ^ axis 2 of V has extent N\n"
        "   |\n"
        "   = note: `i` is bound on the left with extent M\n"
        "   = help: did you mean `j`?");
}

TEST_CASE("second labels hang below on the same line and stand at their own lines") {
  const std::string text = "one two three\nfour\nfive\nsix\nseven\neight\n";
  Diagnostic diagnostic = at(text, "two", "second");
  diagnostic.labels = {{find(text, "one"), "first"}, {find(text, "three"), "third"}};
  CHECK(render(diagnostic) ==
        "error[A0001]: message\n"
        "  --> f.attn:1:5\n"
        "   |\n"
        " 1 | one two three\n"
        "   | --- ^^^ ----- third\n"
        "   | |   |\n"
        "   | |   second\n"
        "   | first");
  diagnostic.labels = {{find(text, "five"), "one line between"}, {find(text, "eight"), "more between"}};
  diagnostic.severity = Severity::warning;
  CHECK(render(diagnostic) ==
        "warning[A0001]: message\n"
        "  --> f.attn:1:5\n"
        "   |\n"
        " 1 | one two three\n"
        "   |     ^^^ second\n"
        " 2 | four\n"
        " 3 | five\n"
        "   | ---- one line between\n"
        "...\n"
        " 6 | eight\n"
        "   | ----- more between");
  // A second label on the same token, and one around it.
  diagnostic.labels = {{diagnostic.span, "again"}, {find(text, "one two three"), "all"}};
  CHECK(render(diagnostic) ==
        "warning[A0001]: message\n"
        "  --> f.attn:1:5\n"
        "   |\n"
        " 1 | one two three\n"
        "   | ----^^^------\n"
        "   | |   |\n"
        "   | |   second\n"
        "   | |   again\n"
        "   | all");
}

TEST_CASE("spans over several lines mark their first and last line") {
  const std::string text = "sum[j](\n  x\n  + y\n  )\nend";
  Diagnostic diagnostic = at(text, "(\n  x\n  + y\n  )", "this body");
  CHECK(render(diagnostic) ==
        "error[A0001]: message\n"
        "  --> f.attn:1:7\n"
        "   |\n"
        " 1 | sum[j](\n"
        "   |       ^\n"
        "...\n"
        " 4 |   )\n"
        "   |   ^ this body");
}

TEST_CASE("tabs, wide characters, the end of the text and empty spans") {
  CHECK(render(at("\tx = 1", "=", "here")) ==
        "error[A0001]: message\n"
        "  --> f.attn:1:4\n"
        "   |\n"
        " 1 |     x = 1\n"
        "   |       ^ here");
  CHECK(render(at("\xe6\xbc\xa2\xe5\xad\x97 e\xcc\x81 x", "x", "here")) ==
        "error[A0001]: message\n"
        "  --> f.attn:1:7\n"
        "   |\n"
        " 1 | \xe6\xbc\xa2\xe5\xad\x97 e\xcc\x81 x\n"
        "   |        ^ here");
  Diagnostic diagnostic = at("kernel", "kernel", "ends here");
  diagnostic.span = {6, 6};
  CHECK(render(diagnostic) ==
        "error[A0001]: message\n"
        "  --> f.attn:1:7\n"
        "   |\n"
        " 1 | kernel\n"
        "   |       ^ ends here");
  diagnostic.span = {100, 50};  // nonsense is clamped
  CHECK(render(diagnostic).find("f.attn:1:7") != std::string::npos);
  diagnostic.source = Source("f.attn", "");
  CHECK(render(diagnostic) == "error[A0001]: message\n  --> f.attn:1:1\n   |\n 1 |\n   | ^ ends here");
}

TEST_CASE("what terminals would obey or hide is shown as a replacement character") {
  CHECK(
      render(at("a \x1b[31m \xe2\x80\xae x \xff", "x", "")).find("a \xef\xbf\xbd[31m \xef\xbf\xbd x \xef\xbf\xbd\n") !=
      std::string::npos);
}

TEST_CASE("of a very long line only the part around the caret is shown") {
  const std::string text = std::string(500'000, 'a') + "?" + std::string(500'000, 'b');
  const std::string rendered = render(at(text, "?", "here"));
  CHECK(rendered.size() < 600);
  CHECK(rendered.find(" 1 | ..." + std::string(60, 'a') + "?bbb") != std::string::npos);
  CHECK(rendered.find("\n   | " + std::string(63, ' ') + "^ here") != std::string::npos);
}

TEST_CASE("line numbers of several digits widen the margin") {
  const std::string text = std::string(99, '\n') + "x y";
  Diagnostic diagnostic = at(text, "y", "here");
  diagnostic.help = "two\nlines";
  CHECK(render(diagnostic) ==
        "error[A0001]: message\n"
        "    --> f.attn:100:3\n"
        "     |\n"
        " 100 | x y\n"
        "     |   ^ here\n"
        "     |\n"
        "     = help: two\n"
        "             lines");
}

TEST_CASE("findings of a call name tensor, axis, expected and found") {
  Diagnostic diagnostic;
  diagnostic.code = "A0503";
  diagnostic.message = "extents do not fit";
  diagnostic.tensor = "K";
  diagnostic.axis = "1";
  diagnostic.expected = "G = 4";
  diagnostic.found = "3";
  diagnostic.notes = {"G is fixed by V"};
  CHECK(render(diagnostic) ==
        "error[A0503]: extents do not fit\n"
        "  --> `K`, axis 1\n"
        "   |\n"
        "   = expected: G = 4\n"
        "   = found: 3\n"
        "   = note: G is fixed by V");
  diagnostic.tensor.clear();
  diagnostic.axis.clear();
  CHECK(render(diagnostic) ==
        "error[A0503]: extents do not fit\n"
        "   = expected: G = 4\n"
        "   = found: 3\n"
        "   = note: G is fixed by V");
  Diagnostic bare;
  bare.message = "only this";
  CHECK(render(bare) == "error: only this");
  CHECK(render(Diagnostics{bare, bare}) == "error: only this\n\nerror: only this");
  CHECK(render(Diagnostics{}).empty());
  CHECK(std::string(Error({bare}).what()) == "error: only this");
}

TEST_CASE("a finding with a place in the program and in the arguments shows both") {
  Diagnostic diagnostic = at("j in 0..E", "0..E", "beyond the axis");
  diagnostic.tensor = "K";
  diagnostic.axis = "3";
  diagnostic.expected = "at most 64";
  diagnostic.found = "E = 128";
  CHECK(render(diagnostic) ==
        "error[A0001]: message\n"
        "  --> f.attn:1:6\n"
        "   |\n"
        " 1 | j in 0..E\n"
        "   |      ^^^^ beyond the axis\n"
        "   |\n"
        "   = argument: `K`, axis 3\n"
        "   = expected: at most 64\n"
        "   = found: E = 128");
}

TEST_CASE("colour only adds escapes") {
  const std::string text = "one two three\nfour";
  Diagnostic diagnostic = at(text, "two", "second");
  diagnostic.labels = {{find(text, "one"), "first"}, {find(text, "four"), "elsewhere"}};
  diagnostic.help = "help";
  std::string colored = render(diagnostic, true), plain;
  CHECK(colored.find("\x1b[1;31merror[A0001]\x1b[0m") == 0);
  for (std::size_t i = 0; i < colored.size(); ++i) {
    if (colored[i] == '\x1b')
      while (colored[i] != 'm') ++i;
    else
      plain += colored[i];
  }
  CHECK(plain == render(diagnostic));
}
