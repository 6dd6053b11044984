// SPDX-License-Identifier: Apache-2.0
// The printed form of loop kernels, whole and in details.
#include "tests/catch.hpp"
#include "tests/loop/kernels.hpp"

using namespace hand;

TEST_CASE("loop print: a ragged copy", "[loop]") {
  CopyScale copy;
  CHECK(loop::print(copy.kernel) == R"(kernel copy
  schedule lanes=64 operands=packed order=heavy_first tile.m=64 tile.n=128 unit.rows=4
  dim N
  scalar a: f32
  input x: f32[N]
  result y: f32[N]
  nest y
    grid n0 in 0..N step 4
    lanes n by 4 below N
    tile t: f32[n = n0 + 4] stack  # stored n/4, n%4
    t[n] = x[n] else keep  for n in n0..n0 + 4
    store y[n] = a * t[n]  for n in n0..n0 + 4
)");
}

TEST_CASE("loop print: a streamed attention, two tiles of one name", "[loop]") {
  Attention attention;
  CHECK(loop::print(attention.kernel) == R"(kernel causal
  schedule lanes=64 operands=packed order=heavy_first tile.m=64 tile.n=128 unit.rows=4
  dim B
  dim H
  dim G
  dim M
  dim N
  dim D
  dim E
  scalar scale: f32
  input Q: f32[B, H, M, D]
  input K: f32[B, G, N, D]
  input V: f32[B, G, N, E]
  result O: f32[B, H, M, E]
  nest O
    grid b in 0..B step 1
    grid h in 0..H step 1
    grid i0 in 0..M step 4 descending
    rows i
    lanes i by 4 below M
    tile Qp: f32[d = 0 + D, i = i0 + 4] packed  # stored i/4, d, i%4
    tile S: f32[i = i0 + 4, j = j0 + 8] stack  # stored i/4, j, i%4
    tile m: f32[i = i0 + 4] stack  # stored i/4, i%4
    tile m.2: f32[i = i0 + 4] stack  # stored i/4, i%4
    tile l: f32[i = i0 + 4] stack  # stored i/4, i%4
    tile r: f32[i = i0 + 4] stack  # stored i/4, i%4
    tile o: f32[i = i0 + 4, e = 0 + E] stack  # stored i/4, e, i%4
    Qp[d, i] = Q[b, h, i, d] else keep  for d in 0..D, i in i0..i0 + 4
    m[i] = -3.05e+38 else keep  for i in i0..i0 + 4
    l[i] = 0.0 else keep  for i in i0..i0 + 4
    o[i, e] = 0.0 else keep  for i in i0..i0 + 4, e in 0..E
    let end = min(N, i0 + 4 + N - M)
    for j0 in 0..end step 8 : serial  # stream j
      let hi = min(j0 + 8, end)
      S[i, j] = contract[d in 0..D] Qp[d, i] * K[b, h / (H / G), j, d]  for i in i0..i0 + 4, j in j0..hi
      S[i, j] = S[i, j] * scale where j <= i + N - M else -3.39e+38  for i in i0..i0 + 4, j in j0..hi
      m.2[i] = m[i] else keep  for i in i0..i0 + 4
      m.2[i] = reduce[j in j0..hi] max_any(S[i, j]) with m.2[i]  for i in i0..i0 + 4
      r[i] = exp(m[i] - m.2[i]) else keep  for i in i0..i0 + 4
      S[i, j] = exp(S[i, j] - m.2[i]) else keep  for i in i0..i0 + 4, j in j0..hi
      l[i] = l[i] * r[i] else keep  for i in i0..i0 + 4
      l[i] = reduce[j in j0..hi] sum(S[i, j]) with l[i]  for i in i0..i0 + 4
      o[i, e] = o[i, e] * r[i] + contract[j in j0..hi] S[i, j] * V[b, h / (H / G), j, e]  for i in i0..i0 + 4, e in 0..E
      m[i] = m.2[i] else keep  for i in i0..i0 + 4
    store O[b, h, i, e] = where(l[i] > 0.0, o[i, e] / l[i])  for i in i0..i0 + 4, e in 0..E
)");
}

TEST_CASE("loop print: operators keep their brackets, buffers their facts", "[loop]") {
  CopyScale copy;
  const Expr x = scalar(copy.a, tensor::type_f32);
  const Sym p = Sym::fresh("present"), w = Sym::fresh("w"), flag = Sym::fresh("flag"), best = Sym::fresh("best"),
            at = Sym::fresh("at"), k = Sym::fresh("k");
  copy.kernel.trusted = true;
  copy.kernel.index_bits = 32;
  copy.kernel.buffers.push_back(buffer(w, DType::bf16, {dim(copy.N)}, loop::Role::temporary));
  copy.kernel.buffers.back().presence = p;
  copy.kernel.buffers.back().unit_axis = 0;
  copy.kernel.buffers.back().why = "read by two reductions";
  loop::Nest nest;
  nest.name = "odds";
  nest.tiles = {tile(best, {}), tile(at, {}, DType::i64)};
  const Expr choose(tensor::Select{x < F(0), F(1), x}, tensor::type_f32);
  const Expr negative = call(UnaryOp::negate, x + F(2));
  const Expr power(tensor::Power{negative, F(2)}, tensor::type_f32);
  const Expr both =
      chain(LinkOp::both, {T(true), chain(LinkOp::either, {T(false), call(UnaryOp::logical_not, x < F(1))})});
  const Expr random(tensor::Random{I(7), {I(-1), I(2)}}, tensor::type_f32);
  loop::If branch{
      both, {stmt(loop::Let{flag, (x - (x - F(1))) / (x * F(0.25))})}, {stmt(loop::Let{p, choose + choose})}};
  loop::For unrolled{k, I(0), I(4), I(2), loop::ForKind::unrolled, "", {stmt(branch)}};
  unrolled.blocks = Sym::fresh("w");
  unrolled.guard = ix(unrolled.blocks) < I(3);
  nest.body = {stmt(unrolled),
               stmt(loop::Let{k, power}),
               stmt(loop::Let{k, random}),
               stmt(loop::Let{k, cast(x, DType::f16)}),
               stmt(loop::Accumulate{loop::Op::argmax, best, at, {}, {{k, I(0), I(3)}}, x, x < F(1)}),
               map(best, {}, call(UnaryOp::exp, x), x < F(3), F(0))};
  copy.kernel.nests = {nest};
  CHECK(loop::print(copy.kernel) == R"(kernel copy trusted index 32
  schedule lanes=64 operands=packed order=heavy_first tile.m=64 tile.n=128 unit.rows=4
  dim N
  scalar a: f32
  input x: f32[N]
  result y: f32[N]
  temporary w: bf16[N] present present unit 0  # read by two reductions
  nest odds
    tile best: f32[] stack
    tile at: i64[] stack
    for k in 0..4 step 2 of w.2 where w.2 < 3 : unrolled
      if true and (false or not a < 1.0)
        let flag = (a - (a - 1.0)) / (a * 0.25)
      else
        let present = (1.0 if a < 0.0 else a) + (1.0 if a < 0.0 else a)
    let k = (-(a + 2.0))^2.0
    let k = rand(7, -1, 2)
    let k = f16(a)
    best[], at[] = reduce[k in 0..3] argmax(a where a < 1.0) with best[], at[]
    best[] = exp(a) where a < 3.0 else 0.0
)");
}
