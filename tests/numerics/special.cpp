// SPDX-License-Identifier: Apache-2.0
// NaN and infinities: what is masked never shows, what is visible reaches exactly the rows that see it, and a hoisted
// normaliser does not overflow. Each call runs on all targets and with several tile sizes; the reference decides.
#include <functional>
#include <limits>

#include "tests/catch.hpp"
#include "tests/numerics/harness.hpp"
#include "tests/numerics/on_device.hpp"

using namespace attune;
using namespace attune::test;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

struct Call {
  std::int64_t M, N, D, E;
  std::vector<float> q, k, v, bias;
  std::vector<std::int32_t> len{0};
  Call(std::int64_t m, std::int64_t n, std::int64_t d, std::int64_t e, unsigned seed) : M(m), N(n), D(d), E(e) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    auto fill = [&](std::vector<float>& list, std::int64_t size) {
      list.resize(static_cast<std::size_t>(size));
      for (float& x : list) x = normal(random);
    };
    fill(q, M * D), fill(k, N * D), fill(v, N * E), fill(bias, M * N);
    len[0] = static_cast<std::int32_t>(N);
  }
  float& K(std::int64_t j, std::int64_t d) { return k[static_cast<std::size_t>(j * D + d)]; }
  float& V(std::int64_t j, std::int64_t e) { return v[static_cast<std::size_t>(j * E + e)]; }
};

/// Runs a program over one head on every target; gives the reference's O and L.
std::pair<std::vector<float>, std::vector<float>> everywhere(const char* text, Call& c) {
  static Engine engine([] {
    EngineOptions options;
    options.disk_cache = false;
    return options;
  }());
  Program program = Program::parse(text).value();
  std::pair<std::vector<float>, std::vector<float>> wanted;
  for (const char* target : {"reference", "interpreter", "cpu", "cuda"})
    for (const char* tile : {"", "8", "128"}) {
      CompileOptions compile;
      compile.target = *Target::parse(target);
      const bool is_reference = compile.target.kind == TargetKind::reference;
      if (is_reference && *tile) continue;
      if (*tile) compile.schedule["tile.n"] = tile;
      std::vector<float> o(static_cast<std::size_t>(c.M * c.E), 7), l(static_cast<std::size_t>(c.M), 7);
      Arguments call{{"Q", {c.q.data(), DType::f32, {c.M, c.D}}},
                     {"K", {c.k.data(), DType::f32, {c.N, c.D}}},
                     {"V", {c.v.data(), DType::f32, {c.N, c.E}}},
                     {"O", {o.data(), DType::f32, {c.M, c.E}}},
                     {"L", {l.data(), DType::f32, {c.M}}}};
      if (std::string(text).find("bias:") != std::string::npos)
        call.emplace_back("bias", TensorRef(c.bias.data(), DType::f32, {c.M, c.N}));
      if (std::string(text).find("len:") != std::string::npos)
        call.emplace_back("len", TensorRef(c.len.data(), DType::i32, {1}));
      auto report = run(engine, program, call, compile);
      if (!report && is_missing(report.diagnostics())) continue;
      INFO(target << " tile.n=" << tile);
      if (!report) FAIL(render(report.diagnostics()));
      if (is_reference) {
        wanted = {o, l};
        continue;
      }
      Difference d =
          compare(TensorRef(o.data(), DType::f32, {c.M, c.E}), TensorRef(wanted.first.data(), DType::f32, {c.M, c.E}));
      Difference e =
          compare(TensorRef(l.data(), DType::f32, {c.M}), TensorRef(wanted.second.data(), DType::f32, {c.M}));
      CHECK(d.special);
      CHECK(d.error <= 2e-5 * std::max(1.0, d.scale));
      CHECK(e.special);
      CHECK(e.error <= 2e-5 * std::max(1.0, e.scale));
    }
  return wanted;
}

const char* const causal = R"(kernel k(Q: f32[M, D], K: f32[N, D], V: f32[N, E]) -> (O: f32[M, E], L: f32[M]) {
  S[i, j] = sum[d](Q[i, d] * K[j, d]) / sqrt(D)
  O[i, e] = sum[j](softmax[j where j <= i + N - M](S[i, j]) * V[j, e])
  L[i] = logsumexp[j where j <= i + N - M](S[i, j])
})";
const char* const lengths =
    R"(kernel k(Q: f32[M, D], K: f32[N, D], V: f32[N, E], len: i32[C]) -> (O: f32[M, E], L: f32[M]) {
  S[i, j] = sum[d](Q[i, d] * K[j, d]) / sqrt(D)
  O[i, e] = sum[j](softmax[j where j < len[0]](S[i, j]) * V[j, e])
  L[i] = logsumexp[j where j < len[0]](S[i, j])
})";
const char* const biased =
    R"(kernel k(Q: f32[M, D], K: f32[N, D], V: f32[N, E], bias: f32[M, N]) -> (O: f32[M, E], L: f32[M]) {
  S[i, j] = sum[d](Q[i, d] * K[j, d]) / sqrt(D) + bias[i, j]
  O[i, e] = sum[j](softmax[j](S[i, j]) * V[j, e])
  L[i] = logsumexp[j](S[i, j])
})";

}  // namespace

TEST_CASE("NaN and infinity behind a mask do not show") {
  for (float poison : {NAN, inf, -inf}) {
    Call clean(50, 64, 12, 10, 1);
    clean.len[0] = 40;
    for (std::int64_t j = 40; j < 64; ++j) {
      for (std::int64_t d = 0; d < 12; ++d) clean.K(j, d) = 0;
      for (std::int64_t e = 0; e < 10; ++e) clean.V(j, e) = 0;
    }
    Call dirty = clean;
    for (std::int64_t j = 40; j < 64; ++j) {
      for (std::int64_t d = 0; d < 12; ++d) dirty.K(j, d) = poison;
      for (std::int64_t e = 0; e < 10; ++e) dirty.V(j, e) = poison;
    }
    auto a = everywhere(lengths, clean), b = everywhere(lengths, dirty);
    CHECK(a.first == b.first);
    CHECK(a.second == b.second);
    for (float x : b.first) CHECK(std::isfinite(x));
  }
}

TEST_CASE("a visible NaN in K reaches exactly the rows that see it") {
  Call c(30, 41, 8, 9, 2);
  c.K(25, 3) = NAN;
  auto [o, l] = everywhere(causal, c);
  for (std::int64_t i = 0; i < 30; ++i) {
    bool sees = 25 <= i + 41 - 30;
    for (std::int64_t e = 0; e < 9; ++e) CHECK(std::isnan(o[static_cast<std::size_t>(i * 9 + e)]) == sees);
    CHECK(std::isnan(l[static_cast<std::size_t>(i)]) == sees);
  }
}

TEST_CASE("a visible NaN or infinity in V reaches its column of the rows that see it") {
  for (float poison : {NAN, inf}) {
    Call c(30, 41, 8, 9, 3);
    c.V(25, 4) = poison;
    auto [o, l] = everywhere(causal, c);
    for (std::int64_t i = 0; i < 30; ++i) {
      bool sees = 25 <= i + 41 - 30;
      for (std::int64_t e = 0; e < 9; ++e)
        CHECK(std::isfinite(o[static_cast<std::size_t>(i * 9 + e)]) == !(sees && e == 4));
      CHECK(std::isfinite(l[static_cast<std::size_t>(i)]));
    }
  }
}

TEST_CASE("a score of -inf is absent, of +inf makes the row NaN and its logsumexp +inf") {
  Call c(26, 33, 8, 9, 4);
  for (std::int64_t j = 0; j < 33; ++j) c.bias[static_cast<std::size_t>(3 * 33 + j)] = -inf;  // an empty row
  for (std::int64_t i = 0; i < 26; ++i) c.bias[static_cast<std::size_t>(i * 33 + 7)] = -inf;
  for (std::int64_t e = 0; e < 9; ++e) c.V(7, e) = NAN;  // what no row weighs
  c.bias[static_cast<std::size_t>(5 * 33 + 2)] = inf;
  auto [o, l] = everywhere(biased, c);
  for (std::int64_t i = 0; i < 26; ++i)
    for (std::int64_t e = 0; e < 9; ++e) {
      float x = o[static_cast<std::size_t>(i * 9 + e)];
      if (i == 3)
        CHECK(x == 0);
      else
        CHECK(std::isnan(x) == (i == 5));
    }
  CHECK(l[3] == -inf);
  CHECK(l[5] == inf);
}

TEST_CASE("a hoisted normaliser does not overflow and low scores are no sentinels") {
  Call large(9, 200, 4, 5, 5);
  for (float& x : large.v) x = 2e38f;  // 200 of them overflow a sum; their mean does not
  auto [o, l] = everywhere(causal, large);
  for (float x : o) CHECK(x == Approx(2e38).epsilon(1e-4));
  Call low(6, 64, 4, 5, 6);
  for (float& x : low.bias) x = -1e30f;
  low.bias[10] = -0.9e30f;
  auto [p, m] = everywhere(biased, low);
  CHECK(std::isfinite(p[0]));
  CHECK(m[1] == Approx(-1e30).epsilon(1e-6));
}
