// SPDX-License-Identifier: Apache-2.0
// The reference on programs in the notation: what the tables of the notation promise, from text to numbers.
#include <attune/program.hpp>

#include "tensor/passes.hpp"
#include "tests/reference/build.hpp"

using namespace attune;
using namespace attune::test;

namespace {

tensor::Program compiled(const std::string& text, const Arguments& arguments) {
  const auto parsed = attune::Program::parse(text);
  INFO(render(parsed.diagnostics()));
  REQUIRE(parsed.ok());
  const auto inferred = infer(parsed->module());
  INFO(render(inferred.diagnostics()));
  REQUIRE(inferred.ok());
  const auto types = infer_types(*inferred, arguments);
  REQUIRE(types.ok());
  const auto bound = tensor::bind_types(*inferred, *types);
  INFO(render(bound.diagnostics()));
  REQUIRE(bound.ok());
  return *bound;
}
bool run(const std::string& text, const Arguments& arguments) { return call(compiled(text, arguments), arguments); }

}  // namespace

TEST_CASE("text: a kernel of one result and one input") {
  Data<float> x{{3}, {1, 2, 3}}, y = filled({3}, NaN);
  CHECK_FALSE(run("kernel k(x: f32[N]) -> y: f32[N] {\n y[i] = x[i] * 2 + sum[j where j < i](x[j])\n}",
                  {{"x", x.ref(DType::f32)}, {"y", y.ref(DType::f32)}}));
  CHECK(y.values[0] == 2);
  CHECK(y.values[1] == 5);
  CHECK(y.values[2] == 9);
}

TEST_CASE("text: grouped heads and a scale by default") {
  Data<float> q = noise({1, 4, 3, 8}, 1), k = noise({1, 2, 5, 8}, 2), v = noise({1, 2, 5, 8}, 3),
              o = filled({1, 4, 3, 8}, NaN);
  const std::string text = R"(
kernel causal<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E], scale: f32 = 1 / sqrt(D)) -> O: T[B, H, M, E] {
  fn kv(h) = h / (H / G)
  fn pos(i) = i + N - M
  S[b, h, i, j] = scale * sum[d](Q[b, h, i, d] * K[b, kv(h), j, d])
  P[b, h, i, j] = softmax[j where j <= pos(i)](S[b, h, i, j])
  O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, kv(h), j, e])
})";
  const auto arguments = [&](Data<float>& heads, Data<float>& out) {
    return Arguments{
        {"Q", heads.ref(DType::f32)}, {"K", k.ref(DType::f32)}, {"V", v.ref(DType::f32)}, {"O", out.ref(DType::f32)}};
  };
  CHECK_FALSE(run(text, arguments(q, o)));
  for (int h = 0; h < 4; ++h)
    for (int i = 0; i < 3; ++i) {
      double weights[5], total = 0;
      for (int j = 0; j <= i + 2; ++j) {
        double s = 0;
        for (int d = 0; d < 8; ++d) s += double(q.values[(h * 3 + i) * 8 + d]) * k.values[((h / 2) * 5 + j) * 8 + d];
        total += weights[j] = std::exp(s / std::sqrt(8.0));
      }
      for (int e = 0; e < 8; ++e) {
        double expected = 0;
        for (int j = 0; j <= i + 2; ++j) expected += weights[j] / total * v.values[((h / 2) * 5 + j) * 8 + e];
        CHECK(o.values[(h * 3 + i) * 8 + e] == Approx(expected).margin(1e-6));
      }
    }
  Data<float> odd = noise({1, 3, 3, 8}, 1), out = filled({1, 3, 3, 8}, NaN);
  const auto bad = attune::bind(compiled(text, arguments(odd, out)), arguments(odd, out), true);
  REQUIRE(codes(bad.diagnostics()) == std::vector<std::string>{"A0511"});
  CHECK(bad.diagnostics()[0].message == "H = 3 is not a multiple of G = 2");
}

TEST_CASE("text: a paged cache with unused entries raises no flag") {
  // Pages of 2; sequence 0 has three keys, sequence 1 one.
  Data<float> pool{{4, 2}, {0, 1, 2, 3, 4, 5, 6, 7}}, y = filled({2}, NaN);
  Data<std::int32_t> table{{2, 2}, {3, 0, 1, -1}}, length{{2}, {3, 1}};
  const std::string text = R"(
kernel paged(pool: f32[P, 2], table: i32[B, R], len: i32[B]) -> y: f32[B] {
  y[b] = sum[j in 0..2 * R where j < len[b]](pool[table[b, j / 2], j % 2])
})";
  const Arguments arguments{{"pool", pool.ref(DType::f32)},
                            {"table", table.ref(DType::i32)},
                            {"len", length.ref(DType::i32)},
                            {"y", y.ref(DType::f32)}};
  CHECK_FALSE(run(text, arguments));
  CHECK(y.values[0] == 13);
  CHECK(y.values[1] == 2);
  length.values[1] = 4;
  CHECK(run(text, arguments));
  CHECK(y.values[1] == 5);
}

TEST_CASE("text: a divisor that is 0 for the launch, where it stands") {
  Data<float> x{{3}, {1, 2, 3}}, y = filled({3}, NaN);
  const std::string text = "kernel k(x: f32[N], C: i32) -> y: f32[N] {\n  y[i] = x[i] if i / C == 0 else 0.0\n}";
  const Arguments zero{{"x", x.ref(DType::f32)}, {"y", y.ref(DType::f32)}, {"C", 0}};
  const auto bad = attune::bind(compiled(text, zero), zero, true);
  REQUIRE(codes(bad.diagnostics()) == std::vector<std::string>{"A0512"});
  CHECK(bad.diagnostics()[0].source.position(bad.diagnostics()[0].span.begin).line == 2);
  CHECK_FALSE(run(text, {{"x", x.ref(DType::f32)}, {"y", y.ref(DType::f32)}, {"C", 2}}));
  CHECK(y.values[1] == 2);
  CHECK(y.values[2] == 0);
}

TEST_CASE("text: integers, casts and empty maxima") {
  Data<std::int32_t> x{{3}, {5, -7, 1}}, y = filled<std::int32_t>({3}, 99);
  Data<std::int8_t> m = filled<std::int8_t>({}, 99);
  CHECK_FALSE(
      run("kernel k(x: i32[N]) -> (y: i32[N], m: i8[]) {\n"
          "  y[i] = x[i] / 2 * 10 + x[i] % 3\n  m[] = max[j where x[j] > 100](x[j])\n}",
          {{"x", x.ref(DType::i32)}, {"y", y.ref(DType::i32)}, {"m", m.ref(DType::i8)}}));
  CHECK(y.values[0] == 22);
  CHECK(y.values[1] == -38);
  CHECK(y.values[2] == 1);
  CHECK(m.values[0] == -128);
}

TEST_CASE("text: narrow storage rounds once, definitions do not") {
  Data<std::uint16_t> x = filled<std::uint16_t>({1}, 0), y = filled<std::uint16_t>({1}, 0);
  Data<float> z = filled({1}, NaN), r = filled({1}, NaN);
  store_element(x.values.data(), DType::f16, 0, 2048);
  CHECK_FALSE(
      run("kernel k<T>(x: T[N]) -> (y: T[N], z: f32[N], r: f32[N]) {\n"
          "  y[i] = x[i] + 1\n  z[i] = y[i] * 2\n  r[i] = T(x[i] + 1) * 2\n}",
          {{"x", x.ref(DType::f16)}, {"y", y.ref(DType::f16)}, {"z", z.ref(DType::f32)}, {"r", r.ref(DType::f32)}}));
  CHECK(load_element(y.values.data(), DType::f16, 0) == 2048);
  CHECK(z.values[0] == 4098);
  CHECK(r.values[0] == 4096);
}

TEST_CASE("text: a softmax along two indices and one along the first") {
  Data<float> x{{2, 2}, {0, 0, 0, 0}}, y = filled({2, 2}, NaN), z = filled({2, 2}, NaN);
  CHECK_FALSE(
      run("kernel k(x: f32[M, N]) -> (y: f32[M, N], z: f32[M, N]) {\n"
          "  y[i, j] = softmax[i, j where i + j < 2](x[i, j])\n  z[i, j] = softmax[i](x[i, j] + j)\n}",
          {{"x", x.ref(DType::f32)}, {"y", y.ref(DType::f32)}, {"z", z.ref(DType::f32)}}));
  CHECK(y.values[0] == Approx(1.0 / 3));
  CHECK(y.values[3] == 0);
  CHECK(z.values[3] == Approx(0.5));
}
