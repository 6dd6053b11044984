// SPDX-License-Identifier: Apache-2.0
// Lesson 3: a program in a file, with a mask that is data.
#include <attune/attune.hpp>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

int main() {
  using namespace attune;
  Program program = Program::load(EXAMPLE_DIR "/03_mask.attn").value();
  Kernel kernel = Engine::shared().compile(program).value();
  constexpr std::int64_t n = 6;
  std::vector<float> q(n * 2, 0), k(n * 2, 0), v{1, 2, 3, 10, 20, 30}, o(n);
  std::vector<std::int32_t> doc{0, 0, 0, 1, 1, 1};
  auto run = [&] {
    kernel
        .run({{"Q", {q.data(), DType::f32, {n, 2}}},
              {"K", {k.data(), DType::f32, {n, 2}}},
              {"V", {v.data(), DType::f32, {n, 1}}},
              {"doc", {doc.data(), DType::i32, {n}}},
              {"O", {o.data(), DType::f32, {n, 1}}}})
        .value();
    for (float x : o) std::printf("%7.3f", x);
    std::printf("\n");
  };
  // Equal scores: each row is the mean of what it sees.
  run();
  bool good = std::abs(o[2] - 2) < 1e-5f && std::abs(o[5] - 20) < 1e-4f;
  int compiled = kernel.compile_count();
  doc = {0, 1, 1, 1, 1, 1};
  run();
  good = good && std::abs(o[2] - 2.5f) < 1e-5f && std::abs(o[5] - 13) < 1e-4f;
  return good && kernel.compile_count() == compiled ? 0 : 1;
}
