// SPDX-License-Identifier: Apache-2.0
// A program of somebody else: one attention from a string and one of the standard library, on whatever target is there.
#include <attune/attune.hpp>
#include <attune/builder.hpp>
#include <attune/stdlib.hpp>
#include <cmath>
#include <cstdio>
#include <vector>

int main() {
  auto program = attune::Program::parse(R"(
    kernel attend<T>(Q: T[M, D], K: T[N, D], V: T[N, E]) -> O: T[M, E] {
      S[i, j] = sum[d](Q[i, d] * K[j, d])
      O[i, e] = sum[j](softmax[j](S[i, j]) * V[j, e])
    })");
  if (!program) return 2;
  std::vector<float> q{1, 0}, k{1, 0, 0, 1}, v{1, 2}, o{NAN};
  const auto report = attune::Engine::shared().run(*program, {{"Q", {q.data(), attune::DType::f32, {1, 2}}},
                                                              {"K", {k.data(), attune::DType::f32, {2, 2}}},
                                                              {"V", {v.data(), attune::DType::f32, {2, 1}}},
                                                              {"O", {o.data(), attune::DType::f32, {1, 1}}}});
  if (!report) return 3;
  const double a = std::exp(1.0), wanted = (a + 2) / (a + 1);
  std::printf("%.6f, wanted %.6f\n", o[0], wanted);
  return std::abs(o[0] - wanted) < 1e-5 ? 0 : 1;
}
