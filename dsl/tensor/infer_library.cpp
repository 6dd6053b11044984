// SPDX-License-Identifier: Apache-2.0
// The functions of `use std.masks`, `use std.scores` and `use std.positions`, written in the notation.
#include "tensor/infer.hpp"

namespace attune::tensor::inference {
namespace {

constexpr const char* masks = R"attn(
# Query i of M, key j of N. Without `_top_left` the last query sees the last key.
fn causal(i, j, M, N) = j <= i + N - M
fn causal_top_left(i, j) = j <= i
# The W keys up to the query's own position.
fn sliding_window(i, j, M, N, W) = i + N - M - W < j <= i + N - M
fn symmetric_window(i, j, M, N, W) = -W <= j - (i + N - M) <= W
# The first S keys are always visible (sinks as tokens), beside the window.
fn window_with_sinks(i, j, M, N, W, S) = i + N - M - W < j <= i + N - M or j < S and j <= i + N - M
# A prefix of P keys is visible to all, the rest causally.
fn prefix(i, j, M, N, P) = j < P or j <= i + N - M
fn same_block(i, j, C) = i / C == j / C
fn block_causal(i, j, C) = j / C <= i / C
fn dilated(i, j, M, N, R) = j <= i + N - M and (i + N - M - j) % R == 0
fn same_document(a, b) = a == b
)attn";

constexpr const char* scores = R"attn(
fn inverse_sqrt(D) = 1 / sqrt(D)
fn softcap(s, cap) = cap * tanh(s / cap)
# ALiBi: a penalty linear in the distance from query i of M to key j of N.
fn alibi(i, j, M, N, slope) = slope * (j - (i + N - M))
fn distance_decay(i, j, M, N, rate) = -rate * abs(i + N - M - j)
fn squared_relu(s) = relu(s) ^ 2
)attn";

constexpr const char* positions = R"attn(
# The key position of query i of M among N keys where the last query stands at the last key.
fn bottom_right(i, M, N) = i + N - M
fn relative(i, j, M, N) = j - (i + N - M)
# Consecutive query heads share one key/value head; G divides H.
fn kv_head(h, H, G) = h / (H / G)
fn page(j, size) = j / size
fn slot(j, size) = j % size
# RoPE in halves: element d of D turns together with its partner.
fn rope_partner(d, D) = d + D / 2 if d < D / 2 else d - D / 2
fn rope_sign(d, D) = -1 if d < D / 2 else 1
fn rope_frequency(d, D, base) = f32(base) ^ (-2 * f32(d % (D / 2)) / D)
# T5's causal buckets (one direction): exact up to half of them, then logarithmic up to `longest`.
fn t5_causal_bucket(distance, buckets, longest) =
  max(distance, 0) if max(distance, 0) < buckets / 2 else
  min(buckets - 1, buckets / 2 + i64(log(f32(max(distance, 1)) / (buckets / 2)) /
                                     log(f32(longest) / (buckets / 2)) * (buckets - buckets / 2)))
)attn";

}  // namespace

const std::vector<LibraryModule>& standard_library() {
  static const std::vector<LibraryModule> modules = {{"masks", masks}, {"positions", positions}, {"scores", scores}};
  return modules;
}

}  // namespace attune::tensor::inference
