// SPDX-License-Identifier: Apache-2.0
// Each production of the grammar, by the tree it gives.
#include "support.hpp"

using namespace attune;
using namespace attune::test;

namespace {

/// The tree of an expression on one line: children in parentheses.
std::string tree(const std::string& text) {
  std::string lines = print_tree(parsed("fn f(x) = " + text));
  std::string out;
  std::size_t before = 1;
  for (std::size_t at = lines.find("function f x\n") + 13; at < lines.size();) {
    std::size_t end = lines.find('\n', at), start = lines.find_first_not_of(' ', at);
    std::size_t depth = (start - at) / 2 - 1;
    if (depth > before)
      out += '(';
    else if (!out.empty())
      out += std::string(before - depth, ')') + ", ";
    out += lines.substr(start, end - start);
    before = depth;
    at = end + 1;
  }
  return out + std::string(before - 1, ')');
}

}  // namespace

TEST_CASE("grammar: literals") {
  CHECK(tree("1") == "integer 1");
  CHECK(tree("1.0") == "float 1");
  CHECK(tree("true") == "true");
  CHECK(tree("false") == "false");
  CHECK(tree("inf") == "inf");
  CHECK_FALSE(expression("1") == expression("1.0"));
}

TEST_CASE("grammar: sums and products are flat chains") {
  CHECK(tree("a + b - c") == "chain + -(name a, name b, name c)");
  CHECK(tree("a * b / c % d") == "chain * / %(name a, name b, name c, name d)");
  CHECK(tree("a + b * c - d") == "chain + -(name a, chain *(name b, name c), name d)");
  CHECK(tree("(a + b) + c") == "chain +(chain +(name a, name b), name c)");
  CHECK(tree("a - (b - c)") == "chain -(name a, chain -(name b, name c))");
}

TEST_CASE("grammar: unary minus and powers") {
  CHECK(tree("-a^2") == "negate(power(name a, integer 2))");
  CHECK(tree("2^-1") == "power(integer 2, negate(integer 1))");
  CHECK(tree("2^3^2") == "power(integer 2, power(integer 3, integer 2))");
  CHECK(tree("2^-3^2 * 4") == "chain *(power(integer 2, negate(power(integer 3, integer 2))), integer 4)");
  CHECK(tree("--a * -b") == "chain *(negate(negate(name a)), negate(name b))");
  CHECK(tree("a - -b") == "chain -(name a, negate(name b))");
  CHECK(tree("(-a)^2") == "power(negate(name a), integer 2)");
}

TEST_CASE("grammar: comparisons keep all their operands") {
  CHECK(tree("a <= j < b") == "comparison <= <(name a, name j, name b)");
  CHECK(tree("a + 1 == b * 2 != c") ==
        "comparison == !=(chain +(name a, integer 1), chain *(name b, integer 2), name c)");
  CHECK(tree("(a < b) < c") == "comparison <(comparison <(name a, name b), name c)");
}

TEST_CASE("grammar: conditions") {
  CHECK(tree("a and b or c and not d") == "chain or(chain and(name a, name b), chain and(name c, not(name d)))");
  CHECK(tree("not a < b and c") == "chain and(not(comparison <(name a, name b)), name c)");
  CHECK(tree("not not a") == "not(not(name a))");
  CHECK(tree("a or b or c") == "chain or or(name a, name b, name c)");
  CHECK(tree("not -a > 1") == "not(comparison >(negate(name a), integer 1))");
}

TEST_CASE("grammar: choices associate to the right") {
  CHECK(tree("a if p else b") == "conditional(then: name a, if: name p, else: name b)");
  CHECK(tree("a if p else b if q else c") ==
        "conditional(then: name a, if: name p, else: conditional(then: name b, if: name q, else: name c))");
  CHECK(tree("a or b if c or d else e + f") ==
        "conditional(then: chain or(name a, name b), if: chain or(name c, name d), else: chain +(name e, name f))");
  CHECK(tree("(a if p else b) if q else c") ==
        "conditional(then: conditional(then: name a, if: name p, else: name b), if: name q, else: name c)");
}

TEST_CASE("grammar: names, subscripts, calls and casts") {
  CHECK(tree("x[]") == "subscript x");
  CHECK(tree("x[i, j + 1]") == "subscript x(name i, chain +(name j, integer 1))");
  CHECK(tree("f()") == "call f");
  CHECK(tree("max(a, f(b))") == "call max(name a, call f(name b))");
  CHECK(tree("f16(a)") == "cast f16(name a)");
  CHECK(tree("T(a)") == "call T(name a)");
  CHECK(tree("max + sum(x)") == "chain +(name max, call sum(name x))");
}

TEST_CASE("grammar: reductions") {
  CHECK(tree("sum[j](a)") == "reduction sum(index j, body: name a)");
  CHECK(tree("max[i, j in 0..N, k in a + 1..2 * M](a)") ==
        "reduction max(index i, index j(from: integer 0, to: name N), index k(from: chain +(name a, integer 1), to: "
        "chain *(integer 2, name M)), body: name a)");
  CHECK(tree("softmax[j where j <= i](s, extra = t)") ==
        "reduction softmax(index j, where: comparison <=(name j, name i), body: name s, extra: name t)");
  for (const char* reducer :
       {"sum", "max", "min", "mean", "prod", "any", "all", "logsumexp", "argmax", "softmax", "cumsum"})
    CHECK(tree(std::string(reducer) + "[j](a)") == std::string("reduction ") + reducer + "(index j, body: name a)");
}

TEST_CASE("grammar: a type variable makes a cast, in its kernel only") {
  ast::Module module = parsed(
      "fn f(x) = T(x)\n"
      "kernel a<T>(x: T[N]) -> O: T[N] {\n fn g(y) = T(y)\n O[i] = T(x[i])\n}\n"
      "kernel b(x: f32[N]) -> O: f32[N] {\n O[i] = T(x[i])\n}\n");
  CHECK(std::holds_alternative<ast::Call>(std::get<ast::FunctionDecl>(module.declarations[0]).body->kind));
  const auto& a = std::get<ast::Kernel>(module.declarations[1]);
  CHECK(std::holds_alternative<ast::Cast>(std::get<ast::FunctionDecl>(a.items[0]).body->kind));
  CHECK(std::holds_alternative<ast::Cast>(std::get<ast::Definition>(a.items[1]).body->kind));
  const auto& b = std::get<ast::Kernel>(module.declarations[2]);
  CHECK(std::holds_alternative<ast::Call>(std::get<ast::Definition>(b.items[0]).body->kind));
}

TEST_CASE("grammar: a whole module") {
  ast::Module module = parsed(
      "use std.masks\n"
      "fn half(x) = x / 2\n"
      "kernel k<T, U>(Q: T[B, 2 * D, (N + 15) / 16, 4], n: i64, c: const bool = true, s: f32 = 1 / sqrt(D))\n"
      "    -> (O: U[N], L: f32[]) {\n"
      "  fn p() = 1\n"
      "  O[i in 0..N] = 1.5\n"
      "  L[] = 2\n"
      "}\n");
  CHECK(print_tree(module) == R"(module
  use std.masks
  function half x
    chain /
      name x
      integer 2
  kernel k <T> <U>
    tensor Q T[]
      name B
      chain *
        integer 2
        name D
      chain /
        chain +
          name N
          integer 15
        integer 16
      integer 4
    scalar n i64
    scalar c const bool
      default: true
    scalar s f32
      default: chain /
        integer 1
        call sqrt
          name D
    result O U[]
      name N
    result L f32[]
    function p
      integer 1
    definition O
      index i
        from: integer 0
        to: name N
      float 1.5
    definition L
      integer 2
)");
}

TEST_CASE("grammar: spans cover what was written") {
  Source source("t", "fn f(x) = 1 + (a * b)^2 if g(x) else sum[j in 0..n where j < 3](x[j])");
  ast::Module module = *parse(source);
  const auto& f = std::get<ast::FunctionDecl>(module.declarations[0]);
  auto text = [&](Span span) { return std::string(source.text().substr(span.begin, span.end - span.begin)); };
  CHECK(text(f.name_span) == "f");
  CHECK(text(f.span) == source.text());
  const auto& choice = std::get<ast::Conditional>(f.body->kind);
  CHECK(text(f.body->span) == source.text().substr(10));
  CHECK(text(choice.then->span) == "1 + (a * b)^2");
  const auto& chain = std::get<ast::Chain>(choice.then->kind);
  CHECK(text(chain.link_spans[0]) == "+");
  CHECK(text(chain.operands[1]->span) == "(a * b)^2");
  CHECK(text(choice.condition->span) == "g(x)");
  CHECK(text(choice.otherwise->span) == "sum[j in 0..n where j < 3](x[j])");
  const auto& sum = std::get<ast::Reduction>(choice.otherwise->kind);
  CHECK(text(sum.reducer_span) == "sum");
  CHECK(text(sum.indices[0].span) == "j in 0..n");
  CHECK(text(sum.guard->span) == "j < 3");
}
