// SPDX-License-Identifier: Apache-2.0
// Every construct of the builder against the text that means the same.
#include <attune/builder.hpp>
#include <limits>

#include "syntax/syntax.hpp"
#include "tests/catch.hpp"

using namespace attune;

namespace {

Program parsed(const std::string& text) {
  Result<Program> program = Program::parse(text);
  INFO(text << "\n" << render(program.diagnostics()));
  REQUIRE(program);
  return *program;
}

struct Names {
  Dim M{"M"}, N{"N"}, D{"D"};
  Index i{"i"}, j{"j"}, k{"k"};
  Tensor x{"x", f32, {M, N}}, y{"y", f32, {N}}, p{"p", i32, {M}}, q{"q", boolean, {M, N}};
  Scalar s{"s", f32}, n{"n", i32};

  /// The program whose one definition has this body, and the text's.
  void same(const Expr& body, const std::string& text) const {
    const Tensor O = define("O", {i}, body, f32, {M});
    const Program built = program("k", {x, y, p, q, s, n}, {O});
    const Program read = parsed(
        "kernel k(x: f32[M, N], y: f32[N], p: i32[M], q: bool[M, N], s: f32, n: i32) -> O: f32[M] { O[i] = " + text +
        " }");
    INFO(text << "\n" << built.text());
    CHECK(built == read);
  }
};

/// The codes of a failure, in order.
std::vector<std::string> codes(const Result<Program>& result) {
  std::vector<std::string> codes;
  if (!result)
    for (const Diagnostic& diagnostic : result.diagnostics()) codes.push_back(diagnostic.code);
  return codes;
}
using Codes = std::vector<std::string>;

}  // namespace

TEST_CASE_METHOD(Names, "builder: numbers and arithmetic") {
  same(1, "1");
  same(-3, "-3");
  same(1.5, "1.5");
  same(1.0, "1.0");
  same(-0.25f, "-0.25");
  same(std::int64_t{1} << 62, "4611686018427387904");
  same(true, "true");
  same(infinity(), "inf");
  same(-std::numeric_limits<double>::infinity(), "-inf");
  same(i + 1 - N, "i + 1 - N");
  same(i + (1 - N), "i + (1 - N)");
  same(i * 2 / 3 % n, "i * 2 / 3 % n");
  same(i * (2 / n), "i * (2 / n)");
  same((i + 1) * 2, "(i + 1) * 2");
  same(2 - i, "2 - i");
  same(-i * 2, "-i * 2");
  same(-(i * 2), "-(i * 2)");
  same(-pow(s, 2), "-s^2");
  same(pow(-s, 2), "(-s)^2");
  same(pow(s, pow(2, n)), "s^2^n");
  same(pow(pow(s, 2), 3), "(s^2)^3");
  same(x(i, 0) + y(i % N), "x[i, 0] + y[i % N]");
}

TEST_CASE_METHOD(Names, "builder: conditions") {
  same(select(i < N, 1, 2), "1 if i < N else 2");
  same(select(i < N, 1, select(i == 3, 2, 3)), "1 if i < N else 2 if i == 3 else 3");
  same(select(i < N && i > 2 || !(i != 4), 1, 0), "1 if i < N and i > 2 or not i != 4 else 0");
  same(select(i < N && (i > 2 || i == 0) && true, 1, 0), "1 if i < N and (i > 2 or i == 0) and true else 0");
  same(select(chain(0 <= i, i < N), 1, 0), "1 if 0 <= i < N else 0");
  same(select(chain(0 <= i, i < N, N != n), 1, 0), "1 if 0 <= i < N != n else 0");
  same(select(i >= 1 && i <= 2, 1, 0), "1 if i >= 1 and i <= 2 else 0");
}

TEST_CASE_METHOD(Names, "builder: functions and casts") {
  same(exp(s) + exp2(s) + log(s) + log2(s) + sqrt(s) + rsqrt(s) + sin(s) + cos(s) + tanh(s) + abs(s),
       "exp(s) + exp2(s) + log(s) + log2(s) + sqrt(s) + rsqrt(s) + sin(s) + cos(s) + tanh(s) + abs(s)");
  same(sigmoid(s) * silu(s) * relu(s) * gelu(s) * erf(s) * softplus(s) * floor(s) * ceil(s) * round(s),
       "sigmoid(s) * silu(s) * relu(s) * gelu(s) * erf(s) * softplus(s) * floor(s) * ceil(s) * round(s)");
  same(min(s, 1) + max(s, 1, n) + clamp(s, 0, 1) + rand(n, i),
       "min(s, 1) + max(s, 1, n) + clamp(s, 0, 1) + rand(n, i)");
  same(cast(f16, s) + cast(i32, s) + cast(boolean, i < 1), "f16(s) + i32(s) + bool(i < 1)");
  same(max(i, j), "max(i, j)");
}

TEST_CASE_METHOD(Names, "builder: reductions") {
  same(sum(j)(y(j)), "sum[j](y[j])");
  same(sum(j, where(q(i, j)))(x(i, j)), "sum[j where q[i, j]](x[i, j])");
  same(sum(j.in(0, N), where(j < n))(1), "sum[j in 0..N where j < n](1)");
  same(sum(j.in(0, N - 1), k.in(0, 2))(y(j + k)), "sum[j in 0..N - 1, k in 0..2](y[j + k])");
  same(max(j)(y(j)), "max[j](y[j])");
  same(min(j, where(j < n))(y(j)), "min[j where j < n](y[j])");
  same(max(over(j, k), where(j < k))(y(j) * y(k)), "max[j, k where j < k](y[j] * y[k])");
  same(max(j.in(0, 4))(j), "max[j in 0..4](j)");
  same(mean(j)(y(j)) + prod(j)(y(j)), "mean[j](y[j]) + prod[j](y[j])");
  same(select(any(j)(q(i, j)) && all(j)(q(i, j)), 1, 0), "1 if any[j](q[i, j]) and all[j](q[i, j]) else 0");
  same(logsumexp(j, extra(s))(y(j)), "logsumexp[j](y[j], extra = s)");
  same(argmax(j)(y(j)), "argmax[j](y[j])");
  same(sum(j)(softmax(j, where(j <= i), extra(0))(y(j)) * cumsum(j)(y(j))),
       "sum[j](softmax[j where j <= i](y[j], extra = 0) * cumsum[j](y[j]))");
}

TEST_CASE("builder: the example of the notation's description") {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
  TypeVar T{"T"};
  Dim B{"B"}, H{"H"}, G{"G"}, M{"M"}, N{"N"}, D{"D"}, E{"E"};
  Index b{"b"}, h{"h"}, i{"i"}, j{"j"}, d{"d"}, e{"e"};
  Tensor Q{"Q", T, {B, H, M, D}}, K{"K", T, {B, G, N, D}}, V{"V", T, {B, G, N, E}}, slope{"slope", f32, {H}};
  Scalar scale{"scale", f32, 1 / sqrt(D)};
  Function kv{"kv", [&](Expr h) { return h / (H / G); }}, pos{"pos", [&](Expr i) { return i + N - M; }};

  Tensor S = define("S", {b, h, i, j}, scale * sum(d)(Q(b, h, i, d) * K(b, kv(h), j, d)) + slope(h) * (j - pos(i)));
  Tensor P = define("P", {b, h, i, j}, softmax(j, where(j <= pos(i)))(S(b, h, i, j)));
  Tensor O = define("O", {b, h, i, e}, sum(j)(P(b, h, i, j) * V(b, kv(h), j, e)), T);
  Program alibi = program("alibi", {Q, K, V, slope, scale}, {O});
#pragma GCC diagnostic pop
  CHECK(alibi == parsed(R"(
# Grouped-query causal attention with ALiBi.
kernel alibi<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E], slope: f32[H],
                scale: f32 = 1 / sqrt(D)) -> O: T[B, H, M, E] {
  fn kv(h)  = h / (H / G)          # consecutive query heads share one KV head
  fn pos(i) = i + N - M            # bottom-right alignment, written out

  S[b, h, i, j] = scale * sum[d](Q[b, h, i, d] * K[b, kv(h), j, d]) + slope[h] * (j - pos(i))
  P[b, h, i, j] = softmax[j where j <= pos(i)](S[b, h, i, j])
  O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, kv(h), j, e])
}
)"));
}

TEST_CASE("builder: declarations of every kind") {
  const TypeVar T{"T"}, U{"U"};
  const Dim B{"B"}, N{"N"}, D{"D"};
  const Index b{"b"}, i{"i"}, j{"j"}, c{"c"};
  const Tensor x{"x", T, {B, (N + 15) / 16, 2 * D}}, w{"w", U, {pow(D, 2), N % 4}}, one{"one", f32, {}};
  const Scalar cap = const_scalar("cap", f32, 50.0), steps = const_scalar("steps", i32), s{"s", bf16, sqrt(N) + cap};
  const Use masks{"std.masks"};
  const Function two{"two", [] { return 2; }};
  const Function mix{"mix", {"a", "t"}, [&](Expr p, Expr t) { return p + t * two() + one(); }};
  const Function total{"total", [&](Expr row) { return sum(j)(x(row, 0, j)); }};
  const Tensor y = define("y", {b, i.in(0, N), c}, T(U(x(b, i, c)) * s), U);
  const Tensor z = define("z", {}, mix(total(0), cap * steps) * w(0, 0), f32);
  const Tensor v = define("v", {b}, select(masks("causal", b, b), total(b), y(b, 0, 0)), i64);
  const Program built = program("many", {x, w, one, cap, steps, s}, {y, z, v});
  CHECK(built == parsed(R"(
use std.masks
kernel many<T, U>(x: T[B, (N + 15) / 16, 2 * D], w: U[D^2, N % 4], one: f32[], cap: const f32 = 50.0, steps: const i32,
                  s: bf16 = sqrt(N) + cap) -> (y: U[B, N, 2 * D], z: f32[], v: i64[B]) {
  fn two() = 2
  fn mix(a, t) = a + t * two() + one[]
  fn total(b) = sum[j](x[b, 0, j])
  y[b, i in 0..N, c] = T(U(x[b, i, c]) * s)
  z[] = mix(total(0), cap * steps) * w[0, 0]
  v[b] = total(b) if causal(b, b) else y[b, 0, 0]
}
)"));
}

TEST_CASE("builder: extents of results follow subscripts through functions and definitions") {
  const Dim M{"M"}, N{"N"};
  const Index i{"i"}, j{"j"}, k{"k"};
  const Tensor x{"x", f32, {M, N + 1}};
  const Function at{"at", {"a"}, [&](Expr a) { return x(0, a); }}, again{"again", {"a"}, [&](Expr a) { return at(a); }};
  const Tensor a = define("a", {i, j}, x(i, j) + x(i + 1, 0)), c = define("c", {k, i}, a(k, i));
  const Tensor O = define("O", {j, i}, c(j, i) + again(i), f32), L = define("L", {k}, again(k), f32);
  CHECK(program("p", {x}, {O, L}) == parsed(R"(
kernel p(x: f32[M, N + 1]) -> (O: f32[M, N + 1], L: f32[N + 1]) {
  fn at(a) = x[0, a]
  fn again(a) = at(a)
  a[i, j] = x[i, j] + x[i + 1, 0]
  c[k, i] = a[k, i]
  O[j, i] = c[j, i] + again(i)
  L[k] = again(k)
}
)"));
}

TEST_CASE("builder: the order is that of making, and what no result reaches is left out") {
  const Dim N{"N"};
  const Index i{"i"};
  const Tensor x{"x", f32, {N}};
  const Tensor first = define("first", {i}, x(i) + 1), unused = define("unused", {i}, x(i) * 2);
  const Function late{"late", [](Expr t) { return t * 3; }};
  const Tensor O = define("O", {i}, late(first(i)), f32);
  CHECK(program("p", {x}, {O}) ==
        parsed("kernel p(x: f32[N]) -> O: f32[N] { first[i] = x[i] + 1; fn late(y) = y * 3; O[i] = late(first[i]) }"));
  // Two handles that declare a parameter alike are one parameter.
  const Tensor again{"x", f32, {N}};
  CHECK(program("p", {again}, {O}) == program("p", {x}, {O}));
}

TEST_CASE("builder: a parameter's name never meets one that the body uses") {
  const Dim N{"N"};
  const Index i{"i"}, j{"j"};
  const Tensor x{"x", f32, {N, N}};
  const Function row{"row", [&](Expr r) { return sum(j)(x(r, j)); }},
      twice{"twice", [](Expr p, Expr q) { return p - q; }};
  const Tensor O = define("O", {i}, sum(j)(row(j)) + row(i) + twice(i, i), f32);
  CHECK(program("p", {x}, {O}) ==
        parsed("kernel p(x: f32[N, N]) -> O: f32[N] { fn row(i) = sum[j](x[i, j]); fn twice(i, y) = i - y; "
               "O[i] = sum[j](row(j)) + row(i) + twice(i, i) }"));
}

TEST_CASE("builder: mistakes are diagnostics, all at once") {
  const Dim N{"N"};
  const Index i{"i"}, j{"j"};
  const Tensor x{"x", f32, {N}};
  auto of = [&](const Expr& body) { return codes(try_program("p", {x}, {define("O", {i}, body, f32, {N})})); };
  CHECK(of(x(i)) == Codes{});
  CHECK(of(x(i, j)) == Codes{"A0702"});
  CHECK(of(x()) == Codes{"A0702"});
  CHECK(of(x(i, j) + x() + Tensor()(i)) == Codes{"A0702", "A0702", "A0703"});
  CHECK(of(Expr() + x(i)) == Codes{"A0703"});
  CHECK(of(exp(Expr()) + sum(j)(Expr())) == Codes{"A0703"});
  CHECK(of(Index("a b") + x(i)) == Codes{"A0701"});
  CHECK(of(Dim("where") + x(i)) == Codes{"A0701"});
  CHECK(of(TypeVar("f32")(x(i))) == Codes{"A0701"});
  CHECK(of(std::numeric_limits<double>::quiet_NaN() * x(i)) == Codes{"A0707"});
  CHECK(of(x(i) + (std::uint64_t{1} << 63)) == Codes{"A0707"});
  CHECK(of(std::numeric_limits<std::int64_t>::min() + x(i)) == Codes{"A0707"});
  CHECK(of(select(chain(i < 2, j < 3), x(i), 0)) == Codes{"A0708"});
  CHECK(of(select(chain(x(i)), x(i), 0)) == Codes{"A0708"});
  CHECK(of(select(chain(std::vector<Expr>()), x(i), 0)) == Codes{"A0708"});
  CHECK(of(sum(where(i < 2))(x(i))) == Codes{"A0702"});
  CHECK(of(sum(j, where(j < 2), where(j < 3))(x(j))) == Codes{"A0702"});
  CHECK(of(Function("f", [](Expr a, Expr) { return a; })(x(i))) == Codes{"A0702"});
  CHECK(of(Function("f", {"a", "a"}, [](Expr a, Expr) { return a; })(x(i), 1)) == Codes{"A0705"});
  CHECK(of(Function("f", {"a"}, [](Expr a, Expr) { return a; })(x(i), 1)) == Codes{"A0702"});
  CHECK(of(Function("exp", [](Expr a) { return a; })(x(i))) == Codes{"A0701"});
  CHECK(of(Use("std..masks")("f", x(i))) == Codes{"A0701"});
  CHECK(of(Use("std.masks")("f g", x(i))) == Codes{"A0701"});
  CHECK(of(Tensor("z", f32, {N})(i) + x(i)) == Codes{"A0704"});
  CHECK(of(Scalar("z", f32) + x(i)) == Codes{"A0704"});
  CHECK(of(Tensor("x", i32, {N})(i) + x(i)) == Codes{"A0705"});
  CHECK(of(define("t", {j}, x(j))(i) + define("t", {j}, x(j) + 1)(i)) == Codes{"A0705"});
  CHECK(of(define("sum", {j}, x(j))(i)) == Codes{"A0701"});
  Expr leaked;
  const Function leak{"leak", [&](Expr a) {
                        leaked = a;
                        return a;
                      }};
  CHECK(of(leaked + x(i)) == Codes{"A0709"});
  const Function endless{"endless", [&](Expr a) { return endless(a); }};
  CHECK(of(endless(x(i))) == Codes{"A0703"});

  CHECK(codes(try_program("p", {x}, {})) == Codes{"A0706"});
  CHECK(codes(try_program("p", {x}, {x})) == Codes{"A0706"});
  CHECK(codes(try_program("p", {x}, {define("O", {i}, x(i))})) == Codes{"A0706"});
  CHECK(codes(try_program("p", {x}, {define("O", {i, j}, x(i) + j, f32)})) == Codes{"A0706"});
  CHECK(codes(try_program("p", {x}, {define("O", {i}, x(i), f32, {N, N})})) == Codes{"A0702"});
  const Tensor O = define("O", {i}, x(i), f32);
  CHECK(codes(try_program("p", {x}, {O, O})) == Codes{"A0705"});
  CHECK(codes(try_program("p", {x, x}, {O})) == Codes{"A0705"});
  CHECK(codes(try_program("p", {x, O}, {O})) == Codes{"A0704"});
  CHECK(codes(try_program("p", {Tensor()}, {Tensor()})) == Codes{"A0703", "A0703"});
  CHECK(codes(try_program("", {x}, {O})) == Codes{"A0701"});
  CHECK_THROWS_AS(program("2p", {x}, {O}), Error);
}

TEST_CASE("builder: large and deep expressions end in a diagnostic, long ones work") {
  const Dim N{"N"};
  const Index i{"i"};
  const Tensor x{"x", f32, {N}};
  auto of = [&](const Expr& body) { return codes(try_program("p", {x}, {define("O", {i}, body, f32)})); };
  Expr square = x(i);
  for (int k = 0; k < 200; ++k) square = square * square;
  CHECK(of(square) == Codes{"A0710"});
  Expr deep = x(i);
  for (int k = 0; k < 100'000; ++k) deep = exp(deep);
  CHECK(of(deep) == Codes{"A0710"});
  Expr nested = x(i);
  for (int k = 0; k < 200; ++k) nested = 1 - nested * 2;
  CHECK(of(nested) == Codes{});
  Expr deeper = x(i);
  for (int k = 0; k < 400; ++k) deeper = exp(deeper);
  CHECK(of(deeper).size() == 1);  // the parser's limit
  Expr sum = x(i);
  for (int k = 0; k < 20'000; ++k) sum = sum + x(i);
  CHECK(of(sum) == Codes{});
  // Long chains of definitions are released without recursion.
  Tensor last = define("d0", {i}, x(i));
  for (int k = 1; k < 50'000; ++k) last = define("d" + std::to_string(k), {i}, last(i) + 1);
  last = Tensor();
}

TEST_CASE("builder: diagnostics of later stages point into the printed text") {
  const Dim N{"N"};
  const Index i{"i"};
  const Tensor x{"x", f32, {N}};
  const Program built = program("p", {x}, {define("O", {i}, x(i) * 2, f32)});
  CHECK(built.module().source.name() == "<p>");
  CHECK(built.module().source.text() == built.text());
}
