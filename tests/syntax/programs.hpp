// SPDX-License-Identifier: Apache-2.0
// Programs that must parse: the notation's own examples and one for each corner of the grammar.
#pragma once

namespace attune::test {

// clang-format off
inline constexpr const char* programs[] = {
R"(# Grouped-query causal attention with ALiBi.
kernel alibi<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E], slope: f32[H],
                scale: f32 = 1 / sqrt(D)) -> O: T[B, H, M, E] {
  fn kv(h)  = h / (H / G)          # consecutive query heads share one KV head
  fn pos(i) = i + N - M            # bottom-right alignment, written out

  S[b, h, i, j] = scale * sum[d](Q[b, h, i, d] * K[b, kv(h), j, d]) + slope[h] * (j - pos(i))
  P[b, h, i, j] = softmax[j where j <= pos(i)](S[b, h, i, j])
  O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, kv(h), j, e])
}
)",
R"(kernel plain<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E], scale: f32 = 1 / sqrt(D)) -> O: T[B, H, M, E] {
  S[b, h, i, j] = scale * sum[d](Q[b, h, i, d] * K[b, h / (H / G), j, d])
  P[b, h, i, j] = softmax[j](S[b, h, i, j])
  O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h / (H / G), j, e])
}
)",
R"(kernel causal<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E], scale: f32 = 1 / sqrt(D)) -> O: T[B, H, M, E] {
  S[b, h, i, j] = scale * sum[d](Q[b, h, i, d] * K[b, h / (H / G), j, d])
  P[b, h, i, j] = softmax[j where j <= i](S[b, h, i, j])
  O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h / (H / G), j, e])
}
)",
R"(kernel bottom_right<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E], scale: f32 = 1 / sqrt(D)) -> O: T[B, H, M, E] {
  S[b, h, i, j] = scale * sum[d](Q[b, h, i, d] * K[b, h / (H / G), j, d])
  P[b, h, i, j] = softmax[j where j <= i + N - M](S[b, h, i, j])
  O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h / (H / G), j, e])
}
)",
R"(kernel window<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E], scale: f32 = 1 / sqrt(D), W: i32, n_sink: const i32 = 4) -> O: T[B, H, M, E] {
  fn pos(i) = i + N - M
  S[b, h, i, j] = scale * sum[d](Q[b, h, i, d] * K[b, h / (H / G), j, d])
  P[b, h, i, j] = softmax[j where pos(i) - W < j <= pos(i) or j < n_sink](S[b, h, i, j])
  O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h / (H / G), j, e])
}
)",
R"(kernel documents<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E], scale: f32 = 1 / sqrt(D), doc: i32[N]) -> O: T[B, H, M, E] {
  S[b, h, i, j] = scale * sum[d](Q[b, h, i, d] * K[b, h / (H / G), j, d])
  P[b, h, i, j] = softmax[j where doc[i] == doc[j] and j <= i](S[b, h, i, j])
  O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h / (H / G), j, e])
}
)",
R"(kernel intervals<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E], scale: f32 = 1 / sqrt(D), start: i64[M]) -> O: T[B, H, M, E] {
  S[b, h, i, j] = scale * sum[d](Q[b, h, i, d] * K[b, h / (H / G), j, d])
  P[b, h, i, j] = softmax[j where start[i] <= j <= i](S[b, h, i, j])
  O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h / (H / G), j, e])
}
)",
R"(kernel lengths<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E], scale: f32 = 1 / sqrt(D), len: i32[B]) -> O: T[B, H, M, E] {
  S[b, h, i, j] = scale * sum[d](Q[b, h, i, d] * K[b, h / (H / G), j, d])
  P[b, h, i, j] = softmax[j where j < len[b]](S[b, h, i, j])
  O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h / (H / G), j, e])
}
)",
R"(kernel tree<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E], scale: f32 = 1 / sqrt(D), anc: bool[M, M], P0: i32) -> O: T[B, H, M, E] {
  S[b, h, i, j] = scale * sum[d](Q[b, h, i, d] * K[b, h / (H / G), j, d])
  P[b, h, i, j] = softmax[j where j < P0 or anc[i, j - P0]](S[b, h, i, j])
  O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h / (H / G), j, e])
}
)",
R"(kernel mask<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E], scale: f32 = 1 / sqrt(D), mask: bool[B, M, N]) -> O: T[B, H, M, E] {
  S[b, h, i, j] = scale * sum[d](Q[b, h, i, d] * K[b, h / (H / G), j, d])
  P[b, h, i, j] = softmax[j where mask[b, i, j]](S[b, h, i, j])
  O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h / (H / G), j, e])
}
)",
R"(kernel prefix<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E], scale: f32 = 1 / sqrt(D), prefix: i32[B]) -> O: T[B, H, M, E] {
  S[b, h, i, j] = scale * sum[d](Q[b, h, i, d] * K[b, h / (H / G), j, d])
  P[b, h, i, j] = softmax[j where j <= i or j < prefix[b]](S[b, h, i, j])
  O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h / (H / G), j, e])
}
)",
R"(kernel chunked<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E], scale: f32 = 1 / sqrt(D), C: const i32 = 64) -> O: T[B, H, M, E] {
  S[b, h, i, j] = scale * sum[d](Q[b, h, i, d] * K[b, h / (H / G), j, d])
  P[b, h, i, j] = softmax[j where j / C == i / C and j <= i](S[b, h, i, j])
  O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h / (H / G), j, e])
}
)",
R"(kernel dilated<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E], scale: f32 = 1 / sqrt(D), R: i32) -> O: T[B, H, M, E] {
  S[b, h, i, j] = scale * sum[d](Q[b, h, i, d] * K[b, h / (H / G), j, d])
  P[b, h, i, j] = softmax[j where (i - j) % R == 0 and j <= i](S[b, h, i, j])
  O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h / (H / G), j, e])
}
)",
R"(kernel softcap<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E], scale: f32 = 1 / sqrt(D), cap: f32 = 30.0) -> O: T[B, H, M, E] {
  S[b, h, i, j] = scale * sum[d](Q[b, h, i, d] * K[b, h / (H / G), j, d])
  P[b, h, i, j] = softmax[j where j <= i](cap * tanh(S[b, h, i, j] / cap))
  O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h / (H / G), j, e])
}
)",
R"(kernel dense_bias<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E], scale: f32 = 1 / sqrt(D), bias: f32[H, M, N]) -> O: T[B, H, M, E] {
  S[b, h, i, j] = scale * sum[d](Q[b, h, i, d] * K[b, h / (H / G), j, d])
  P[b, h, i, j] = softmax[j](S[b, h, i, j] + bias[h, i, j])
  O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h / (H / G), j, e])
}
)",
R"(kernel t5<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E], scale: f32 = 1 / sqrt(D), bias: f32[H, 32]) -> O: T[B, H, M, E] {
  fn bucket(r) = min(31, max(0, floor_div(r) + 16))
  fn floor_div(r) = r / 4
  S[b, h, i, j] = scale * sum[d](Q[b, h, i, d] * K[b, h / (H / G), j, d])
  P[b, h, i, j] = softmax[j](S[b, h, i, j] + bias[h, bucket(j - i)])
  O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h / (H / G), j, e])
}
)",
R"(kernel sink_tokens<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E], scale: f32 = 1 / sqrt(D), sink: f32[H]) -> O: T[B, H, M, E] {
  S[b, h, i, j] = scale * sum[d](Q[b, h, i, d] * K[b, h / (H / G), j, d])
  P[b, h, i, j] = softmax[j where j <= i](S[b, h, i, j], extra = sink[h])
  O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h / (H / G), j, e])
}
)",
R"(kernel softmax_one<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E], scale: f32 = 1 / sqrt(D)) -> O: T[B, H, M, E] {
  S[b, h, i, j] = scale * sum[d](Q[b, h, i, d] * K[b, h / (H / G), j, d])
  P[b, h, i, j] = softmax[j](S[b, h, i, j], extra = 0)
  O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h / (H / G), j, e])
}
)",
R"(kernel sigmoid<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E], scale: f32 = 1 / sqrt(D)) -> O: T[B, H, M, E] {
  S[b, h, i, j] = scale * sum[d](Q[b, h, i, d] * K[b, h / (H / G), j, d])
  O[b, h, i, e] = sum[j where j <= i](sigmoid(S[b, h, i, j] - log(N)) * V[b, h / (H / G), j, e])
}
)",
R"(kernel relu2<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E], scale: f32 = 1 / sqrt(D)) -> O: T[B, H, M, E] {
  S[b, h, i, j] = scale * sum[d](Q[b, h, i, d] * K[b, h / (H / G), j, d])
  O[b, h, i, e] = sum[j](relu(S[b, h, i, j])^2 * V[b, h / (H / G), j, e]) / max(N, 1)
}
)",
R"(kernel lse<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E], scale: f32 = 1 / sqrt(D)) -> (O: T[B, H, M, E], L: f32[B, H, M]) {
  S[b, h, i, j] = scale * sum[d](Q[b, h, i, d] * K[b, h / (H / G), j, d])
  L[b, h, i] = logsumexp[j where j <= i](S[b, h, i, j])
  P[b, h, i, j] = exp(S[b, h, i, j] - L[b, h, i]) if j <= i else 0.0
  O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h / (H / G), j, e])
}
)",
R"(kernel dropout<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E], scale: f32 = 1 / sqrt(D), seed: i64, p: f32 = 0.1) -> O: T[B, H, M, E] {
  S[b, h, i, j] = scale * sum[d](Q[b, h, i, d] * K[b, h / (H / G), j, d])
  P[b, h, i, j] = softmax[j](S[b, h, i, j]) * (rand(seed, b, h, i, j) >= p) / (1 - p)
  O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h / (H / G), j, e])
}
)",
R"(kernel fp8<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E]) -> O: T[B, H, M, E] {
  P8[b, h, i, j] = f8e4m3(softmax[j](sum[d](Q[b, h, i, d] * K[b, h, j, d])))
  O[b, h, i, e] = sum[j](P8[b, h, i, j] * V[b, h, j, e])
}
)",
R"(kernel rounded<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E]) -> O: T[B, H, M, E] {
  N1[b, h, i, d] = T(Q[b, h, i, d] * rsqrt(mean[c in 0..D](Q[b, h, i, c]^2) + 1e-6))
  O[b, h, i, e] = sum[j](softmax[j](sum[d](N1[b, h, i, d] * K[b, h, j, d])) * V[b, h, j, e])
}
)",
R"(kernel rope<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E], c: f32[M, D / 2], s: f32[M, D / 2]) -> O: T[B, H, M, E] {
  fn half(d) = d % (D / 2)
  fn other(d) = d - D / 2 if d >= D / 2 else d + D / 2
  fn sign(d) = 1 if d >= D / 2 else -1
  R[b, h, i, d] = T(Q[b, h, i, d] * c[i, half(d)] + sign(d) * Q[b, h, i, other(d)] * s[i, half(d)])
  O[b, h, i, e] = sum[j](softmax[j](sum[d](R[b, h, i, d] * K[b, h, j, d])) * V[b, h, j, e])
}
)",
R"(kernel differential<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E], lambda: f32) -> O: T[B, H, M, E] {
  fn score(q, k) = q * k
  P1[b, h, i, j] = softmax[j](sum[d in 0..D / 2](Q[b, h, i, d] * K[b, h, j, d]))
  P2[b, h, i, j] = softmax[j](sum[d in D / 2..D](Q[b, h, i, d] * K[b, h, j, d]))
  O[b, h, i, e] = sum[j]((P1[b, h, i, j] - lambda * P2[b, h, i, j]) * V[b, h, j, e])
}
)",
R"(kernel forgetting<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E], logf: f32[B, H, N]) -> O: T[B, H, M, E] {
  C[b, h, j] = cumsum[j](logf[b, h, j])
  S[b, h, i, j] = sum[d](Q[b, h, i, d] * K[b, h, j, d]) + C[b, h, i + N - M] - C[b, h, j]
  P[b, h, i, j] = softmax[j where j <= i + N - M](S[b, h, i, j])
  O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h, j, e])
}
)",
R"(kernel quantised<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E], K8: i8[B, G, N, D], scale_k: f32[B, G]) -> O: T[B, H, M, E] {
  P[b, h, i, j] = softmax[j](sum[d](Q[b, h, i, d] * (scale_k[b, h] * f32(K8[b, h, j, d]))))
  O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h, j, e])
}
)",
R"(kernel paged(Q: bf16[B, H, M, D], K: bf16[P, 16, G, D], V: bf16[P, 16, G, E], table: i32[B, R], len: i32[B]) ->
    O: bf16[B, H, M, E] {
  S[b, h, i, j in 0..16 * R] = sum[d](Q[b, h, i, d] * K[table[b, j / 16], j % 16, h / (H / G), d])
  W[b, h, i, j in 0..16 * R] = softmax[j where j < len[b]](S[b, h, i, j] / sqrt(D))
  O[b, h, i, e] = sum[j](W[b, h, i, j] * V[table[b, j / 16], j % 16, h / (H / G), e])
}
)",
R"(kernel mla(Q: bf16[B, H, M, E + R], C: bf16[B, N, E + R]) -> O: bf16[B, H, M, E] {
  S[b, h, i, j] = sum[c in 0..E](Q[b, h, i, c] * C[b, j, c]) + sum[r in E..E + R](Q[b, h, i, r] * C[b, j, r])
  P[b, h, i, j] = softmax[j where j <= i + N - M](S[b, h, i, j])
  O[b, h, i, e in 0..E] = sum[j](P[b, h, i, j] * C[b, j, e])
}
)",
R"(use std.masks
use std.positions; use std.scores
fn twice(x) = 2 * x

kernel k(x: f32[N]) -> y: f32[N] { y[i] = twice(x[i]) }
)",
"kernel total(x: f32[N]) -> y: f32[] { y[] = sum[i](x[i]) }\n",
R"(kernel scalar_read(x: f32[N]) -> y: f32[N] {
  m[] = max[i](x[i]); y[i] = x[i] - m[]
}
)",
R"(kernel best(x: f32[M, N]) -> (at: i32[M], hit: bool[M]) {
  at[i] = argmax[j](x[i, j])
  hit[i] = any[j](x[i, j] > 0) and not all[j](x[i, j] < 1)
}
)",
"kernel powers(x: f32[N, 2^3, N^2]) -> y: f32[N] { y[i] = sum[j, k](x[i, j, k])^-2 + 2^3^2 - -x[i, 0, 0]^2 }\n",
R"(kernel bits(x: u8[N], n: const i64 = 0x7fff_ffff) -> y: i64[N] {
  y[i] = (i64(x[i]) * n) % 256 / 3 if x[i] != 0 and 1 < i <= 12 < n or false else -1
}
)",
R"(kernel choices(x: f32[N]) -> y: f32[N] {
  y[i] = 1. if x[i] > 1e3 else .5 if x[i] > 1 else (0 if x[i] == 0 else -inf) if x[i] < 0 else inf
}
)",
"kernel floats(x: f16[N]) -> y: f16[N] { y[i] = x[i] * 0.1 + 1e-7 - 3.4028234663852886e38 + 123456789012345680.0 + 5e-324 }\n",
R"(kernel
spread<T,
U>
(
x: T[
N],
s: f32 =
1
)
->
y: U[N]
{

  y[i] =
    x[i] + # first

    # second
    s *
    (2
    + 3)
}
)",
"kernel crlf(x: f32[N]) -> y: f32[N] {\r\n  fn f(a) = a # c\r\n  y[i] = f(x[i]) +\r\n    1\r\n}\r\n",
R"(kernel products(x: f32[N, M]) -> (a: f32[N], b: f32[N], c: f32[N]) {
  a[i] = prod[j](x[i, j])
  b[i] = mean[j in 1..M - 1 where x[i, j] > 0](x[i, j])
  c[i] = min[j](clamp(x[i, j], 0, 1))
}
)",
R"(kernel nested(x: f32[N, N]) -> y: f32[N] {
  y[i] = sum[j in 0..N where any[k](x[j, k] > max[m in j..j + 3](x[i, m]))](sum[k](x[j, k] if k < j else 0))
}
)",
R"(kernel empty() -> y: f32[] {
}
)",
"",
"# nothing but a comment",
R"(fn a() = b()
fn b() = 1
)",
"kernel keywords(inner: f32[iffy], where_: f32 = true_value, notes: bool = not false) -> android: f32[iffy] { android[i] = inner[i] * where_ }\n",
"kernel reducers(sum_: f32[N], mean: f32) -> y: f32[N] { y[i] = mean * mean[j](sum_[j]) + min(max(mean, 1), 2) }\n",
R"(kernel hstu(Q: f32[M, D], K: f32[N, D], V: f32[N, E]) -> O: f32[M, E] {
  S[i, j] = sum[d](Q[i, d] * K[j, d])
  O[i, e] = sum[j where j <= i](silu(S[i, j]) * V[j, e]) / N
}
)",
R"(kernel natten(Q: f32[Y, X, D], K: f32[Y, X, D], V: f32[Y, X, E], R: const i32 = 3) -> O: f32[Y, X, E] {
  S[y, x, v, u] = sum[d](Q[y, x, d] * K[v, u, d])
  P[y, x, v, u] = softmax[v, u where -R <= y - v <= R and -R <= x - u <= R](S[y, x, v, u])
  O[y, x, e] = sum[v, u](P[y, x, v, u] * V[v, u, e])
}
)",
};
// clang-format on

}  // namespace attune::test
