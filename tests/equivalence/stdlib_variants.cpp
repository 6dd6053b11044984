// SPDX-License-Identifier: Apache-2.0
// The standard library in C++, continued: further masks, biases, weights, norms and storage.
#include "stdlib_programs.hpp"

using namespace stdlib_parts;

namespace {

const Dim C{"C"}, P{"P"}, R{"R"};

// ---- masks ----------------------------------------------------------------------------------------
Program window_sinks() {
  const Attention a;
  const Scalar W{"W", i32}, first{"first", i32, 4};
  const Function pos = bottom_right();
  const Tensor S = a.score(a.product());
  return program("window_sinks", {a.Q, a.K, a.V, W, first, a.scale},
                 {a.output(a.weights(S, where((pos(i) - W < j || j < first) && j <= pos(i))))});
}

Program chunked() {
  const Attention a;
  const Scalar size{"C", i32, 8192};
  const Function pos = bottom_right();
  const Tensor S = a.score(a.product());
  return program("chunked", {a.Q, a.K, a.V, size, a.scale},
                 {a.output(a.weights(S, where(chain(pos(i) / size * size <= j, j <= pos(i)))))});
}

Program dilated() {
  const Attention a;
  const Scalar W{"W", i32}, step{"R", i32};
  const Function pos = bottom_right();
  const Tensor S = a.score(a.product());
  return program(
      "dilated", {a.Q, a.K, a.V, W, step, a.scale},
      {a.output(a.weights(S, where(chain(pos(i) - W * step < j, j <= pos(i)) && (pos(i) - j) % step == 0)))});
}

Program block_diffusion() {
  const Dim S{"S"};
  const Tensor Q{"Q", T, {B, H, 2 * S, D}}, K{"K", T, {B, G, 2 * S, D}}, V{"V", T, {B, G, 2 * S, E}};
  const Scalar size{"C", i32, 16}, scale{"scale", f32, 1 / sqrt(D)};
  const Function kv{"kv", [](Expr head) { return head / (H / G); }};
  const Function clean{"clean", {"t"}, [&](Expr t) { return t >= S; }};
  const Function block{"block", {"t"}, [&](Expr t) { return select(clean(t), t - S, t) / size; }};
  const Function visible{"visible", {"i", "j"}, [&](Expr row, Expr key) {
                           return select(clean(key),
                                         block(key) < block(row) || (clean(row) && block(key) == block(row)),
                                         !clean(row) && block(key) == block(row));
                         }};
  const Tensor X = define("X", {b, h, i, j}, scale * sum(d)(Q(b, h, i, d) * K(b, kv(h), j, d)));
  const Tensor W = define("P", {b, h, i, j}, softmax(j, where(visible(i, j)))(X(b, h, i, j)));
  const Tensor O = define("O", {b, h, i, e}, sum(j)(W(b, h, i, j) * V(b, kv(h), j, e)), T);
  return program("block_diffusion", {Q, K, V, size, scale}, {O});
}

Program natten2d() {
  const Attention a;
  const Scalar width{"width", i32}, size{"size", i32, 7};
  const Function center{
      "center", {"at", "length"}, [&](Expr at, Expr length) { return clamp(at, size / 2, length - 1 - size / 2); }};
  const Function near{"near", {"a", "b", "length"}, [&](Expr x, Expr y, Expr length) {
                        const Expr twice = 2 * (y - center(x, length));
                        return chain(-size <= twice, twice <= size);
                      }};
  const Tensor S = a.score(a.product());
  return program(
      "natten2d", {a.Q, a.K, a.V, width, size, a.scale},
      {a.output(a.weights(S, where(near(i / width, j / width, N / width) && near(i % width, j % width, width))))});
}

Program tree() {
  const Attention a;
  const Tensor ancestor{"ancestor", boolean, {B, M, M}};
  const Tensor S = a.score(a.product());
  return program("tree", {a.Q, a.K, a.V, ancestor, a.scale},
                 {a.output(a.weights(S, where(j < N - M || ancestor(b, i, j - (N - M)))))});
}

Program block_mask() {
  const Attention a;
  const Tensor block{"block", boolean, {B, H, R, C}};
  const Scalar size{"size", i32, 64};
  const Tensor S = a.score(a.product());
  return program("block_mask", {a.Q, a.K, a.V, block, size, a.scale},
                 {a.output(a.weights(S, where(block(b, h, i / size, j / size))))});
}

// ---- biases ---------------------------------------------------------------------------------------
Function t5_bucket(const Scalar& longest) {
  return {"bucket", {"r", "n", "m"}, [&](Expr r, Expr n, Expr m) {
            return select(r < m, r,
                          min(n - 1, m + cast(i32, log(cast(f32, r) / m) / log(longest / m) * (n - m) + 0.0001)));
          }};
}

Program t5_bias() {
  const Attention a;
  const Tensor table{"table", f32, {H, R}};
  const Scalar longest{"longest", f32, 128.0}, scale{"scale", f32, 1.0};
  const Function pos = bottom_right(), bucket = t5_bucket(longest);
  const Function relative{
      "relative", {"r"}, [&](Expr r) { return select(r > 0, R / 2, 0) + bucket(abs(r), R / 2, R / 4); }};
  const Tensor S = a.score(scale * sum(d)(a.Q(b, h, i, d) * a.K(b, a.kv(h), j, d)) + table(h, relative(j - pos(i))));
  return program("t5_bias", {a.Q, a.K, a.V, table, longest, scale}, {a.output(a.weights(S))});
}

Program t5_bias_causal() {
  const Attention a;
  const Tensor table{"table", f32, {H, R}};
  const Scalar longest{"longest", f32, 128.0}, scale{"scale", f32, 1.0};
  const Function pos = bottom_right(), bucket = t5_bucket(longest);
  const Tensor S =
      a.score(scale * sum(d)(a.Q(b, h, i, d) * a.K(b, a.kv(h), j, d)) + table(h, bucket(pos(i) - j, R, R / 2)));
  return program("t5_bias_causal", {a.Q, a.K, a.V, table, longest, scale},
                 {a.output(a.weights(S, where(j <= pos(i))))});
}

/// Attention over the N = Y X tokens of an image, with R = 2 Y - 1 and C = 2 X - 1.
struct Image {
  Tensor Q{"Q", T, {B, H, N, D}}, K{"K", T, {B, G, N, D}}, V{"V", T, {B, G, N, E}};
  Scalar scale{"scale", f32, 1 / sqrt(D)};
  Function kv{"kv", [](Expr head) { return head / (H / G); }};
  Function y{"y", {"t"}, [](Expr t) { return t / ((C + 1) / 2); }};
  Function x{"x", {"t"}, [](Expr t) { return t % ((C + 1) / 2); }};
  Expr product() const { return scale * sum(d)(Q(b, h, i, d) * K(b, kv(h), j, d)); }
  Expr row_offset() const { return y(i) - y(j) + R / 2; }
  Expr column_offset() const { return x(i) - x(j) + C / 2; }
  Tensor output(const Tensor& W) const {
    return define("O", {b, h, i, e}, sum(j)(W(b, h, i, j) * V(b, kv(h), j, e)), T);
  }
};

Program swin() {
  const Image a;
  const Dim W{"W"};
  const Tensor table{"table", f32, {H, R, C}}, region{"region", i32, {W, N}};
  const Tensor S = define("S", {b, h, i, j}, a.product() + table(h, a.row_offset(), a.column_offset()));
  const Tensor A = define("P", {b, h, i, j}, softmax(j, where(region(b % W, i) == region(b % W, j)))(S(b, h, i, j)));
  return program("swin", {a.Q, a.K, a.V, table, region, a.scale}, {a.output(A)});
}

Program sam() {
  const Image a;
  const Tensor rows{"rows", T, {R, D}}, columns{"columns", T, {C, D}};
  const Index r{"r"}, c{"c"};
  const Tensor by_row = define("A", {b, h, i, r}, sum(d)(a.Q(b, h, i, d) * rows(r, d)));
  const Tensor by_column = define("U", {b, h, i, c}, sum(d)(a.Q(b, h, i, d) * columns(c, d)));
  const Tensor S =
      define("S", {b, h, i, j}, a.product() + by_row(b, h, i, a.row_offset()) + by_column(b, h, i, a.column_offset()));
  const Tensor A = define("P", {b, h, i, j}, softmax(j)(S(b, h, i, j)));
  return program("sam", {a.Q, a.K, a.V, rows, columns, a.scale}, {a.output(A)});
}

Program forgetting() {
  const Attention a;
  const Tensor log_forget{"log_forget", f32, {B, H, N}};
  const Function pos = bottom_right();
  const Tensor running = define("C", {b, h, j}, cumsum(j)(log_forget(b, h, j)));
  const Tensor S = a.score(a.product() + (running(b, h, pos(i)) - running(b, h, j)));
  return program("forgetting", {a.Q, a.K, a.V, log_forget, a.scale}, {a.output(a.weights(S, where(j <= pos(i))))});
}

// ---- weights --------------------------------------------------------------------------------------
Program softmax_one() {
  const Attention a;
  const Function pos = bottom_right();
  const Tensor S = a.score(a.product());
  return program("softmax_one", {a.Q, a.K, a.V, a.scale}, {a.output(a.weights(S, where(j <= pos(i)), extra(0)))});
}

Program relu2() {
  const Attention a;
  const Tensor S = a.score(a.product());
  return program("relu2", {a.Q, a.K, a.V, a.scale},
                 {a.output(define("P", {b, h, i, j}, pow(relu(S(b, h, i, j)), 2) / cast(f32, N)))});
}

Program hstu() {
  const Attention a;
  const Tensor bias{"bias", f32, {H, R}}, len{"len", i32, {B}};
  const Scalar n{"n", f32, N};
  const Function pos = bottom_right();
  const Tensor S = a.score(sum(d)(a.Q(b, h, i, d) * a.K(b, a.kv(h), j, d)) + bias(h, min(pos(i) - j, R - 1)));
  const Tensor W = define("P", {b, h, i, j}, silu(S(b, h, i, j)) / n);
  const Tensor O =
      define("O", {b, h, i, e}, sum(j, where(j <= pos(i) && j < len(b)))(W(b, h, i, j) * a.V(b, a.kv(h), j, e)), T);
  return program("hstu", {a.Q, a.K, a.V, bias, len, n}, {O});
}

Program linear() {
  const Attention a;
  const Scalar eps{"eps", f32, 1e-6};
  const Function pos = bottom_right();
  const Function feature{"feature", {"x"}, [](Expr x) { return select(x > 0, x + 1, exp(x)); }};
  const Tensor A = define("A", {b, h, i, j}, sum(d)(feature(a.Q(b, h, i, d)) * feature(a.K(b, a.kv(h), j, d))));
  const Tensor Z = define("Z", {b, h, i}, sum(j, where(j <= pos(i)))(A(b, h, i, j)));
  const Tensor O = define("O", {b, h, i, e},
                          sum(j, where(j <= pos(i)))(A(b, h, i, j) * a.V(b, a.kv(h), j, e)) / (Z(b, h, i) + eps), T);
  return program("linear", {a.Q, a.K, a.V, eps}, {O});
}

Program dropout() {
  const Attention a;
  const Scalar seed{"seed", i64}, rate{"rate", f32, 0.1};
  const Function pos = bottom_right();
  const Tensor S = a.score(a.product()), W = a.weights(S, where(j <= pos(i)));
  const Tensor O =
      define("O", {b, h, i, e},
             sum(j)(W(b, h, i, j) * (rand(seed, b, h, i, j) >= rate) / (1 - rate) * a.V(b, a.kv(h), j, e)), T);
  return program("dropout", {a.Q, a.K, a.V, seed, rate, a.scale}, {O});
}

Program gated() {
  const Attention a;
  const Tensor gate{"gate", T, {B, H, M, E}};
  const Function pos = bottom_right();
  const Tensor S = a.score(a.product()), W = a.weights(S, where(j <= pos(i)));
  const Tensor O =
      define("O", {b, h, i, e}, sigmoid(gate(b, h, i, e)) * sum(j)(W(b, h, i, j) * a.V(b, a.kv(h), j, e)), T);
  return program("gated", {a.Q, a.K, a.V, gate, a.scale}, {O});
}

// ---- queries and keys before the score ------------------------------------------------------------
Program qk_norm() {
  const Attention a;
  const Index g{"g"}, c{"c"};
  const Tensor weight_q{"weight_q", f32, {D}}, weight_k{"weight_k", f32, {D}};
  const Scalar eps{"eps", f32, 1e-6};
  const Function pos = bottom_right();
  const Tensor Qn =
      define("Qn", {b, h, i, d}, T(weight_q(d) * (a.Q(b, h, i, d) * rsqrt(mean(c)(pow(a.Q(b, h, i, c), 2)) + eps))));
  const Tensor Kn =
      define("Kn", {b, g, j, d}, T(weight_k(d) * (a.K(b, g, j, d) * rsqrt(mean(c)(pow(a.K(b, g, j, c), 2)) + eps))));
  const Tensor S = a.score(a.scale * sum(d)(Qn(b, h, i, d) * Kn(b, a.kv(h), j, d)));
  return program("qk_norm", {a.Q, a.K, a.V, weight_q, weight_k, eps, a.scale},
                 {a.output(a.weights(S, where(j <= pos(i))))});
}

/// Rotary positions; the three callables say how elements pair.
template <class Pair, class Partner, class Negative>
Program rotary(const std::string& name, const Pair& pair_of, const Partner& partner_of, const Negative& negative) {
  const Attention a;
  const Index g{"g"};
  const Tensor cosine{"cosine", f32, {N, C}}, sine{"sine", f32, {N, C}};
  const Function pos = bottom_right(), pair{"pair", {"d"}, pair_of}, partner{"partner", {"d"}, partner_of};
  const Function sign{"sign", {"d"}, [&](Expr x) { return select(negative(x), -1, 1); }};
  const Tensor Qr = define(
      "Qr", {b, h, i, d},
      T(select(d < 2 * C,
               a.Q(b, h, i, d) * cosine(pos(i), pair(d)) + a.Q(b, h, i, partner(d)) * (sign(d) * sine(pos(i), pair(d))),
               a.Q(b, h, i, d))));
  const Tensor Kr =
      define("Kr", {b, g, j, d},
             T(select(d < 2 * C,
                      a.K(b, g, j, d) * cosine(j, pair(d)) + a.K(b, g, j, partner(d)) * (sign(d) * sine(j, pair(d))),
                      a.K(b, g, j, d))));
  const Tensor S = a.score(a.scale * sum(d)(Qr(b, h, i, d) * Kr(b, a.kv(h), j, d)));
  return program(name, {a.Q, a.K, a.V, cosine, sine, a.scale}, {a.output(a.weights(S, where(j <= pos(i))))});
}

Program rope() {
  return rotary(
      "rope", [](Expr x) { return select(x < C, x, x - C); }, [](Expr x) { return select(x < C, x + C, x - C); },
      [](const Expr& x) { return x < C; });
}

Program rope_interleaved() {
  return rotary(
      "rope_interleaved", [](Expr x) { return x / 2; }, [](Expr x) { return x + 1 - 2 * (x % 2); },
      [](const Expr& x) { return x % 2 == 0; });
}

// ---- storage --------------------------------------------------------------------------------------
Program mla() {
  const Tensor Q{"Q", T, {B, H, M, D}}, K{"K", T, {B, N, D}}, len{"len", i32, {B}};
  const Scalar scale{"scale", f32};
  const Function pos{"pos", [&](Expr batch, Expr row) { return row + len(batch) - M; }};
  const Tensor S = define("S", {b, h, i, j}, scale * sum(d)(Q(b, h, i, d) * K(b, j, d)));
  const Tensor W = define("P", {b, h, i, j}, softmax(j, where(j <= pos(b, i)))(S(b, h, i, j)));
  const Tensor O = define("O", {b, h, i, e.in(0, E)}, sum(j)(W(b, h, i, j) * K(b, j, e)), T);
  return program("mla", {Q, K, len, scale}, {O});
}

Program paged() {
  const Tensor Q{"Q", T, {B, H, M, D}}, K{"K", T, {P, C, G, D}}, V{"V", T, {P, C, G, E}};
  const Tensor table{"table", i32, {B, R}}, len{"len", i32, {B}};
  const Scalar scale{"scale", f32, 1 / sqrt(D)};
  const Function kv{"kv", [](Expr head) { return head / (H / G); }};
  const Function pos{"pos", [&](Expr batch, Expr row) { return row + len(batch) - M; }};
  const IndexRange keys = j.in(0, R * C);
  const Tensor S = define("S", {b, h, i, keys}, scale * sum(d)(Q(b, h, i, d) * K(table(b, j / C), j % C, kv(h), d)));
  const Tensor A = define("A", {b, h, i, keys}, softmax(j, where(j <= pos(b, i)))(S(b, h, i, j)));
  const Tensor O = define("O", {b, h, i, e}, sum(j)(A(b, h, i, j) * V(table(b, j / C), j % C, kv(h), e)), T);
  return program("paged", {Q, K, V, table, len, scale}, {O});
}

Program quantised(const std::string& name, DType type) {
  const Tensor Q{"Q", T, {B, H, M, D}}, K{"K", type, {B, G, N, D}}, V{"V", type, {B, G, N, E}};
  const Tensor step_k{"step_k", f32, {B, G, N}}, step_v{"step_v", f32, {B, G, N}};
  const Scalar scale{"scale", f32, 1 / sqrt(D)};
  const Function kv{"kv", [](Expr head) { return head / (H / G); }}, pos = bottom_right();
  const Tensor S = define("S", {b, h, i, j}, scale * step_k(b, kv(h), j) * sum(d)(Q(b, h, i, d) * K(b, kv(h), j, d)));
  const Tensor W = define("P", {b, h, i, j}, softmax(j, where(j <= pos(i)))(S(b, h, i, j)));
  const Tensor O = define("O", {b, h, i, e}, sum(j)(W(b, h, i, j) * (step_v(b, kv(h), j) * V(b, kv(h), j, e))), T);
  return program(name, {Q, K, V, step_k, step_v, scale}, {O});
}

Program ragged() {
  const Index s{"s"};
  const Tensor Q{"Q", T, {M, H, D}}, K{"K", T, {N, G, D}}, V{"V", T, {N, G, E}};
  const Tensor cu_q{"cu_q", i32, {C + 1}}, cu_k{"cu_k", i32, {C + 1}};
  const Scalar scale{"scale", f32, 1 / sqrt(D)};
  const Function kv{"kv", [](Expr head) { return head / (H / G); }};
  const Tensor I = define("I", {i.in(0, M)}, sum(s.in(0, C), where(cu_q(s + 1) <= i))(1));
  const Tensor S = define("S", {h, i, j}, scale * sum(d)(Q(i, h, d) * K(j, kv(h), d)));
  const Tensor A = define(
      "P", {h, i, j}, softmax(j, where(chain(cu_k(I(i)) <= j, j <= i - cu_q(I(i) + 1) + cu_k(I(i) + 1))))(S(h, i, j)));
  const Tensor O = define("O", {i, h, e}, sum(j)(A(h, i, j) * V(j, kv(h), e)), T);
  return program("ragged", {Q, K, V, cu_q, cu_k, scale}, {O});
}

}  // namespace

Programs built_variants() {
  return {{"block_diffusion", block_diffusion},
          {"block_mask", block_mask},
          {"chunked", chunked},
          {"dilated", dilated},
          {"dropout", dropout},
          {"forgetting", forgetting},
          {"gated", gated},
          {"hstu", hstu},
          {"linear", linear},
          {"mla", mla},
          {"natten2d", natten2d},
          {"paged", paged},
          {"qk_norm", qk_norm},
          {"quantised_kv", [] { return quantised("quantised_kv", i8); }},
          {"quantised_kv_f8", [] { return quantised("quantised_kv_f8", f8e4m3); }},
          {"ragged", ragged},
          {"relu2", relu2},
          {"rope", rope},
          {"rope_interleaved", rope_interleaved},
          {"sam", sam},
          {"softmax_one", softmax_one},
          {"swin", swin},
          {"t5_bias", t5_bias},
          {"t5_bias_causal", t5_bias_causal},
          {"tree", tree},
          {"window_sinks", window_sinks}};
}
