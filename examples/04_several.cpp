// SPDX-License-Identifier: Apache-2.0
// Lesson 4: several kernels in one text, one engine, a standard program beside them, and errors as values.
#include <attune/attune.hpp>
#include <cmath>
#include <cstdio>
#include <vector>

int main() {
  using namespace attune;
  const char* text = R"(
    fn logits(x) = 30 * tanh(x / 30)

    kernel capped<T>(Q: T[M, D], K: T[N, D], V: T[N, E]) -> O: T[M, E] {
      S[i, j] = logits(sum[d](Q[i, d] * K[j, d]))
      O[i, e] = sum[j](softmax[j](S[i, j]) * V[j, e])
    }
    kernel row_norm<T>(X: T[M, E]) -> Y: T[M, E] {
      R[i] = rsqrt(mean[e](X[i, e] ^ 2) + 1e-6)
      Y[i, e] = X[i, e] * R[i]
    })";
  Program program = Program::parse(text, "several.attn").value();
  EngineOptions options;
  options.threads = 2;
  Engine engine(options);
  CompileOptions capped, norm;
  capped.kernel = "capped";
  norm.kernel = "row_norm";
  Kernel attend = engine.compile(program, capped).value();
  Kernel scale = engine.compile(program, norm).value();
  std::vector<float> q{3, 1, -2, 4}, k{1, 2, 0, 1, -1, 1}, v{1, 0, 0, 1, 2, 2}, o(4), y(4);
  attend
      .run({{"Q", {q.data(), DType::f32, {2, 2}}},
            {"K", {k.data(), DType::f32, {3, 2}}},
            {"V", {v.data(), DType::f32, {3, 2}}},
            {"O", {o.data(), DType::f32, {2, 2}}}})
      .value();
  scale.run({{"X", {o.data(), DType::f32, {2, 2}}}, {"Y", {y.data(), DType::f32, {2, 2}}}}).value();
  std::printf("%.4f %.4f / %.4f %.4f\n", y[0], y[1], y[2], y[3]);
  bool good = std::abs(y[0] * y[0] + y[1] * y[1] - 2) < 1e-3f;

  // A mistake is a value with a position, or an exception for those who call value().
  auto wrong = Program::parse("kernel k(Q: f32[M]) -> O: f32[M] { O[i] = Q[i }");
  if (wrong.ok()) return 1;
  std::printf("%s\n", render(wrong.diagnostics()).c_str());
  auto short_tensor = attend.run({{"Q", {q.data(), DType::f32, {2, 2}}},
                                  {"K", {k.data(), DType::f32, {2, 3}}},
                                  {"V", {v.data(), DType::f32, {3, 2}}},
                                  {"O", {o.data(), DType::f32, {2, 2}}}});
  if (short_tensor.ok()) return 1;
  std::printf("%s\n", render(short_tensor.diagnostics()).c_str());
  return good ? 0 : 1;
}
