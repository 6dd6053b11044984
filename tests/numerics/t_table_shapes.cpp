// SPDX-License-Identifier: Apache-2.0
// The table's rows on sizes, groups, strides and lengths: T11 to T15, T27.
#include "tests/numerics/t_table.hpp"

using namespace attune;
using namespace attune::test;

namespace {

bool slow(const char* target) { return std::string(target) == "interpreter"; }

/// Rows `first` to `first + count` of the axis before the last, as a view.
TensorRef rows(const Data& data, std::int64_t first, std::int64_t count) {
  TensorRef out = data.ref;
  const std::size_t axis = out.shape.size() - 2;
  out.data =
      static_cast<std::uint8_t*>(out.data) + first * out.strides[axis] * static_cast<std::int64_t>(size_of(out.dtype));
  out.shape[axis] = count;
  return out;
}

}  // namespace

TEST_CASE("T11: sizes around those of tiles, and a cross attention of 1500 keys") {
  const Program program = standard("softmax");
  std::map<std::string, Kernel> kernels;
  for (const char* target : every_target)
    if (available(target)) kernels.emplace(target, compiled(program, target));
  for (std::int64_t m : {1, 2, 17, 31, 33, 127, 129})
    for (std::int64_t n : {1, 3, 63, 65, 1500}) {
      INFO("M=" << m << " N=" << n);
      const Attention a(DType::f16, 1, 1, 1, m, n, 80, 80, 11);
      const auto wanted = results_of(kernels.at("reference"), a.arguments());
      for (const auto& [target, kernel] : kernels) {
        if (target == "reference" || (slow(target.c_str()) && m * n > 50000)) continue;
        INFO(target);
        const auto got = results_of(kernel, a.arguments());
        check_equal(got[0], wanted[0]);
        check_equal(got[1], wanted[1]);
      }
    }
}

TEST_CASE("T12: every head size") {
  std::vector<std::pair<std::int64_t, std::int64_t>> sizes;
  for (std::int64_t d : {8, 16, 31, 32, 40, 64, 72, 80, 88, 96, 112, 128, 160, 192, 256, 512}) sizes.emplace_back(d, d);
  for (auto pair : {std::pair{192, 128}, {576, 512}, {64, 256}}) sizes.emplace_back(pair);
  for (DType type : {DType::f16, DType::f32})
    for (auto [d, e] : sizes) {
      INFO(attune::name(type) << " D=" << d << " E=" << e);
      const Attention a(type, 1, 2, 1, 19, 37, d, e, 12);
      agree(standard("causal"), a.arguments());
    }
}

TEST_CASE("T13: any group ratio; heads that do not divide are an error") {
  struct Heads {
    std::int64_t q, kv;
  };
  for (Heads heads : {Heads{12, 2}, {14, 2}, {28, 4}, {24, 4}, {20, 1}, {64, 4}, {15, 5}, {7, 1}})
    for (std::int64_t m : {1, 33}) {
      INFO(heads.q << "/" << heads.kv << " M=" << m);
      const Attention a(DType::f16, 1, heads.q, heads.kv, m, 40, 32, 32, 13);
      agree(standard("causal"), a.arguments());
    }
  for (Heads heads : {Heads{33, 2}, {3, 2}})
    for (const char* target : every_target) {
      if (!available(target)) continue;
      const Attention a(DType::f16, 1, heads.q, heads.kv, 4, 4, 8, 8, 13);
      auto shapes = compiled(standard("causal"), target).shapes(a.arguments());
      REQUIRE_FALSE(shapes);
      const std::string text = render(shapes.diagnostics());
      INFO(text);
      CHECK(text.find("multiple") != text.npos);
      CHECK(text.find(std::to_string(heads.q)) != text.npos);
      CHECK(text.find(std::to_string(heads.kv)) != text.npos);
    }
}

TEST_CASE("T14: transposed, sliced, expanded and absurdly strided views") {
  const std::int64_t s = 64, d = 64, far = std::int64_t{1} << 31;
  const Attention a(DType::f32, 1, 2, 2, s, s, d, d, 14);
  struct View {
    const char* what;
    TensorRef q, k, v;
  };
  // The same numbers in other layouts.
  auto moved = [](const TensorRef& from, std::vector<std::int64_t> strides, std::int64_t room) {
    Data out(DType::f32, {room});
    TensorRef view(out.ref.data, DType::f32, from.shape, std::move(strides));
    for (std::int64_t h = 0; h < 2; ++h)
      for (std::int64_t i = 0; i < from.shape[2]; ++i)
        for (std::int64_t c = 0; c < from.shape[3]; ++c)
          static_cast<float*>(view.data)[h * view.strides[1] + i * view.strides[2] + c * view.strides[3]] =
              static_cast<const float*>(from.data)[(h * from.shape[2] + i) * from.shape[3] + c];
    return std::pair{std::move(out), view};
  };
  const auto bshd_q = moved(a.q.ref, {s * 2 * d, d, 2 * d, 1}, s * 2 * d),
             bshd_k = moved(a.k.ref, {s * 2 * d, d, 2 * d, 1}, s * 2 * d),
             bshd_v = moved(a.v.ref, {s * 2 * d, d, 2 * d, 1}, s * 2 * d);
  const std::int64_t longer = s + 128;
  const auto slice_k = moved(a.k.ref, {2 * longer * d, longer * d, d, 1}, 2 * longer * d),
             slice_v = moved(a.v.ref, {2 * longer * d, longer * d, d, 1}, 2 * longer * d);
  const auto transposed_v = moved(a.v.ref, {2 * s * d, s * d, 1, s}, 2 * s * d);
  auto restrided = [](TensorRef ref, std::int64_t first) {
    ref.strides[0] = first;
    return ref;
  };
  const View views[] = {
      {"tokens before heads", bshd_q.second, bshd_k.second, bshd_v.second},
      {"a slice of a longer K and V", a.q.ref, slice_k.second, slice_v.second},
      {"V transposed", a.q.ref, a.k.ref, transposed_v.second},
      {"a size-1 axis with a stride of 2^31", restrided(a.q.ref, far), restrided(a.k.ref, -far),
       restrided(a.v.ref, far)},
  };
  for (const char* target : every_target) {
    if (!available(target)) continue;
    const auto wanted = results_of(standard("causal"), a.arguments(), target);
    for (const View& view : views) {
      INFO(view.what << " on " << target);
      const auto got = results_of(standard("causal"), {{"Q", view.q}, {"K", view.k}, {"V", view.v}}, target);
      check_equal(got[0], wanted[0]);
    }
    // One key and value head for all, as a view of stride 0 and as a copy.
    TensorRef one_k = a.k.ref, one_v = a.v.ref;
    one_k.strides[1] = one_v.strides[1] = 0;
    Data copy_k = normal(DType::f32, {1, 2, s, d}, 15), copy_v = normal(DType::f32, {1, 2, s, d}, 16);
    for (std::int64_t k = 0; k < 2 * s * d; ++k) {
      store_element(copy_k.ref.data, DType::f32, k, at(a.k, k % (s * d)));
      store_element(copy_v.ref.data, DType::f32, k, at(a.v, k % (s * d)));
    }
    INFO("expanded on " << target);
    const auto got = results_of(standard("causal"), {{"Q", a.q.ref}, {"K", one_k}, {"V", one_v}}, target);
    const auto expected =
        results_of(standard("causal"), {{"Q", a.q.ref}, {"K", copy_k.ref}, {"V", copy_v.ref}}, target);
    check_equal(got[0], expected[0]);
  }
}

TEST_CASE("T15: 65537 rows and keys") {
  const std::int64_t s = 65537;
  const Attention a(DType::bf16, 1, 1, 1, s, s, 64, 64, 15);
  const Program causal = standard("causal"), window = standard("window");
  auto last = [&](std::int64_t count) {
    return Arguments{{"Q", rows(a.q, s - count, count)}, {"K", a.k.ref}, {"V", a.v.ref}};
  };
  const auto oracle = results_of(causal, last(1), "reference");
  for (const char* target : compiled_targets) {
    if (!available(target)) continue;
    INFO(target);
    const std::int64_t count = slow(target) ? 1 : 65;
    const auto out = results_of(causal, last(count), target);
    double error = 0;
    for (std::int64_t e = 0; e < 64; ++e)
      error = std::max(error, std::abs(at(out[0], (count - 1) * 64 + e) - at(oracle[0], e)));
    CHECK(error <= 1.6e-2);
    CHECK(std::isfinite(at(out[0], 0)));
  }
  // All rows against all keys, but of a window, so that it takes a moment; the last rows against an oracle of theirs.
  if (!available("cpu")) return;
  Arguments all = a.with("W", std::int64_t{100}), end = last(1);
  end.emplace_back("W", std::int64_t{100});
  const auto out = results_of(window, all, "cpu");
  const auto wanted = results_of(window, end, "reference");
  double error = 0;
  for (std::int64_t e = 0; e < 64; ++e)
    error = std::max(error, std::abs(at(out[0], (s - 1) * 64 + e) - at(wanted[0], e)));
  CHECK(error <= 1.6e-2);
  std::int64_t poisoned = 0;
  for (std::int64_t k = 0; k < s * 64; ++k) poisoned += std::isnan(at(out[0], k));
  CHECK(poisoned == 0);
}

TEST_CASE("T27: a decoding loop compiles once and gives the rows of a prefill") {
  const std::int64_t most = 300;
  const Attention a(DType::f16, 2, 4, 1, most, most, 128, 128, 27);
  const auto prefill = results_of(standard("causal"), a.arguments(), "reference");
  for (const char* target : compiled_targets) {
    if (!available(target)) continue;
    INFO(target);
    const Kernel kernel = compiled(standard("causal"), target);
    for (std::int64_t n = 1; n <= most; n += slow(target) ? 23 : 1) {
      INFO("N=" << n);
      const auto out = results_of(kernel, {{"Q", rows(a.q, n - 1, 1)}, {"K", rows(a.k, 0, n)}, {"V", rows(a.v, 0, n)}});
      double error = 0;
      for (std::int64_t head = 0; head < 8; ++head)
        for (std::int64_t e = 0; e < 128; ++e)
          error =
              std::max(error, std::abs(at(out[0], head * 128 + e) - at(prefill[0], (head * most + n - 1) * 128 + e)));
      CHECK(error <= 2e-3);
    }
    CHECK(kernel.compile_count() == 1);
  }
}
