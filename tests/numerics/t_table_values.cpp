// SPDX-License-Identifier: Apache-2.0
// The table's rows on large, infinite and missing values, and on arguments that do not fit: T7, T8, T19, T29, T30, T32,
// T33.
#include "tests/numerics/t_table.hpp"

using namespace attune;
using namespace attune::test;

TEST_CASE("T7: no score is a sentinel: all near -1e5, one at -9.5e4") {
  Attention a(DType::bf16, 1, 16, 1, 1, 64, 128, 128, 7);
  a.q = filled(DType::bf16, {1, 16, 1, 128}, [](std::int64_t) { return 8; });
  a.k = filled(DType::bf16, {1, 1, 64, 128}, [](std::int64_t k) { return k / 128 == 41 ? -92.5 : -97.5; });
  const auto wanted = agree(standard("softmax"), a.with("scale", 1.0));
  for (std::int64_t e = 0; e < 128; ++e) CHECK(at(wanted[0], e) == at(a.v, 41 * 128 + e));
  CHECK(at(wanted[1], 0) == Approx(-8 * 92.5 * 128));
}

TEST_CASE("T8: NaN and infinity behind the keys do not show") {
  const Attention clean = [] {
    Attention a(DType::f16, 1, 1, 1, 64, 64, 32, 32, 8);
    for (Data* data : {&a.k, &a.v})
      for (std::int64_t k = 40 * 32; k < 64 * 32; ++k) store_element(data->ref.data, DType::f16, k, 0);
    return a;
  }();
  const Data len = filled(DType::i32, {1}, [](std::int64_t) { return 40; });
  for (auto [in_k, in_v] : {std::pair{NAN, NAN}, {0.0F, inf}, {NAN, -inf}, {inf, inf}}) {
    Attention dirty(DType::f16, 1, 1, 1, 64, 64, 32, 32, 8);
    for (std::int64_t k = 40 * 32; k < 64 * 32; ++k) {
      store_element(dirty.k.ref.data, DType::f16, k, in_k);
      store_element(dirty.v.ref.data, DType::f16, k, in_v);
    }
    for (const char* target : every_target) {
      if (!available(target)) continue;
      INFO(target << " K " << in_k << " V " << in_v);
      const auto wanted = results_of(standard("lengths"), clean.with("len", len), target);
      const auto got = results_of(standard("lengths"), dirty.with("len", len), target);
      const Difference d = compare(got[0].ref, wanted[0].ref), l = compare(got[1].ref, wanted[1].ref);
      CHECK(d.special);
      CHECK(d.error == 0);
      CHECK(l.special);
      CHECK(l.error == 0);
      for (std::int64_t k = 0; k < 64 * 32; ++k) CHECK(std::isfinite(at(got[0], k)));
    }
  }
}

TEST_CASE("T19: sinks of every size, and an empty row") {
  const Attention a(DType::f16, 1, 8, 8, 33, 77, 64, 64, 19);
  const auto plain = results_of(standard("causal"), a.arguments(), "reference");
  for (float sink : {-inf, 0.0F, 5.0F, 1e4F}) {
    INFO("sink " << sink);
    const Data sinks = filled(DType::f32, {8}, [&](std::int64_t) { return sink; });
    const auto wanted = agree(standard("sinks"), a.with("sink", sinks));
    if (sink == -inf) check_equal(wanted[0], plain[0]);
    for (std::int64_t k = 0; sink == 1e4F && k < 8 * 33 * 64; ++k) CHECK(at(wanted[0], k) == 0);
    // Row 5 sees nothing; with a sink its denominator is the sink alone.
    const Program program = parsed(R"(
      kernel k<T>(Q: T[B, H, M, D], K: T[B, H, N, D], V: T[B, H, N, E], sink: f32[H]) -> (O: T[B, H, M, E], L: f32[B, H, M]) {
        S[b, h, i, j] = sum[d](Q[b, h, i, d] * K[b, h, j, d]) / sqrt(D)
        O[b, h, i, e] = sum[j](softmax[j where j <= i + N - M and i != 5](S[b, h, i, j], extra = sink[h]) * V[b, h, j, e])
        L[b, h, i] = logsumexp[j where j <= i + N - M and i != 5](S[b, h, i, j], extra = sink[h])
      })");
    const auto out = agree(program, a.with("sink", sinks));
    for (std::int64_t h = 0; h < 8; ++h) {
      for (std::int64_t e = 0; e < 64; ++e) CHECK(at(out[0], (h * 33 + 5) * 64 + e) == 0);
      CHECK(at(out[1], h * 33 + 5) == sink);
    }
  }
}

TEST_CASE("T29: products far beyond what 16-bit accumulators hold") {
  // <q, k> is about 7e4 and V about 1e3.
  auto large = [](std::int64_t heads, std::int64_t rows) {
    Attention a(DType::f16, 1, heads, heads, rows, 4096, 256, 256, 29);
    for (auto [data, factor, shift] : {std::tuple{&a.q, 1.0, 16.0}, {&a.k, 1.0, 17.0}, {&a.v, 30.0, 1000.0}})
      for (std::int64_t k = 0; k < data->ref.element_count(); ++k)
        store_element(data->ref.data, DType::f16, k, shift + factor * at(*data, k));
    return a;
  };
  const Attention all = large(8, 64), slice = large(1, 2);
  agree(standard("softmax"), slice.arguments());
  for (double scale : {1.0, 1.0 / 16}) {
    if (!available("cpu")) return;
    const auto wanted = results_of(standard("softmax"), all.with("scale", scale), "reference");
    const auto got = results_of(standard("softmax"), all.with("scale", scale), "cpu");
    check_equal(got[0], wanted[0]);
    for (std::int64_t k = 0; k < got[0].ref.element_count(); k += 17) CHECK(std::isfinite(at(got[0], k)));
  }
}

TEST_CASE("T30: a weight without a normaliser is 0 behind a mask, also where its score is infinite") {
  const Data bias = normal(DType::f32, {1, 40}, 30), len = filled(DType::i32, {1}, [](std::int64_t) { return 100; });
  Attention clean(DType::f32, 1, 1, 1, 128, 128, 64, 64, 30);
  auto from = [](Data& data, float value) {
    for (std::int64_t k = 100 * 64; k < 128 * 64; ++k) store_element(data.ref.data, DType::f32, k, value);
  };
  from(clean.k, 0), from(clean.v, 0);
  auto call = [&](const Attention& a) {
    Arguments out = a.with("bias", bias);
    out.emplace_back("len", len.ref);
    return out;
  };
  agree(standard("hstu"), call(clean));
  for (auto [in_k, in_v] : {std::pair{-inf, 1.0F}, {inf, 1.0F}, {NAN, 1.0F}, {1.0F, inf}, {-inf, NAN}}) {
    Attention dirty(DType::f32, 1, 1, 1, 128, 128, 64, 64, 30);
    from(dirty.k, in_k), from(dirty.v, in_v);
    for (const char* target : every_target) {
      if (!available(target)) continue;
      INFO(target << " K " << in_k << " V " << in_v);
      check_equal(results_of(standard("hstu"), call(dirty), target)[0],
                  results_of(standard("hstu"), call(clean), target)[0]);
    }
  }
}

TEST_CASE("T32: a mask of wrong extents or dtype is an error that names it") {
  const Attention a(DType::f32, 1, 1, 1, 6, 9, 8, 8, 32);
  const Program program = masked("mask[i, j]", "mask: bool[M, N]");
  const Data transposed = filled(DType::boolean, {9, 6}, [](std::int64_t) { return 1; });
  const Data bytes = filled(DType::u8, {6, 9}, [](std::int64_t) { return 1; });
  const Data flat = filled(DType::boolean, {54}, [](std::int64_t) { return 1; });
  for (const char* target : every_target) {
    if (!available(target)) continue;
    INFO(target);
    const Kernel kernel = compiled(program, target);
    auto wrong = kernel.shapes(a.with("mask", transposed));
    REQUIRE_FALSE(wrong);
    int axes = 0;
    for (const Diagnostic& d : wrong.diagnostics())
      if (d.tensor == "mask" && (d.axis == "0" || d.axis == "1" || d.axis == "M" || d.axis == "N")) {
        const bool first = d.axis == "0" || d.axis == "M";
        CHECK(d.expected.find(first ? "6" : "9") != d.expected.npos);
        CHECK(d.found.find(first ? "9" : "6") != d.found.npos);
        ++axes;
      }
    INFO(render(wrong.diagnostics()));
    CHECK(axes == 2);
    auto type = kernel.shapes(a.with("mask", bytes));
    REQUIRE_FALSE(type);
    CHECK(type.diagnostics()[0].tensor == "mask");
    CHECK(type.diagnostics()[0].expected.find("bool") != std::string::npos);
    CHECK(type.diagnostics()[0].found.find("u8") != std::string::npos);
    auto rank = kernel.shapes(a.with("mask", flat));
    REQUIRE_FALSE(rank);
    CHECK(rank.diagnostics()[0].tensor == "mask");
    // Nothing is written where the call is wrong.
    Data o(DType::f32, {1, 1, 6, 8}), l(DType::f32, {1, 1, 6});
    Arguments call = a.with("mask", transposed);
    call.emplace_back("O", o.ref);
    call.emplace_back("L", l.ref);
    CHECK_FALSE(kernel.run(call));
    for (std::int64_t k = 0; k < 48; ++k) CHECK(std::isnan(at(o, k)));
  }
}

TEST_CASE("T33: a NaN in a visible key reaches exactly the rows that see it") {
  Attention a(DType::f32, 1, 1, 1, 8, 8, 8, 8, 33);
  store_element(a.k.ref.data, DType::f32, 5 * 8 + 3, NAN);
  for (const char* target : every_target) {
    if (!available(target)) continue;
    INFO(target);
    const auto out = results_of(standard("with_lse"), a.arguments(), target);
    for (std::int64_t i = 0; i < 8; ++i) {
      for (std::int64_t e = 0; e < 8; ++e) CHECK(std::isnan(at(out[0], i * 8 + e)) == (i >= 5));
      CHECK(std::isnan(at(out[1], i)) == (i >= 5));
    }
  }
}
