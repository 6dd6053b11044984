// SPDX-License-Identifier: Apache-2.0
// The model of lesson 5, and the same encoder as matrix expressions without attune.
#pragma once
#include <Eigen/Dense>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

constexpr std::int64_t heads = 4, head_size = 12, width = heads * head_size, hidden_width = 2 * width;

/// Weights by rows, as many as the input has elements.
struct Block {
  std::vector<float> qkv, out, up, down;
};
struct Model {
  std::vector<float> bytes;  ///< a vector for each of 256
  std::vector<Block> blocks;

  /// Element c of the vector of a byte at a position: from the table, and sinusoids that tell positions apart.
  float embed(char byte, std::size_t position, std::size_t c) const {
    const double angle = static_cast<double>(position) * std::pow(1e4, -static_cast<double>(c / 2 * 2) / width);
    return bytes[static_cast<unsigned char>(byte) * static_cast<std::size_t>(width) + c] +
           static_cast<float>(c % 2 ? std::cos(angle) : std::sin(angle));
  }
};

inline Model random_model(unsigned seed) {
  std::mt19937 random(seed);
  auto weights = [&](std::int64_t rows, std::int64_t columns) {
    std::normal_distribution<float> normal(0, 1 / std::sqrt(static_cast<float>(rows)));
    std::vector<float> out(static_cast<std::size_t>(rows * columns));
    for (float& w : out) w = normal(random);
    return out;
  };
  Model model{weights(256, width), {}};
  for (float& w : model.bytes) w *= 16;  // as large as the sinusoids
  for (int k = 0; k < 2; ++k)
    model.blocks.push_back(
        {weights(width, 3 * width), weights(width, width), weights(width, hidden_width), weights(hidden_width, width)});
  return model;
}

inline std::vector<float> eigen_encode(const Model& model, const std::string& sentence) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  auto matrix = [](const std::vector<float>& data, std::int64_t columns) {
    return Eigen::Map<const Matrix>(data.data(), static_cast<std::int64_t>(data.size()) / columns, columns);
  };
  auto norm = [](const Matrix& x) -> Matrix {
    const Matrix centred = x.colwise() - x.rowwise().mean();
    return (centred.array().colwise() / (centred.array().square().rowwise().mean() + 1e-5f).sqrt()).matrix();
  };
  Matrix x(std::ssize(sentence), width);
  for (std::size_t n = 0; n < sentence.size(); ++n)
    for (std::size_t c = 0; c < width; ++c)
      x(static_cast<std::int64_t>(n), static_cast<std::int64_t>(c)) = model.embed(sentence[n], n, c);
  for (const Block& block : model.blocks) {
    const Matrix qkv = x * matrix(block.qkv, 3 * width);
    Matrix mixed(x.rows(), width);
    for (std::int64_t h = 0; h < heads; ++h) {
      const auto of = [&](std::int64_t k) { return qkv.middleCols(k * width + h * head_size, head_size); };
      Matrix weights = of(0) * of(1).transpose() / std::sqrt(static_cast<float>(head_size));
      weights = (weights.colwise() - weights.rowwise().maxCoeff()).array().exp();
      weights.array().colwise() /= weights.rowwise().sum().array().eval();
      mixed.middleCols(h * head_size, head_size) = weights * of(2);
    }
    x = norm(x + mixed * matrix(block.out, width));
    Matrix hidden = x * matrix(block.up, hidden_width);
    hidden = hidden.array() / (1 + (-1.702f * hidden.array()).exp());
    x = norm(x + hidden * matrix(block.down, width));
  }
  const Eigen::RowVectorXf mean = x.colwise().mean();
  return {mean.data(), mean.data() + mean.size()};
}
