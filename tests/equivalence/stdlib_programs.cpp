// SPDX-License-Identifier: Apache-2.0
// The standard library in C++: the same formulas as stdlib/*.attn through the builder's operators.
#include "stdlib_programs.hpp"

using namespace stdlib_parts;

namespace {

Program softmax_program() {
  const Attention a;
  const Tensor S = a.score(a.product()), P = a.weights(S), O = a.output(P), L = a.lse(S);
  return program("softmax", {a.Q, a.K, a.V, a.scale}, {O, L});
}

Program causal() {
  const Attention a;
  const Function pos = bottom_right();
  const Tensor S = a.score(a.product()), P = a.weights(S, where(j <= pos(i)));
  return program("causal", {a.Q, a.K, a.V, a.scale}, {a.output(P)});
}

Program causal_top_left() {
  const Attention a;
  const Tensor S = a.score(a.product()), P = a.weights(S, where(j <= i));
  return program("causal_top_left", {a.Q, a.K, a.V, a.scale}, {a.output(P)});
}

Program window() {
  const Attention a;
  const Scalar W{"W", i32};
  const Function pos = bottom_right();
  const Tensor S = a.score(a.product()), P = a.weights(S, where(chain(pos(i) - W < j, j <= pos(i))));
  return program("window", {a.Q, a.K, a.V, W, a.scale}, {a.output(P)});
}

Program prefix_program() {
  const Attention a;
  const Tensor prefix{"prefix", i32, {B}};
  const Function pos = bottom_right();
  const Tensor S = a.score(a.product()), P = a.weights(S, where(j <= pos(i) || j < prefix(b)));
  return program("prefix", {a.Q, a.K, a.V, prefix, a.scale}, {a.output(P)});
}

Program documents() {
  const Attention a;
  const Tensor doc{"doc", i32, {B, N}};
  const Function pos = bottom_right();
  const Tensor S = a.score(a.product());
  const Tensor P = a.weights(S, where(j <= pos(i) && doc(b, pos(i)) == doc(b, j)));
  return program("documents", {a.Q, a.K, a.V, doc, a.scale}, {a.output(P)});
}

Program lengths() {
  const Attention a;
  const Tensor len{"len", i32, {B}};
  const Tensor S = a.score(a.product()), P = a.weights(S, where(j < len(b))), O = a.output(P);
  const Tensor L = a.lse(S, where(j < len(b)));
  return program("lengths", {a.Q, a.K, a.V, len, a.scale}, {O, L});
}

Program packed() {
  const Tensor Q{"Q", T, {M, H, D}}, K{"K", T, {N, G, D}}, V{"V", T, {N, G, E}};
  const Tensor start{"start", i32, {M}}, end{"end", i32, {M}};
  const Scalar scale{"scale", f32, 1 / sqrt(D)};
  const Function kv{"kv", [](Expr head) { return head / (H / G); }};
  const Tensor S = define("S", {h, i, j}, scale * sum(d)(Q(i, h, d) * K(j, kv(h), d)));
  const Tensor P = define("P", {h, i, j}, softmax(j, where(chain(start(i) <= j, j < end(i))))(S(h, i, j)));
  const Tensor O = define("O", {i, h, e}, sum(j)(P(h, i, j) * V(j, kv(h), e)), T);
  return program("packed", {Q, K, V, start, end, scale}, {O});
}

Program alibi() {
  const Attention a;
  const Tensor slope{"slope", f32, {H}};
  const Function pos = bottom_right();
  const Tensor S = a.score(a.product() + slope(h) * (j - pos(i))), P = a.weights(S, where(j <= pos(i)));
  return program("alibi", {a.Q, a.K, a.V, slope, a.scale}, {a.output(P)});
}

Program softcap() {
  const Attention a;
  const Scalar cap{"cap", f32, 50.0};
  const Function pos = bottom_right();
  const Tensor S = a.score(cap * tanh(a.product() / cap)), P = a.weights(S, where(j <= pos(i)));
  return program("softcap", {a.Q, a.K, a.V, cap, a.scale}, {a.output(P)});
}

Program dense_bias() {
  const Attention a;
  const Tensor bias{"bias", f32, {B, H, M, N}};
  const Tensor S = a.score(a.product() + bias(b, h, i, j)), P = a.weights(S);
  return program("dense_bias", {a.Q, a.K, a.V, bias, a.scale}, {a.output(P)});
}

Program sinks() {
  const Attention a;
  const Tensor sink{"sink", f32, {H}};
  const Function pos = bottom_right();
  const Tensor S = a.score(a.product()), P = a.weights(S, where(j <= pos(i)), extra(sink(h)));
  return program("sinks", {a.Q, a.K, a.V, sink, a.scale}, {a.output(P)});
}

Program sigmoid_program() {
  const Attention a;
  const Scalar bias{"bias", f32, -log(N)};
  const Tensor S = a.score(a.product()), P = define("P", {b, h, i, j}, sigmoid(S(b, h, i, j) + bias));
  return program("sigmoid", {a.Q, a.K, a.V, bias, a.scale}, {a.output(P)});
}

Program with_lse() {
  const Attention a;
  const Function pos = bottom_right();
  const Tensor S = a.score(a.product()), P = a.weights(S, where(j <= pos(i))), O = a.output(P);
  return program("with_lse", {a.Q, a.K, a.V, a.scale}, {O, a.lse(S, where(j <= pos(i)))});
}

Program differential() {
  const Tensor Q1{"Q1", T, {B, H, M, D}}, K1{"K1", T, {B, G, N, D}}, Q2{"Q2", T, {B, H, M, D}},
      K2{"K2", T, {B, G, N, D}}, V{"V", T, {B, G, N, E}}, lambda{"lambda", f32, {H}};
  const Scalar scale{"scale", f32, 1 / sqrt(D)};
  const Function kv{"kv", [](Expr head) { return head / (H / G); }}, pos = bottom_right();
  const Tensor S1 = define("S1", {b, h, i, j}, scale * sum(d)(Q1(b, h, i, d) * K1(b, kv(h), j, d)));
  const Tensor S2 = define("S2", {b, h, i, j}, scale * sum(d)(Q2(b, h, i, d) * K2(b, kv(h), j, d)));
  const Tensor P1 = define("P1", {b, h, i, j}, softmax(j, where(j <= pos(i)))(S1(b, h, i, j)));
  const Tensor P2 = define("P2", {b, h, i, j}, softmax(j, where(j <= pos(i)))(S2(b, h, i, j)));
  const Tensor O =
      define("O", {b, h, i, e},
             sum(j)(P1(b, h, i, j) * V(b, kv(h), j, e)) - lambda(h) * sum(j)(P2(b, h, i, j) * V(b, kv(h), j, e)), T);
  return program("differential", {Q1, K1, Q2, K2, V, lambda, scale}, {O});
}

Program decode() {
  const Attention a;
  const Tensor len{"len", i32, {B}};
  const Function pos{"pos", [&](Expr batch, Expr row) { return row + len(batch) - M; }};
  const Tensor S = a.score(a.product()), P = a.weights(S, where(j <= pos(b, i)));
  return program("decode", {a.Q, a.K, a.V, len, a.scale}, {a.output(P)});
}

}  // namespace

const Programs& built_programs() {
  static const Programs programs = [] {
    Programs all = {{"alibi", alibi},           {"causal", causal},           {"causal_top_left", causal_top_left},
                    {"decode", decode},         {"dense_bias", dense_bias},   {"differential", differential},
                    {"documents", documents},   {"lengths", lengths},         {"packed", packed},
                    {"prefix", prefix_program}, {"sigmoid", sigmoid_program}, {"sinks", sinks},
                    {"softcap", softcap},       {"softmax", softmax_program}, {"window", window},
                    {"with_lse", with_lse}};
    all.merge(built_variants());
    return all;
  }();
  return programs;
}
