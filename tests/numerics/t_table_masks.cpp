// SPDX-License-Identifier: Apache-2.0
// The table's rows on masks and empty rows: T1 to T5, T17, T18, T21, T23, T24.
#include "tests/numerics/t_table.hpp"

using namespace attune;
using namespace attune::test;

TEST_CASE("T1: a row whose mask is all false is 0 and its logsumexp -inf") {
  const Attention a(DType::f32, 1, 1, 1, 4, 4, 8, 8, 1);
  const Data mask = filled(DType::boolean, {4, 4}, [](std::int64_t k) { return k / 4 != 1; });
  const Program program = masked("mask[i, j]", "mask: bool[M, N]");
  for (const char* target : every_target) {
    if (!available(target)) continue;
    INFO(target);
    const auto out = results_of(program, a.with("mask", mask), target);
    for (std::int64_t i = 0; i < 4; ++i) {
      CHECK((at(out[1], i) == -inf) == (i == 1));
      for (std::int64_t e = 0; e < 8; ++e) {
        const double o = at(out[0], i * 8 + e);
        CHECK(std::isfinite(o));
        CHECK((o == 0) == (i == 1));
      }
    }
  }
  agree(program, a.with("mask", mask));
}

TEST_CASE("T2: more rows than keys, aligned at the bottom right") {
  const Attention a(DType::f16, 2, 4, 2, 5, 2, 64, 64, 2);
  agree(standard("with_lse"), a.arguments());
  for (const char* target : every_target) {
    if (!available(target)) continue;
    INFO(target);
    const auto out = results_of(standard("with_lse"), a.arguments(), target);
    for (std::int64_t b = 0; b < 2; ++b)
      for (std::int64_t h = 0; h < 4; ++h)
        for (std::int64_t i = 0; i < 5; ++i) {
          const std::int64_t row = (b * 4 + h) * 5 + i, key = (b * 2 + h / 2) * 2;
          CHECK((at(out[1], row) == -inf) == (i < 3));
          for (std::int64_t e = 0; e < 64; ++e) {
            const double o = at(out[0], row * 64 + e), v0 = at(a.v, key * 64 + e), v1 = at(a.v, (key + 1) * 64 + e);
            if (i < 3) CHECK(o == 0);
            if (i == 3) CHECK(o == v0);  // one key
            if (i == 4) {                // two keys: between their values
              CHECK(o >= std::min(v0, v1) - 2e-3);
              CHECK(o <= std::max(v0, v1) + 2e-3);
            }
          }
        }
  }
}

TEST_CASE("T3: either alignment sees what its inequality says") {
  const Attention a(DType::f32, 1, 2, 2, 2, 5, 64, 64, 3);
  // V[j] is the unit vector j: a row of O is the row of weights.
  const Data unit = filled(DType::f32, {1, 2, 5, 64}, [](std::int64_t k) { return k % 64 == k / 64 % 5; });
  struct Alignment {
    const char* program;
    std::int64_t keys[2];
  };
  for (const Alignment& alignment : {Alignment{"causal_top_left", {1, 2}}, Alignment{"causal", {4, 5}}}) {
    agree(standard(alignment.program), a.arguments());
    for (const char* target : every_target) {
      if (!available(target)) continue;
      INFO(alignment.program << " on " << target);
      const auto out =
          results_of(standard(alignment.program), {{"Q", a.q.ref}, {"K", a.k.ref}, {"V", unit.ref}}, target);
      for (std::int64_t h = 0; h < 2; ++h)
        for (std::int64_t i = 0; i < 2; ++i)
          for (std::int64_t j = 0; j < 64; ++j)
            CHECK((at(out[0], (h * 2 + i) * 64 + j) > 0) == (j < alignment.keys[i]));
    }
  }
}

TEST_CASE("T4: no keys, or no rows") {
  for (DType type : {DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2})
    for (const char* name : {"softmax", "with_lse"})
      for (const char* target : every_target) {
        if (!available(target)) continue;
        INFO(attune::name(type) << " " << name << " on " << target);
        for (std::int64_t m : {1, 5}) {
          const Attention a(type, 1, 1, 1, m, 0, 16, 16, 4);
          const auto out = results_of(standard(name), a.arguments(), target);
          for (std::int64_t k = 0; k < m * 16; ++k) CHECK(at(out[0], k) == 0);
          for (std::int64_t i = 0; i < m; ++i) CHECK(at(out[1], i) == -inf);
        }
        const Attention a(type, 1, 1, 1, 0, 5, 16, 16, 4);
        CHECK(results_of(standard(name), a.arguments(), target)[0].ref.element_count() == 0);
      }
}

TEST_CASE("T5: ragged sequences without keys, and without rows") {
  const Data q = normal(DType::bf16, {151, 2, 64}, 5), k = normal(DType::bf16, {100, 1, 64}, 6),
             v = normal(DType::bf16, {100, 1, 64}, 7);
  const std::int32_t cu_q[] = {0, 0, 150, 151}, cu_k[] = {0, 100, 100, 100};
  const Arguments call{{"Q", q.ref},
                       {"K", k.ref},
                       {"V", v.ref},
                       {"cu_q", TensorRef(cu_q, DType::i32, {4})},
                       {"cu_k", TensorRef(cu_k, DType::i32, {4})}};
  for (const char* target : every_target) {
    if (!available(target)) continue;
    INFO(target);
    const auto out = results_of(standard("ragged"), call, target);
    double largest = 0;
    for (std::int64_t n = 0; n < out[0].ref.element_count(); ++n) {
      CHECK_FALSE(std::isnan(at(out[0], n)));
      largest = std::max(largest, std::abs(at(out[0], n)));
    }
    CHECK(largest == 0);  // the sequence with keys has no rows
  }
}

TEST_CASE("T17: what is capped before the mask stays behind it") {
  for (double cap : {1.0, 50.0}) {
    Attention a(DType::f32, 1, 4, 4, 256, 256, 64, 64, 17);
    INFO("cap " << cap);
    agree(standard("softcap"), a.with("cap", cap));
    for (const char* target : every_target) {
      if (!available(target)) continue;
      INFO(target);
      const auto before = results_of(standard("softcap"), a.with("cap", cap), target);
      // Other keys from 200 on: a row before them must not change by a bit.
      Attention other(DType::f32, 1, 4, 4, 256, 256, 64, 64, 170);
      other.q = normal(DType::f32, {1, 4, 256, 64}, 17);
      for (std::int64_t k = 0; k < 4 * 256 * 64; ++k)
        if (k / 64 % 256 < 200) {
          store_element(other.k.ref.data, DType::f32, k, at(a.k, k));
          store_element(other.v.ref.data, DType::f32, k, at(a.v, k));
        }
      const auto after = results_of(standard("softcap"), other.with("cap", cap), target);
      int different = 0, same = 0;
      for (std::int64_t k = 0; k < 4 * 256 * 64; ++k) {
        const bool equal = at(before[0], k) == at(after[0], k);
        (k / 64 % 256 < 200 ? different : same) += k / 64 % 256 < 200 ? !equal : equal;
      }
      CHECK(different == 0);
      CHECK(same < 100);
    }
  }
}

TEST_CASE("T18: a window of W keys, and the other definition of W + 1") {
  const Attention a(DType::f32, 1, 4, 4, 256, 256, 64, 64, 18);
  const Data nothing = filled(DType::f32, {1, 4, 256, 64}, [](std::int64_t) { return 0; });
  struct Window {
    const char* condition;
    std::int64_t more;
  };
  const auto plain = results_of(standard("causal"), a.arguments(), "reference");
  for (const Window& window :
       {Window{"i + N - M - W < j <= i + N - M", 0}, Window{"i + N - M - W <= j <= i + N - M", 1}}) {
    const Program program = masked(window.condition, "W: i32");
    for (std::int64_t w : {1, 7, 256, 300}) {
      INFO(window.condition << " with W=" << w);
      const auto wanted = agree(program, a.with("W", w));
      if (w >= 256) check_equal(wanted[0], plain[0]);
      for (const char* target : every_target) {
        if (!available(target)) continue;
        INFO(target);
        // All scores 0: the logsumexp is the logarithm of the number of visible keys.
        const auto out = results_of(program, {{"Q", nothing.ref}, {"K", a.k.ref}, {"V", a.v.ref}, {"W", w}}, target);
        for (std::int64_t i = 0; i < 256; ++i)
          CHECK(std::exp(at(out[1], i)) == Approx(static_cast<double>(std::min(w + window.more, i + 1))).epsilon(1e-5));
      }
    }
  }
  for (std::int64_t w : {1, 7, 256, 300}) agree(standard("window"), a.with("W", w));
}

TEST_CASE("T21: four splits of the keys merge to the unsplit result, also where some are empty") {
  const Attention a(DType::f16, 1, 1, 1, 256, 512, 64, 64, 21);
  const Program part = masked("j + first <= i + total - M", "first: i32, total: i32");
  // Splits merge by their logsumexp; one of -inf is absent.
  const Program merge = parsed(
      "kernel merge(O: f32[S, M, E], L: f32[S, M]) -> (R: f32[M, E], Z: f32[M]) {\n"
      "  R[i, e] = sum[s](softmax[s](L[s, i]) * O[s, i, e])\n"
      "  Z[i] = logsumexp[s](L[s, i])\n}");
  const auto whole = results_of(standard("with_lse"), a.arguments(), "reference");
  for (const char* target : every_target) {
    if (!available(target)) continue;
    INFO(target);
    Data parts(DType::f32, {4, 256, 64}), logs(DType::f32, {4, 256});
    std::int64_t empty = 0;
    for (std::int64_t s = 0; s < 4; ++s) {
      auto slice = [&](const Data& data) {
        const void* memory = static_cast<const std::uint8_t*>(data.ref.data) + s * 128 * 64 * 2;
        return TensorRef(memory, DType::f16, {1, 1, 128, 64});
      };
      const auto out = results_of(
          part, {{"Q", a.q.ref}, {"K", slice(a.k)}, {"V", slice(a.v)}, {"first", s * 128}, {"total", 512}}, target);
      for (std::int64_t k = 0; k < 256 * 64; ++k)
        store_element(parts.ref.data, DType::f32, s * 256 * 64 + k, at(out[0], k));
      for (std::int64_t i = 0; i < 256; ++i) {
        store_element(logs.ref.data, DType::f32, s * 256 + i, at(out[1], i));
        empty += at(out[1], i) == -inf;
      }
    }
    CHECK(empty > 100);
    const auto merged = results_of(merge, {{"O", parts.ref}, {"L", logs.ref}}, target);
    const Difference d = compare(merged[0].ref, whole[0].ref), z = compare(merged[1].ref, whole[1].ref);
    CHECK(d.special);
    CHECK(d.error <= 2e-3);
    CHECK(z.special);
    CHECK(z.error <= 1e-4);
    // Two empty states stay empty, whatever their values say.
    const Data none = filled(DType::f32, {2, 3}, [](std::int64_t) { return -inf; });
    const Data poison = filled(DType::f32, {2, 3, 5}, [](std::int64_t) { return NAN; });
    const auto still = results_of(merge, {{"O", poison.ref}, {"L", none.ref}}, target);
    for (std::int64_t k = 0; k < 15; ++k) CHECK(at(still[0], k) == 0);
    for (std::int64_t k = 0; k < 3; ++k) CHECK(at(still[1], k) == -inf);
  }
}

TEST_CASE("T23: packed documents equal the documents by themselves") {
  const Attention a(DType::bf16, 1, 8, 8, 128, 128, 64, 64, 23);
  const Data doc = filled(DType::i32, {1, 128}, [](std::int64_t j) { return j < 37 ? 0 : j < 38 ? 1 : 2; });
  agree(standard("documents"), a.with("doc", doc));
  for (const char* target : every_target) {
    if (!available(target)) continue;
    INFO(target);
    const auto packed = results_of(standard("documents"), a.with("doc", doc), target);
    for (auto [first, count] : {std::pair{0, 37}, {37, 1}, {38, 90}}) {
      auto slice = [&, first = first, count = count](const Data& data) {
        const auto* memory = static_cast<const std::uint8_t*>(data.ref.data) + std::int64_t{first} * 64 * 2;
        return TensorRef(const_cast<std::uint8_t*>(memory), DType::bf16, {1, 8, count, 64},
                         {8 * 128 * 64, 128 * 64, 64, 1});
      };
      const auto alone =
          results_of(standard("causal"), {{"Q", slice(a.q)}, {"K", slice(a.k)}, {"V", slice(a.v)}}, target);
      double error = 0;
      for (std::int64_t h = 0; h < 8; ++h)
        for (std::int64_t k = 0; k < std::int64_t{count} * 64; ++k)
          error =
              std::max(error, std::abs(at(alone[0], h * count * 64 + k) - at(packed[0], (h * 128 + first) * 64 + k)));
      INFO("document from " << first);
      CHECK(error <= 1.6e-2);
    }
  }
}

TEST_CASE("T24: a node of a tree sees the prefix, its ancestors and itself") {
  const std::int64_t nodes = 16, prefix = 1024, n = prefix + nodes;
  const Attention a(DType::f16, 1, 1, 1, nodes, n, 64, 64, 24);
  auto is_ancestor = [](std::int64_t i, std::int64_t j) {  // of a binary heap
    while (i > j) i = (i - 1) / 2;
    return i == j;
  };
  const Data ancestor =
      filled(DType::boolean, {1, nodes, nodes}, [&](std::int64_t k) { return is_ancestor(k / nodes, k % nodes); });
  agree(standard("tree"), a.with("ancestor", ancestor));
  // Equal scores; V marks each node and, in column 16, the prefix.
  const Data nothing = filled(DType::f16, {1, 1, nodes, 64}, [](std::int64_t) { return 0; });
  const Data marks = filled(DType::f16, {1, 1, n, 64}, [&](std::int64_t k) {
    const std::int64_t j = k / 64, e = k % 64;
    return j < prefix ? e == 16 : e == j - prefix;
  });
  for (const char* target : every_target) {
    if (!available(target)) continue;
    INFO(target);
    const auto out = results_of(
        standard("tree"), {{"Q", nothing.ref}, {"K", a.k.ref}, {"V", marks.ref}, {"ancestor", ancestor.ref}}, target);
    for (std::int64_t i = 0; i < nodes; ++i) {
      std::int64_t seen = 0;
      for (std::int64_t j = 0; j < nodes; ++j) seen += is_ancestor(i, j);
      for (std::int64_t j = 0; j < nodes; ++j) CHECK((at(out[0], i * 64 + j) > 0) == is_ancestor(i, j));
      CHECK(at(out[0], i * 64 + 16) == Approx(1024.0 / static_cast<double>(1024 + seen)).epsilon(2e-3));
    }
  }
}
