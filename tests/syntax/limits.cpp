// SPDX-License-Identifier: Apache-2.0
// Hostile and large texts: bounded nesting, size and nodes, no crash on garbage, errors bounded in number.
#include <algorithm>
#include <ctime>
#include <iterator>
#include <random>

#include "programs.hpp"
#include "support.hpp"

using namespace attune;
using namespace attune::test;

namespace {

std::string repeat(const std::string& text, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += text;
  return out;
}

struct Nest {
  const char *open, *inner, *close;
};
constexpr Nest nests[] = {{"(", "x", ")"},
                          {"-", "x", ""},
                          {"not ", "x", ""},
                          {"x^", "x", ""},
                          {"x if x else ", "x", ""},
                          {"x[", "x", "]"},
                          {"g(x, ", "x", ")"},
                          {"f32(", "x", ")"},
                          {"sum[j](", "x", ")"},
                          {"sum[j where ", "x", "](x)"},
                          {"sum[j in 0..", "x", "](x)"},
                          {"sum[j in ", "x", "..N](x)"},
                          {"softmax[j](x, extra = ", "x", ")"},
                          {"a + b * (", "x", ")"},
                          {"a or b and c < d + (", "x", ") * e"}};

std::string nested(const Nest& nest, int n) {
  return "fn f(x) = " + repeat(nest.open, n) + nest.inner + repeat(nest.close, n);
}

}  // namespace

TEST_CASE("limits: nesting of 256 parses and prints, deeper is one error") {
  for (const Nest& nest : nests) {
    INFO(nest.open);
    for (int depth : {200, 256}) {
      ast::Module module = parsed(nested(nest, depth));
      CHECK(parsed(print(module)) == module);
      CHECK_FALSE(print_tree(module).empty());
    }
    for (int depth : {257, 1000, 20000}) {
      Result<ast::Module> deep = parse(Source("t", nested(nest, depth)));
      REQUIRE_FALSE(deep);
      REQUIRE(deep.diagnostics().size() == 1);
      CHECK(deep.diagnostics()[0].code == "A0112");
    }
  }
  CHECK(errors("fn f(x) = " + repeat("(", 257) + "x" + repeat(")", 257)) ==
        "A0112 1:267 \"(\" the expression nests deeper than 256 levels | name a part of it as a definition or "
        "function\n");
  CHECK(errors("fn f(x) = " + repeat("-(", 128) + "x" + repeat(")", 128)) == "none\n");
  CHECK(errors("fn f(x) = " + repeat("-(", 129) + "x" + repeat(")", 129)).substr(0, 5) == "A0112");
}

TEST_CASE("limits: siblings do not nest") {
  for (const char* term : {"-x", "x^x", "(x)", "g(-x)", "(x if x else x)", "sum[j](x)"})
    CHECK(errors("fn f(x) = " + repeat(std::string(term) + " + ", 1000) + "x") == "none\n");
  CHECK(errors("fn f(x) = " + repeat("not x and ", 1000) + "x") == "none\n");
  CHECK(errors("fn f(x) = g(" + repeat("x if x else x, ", 1000) + "x)") == "none\n");
}

TEST_CASE("limits: long chains are flat") {
  for (const char* op : {" + ", " * ", " < ", " and ", " or ", " - "}) {
    std::string text = "fn f(x) = " + repeat(std::string("x") + op, 49999) + "x\n";
    ast::Module module = parsed(text);
    ast::Module copy = parsed(text);
    CHECK(module == copy);
    CHECK(print(module) == text);
    CHECK_FALSE(print_tree(module).empty());
  }
}

TEST_CASE("limits: nodes and bytes") {
  CHECK(errors("fn f(x) = " + repeat("x + ", 99998) + "x") == "none\n");
  std::string many = errors("fn f(x) = " + repeat("x + ", 100000) + "x");
  CHECK(many.substr(0, 5) == "A0113");
  CHECK(std::count(many.begin(), many.end(), '\n') == 1);
  std::string fits = "fn f(x) = x" + std::string((1 << 20) - 11, ' ');
  CHECK(errors(fits) == "none\n");
  CHECK(errors(fits + " ").substr(0, 5) == "A0101");
  CHECK_FALSE(print_tokens(Source("t", fits + " ")));
}

TEST_CASE("limits: the number of errors is bounded") {
  for (const char* line :
       {"fn f( = \n", "@\n", "fn f(x) = (x\n", "}\n", "x\n", "\x01 ", "fn f(x) = 2x;", "kernel {", "((\n"}) {
    Result<ast::Module> module = parse(Source("t", repeat(line, 20000)));
    REQUIRE_FALSE(module);
    CHECK(module.diagnostics().size() <= 100);
  }
}

TEST_CASE("limits: time stays linear on large hostile texts") {
  for (const char* unit : {"(", "[", "{", ")", "x[", "\nx[", "\nfn f(", "sum[", "kernel k(", "\nkernel k(", "-", "x^",
                           "a if ", "@", "\xFF", "\n", ";", "1", "\nx[i]=("}) {
    INFO(unit);
    std::string text = repeat(unit, (1 << 18) / static_cast<int>(std::string(unit).size()));
    std::clock_t start = std::clock();
    (void)errors(text).size();
    // Processor time, and generous for sanitizers: quadratic work would take minutes.
    CHECK((std::clock() - start) / CLOCKS_PER_SEC < 10);
  }
}

TEST_CASE("limits: random tokens and bytes never crash") {
  const char* pieces[] = {"use",
                          "fn",
                          "kernel",
                          "const",
                          "in",
                          "where",
                          "if",
                          "else",
                          "and",
                          "or",
                          "not",
                          "true",
                          "inf",
                          "extra",
                          "f32",
                          "T",
                          "x",
                          "sum",
                          "max",
                          "softmax",
                          "f",
                          "1",
                          "2.5",
                          "0x1f",
                          "+",
                          "-",
                          "*",
                          "/",
                          "%",
                          "^",
                          "<",
                          "<=",
                          "==",
                          "!=",
                          "=",
                          "->",
                          ",",
                          ":",
                          ".",
                          "..",
                          "(",
                          ")",
                          "[",
                          "]",
                          "{",
                          "}",
                          ";",
                          "\n",
                          "#",
                          "&&",
                          "!",
                          "@",
                          "x[i] = ",
                          "fn f(x) = ",
                          "kernel k(x: f32[N]) -> O: f32[N] {",
                          "sum[j](x[j])",
                          "\xCE\xB1",
                          "1e"};
  std::mt19937 random(7);
  std::string shape;
  for (int round = 0; round < 100000; ++round) {
    std::string text;
    int length = static_cast<int>(random() % 24);
    bool bytes = round % 10 == 0;
    for (int i = 0; i < length; ++i) {
      if (bytes)
        text += static_cast<char>(random());
      else
        (text += pieces[random() % std::size(pieces)]) += random() % 4 ? " " : "";
    }
    Result<ast::Module> module = parse(Source("t", text));
    if (!module) {
      for (const Diagnostic& d : module.diagnostics()) {
        bool inside = d.span.begin <= d.span.end && d.span.end <= text.size() + 1;
        if (!inside || d.code.empty() || d.message.empty()) FAIL(text);
      }
      continue;
    }
    Result<ast::Module> again = parse(Source("t", print(*module)));
    if (!again || !(*again == *module)) FAIL(text);
  }
}

TEST_CASE("limits: damaged programs never crash and good ones survive") {
  std::mt19937 random(11);
  for (const char* program : programs) {
    for (int round = 0; round < 60; ++round) {
      std::string text = program;
      for (int edits = 1 + static_cast<int>(random() % 3); edits > 0 && !text.empty(); --edits) {
        std::size_t at = random() % text.size();
        switch (random() % 3) {
          case 0: text.erase(at, 1 + random() % 4); break;
          case 1: text.insert(at, 1, "()[]{};,=+-*.:<>\n 0x"[random() % 20]); break;
          default: text[at] = static_cast<char>(random()); break;
        }
      }
      Result<ast::Module> module = parse(Source("t", text));
      if (module)
        CHECK(parsed(print(*module)) == *module);
      else
        CHECK_FALSE(render(module.diagnostics()).empty());
    }
  }
}
