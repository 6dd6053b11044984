// SPDX-License-Identifier: Apache-2.0
// Views: layouts, pages and tables of other libraries give what contiguous copies give; what is no such layout is told.
#include <numeric>

#include "tests/conventions/support.hpp"

using namespace attune;
using namespace attune::conventions;
using namespace attune::test;

namespace {

/// A contiguous copy of [a, b, c, d] with the axes b and c swapped.
std::vector<float> swapped(const std::vector<float>& from, std::int64_t a, std::int64_t b, std::int64_t c,
                           std::int64_t d) {
  std::vector<float> out(from.size());
  for (std::int64_t i = 0; i < a; ++i)
    for (std::int64_t j = 0; j < b; ++j)
      for (std::int64_t k = 0; k < c; ++k)
        std::copy_n(from.begin() + ((i * b + j) * c + k) * d, d, out.begin() + ((i * c + k) * b + j) * d);
  return out;
}

template <class T>
std::string code(const Result<T>& result) {
  REQUIRE_FALSE(result.ok());
  const Diagnostic& diagnostic = result.diagnostics()[0];
  CHECK_FALSE(diagnostic.message.empty());
  CHECK_FALSE(diagnostic.help.empty());
  CHECK_FALSE(explain(diagnostic.code).empty());
  return diagnostic.code;
}

const Sizes s{2, 4, 2, 5, 9};

/// Pages of 4 places that hold the keys (or values) of `in`, in a shuffled order, the last of each entry part filled.
struct Pages {
  static constexpr std::int64_t count = 7, places = 4;
  std::vector<std::int32_t> indptr{0, 3, 5}, indices{4, 0, 6, 2, 5}, last{1, 3};  ///< 9 and 7 keys
  std::vector<float> fill(const std::vector<float>& from, std::int64_t size) const {
    std::vector<float> out(static_cast<std::size_t>(count * places * s.g * size), NAN);
    for (std::int64_t b = 0; b < s.b; ++b)
      for (std::int64_t j = 0; j < (b == 0 ? 9 : 7); ++j)
        for (std::int64_t g = 0; g < s.g; ++g) {
          const std::int64_t page = indices[static_cast<std::size_t>(indptr[static_cast<std::size_t>(b)] + j / places)];
          std::copy_n(from.begin() + ((b * s.g + g) * s.n + j) * size, size,
                      out.begin() + ((page * places + j % places) * s.g + g) * size);
        }
    return out;
  }
};

Wanted by_pages(const Inputs& in) {
  return foreign(in, {.visible = [](auto b, auto i, auto j) { return j <= i + (b == 0 ? 9 : 7) - s.m; }});
}

}  // namespace

TEST_CASE("tokens before heads") {
  const Inputs in(s);
  auto q = swapped(in.q, s.b, s.h, s.m, s.d), k = swapped(in.k, s.b, s.g, s.n, s.d),
       v = swapped(in.v, s.b, s.g, s.n, s.e);
  std::vector<float> o(static_cast<std::size_t>(s.b * s.m * s.h * s.e), NAN);
  auto bshd = [](std::vector<float>& data, std::int64_t tokens, std::int64_t heads, std::int64_t size) {
    return heads_first(TensorRef(data.data(), DType::f32, {s.b, tokens, heads, size})).value();
  };
  call("causal", in,
       {{"Q", bshd(q, s.m, s.h, s.d)},
        {"K", bshd(k, s.n, s.g, s.d)},
        {"V", bshd(v, s.n, s.g, s.e)},
        {"O", bshd(o, s.m, s.h, s.e)}});
  const Wanted wanted = foreign(in, {.visible = [](auto, auto i, auto j) { return j <= i + s.n - s.m; }});
  check_near(swapped(o, s.b, s.m, s.h, s.e), wanted.o);
  // The way back, three axes, and any order.
  const TensorRef view(o.data(), DType::f32, {2, 3, 4, 5});
  CHECK(heads_first(heads_first(view).value())->strides == view.strides);
  CHECK(heads_first(TensorRef(o.data(), DType::f32, {3, 4, 5}))->shape == std::vector<std::int64_t>{4, 3, 5});
  const std::vector<std::size_t> order{3, 1, 0, 2};
  CHECK(permuted(view, order)->shape == std::vector<std::int64_t>{5, 3, 2, 4});
  CHECK(permuted(view, order)->strides == std::vector<std::int64_t>{1, 20, 60, 5});
}

TEST_CASE("ggml's order of axes and its permuted result") {
  const Inputs in(s);
  std::vector<float> o(static_cast<std::size_t>(s.b * s.m * s.h * s.e), NAN);
  auto tensor = [](const std::vector<float>& data, std::int64_t size, std::int64_t n, std::int64_t h) {
    const auto bytes = [](std::int64_t elements) { return static_cast<std::size_t>(4 * elements); };
    return ggml_tensor(const_cast<float*>(data.data()), DType::f32, {size, n, h, s.b},
                       {4, bytes(size), bytes(size * n), bytes(size * n * h)})
        .value();
  };
  call("causal", in,
       {{"Q", tensor(in.q, s.d, s.m, s.h)},
        {"K", tensor(in.k, s.d, s.n, s.g)},
        {"V", tensor(in.v, s.e, s.n, s.g)},
        {"O", heads_first(tensor(o, s.e, s.h, s.m)).value()}});
  const Wanted wanted = foreign(in, {.visible = [](auto, auto i, auto j) { return j <= i + s.n - s.m; }});
  check_near(swapped(o, s.b, s.m, s.h, s.e), wanted.o);
  CHECK(code(ggml_tensor(o.data(), DType::f32, {4, 1, 1, 1}, {18, 72, 72, 72})) == "A0519");
}

TEST_CASE("one tensor of keys and values in pages, and FlashInfer's page table") {
  const Inputs in({s.b, s.h, s.g, s.m, s.n, s.d, s.d});
  const Pages pages;
  const auto table = page_table(pages.indptr, pages.indices, pages.last, Pages::places).value();
  CHECK(table.width == 3);
  CHECK(table.pages == std::vector<std::int32_t>{4, 0, 6, 2, 5, -1});
  CHECK(table.lengths == std::vector<std::int32_t>{9, 7});
  auto k = pages.fill(in.k, s.d), v = pages.fill(in.v, s.d);
  const std::int64_t page = Pages::places * s.g * s.d;
  for (const PageLayout layout : {PageLayout::nhd, PageLayout::hnd}) {
    const bool nhd = layout == PageLayout::nhd;
    std::vector<float> both;
    for (std::int64_t p = 0; p < Pages::count; ++p)
      for (const auto* from : {&k, &v}) {
        std::vector<float> one(from->begin() + p * page, from->begin() + (p + 1) * page);
        if (!nhd) one = swapped(one, 1, Pages::places, s.g, s.d);
        both.insert(both.end(), one.begin(), one.end());
      }
    const TensorRef cache(both.data(), DType::f32,
                          nhd ? std::vector<std::int64_t>{Pages::count, 2, Pages::places, s.g, s.d}
                              : std::vector<std::int64_t>{Pages::count, 2, s.g, Pages::places, s.d});
    const KeysValues kv = paged_cache(cache, layout).value();
    check_near(call("paged", in, {{"K", kv.k}, {"V", kv.v}, {"table", table.table()}, {"len", table.len()}}),
               by_pages(in).o);
  }
}

TEST_CASE("page tables of their own for keys and values") {
  const Inputs in(s);
  Pages of_k, of_v;
  of_v.indices = {1, 3, 2, 0, 4};
  auto k = of_k.fill(in.k, s.d), v = of_v.fill(in.v, s.e);
  const auto k_table = page_table(of_k.indptr, of_k.indices, of_k.last, Pages::places).value();
  const auto v_table = page_table(of_v.indptr, of_v.indices, of_v.last, Pages::places).value();
  check_near(call(documented("two_tables"), in,
                  {{"K", {k.data(), DType::f32, {Pages::count, Pages::places, s.g, s.d}}},
                   {"V", {v.data(), DType::f32, {Pages::count, Pages::places, s.g, s.e}}},
                   {"of_k", k_table.table()},
                   {"of_v", v_table.table()},
                   {"len", k_table.len()}}),
             by_pages(in).o);
}

TEST_CASE("page tables at their edges") {
  using Ints = std::vector<std::int32_t>;
  const auto empty = page_table(Ints{0}, Ints{}, Ints{}, 16).value();
  CHECK((empty.width == 0 && empty.pages.empty() && empty.len().shape == std::vector<std::int64_t>{0}));
  const auto none = page_table(Ints{0, 0, 2}, Ints{7, 9}, Ints{-5, 1}, 1).value();  // pages of one key
  CHECK(none.pages == Ints{-1, -1, 7, 9});
  CHECK(none.lengths == Ints{0, 2});
  CHECK(code(page_table(Ints{0, 1}, Ints{0}, Ints{1}, 0)) == "A0510");
  CHECK(code(page_table(Ints{0, 1}, Ints{0}, Ints{1}, std::int64_t{1} << 40)) == "A0510");
  CHECK(code(page_table(Ints{0, 1}, Ints{0}, Ints{5}, 4)) == "A0510");
  CHECK(code(page_table(Ints{0, 1}, Ints{0}, Ints{0}, 4)) == "A0510");
  CHECK(code(page_table(Ints{0, 2}, Ints{0}, Ints{1}, 4)) == "A0510");
  CHECK(code(page_table(Ints{0, 2, 1}, Ints{0, 1}, Ints{1, 1}, 4)) == "A0510");
  CHECK(code(page_table(Ints{-1, 1}, Ints{0}, Ints{1}, 4)) == "A0510");
  CHECK(code(page_table(Ints{0, 1}, Ints{0}, Ints{1, 1}, 4)) == "A0507");
  CHECK(code(page_table(Ints{}, Ints{}, Ints{}, 4)) == "A0507");
  CHECK(code(page_table(Ints{0, 2}, Ints{0, 1}, Ints{2147483647}, 2147483647)) == "A0510");
}

TEST_CASE("rotary pairs of either kind, from tables as wide as a head") {
  const Inputs in({1, 2, 2, 4, 6});
  const std::int64_t pairs = in.s.d / 2, shift = in.s.n - in.s.m;
  auto angle = [](std::int64_t position, std::int64_t pair) {
    return static_cast<double>(position) * std::pow(100.0, -static_cast<double>(pair) / 4);
  };
  for (const bool halves : {true, false}) {
    INFO(halves);
    std::vector<float> cosine, sine;
    for (std::int64_t position = 0; position < in.s.n; ++position)
      for (std::int64_t d = 0; d < in.s.d; ++d) {
        const double at = angle(position, halves ? d % pairs : d / 2);
        cosine.push_back(static_cast<float>(std::cos(at)));
        sine.push_back(static_cast<float>(std::sin(at)));
      }
    Inputs turned = in;
    auto turn = [&](std::vector<float>& data, std::int64_t tokens, std::int64_t first) {
      for (std::int64_t row = 0; row < static_cast<std::int64_t>(data.size()) / in.s.d; ++row)
        for (std::int64_t pair = 0; pair < pairs; ++pair) {
          float& a = data[static_cast<std::size_t>(row * in.s.d + (halves ? pair : 2 * pair))];
          float& b = data[static_cast<std::size_t>(row * in.s.d + (halves ? pair + pairs : 2 * pair + 1))];
          const double x = double{a}, y = double{b}, at = angle(row % tokens + first, pair);
          a = static_cast<float>(x * std::cos(at) - y * std::sin(at));
          b = static_cast<float>(y * std::cos(at) + x * std::sin(at));
        }
    };
    turn(turned.q, in.s.m, shift);
    turn(turned.k, in.s.n, 0);
    const Wanted wanted = foreign(turned, {.visible = [&](auto, auto i, auto j) { return j <= i + shift; }});
    auto columns = [&](std::vector<float>& table) {
      return rope_columns(TensorRef(table.data(), DType::f32, {in.s.n, in.s.d}),
                          halves ? RopeColumns::halves : RopeColumns::neighbours)
          .value();
    };
    check_near(call(halves ? "rope" : "rope_interleaved", in, {{"cosine", columns(cosine)}, {"sine", columns(sine)}}),
               wanted.o);
  }
}

TEST_CASE("what is no such layout") {
  float x[8] = {};
  TensorRef plain(x, DType::f32, {2, 4}), torn = plain;
  torn.strides.pop_back();
  CHECK(code(heads_first(plain)) == "A0506");
  CHECK(code(heads_first(TensorRef(x, DType::f32, {1, 1, 1, 1, 1}))) == "A0506");
  CHECK(code(heads_first(torn)) == "A0519");
  CHECK(code(permuted(torn, std::vector<std::size_t>{0, 1})) == "A0519");
  for (const auto& order : {std::vector<std::size_t>{0}, {0, 0}, {0, 2}, {0, 1, 2}})
    CHECK(code(permuted(plain, order)) == "A0506");
  CHECK(code(paged_cache(plain, PageLayout::nhd)) == "A0506");
  CHECK(code(paged_cache(TensorRef(x, DType::f32, {2, 1, 2, 1, 2}), PageLayout::hnd)) == "A0507");
  CHECK(code(rope_columns(TensorRef(x, DType::f32, {2, 3}), RopeColumns::halves)) == "A0507");
  CHECK(code(rope_columns(TensorRef(x, DType::f32, {}), RopeColumns::halves)) == "A0506");
  bool visible[2];
  CHECK(code(visible_from_additive(std::vector<float>(3), -1, visible)) == "A0507");
  // A cache without elements may be null, and stays so.
  const auto kv = paged_cache(TensorRef(static_cast<void*>(nullptr), DType::f32, {0, 2, 4, 1, 8}), PageLayout::nhd);
  CHECK((kv->v.data == nullptr && kv->v.shape == std::vector<std::int64_t>{0, 4, 1, 8}));
}
