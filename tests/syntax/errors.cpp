// SPDX-License-Identifier: Apache-2.0
// Errors of the grammar: code, place, message, labels and help, and that each independent one is reported once.
#include "support.hpp"

using namespace attune;
using namespace attune::test;

TEST_CASE("errors: what was expected and found") {
  struct Case {
    const char *text, *expected;
  };
  const Case cases[] = {
      {"fn f(x) = ", "A0115 1:9 \"=\" expected an expression, found the end of the text\n"},
      {"fn f(x) = x +", "A0115 1:13 \"+\" expected an expression, found the end of the text\n"},
      {"fn f(x) = g(x,)", "A0115 1:15 \")\" expected an expression, found `)` | remove the `,` before it\n"},
      {"fn f(x) = 2 x",
       "A0115 1:13 \"x\" expected an operator or the end of the line, found `x` | write an operator between them (a "
       "product is `a * b`), or start a new line\n"},
      {"fn f(x) = (2 x)",
       "A0115 1:14 \"x\" expected an operator or `)`, found `x` | write an operator between them, or a `,`; a product "
       "is "
       "`a * b`\n"},
      {"fn f(x) = x anf x",
       "A0115 1:13 \"anf\" expected an operator or the end of the line, found `anf` | did you mean `and`?\n"},
      {"fn f(x) = x == not x",
       "A0115 1:16 \"not\" expected an expression, found `not` | put `not` and its condition in parentheses: `a == "
       "(not "
       "b)`\n"},
      {"fn f(x) = x[1][2]",
       "A0115 1:15 \"[\" expected an operator or the end of the line, found `[` | several subscripts stand in one pair "
       "of "
       "brackets: `x[i, j]`\n"},
      {"fn f(x) = x if x",
       "A0123 1:16 \"x\" expected `else`, found the end of the text | a choice needs both branches: `a if condition "
       "else "
       "b`\n"},
      {"fn f(x) = x if x if x else x else x",
       "A0123 1:18 \"if\" expected `else`, found `if` | a choice needs both branches: `a if condition else b`\n"},
      {"fn f(x) = x = x",
       "A0121 1:13 \"=\" expected an operator or the end of the line, found `=` | an equality is written `==`\n"},
      {"fn f(x) == x",
       "A0121 1:9 \"==\" expected `=`, found `==` | a definition is written with one `=`; `==` compares\n"},
      {"fn f(x) { x }",
       "A0115 1:9 \"{\" expected `=`, found `{` | the body of a function is one expression: `fn f(x) = ...`\n"},
      {"fn f(x) = sum[j] x",
       "A0115 1:18 \"x\" expected `(`, found `x` | a reduction's body stands in parentheses: `sum[j](x)`\n"},
      {"fn f(x) = sum[j in 0:N](x)", "A0115 1:21 \":\" expected `..`, found `:` | a range is written `0..N`\n"},
      {"fn f(x) = sum[j](x, x)",
       "A0115 1:21 \"x\" expected `extra`, found `x` | a reduction has one body; extra terms are written "
       "`softmax[j](s, "
       "extra = t)`\n"},
      {"fn f(x) = sum[](x)", "A0115 1:15 \"]\" expected a name, found `]`\n"},
      {"fn f(x) = x where x",
       "A0115 1:13 \"where\" expected an operator or the end of the line, found `where` | `where` stands in a "
       "reduction's "
       "brackets: `sum[j where p](x)`\n"},
      {"fn f(x) = f32",
       "A0115 1:11 \"f32\" expected `(`, found the end of the text | a dtype in an expression is a cast: `f32(x)`\n"},
      {"fn f(x) = 3(x)",
       "A0115 1:12 \"(\" expected an operator or the end of the line, found `(` | a product is written with `*`\n"},
      {"fn in(x) = x",
       "A0116 1:4 \"in\" `in` is a reserved word and cannot be a name | choose another name, such as `in_`\n"},
      {"fn f(f32) = 1",
       "A0116 1:6 \"f32\" `f32` is a reserved word and cannot be a name | choose another name, such as `f32_`\n"},
      {"fn exp(x) = x",
       "A0117 1:4 \"exp\" `exp` is a built-in function and cannot be redefined | choose another name\n"},
      {"use std.masks as m", "A0115 1:15 \"as\" expected `.` or the end of the line, found `as`\n"},
      {"use std\n.masks",
       "A0120 2:1 \".\" expected `use`, `fn` or `kernel`, found `.` | a dotted path stands on one line: `use "
       "std.masks`\n"},
      {"x[i] = 3",
       "A0120 1:1 \"x\" expected `use`, `fn` or `kernel`, found `x` | a definition stands inside the braces of a "
       "`kernel`\n"},
      {"f(x) = 3",
       "A0120 1:1 \"f\" expected `use`, `fn` or `kernel`, found `f` | a function is written `fn name(x) = ...`, a "
       "kernel "
       "`kernel name(...) -> ... { ... }`\n"},
  };
  for (const Case& c : cases) CHECK(errors(c.text) == c.expected);
}

TEST_CASE("errors: definitions") {
  auto body = [](const std::string& text) { return errors(kernel(text)); };
  CHECK(body("O = x") == "A0115 2:3 \"=\" expected `[`, found `=` | a scalar definition is written `O[] = ...`\n");
  CHECK(body("f(a) = a") == "A0115 2:2 \"(\" expected `[`, found `(` | a function is written `fn f(...) = ...`\n");
  CHECK(body("O[i] = x[i]\n  + 1") ==
        "A0120 3:3 \"+\" expected a definition, `fn` or `}`, found `+` | to go on with the line before, end that line "
        "with `+`\n");
  CHECK(body("O[i]\n  = x[i]\nP[i] = )") ==
        "A0115 2:4 \"]\" expected `=`, found the end of the line | a line goes on in the next one where it ends in an "
        "operator, `,` or `=`, or in brackets\n"
        "A0111 4:8 \")\" `)` closes nothing | remove it, or add the bracket that it should close\n");
  CHECK(body("O[i + 1] = x[i]") == "A0115 2:5 \"+\" expected `in`, `,` or `]`, found `+`\n");
  CHECK(body("O[i where i < 3] = 1").substr(0, 58) == "A0115 2:5 \"where\" expected `in`, `,` or `]`, found `where`");
  CHECK(body("max[i] = 1") ==
        "A0117 2:1 \"max\" `max` is a built-in reducer and cannot be redefined | choose another name\n");
  CHECK(body("let O[i] = 1") ==
        "A0114 2:1 \"let\" `let` is not a keyword | a definition has no keyword: `S[i, j] = ...`\n");
  CHECK(body("def f(a) = a\nO[i] = f(1)") == "A0114 2:1 \"def\" `def` is not a keyword | did you mean `fn`?\n");
  CHECK(body("use std.masks").substr(0, 5) == "A0110");
  CHECK(body("O[i] = T(1, 2)") == "A0115 2:8 \"T(1, 2)\" a cast takes one operand, found 2 | write `T(x)`\n");
  CHECK(body("O[i] = T()") == "A0115 2:8 \"T()\" a cast takes one operand, found 0 | write `T(x)`\n");
}

TEST_CASE("errors: headers") {
  auto header = [](const std::string& text) { return errors(text + " { O[i] = 1 }"); };
  CHECK(errors("kernal k(x: f32[N]) -> O: f32[N] { O[i] = x[i] }") ==
        "A0114 1:1 \"kernal\" `kernal` is not a keyword | did you mean `kernel`?\n");
  CHECK(header("kernel k(x: f32[N])") ==
        "A0122 1:21 \"{\" expected `->`, found `{` | a kernel states its results before the `{`: `-> O: T[B, H, M, "
        "E]`\n");
  CHECK(header("kernel k(x: f32[N]): f32[N]").substr(0, 39) == "A0122 1:20 \":\" expected `->`, found `:`");
  CHECK(header("kernel k(x: f32[N]) -> O: f32") ==
        "A0115 1:31 \"{\" expected `[`, found `{` | a result is a tensor; a scalar one is written `f32[]`\n");
  CHECK(
      header("kernel k(x f32[N]) -> O: f32[N]") ==
      "A0115 1:12 \"f32\" expected `:`, found `f32` | a parameter or result is written `Q: f16[B, H, M, D]` or `scale: "
      "f32`\n");
  CHECK(header("kernel k(x: f32[N] y: f32) -> O: f32[N]") ==
        "A0115 1:20 \"y\" expected `,` or `)`, found `y` | parameters are separated by `,`\n");
  CHECK(header("kernel k(x: const f32[N]) -> O: f32[N]") ==
        "A0115 1:22 \"[\" expected `,` or `)`, found `[` | a tensor cannot be `const`; only scalars can\n");
  CHECK(header("kernel k(x: f32[N] = 1) -> O: f32[N]") ==
        "A0115 1:20 \"=\" expected `,` or `)`, found `=` | only a scalar has a default value\n");
  CHECK(header("kernel k(x: float[N], s: W, t: bf61) -> O: half[N]") ==
        "A0119 1:13 \"float\" unknown type `float` | did you mean `f32`?\n"
        "A0119 1:26 \"W\" unknown type `W` | declare it as a type variable: `kernel k<W>(...)`\n"
        "A0119 1:32 \"bf61\" unknown type `bf61` | did you mean `bf16`?\n"
        "A0119 1:44 \"half\" unknown type `half` | did you mean `f16`?\n");
  CHECK(header("kernel k(x: f32[N, 2.5, f(N), (N < 2)]) -> O: f32[N]") ==
        "A0118 1:20 \"2.5\" a float cannot stand in an extent | extents are made of dims and integers with `+ - * / % "
        "^`, "
        "such as `2 * D` or `(N + 15) / 16`\n"
        "A0118 1:25 \"f(N)\" a call cannot stand in an extent | extents are made of dims and integers with `+ - * / % "
        "^`, "
        "such as `2 * D` or `(N + 15) / 16`\n"
        "A0118 1:32 \"N < 2\" this expression cannot stand in an extent | extents are made of dims and integers with "
        "`+ - "
        "* / % ^`, such as `2 * D` or `(N + 15) / 16`\n");
  CHECK(header("kernel k<exp>(x: f32[N]) -> O: f32[N]").substr(0, 5) == "A0117");
  CHECK(header("kernel k(sum: f32[N]) -> O: f32[N]").substr(0, 5) == "A0117");
  CHECK(errors("kernel k(x: f32[N]) -> O: f32[N]\nfn f() = 1") ==
        "A0115 1:32 \"]\" expected `{`, found the end of the line | the kernel's definitions stand in braces\n");
}

TEST_CASE("errors: brackets") {
  CHECK(errors(kernel("O[i] = (x[i] + 1\nP[i] = 1")) ==
        "A0110 2:16 \"1\" expected `)`, found the end of the line | 2:8 `(` is opened here | 3:1 the next item starts "
        "here\n");
  CHECK(
      errors(kernel("O[i] = f(g(x[i]")) ==
      "A0110 2:15 \"]\" expected `)`, found the end of the line | 2:11 `(` is opened here | 2:9 `(` is opened here\n");
  CHECK(errors(kernel("O[i] = (x[i) + 1")) == "A0110 2:12 \")\" expected `]`, found `)` | 2:10 `[` is opened here\n");
  CHECK(errors(kernel("O[i] = (x[i] + 1]")) == "A0111 2:17 \"]\" `]` does not close `(` | 2:8 `(` is opened here\n");
  CHECK(errors(kernel("O[i] = x[i])")) ==
        "A0111 2:12 \")\" `)` closes nothing | remove it, or add the bracket that it should close\n");
  CHECK(errors("fn f(x) = x }") ==
        "A0111 1:13 \"}\" `}` closes nothing | remove it, or add the `{` that it should close\n");
  CHECK(errors("kernel k(x: f32[N] -> O: f32[N] {\n O[i] = x[i]\n}") ==
        "A0110 1:18 \"]\" expected `)`, found `->` | 1:9 `(` is opened here\n");
  CHECK(
      errors("kernel k(x: f32[N]) -> O: f32[N] {\n O[i] = x[i]\nkernel l(x: f32[N]) -> O: f32[N] {\n O[i] = x[i]\n}") ==
      "A0110 2:12 \"]\" expected `}` at the end of the kernel | 1:34 `{` is opened here\n");
  CHECK(errors("kernel k(x: f32[N]) -> O: f32[N] {\n O[i] = x[i] *") ==
        "A0110 2:14 \"*\" expected `}` at the end of the kernel | 1:34 `{` is opened here\n"
        "A0115 2:14 \"*\" expected an expression, found the end of the line\n");
}

TEST_CASE("errors: every independent one is reported, once and in order") {
  CHECK(errors("use 1\n"
               "fn f(x = x\n"
               "kernel k(x: f32[N]) -> O: f32[N] {\n"
               "  A[i] = x[i] +\n"
               "  fn g(a) a\n"
               "  B[i] = { x; y }\n"
               "  C[i] = x[i] x[i]; D[i] = * 2\n"
               "  O[i] = A[i]\n"
               "}\n"
               "junk { A[i] = 1\n B[i] = 2 }\n"
               "kernel l(x f32) -> O: f32[N] { O[i] = = 1 }\n") ==
        "A0115 1:5 \"1\" expected a name, found `1`\n"
        "A0110 2:10 \"x\" expected `)`, found the end of the line | 2:5 `(` is opened here | 3:1 the next item starts "
        "here\n"
        "A0115 5:3 \"fn\" expected an expression, found `fn`\n"
        "A0115 6:10 \"{\" expected an expression, found `{` | braces hold a kernel's body; group with `(` and `)`\n"
        "A0115 7:15 \"x\" expected an operator or the end of the line, found `x` | write an operator between them (a "
        "product is `a * b`), or start a new line\n"
        "A0115 7:28 \"*\" expected an expression, found `*`\n"
        "A0120 10:1 \"junk\" expected `use`, `fn` or `kernel`, found `junk`\n"
        "A0115 12:12 \"f32\" expected `:`, found `f32` | a parameter or result is written `Q: f16[B, H, M, D]` or "
        "`scale: "
        "f32`\n"
        "A0115 12:39 \"=\" expected an expression, found `=`\n");
}

TEST_CASE("errors: every code has a title and a long text") {
  for (const char* code :
       {"A0101", "A0102", "A0103", "A0104", "A0105", "A0106", "A0107", "A0108", "A0110", "A0111", "A0112",
        "A0113", "A0114", "A0115", "A0116", "A0117", "A0118", "A0119", "A0120", "A0121", "A0122", "A0123"}) {
    INFO(code);
    CHECK_FALSE(title(code).empty());
    CHECK(explain(code).size() > 80);
  }
}

TEST_CASE("errors: rendered for people") {
  Result<ast::Module> module = parse(Source("alibi.attn", "fn f(x) = x\nfn g(y) = y andd 2\n"));
  REQUIRE_FALSE(module);
  CHECK(render(module.diagnostics()) ==
        "error[A0115]: expected an operator or the end of the line, found `andd`\n"
        "  --> alibi.attn:2:13\n"
        "   |\n"
        " 2 | fn g(y) = y andd 2\n"
        "   |             ^^^^ expected an operator or the end of the line\n"
        "   |\n"
        "   = help: did you mean `and`?");
}
