// SPDX-License-Identifier: Apache-2.0
// Lesson 2: the same kind of program built in C++, and proof that text and builder are one language.
#include <attune/attune.hpp>
#include <cstdio>
#include <vector>

int main() {
  using namespace attune;
  TypeVar T{"T"};
  Dim M{"M"}, N{"N"}, D{"D"}, E{"E"};
  Index i{"i"}, j{"j"}, d{"d"}, e{"e"};
  Tensor Q{"Q", T, {M, D}}, K{"K", T, {N, D}}, V{"V", T, {N, E}};
  Scalar window{"window", i32};
  Function pos{"pos", [&](Expr row) { return row + N - M; }};

  Tensor S = define("S", {i, j}, sum(d)(Q(i, d) * K(j, d)) / sqrt(D));
  Tensor P = define("P", {i, j}, softmax(j, where(pos(i) - window < j && j <= pos(i)))(S(i, j)));
  Tensor O = define("O", {i, e}, sum(j)(P(i, j) * V(j, e)), T);
  Program program = attune::program("sliding", {Q, K, V, window}, {O});
  std::printf("%s\n", program.text().c_str());
  if (!(Program::parse(program.text()).value() == program)) return 1;

  // A window of one key: every row sees itself alone, so the output is V.
  std::vector<float> q(5 * 3, 1), k(5 * 3, 1), v{1, 2, 3, 4, 5}, o(5, -1);
  Engine::shared()
      .run(program, {{"Q", {q.data(), DType::f32, {5, 3}}},
                     {"K", {k.data(), DType::f32, {5, 3}}},
                     {"V", {v.data(), DType::f32, {5, 1}}},
                     {"O", {o.data(), DType::f32, {5, 1}}},
                     {"window", 1}})
      .value();
  return o == v ? 0 : 1;
}
