// SPDX-License-Identifier: Apache-2.0
// The inferred program as data: types, order, casts, helpers of the tensor IR, and the binding of types and consts.
#include "syntax/syntax.hpp"
#include "tensor/passes.hpp"
#include "tests/catch.hpp"

using namespace attune;
using namespace attune::tensor;

namespace {

Program inferred(const std::string& text) {
  auto module = parse(Source("t", text));
  if (!module) throw Error(module.diagnostics());
  return infer(*module).value();
}

/// The body of the one definition of a kernel with tensors and scalars of several types.
Expr body(const std::string& text, const std::string& result = "f32") {
  const Program program =
      inferred("kernel k<T>(Q: T[M], h: f16[M], n: i32[M], p: bool[M], s: f32, c: i32) -> (O: " + result +
               "[M], U: f32[M]) {\n  O[i] = " + text + "\n  U[i] = Q[i] + h[i] + n[i] + p[i] + s + c\n}\n");
  CHECK(verify(program).empty());
  return program.definitions[0].body;
}

}  // namespace

TEST_CASE("types of expressions") {
  CHECK(body("Q[i]")->type.var.text() == "T");
  CHECK(body("h[i]")->type == Type{DType::f16, {}});
  CHECK(body("h[i] * h[i]")->type == type_f32);
  CHECK(body("n[i]", "i32")->type == Type{DType::i32, {}});
  CHECK(body("n[i] + 1", "i32")->type == type_i64);
  CHECK(body("i8(n[i])", "i32")->type == Type{DType::i8, {}});
  CHECK(body("p[i]", "bool")->type == type_bool);
  CHECK(body("-n[i]", "i64")->type == type_i64);
  CHECK(body("i / 2", "i64")->type == type_i64);
  CHECK(body("i / 2.0")->type == type_f32);
  CHECK(body("n[i] ^ 2", "i64")->type == type_i64);
  CHECK(body("n[i] ^ c")->type == type_f32);
  CHECK(body("n[i] ^ -1")->type == type_f32);
  CHECK(body("T(s)")->type.var.text() == "T");
  CHECK(body("h[i] if p[i] else h[i]")->type == type_f32);
  CHECK(body("sqrt(i)")->type == type_f32);
  CHECK(body("abs(n[i])", "i64")->type == type_i64);
  CHECK(body("p[i] if n[i] > 0 else true", "bool")->type == type_bool);
  CHECK(body("argmax[j](h[j])", "i32")->type == type_i64);
  CHECK(body("mean[j](n[j])")->type == type_f32);
  CHECK(body("prod[j](n[j])", "i64")->type == type_i64);
  CHECK(body("any[j](p[j])", "bool")->type == type_bool);
  // The whole right-hand side of an integer result: the empty value is that of the result's type.
  CHECK(body("max[j](n[j])", "i8")->type == Type{DType::i8, {}});
  CHECK(body("max[j](n[j]) + 1", "i8")->type == type_i64);
}

TEST_CASE("conversions are written out once") {
  CHECK(print(body("n[i] + i + s")) == "f32(n[i] + i) + s");
  CHECK(print(body("s + n[i] + i")) == "s + f32(n[i]) + f32(i)");
  CHECK(print(body("n[i] * c / 2 * s")) == "f32(n[i] * c / 2) * s");
  CHECK(print(body("p[i] * s")) == "f32(p[i]) * s");
  CHECK(print(body("p[i] + p[i]", "i64")) == "i64(p[i]) + i64(p[i])");
  CHECK(print(body("2 * s")) == "2.0 * s");
  CHECK(print(body("(s - 1) - s")) == "s - 1.0 - s");
  CHECK(print(body("s - (1 - s)")) == "s - (1.0 - s)");
  CHECK(print(body("-s ^ 2")) == "-s ^ 2.0");
  CHECK(print(body("(-s) ^ 2")) == "(-s) ^ 2.0");
  CHECK(print(body("n[i]")) == "f32(n[i])");
  CHECK(print(body("0 <= i < n[i] <= c", "bool")) == "0 <= i < n[i] <= c");
  CHECK(print(body("i < n[i] < s", "bool")) == "i < n[i] and f32(n[i]) < s");
  CHECK(print(body("inf if s > 0 else -inf")) == "inf if s > 0.0 else -inf");
}

TEST_CASE("a copy of a bound index is another index") {
  const Expr expr = body("sum[k](n[k]) < s < 3", "bool");
  CHECK(print(expr) == "f32(sum[k in 0..M](n[k])) < s < 3.0");
  const Program program =
      inferred("fn square(x) = x * x\nkernel k(Q: f32[M, N]) -> O: f32[M] {\n O[i] = square(sum[j](Q[i, j]))\n}\n");
  const auto& product = std::get<Chain>(program.definitions[0].body->kind);
  const auto& first = std::get<Reduce>(product.args[0]->kind);
  const auto& second = std::get<Reduce>(product.args[1]->kind);
  CHECK(!(first.over[0].index == second.over[0].index));
  CHECK(verify(program).empty());
}

TEST_CASE("spans follow the text") {
  const std::string text = "kernel k(Q: f32[M]) -> O: f32[M] {\n  O[i] = Q[i] + 1\n}\n";
  const Program program = inferred(text);
  const Span span = program.definitions[0].body->span;
  CHECK(text.substr(span.begin, span.end - span.begin) == "Q[i] + 1");
}

TEST_CASE("substitution, renaming, mention") {
  const Program program = inferred(
      "kernel k(Q: f32[M, N]) -> (O: f32[M, N], C: f32[M, N]) {\n O[i, j] = softmax[j where j < 3](Q[i, j])\n"
      " C[i, j] = cumsum[j](Q[i, j])\n}\n");
  const Definition& soft = program.definitions[0];
  const Definition& running = program.definitions[1];
  const Sym i = soft.indices[0].index, j = soft.indices[1].index;
  const Sym q = program.tensors[0].sym;
  CHECK(mentions(soft.body, i));
  CHECK(mentions(soft.body, j));
  CHECK(mentions(soft.body, q));
  CHECK(!mentions(soft.body, running.sym));
  const Sym x = Sym::fresh("x");
  CHECK(print(substitute(soft.body, {{i, integer(2)}, {j, index(x)}})) == "softmax[x in 0..N where x < 3](Q[2, x])");
  CHECK(print(substitute(soft.body, {{j, integer(2)}})) ==
        "where(2 < 3, exp(Q[i, 2] - logsumexp[j in 0..N where j < 3](Q[i, j])))");
  CHECK(print(substitute(running.body, {{running.indices[1].index, integer(2)}})) ==
        "sum[j in 0..N where j <= 2](Q[i, j])");
  CHECK(substitute(soft.body, {{x, integer(1)}}).same(soft.body));

  const Expr total = Expr(Reduce{ReduceOp::sum, {{x, integer(0), integer(3)}}, {}, index(x), {}}, type_i64);
  CHECK(!mentions(total, x));
  CHECK(substitute(total, {{x, integer(1)}}).same(total));
  const Expr again = refresh(total);
  CHECK(print(again) == "sum[x in 0..3](x)");
  CHECK(!(again == total));
  CHECK(print(link(LinkOp::add, total, again)) == "sum[x in 0..3](x) + sum[x in 0..3](x)");
}

TEST_CASE("links fold to the left") {
  const Expr s = real(1), two = integer(2);
  CHECK(print(link(LinkOp::sub, link(LinkOp::add, s, s), s)) == "1.0 + 1.0 - 1.0");
  CHECK(std::get<Chain>(link(LinkOp::sub, link(LinkOp::add, s, s), s)->kind).args.size() == 3);
  CHECK(print(link(LinkOp::sub, s, link(LinkOp::add, s, s))) == "1.0 - (1.0 + 1.0)");
  CHECK(print(link(LinkOp::mul, link(LinkOp::floordiv, two, two), s)) == "f32(2 / 2) * 1.0");
  CHECK(cast(two, type_i64).same(two));
}

TEST_CASE("verify names the first violation") {
  Program program = inferred("kernel k(Q: f32[M]) -> O: f32[M] {\n  O[i] = Q[i] + 1\n}\n");
  CHECK(verify(program).empty());
  Program wrong = program;
  wrong.definitions[0].body = index(Sym::fresh("x"));
  CHECK(verify(wrong) == "definition O: the index `x` is not in scope");
  wrong = program;
  wrong.definitions[0].body = Expr(Chain{{LinkOp::add}, {real(1), integer(1)}}, type_f32);
  CHECK(verify(wrong) == "definition O: the operand `1` has the wrong kind in `1`");
  wrong = program;
  wrong.definitions[0].body = Expr(Access{program.tensors[0].sym, {}}, type_f32);
  CHECK(verify(wrong) == "definition O: `Q` is read with another rank");
  wrong = program;
  wrong.definitions[0].body = boolean(true);
  CHECK(verify(wrong) == "result O: has another kind than its definition");
  wrong = program;
  wrong.definitions.clear();
  CHECK(verify(wrong) == "result O: has no definition");
}

TEST_CASE("binding types and consts") {
  const Program program = inferred(
      "kernel k<T, U>(Q: T[M], c: const i32 = 2 ^ 5 / 3, a: const f16 = 1 / 3.0, b: const bool = c > 3, s: f32 = 2 * "
      "c) -> O: U[M] {\n"
      "  O[i] = T(f32(Q[i])) + i / c * s + a + (1 if b else 0)\n}\n");
  const auto bound = bind_types(program, {{"T", DType::f32}, {"U", DType::bf16}});
  REQUIRE(bound.ok());
  CHECK(verify(*bound).empty());
  CHECK(print(*bound) ==
        "kernel k(Q: f32[M], s: f32 = f32(2 * 10)) -> (O: bf16[M]) {\n"
        "  O[i in 0..M]: f32 = Q[i] + f32(i / 10) * s + 0.333251953125 + f32(1 if true else 0)\n}\n");
  const auto given = bind_types(program, {{"T", DType::f16}, {"U", DType::f32}}, {{"c", 7}, {"b", 0}});
  REQUIRE(given.ok());
  CHECK(print(given->definitions[0].body) ==
        "f16(f32(Q[i])) + f32(i / 7) * s + 0.333251953125 + f32(1 if false else 0)");

  auto message = [&](const std::map<std::string, DType>& types, const std::map<std::string, double>& consts) {
    const auto result = bind_types(program, types, consts);
    return result.ok() ? std::string() : result.diagnostics()[0].code + ": " + result.diagnostics()[0].message;
  };
  CHECK(message({{"T", DType::f32}}, {}) == "A0233: type variable `U` of kernel `k` is not bound");
  CHECK(message({{"T", DType::f32}, {"U", DType::i32}}, {}) == "A0233: type variable `U` cannot be i32");
  CHECK(message({{"T", DType::f32}, {"U", DType::f32}, {"V", DType::f32}}, {}) ==
        "A0233: kernel `k` has no type variable `V`");
  const std::map<std::string, DType> types = {{"T", DType::f32}, {"U", DType::f32}};
  CHECK(message(types, {{"c", 1.5}}) == "A0234: the value of const `c` is not one of i32");
  CHECK(message(types, {{"c", 3e9}}) == "A0234: the value of const `c` is not one of i32");
  CHECK(message(types, {{"b", 2}}) == "A0234: const `b` is bool and takes 0 or 1");
  CHECK(message(types, {{"d", 2}}) == "A0234: kernel `k` has no const scalar `d`");
  CHECK(message(types, {{"c", 0}}) == "A0217: a const divisor is 0");
  const Program open = inferred("kernel k(Q: f32[M], c: const i32) -> O: f32[M] {\n O[i] = c * Q[i]\n}\n");
  CHECK(bind_types(open, {}).diagnostics()[0].message == "const `c` needs a value");
}
