// SPDX-License-Identifier: Apache-2.0
// A small attention program, its call with vectors, and its value by three plain loops.
#pragma once
#include <attune/engine.hpp>
#include <attune/program.hpp>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

#include "backend/cpu/cpu.hpp"
#include "tests/catch.hpp"

namespace calls {

using namespace attune;

inline const char* attention_text = R"(
kernel attention<T>(Q: T[B, H, M, D], K: T[B, H, N, D], V: T[B, H, N, D], scale: f32 = 1 / sqrt(D)) -> O: T[B, H, M, D] {
  S[b, h, i, j] = scale * sum[d](Q[b, h, i, d] * K[b, h, j, d])
  P[b, h, i, j] = softmax[j where j <= i + N - M](S[b, h, i, j])
  O[b, h, i, d] = sum[j](P[b, h, i, j] * V[b, h, j, d])
}
)";

inline Program parse(const char* text) { return Program::parse(text).value(); }

/// Targets that this machine can run.
inline std::vector<TargetKind> targets() {
  std::vector<TargetKind> kinds{TargetKind::reference, TargetKind::interpreter};
  if (cpu::llvm_report().found()) kinds.push_back(TargetKind::cpu);
  return kinds;
}
inline CompileOptions on(TargetKind kind) {
  CompileOptions options;
  options.target.kind = kind;
  return options;
}
/// Options of an engine that leaves no trace on disk.
inline EngineOptions private_engine(int threads = 2) {
  EngineOptions options;
  options.disk_cache = false;
  options.threads = threads;
  return options;
}

/// Random inputs of `attention`, and its result computed in double.
struct AttentionCall {
  std::int64_t B, H, M, N, D;
  double scale;
  std::vector<float> q, k, v, o;

  AttentionCall(std::int64_t b, std::int64_t h, std::int64_t m, std::int64_t n, std::int64_t d, unsigned seed = 1)
      : B(b), H(h), M(m), N(n), D(d), scale(1 / std::sqrt(static_cast<double>(d))) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (auto* values : {&q, &k, &v}) {
      values->resize(static_cast<std::size_t>(B * H * (values == &q ? M : N) * D));
      for (float& value : *values) value = normal(random);
    }
    o.assign(static_cast<std::size_t>(B * H * M * D), std::numeric_limits<float>::quiet_NaN());
  }

  Arguments arguments() {
    return {{"Q", TensorRef(q.data(), DType::f32, {B, H, M, D})},
            {"K", TensorRef(k.data(), DType::f32, {B, H, N, D})},
            {"V", TensorRef(v.data(), DType::f32, {B, H, N, D})},
            {"O", TensorRef(o.data(), DType::f32, {B, H, M, D})}};
  }

  double largest_error() const {
    double largest = 0;
    std::vector<double> weights(static_cast<std::size_t>(N));
    for (std::int64_t bh = 0; bh < B * H; ++bh)
      for (std::int64_t i = 0; i < M; ++i) {
        const auto at = [&](const std::vector<float>& x, std::int64_t rows, std::int64_t row, std::int64_t d) {
          return static_cast<double>(x[static_cast<std::size_t>((bh * rows + row) * D + d)]);
        };
        double top = -std::numeric_limits<double>::infinity(), sum = 0;
        const std::int64_t visible = std::max<std::int64_t>(std::min(N, i + N - M + 1), 0);
        for (std::int64_t j = 0; j < visible; ++j) {
          double score = 0;
          for (std::int64_t d = 0; d < D; ++d) score += at(q, M, i, d) * at(k, N, j, d);
          weights[static_cast<std::size_t>(j)] = score * scale;
          top = std::max(top, score * scale);
        }
        for (std::int64_t j = 0; j < visible; ++j)
          sum += weights[static_cast<std::size_t>(j)] = std::exp(weights[static_cast<std::size_t>(j)] - top);
        for (std::int64_t d = 0; d < D; ++d) {
          double expected = 0;
          for (std::int64_t j = 0; j < visible; ++j)
            expected += weights[static_cast<std::size_t>(j)] / sum * at(v, N, j, d);
          const double error = std::abs(at(o, M, i, d) - expected);
          if (!(error <= largest)) largest = error;  // a NaN stays
        }
      }
    return largest;
  }
};

}  // namespace calls
