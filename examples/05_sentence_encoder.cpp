// SPDX-License-Identifier: Apache-2.0
// Lesson 5: a sentence encoder. Bytes become vectors, two blocks of attention and a small network mix them, the mean of
// a sentence's vectors is its embedding. attune does the attention, over views of one projected matrix; the rest is
// loops. The weights are random: the numbers mean nothing, but they are those of plain Eigen code
// (05_eigen_encoder.hpp).
#include <algorithm>
#include <attune/attune.hpp>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "05_eigen_encoder.hpp"

namespace {

// Sentences of a batch have different lengths: entry b has len[b] keys, and what lies behind them has no influence.
constexpr const char* attention = R"(
  kernel attend(Q: f32[B, H, N, D], K: f32[B, H, N, D], V: f32[B, H, N, D], len: i32[B]) -> O: f32[B, H, N, D] {
    S[b, h, i, j] = sum[d](Q[b, h, i, d] * K[b, h, j, d]) / sqrt(D)
    O[b, h, i, d] = sum[j](softmax[j where j < len[b]](S[b, h, i, j]) * V[b, h, j, d])
  })";

/// rows x columns of weights: y = x W for each row of x.
std::vector<float> project(const std::vector<float>& x, const std::vector<float>& weights, std::size_t columns) {
  const std::size_t inner = weights.size() / columns, rows = x.size() / inner;
  std::vector<float> y(rows * columns);
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t k = 0; k < inner; ++k)
      for (std::size_t c = 0; c < columns; ++c) y[row * columns + c] += x[row * inner + k] * weights[k * columns + c];
  return y;
}

/// x = norm(x + y), each row to mean 0 and variance 1.
void add_and_norm(std::vector<float>& x, const std::vector<float>& y) {
  for (std::size_t row = 0; row < x.size(); row += width) {
    float mean = 0, variance = 0;
    for (std::size_t c = row; c < row + width; ++c) mean += (x[c] += y[c]) / width;
    for (std::size_t c = row; c < row + width; ++c) variance += (x[c] - mean) * (x[c] - mean) / width;
    for (std::size_t c = row; c < row + width; ++c) x[c] = (x[c] - mean) / std::sqrt(variance + 1e-5f);
  }
}

/// One embedding a sentence.
std::vector<std::vector<float>> encode(const Model& model, const std::vector<std::string>& sentences) {
  using attune::DType;
  const auto kernel = attune::Engine::shared().compile(attune::Program::parse(attention).value()).value();
  std::vector<std::int32_t> len;
  for (const std::string& sentence : sentences) len.push_back(static_cast<std::int32_t>(sentence.size()));
  const std::int64_t B = std::ssize(sentences), N = *std::max_element(len.begin(), len.end());

  // Padding is NaN, to show that it reaches nothing.
  std::vector<float> x(static_cast<std::size_t>(B * N) * width, std::numeric_limits<float>::quiet_NaN());
  for (std::size_t b = 0; b < sentences.size(); ++b)
    for (std::size_t n = 0; n < sentences[b].size(); ++n)
      for (std::size_t c = 0; c < width; ++c)
        x[(b * static_cast<std::size_t>(N) + n) * width + c] = model.embed(sentences[b][n], n, c);

  for (const Block& block : model.blocks) {
    // Q, K and V stand beside each other in the rows of one matrix, heads beside heads: three views of it, no copies.
    std::vector<float> qkv = project(x, block.qkv, 3 * width), mixed(x.size());
    auto heads_of = [&](std::vector<float>& data, std::int64_t row, std::int64_t first) {
      return attune::TensorRef(data.data() + first, DType::f32, {B, heads, N, head_size}, {N * row, head_size, row, 1});
    };
    kernel
        .run({{"Q", heads_of(qkv, 3 * width, 0)},
              {"K", heads_of(qkv, 3 * width, width)},
              {"V", heads_of(qkv, 3 * width, 2 * width)},
              {"len", {len.data(), DType::i32, {B}}},
              {"O", heads_of(mixed, width, 0)}})
        .value();
    add_and_norm(x, project(mixed, block.out, width));
    std::vector<float> hidden = project(x, block.up, hidden_width);
    for (float& h : hidden) h = h / (1 + std::exp(-1.702f * h));  // GELU, as a product with a sigmoid
    add_and_norm(x, project(hidden, block.down, width));
  }

  std::vector<std::vector<float>> embeddings;
  for (std::size_t b = 0; b < sentences.size(); ++b) {
    std::vector<float> mean(width);
    for (std::size_t n = 0; n < sentences[b].size(); ++n)
      for (std::size_t c = 0; c < width; ++c)
        mean[c] += x[(b * static_cast<std::size_t>(N) + n) * width + c] / static_cast<float>(sentences[b].size());
    embeddings.push_back(mean);
  }
  return embeddings;
}

float cosine(const std::vector<float>& a, const std::vector<float>& b) {
  float ab = 0, aa = 0, bb = 0;
  for (std::size_t c = 0; c < a.size(); ++c) ab += a[c] * b[c], aa += a[c] * a[c], bb += b[c] * b[c];
  return ab / std::sqrt(aa * bb);
}

}  // namespace

int main() {
  const std::vector<std::string> sentences{"The cat sits on the mat.", "The cat sat on the mat!",
                                           "Stocks fell on Monday.", "?"};
  const Model model = random_model(7);
  const auto embeddings = encode(model, sentences);
  for (std::size_t a = 0; a < sentences.size(); ++a) {
    for (const auto& other : embeddings) std::printf("%7.3f", cosine(embeddings[a], other));
    std::printf("  %s\n", sentences[a].c_str());
  }

  // The same model with Eigen's matrices, one sentence at a time and without padding.
  float error = 0;
  for (std::size_t b = 0; b < sentences.size(); ++b) {
    const auto wanted = eigen_encode(model, sentences[b]);
    for (std::size_t c = 0; c < width; ++c) {
      if (!std::isfinite(embeddings[b][c])) return 1;
      error = std::max(error, std::abs(embeddings[b][c] - wanted[c]));
    }
  }
  std::printf("largest difference from Eigen: %.1e\n", error);
  const bool alike = cosine(embeddings[0], embeddings[1]) > cosine(embeddings[0], embeddings[2]);
  return error < 1e-5f && alike ? 0 : 1;
}
