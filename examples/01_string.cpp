// SPDX-License-Identifier: Apache-2.0
// Lesson 1: attention from a string, in ten lines. Two tokens attend to three; the result is checked by hand.
#include <attune/attune.hpp>
#include <cmath>
#include <cstdio>
#include <vector>

int main() {
  auto program = attune::Program::parse(R"(
    kernel attend<T>(Q: T[M, D], K: T[N, D], V: T[N, E]) -> O: T[M, E] {
      S[i, j] = sum[d](Q[i, d] * K[j, d]) / sqrt(D)
      O[i, e] = sum[j](softmax[j](S[i, j]) * V[j, e])
    })")
                     .value();
  std::vector<float> q{1, 0, 0, 1}, k{1, 0, 0, 1, 1, 1}, v{1, 2, 3}, o(2);
  attune::Engine::shared()
      .run(program, {{"Q", {q.data(), attune::DType::f32, {2, 2}}},
                     {"K", {k.data(), attune::DType::f32, {3, 2}}},
                     {"V", {v.data(), attune::DType::f32, {3, 1}}},
                     {"O", {o.data(), attune::DType::f32, {2, 1}}}})
      .value();
  std::printf("O = %.4f %.4f\n", o[0], o[1]);

  // Row 0 has scores 1/sqrt(2), 0, 1/sqrt(2).
  double a = std::exp(1 / std::sqrt(2.0)), wanted = (1 * a + 2 * 1 + 3 * a) / (2 * a + 1);
  return std::abs(o[0] - wanted) < 1e-5 ? 0 : 1;
}
