// SPDX-License-Identifier: Apache-2.0
// Masks, windows, scales, biases, log-sum-exps and heads: a converted call gives what the other library means.
#include <numeric>

#include "tests/conventions/support.hpp"

using namespace attune;
using namespace attune::conventions;
using namespace attune::test;

TEST_CASE("causal: top left, bottom right, and by lengths") {
  for (auto [m, n] : {std::pair<std::int64_t, std::int64_t>{5, 9}, {9, 5}, {6, 6}}) {
    const Inputs in({2, 4, 2, m, n});
    const Wanted top_left = foreign(in, {.visible = [](auto, auto i, auto j) { return j <= i; }});
    const std::int64_t shift = n - m;
    const Wanted bottom_right = foreign(in, {.visible = [&](auto, auto i, auto j) { return j <= i + shift; }});
    check_near(call("causal_top_left", in), top_left.o);
    check_near(call("causal", in), bottom_right.o);
    CHECK(near(top_left.o, bottom_right.o) == (m == n));
  }
  const Inputs in({3, 2, 2, 6, 10});
  std::vector<std::int32_t> rows{6, 3, 5}, keys{10, 7, 2};
  const Wanted wanted = foreign(in, {.visible = [&](std::int64_t b, std::int64_t i, std::int64_t j) {
                                  const auto q = rows[static_cast<std::size_t>(b)],
                                             k = keys[static_cast<std::size_t>(b)];
                                  return i < q && j < k && j <= i + k - q;
                                }});
  check_near(call(documented("by_lengths"), in,
                  {{"len_q", {rows.data(), DType::i32, {3}}}, {"len_k", {keys.data(), DType::i32, {3}}}}),
             wanted.o);
}

TEST_CASE("a window that counts visible keys, and one that counts those before") {
  const Inputs in({1, 2, 1, 7, 12});
  const std::int64_t shift = in.s.n - in.s.m;
  for (const std::int64_t number : {std::int64_t{0}, std::int64_t{1}, std::int64_t{3}, std::int64_t{-1}}) {
    INFO(number);
    const Wanted before = foreign(in, {.visible = [&](auto, auto i, auto j) {
                                    return j <= i + shift && (number < 0 || j >= i + shift - number);
                                  }});
    check_near(call("window", in, {{"W", window_keys(number, WindowCounts::keys_before)}}), before.o);
    if (number < 0) continue;
    const Wanted visible =
        foreign(in, {.visible = [&](auto, auto i, auto j) { return j <= i + shift && j > i + shift - number; }});
    check_near(call("window", in, {{"W", window_keys(number, WindowCounts::visible_keys)}}), visible.o);
    CHECK_FALSE(near(before.o, visible.o));
  }
  CHECK(window_keys(std::int64_t{1} << 40, WindowCounts::visible_keys) == 2147483647);
  CHECK(window_keys(2147483646, WindowCounts::keys_before) == 2147483647);
  CHECK(window_keys(2147483647, WindowCounts::keys_before) == 2147483647);

  const Inputs one({1, 1, 1, 7, 12});
  for (auto [left, right] : {std::pair<int, int>{3, 2}, {0, 0}, {2147483647, 1}, {2, 2147483647}}) {
    std::vector<float> o;
    Arguments arguments = short_views(one, o, 2);
    arguments.emplace_back("left", left);
    arguments.emplace_back("right", right);
    Engine::shared().run(documented("two_sides"), arguments).value();
    const Wanted wanted = foreign(one, {.visible = [&, l = left, r = right](auto, auto i, auto j) {
                                    return j >= i + shift - l && j <= i + shift + r;
                                  }});
    check_near(o, wanted.o);
  }
}

TEST_CASE("rows that see nothing, and the base of the log-sum-exp") {
  const Inputs in({1, 2, 2, 9, 5});  // rows 0 to 3 see nothing
  std::vector<float> lse(18, NAN);
  auto o = call("with_lse", in, {{"L", {lse.data(), DType::f32, {1, 2, 9}}}});
  const Wanted wanted = foreign(in, {.visible = [](auto, auto i, auto j) { return j <= i - 4; }});
  check_near(o, wanted.o);
  check_near(lse, wanted.lse);
  CHECK(std::count(lse.begin(), lse.end(), -inf) == 8);

  for (const bool base_two : {false, true})
    for (const bool plus : {false, true}) {
      const LseConvention other{base_two, plus};
      std::vector<double> theirs = wanted.lse;
      for (double& x : theirs) {
        if (base_two) x = std::log2(std::exp(x));
        if (plus && std::isinf(x)) x = -x;
      }
      std::vector<float> converted = lse;
      convert_lse(converted, {}, other);
      check_near(converted, theirs);
      convert_lse(converted, other, {});
      check_near(converted, wanted.lse);
    }
  std::vector<float> special{NAN, inf, -inf, 2};
  convert_lse(special, {.base_two = true}, {.base_two = true, .empty_is_plus_inf = true});
  CHECK(std::isnan(special[0]));
  CHECK((special[1] == inf && special[2] == inf && special[3] == 2));
}

TEST_CASE("a scale of other sizes than the head's") {
  CHECK(inverse_sqrt_scale({64}) == 0.125);
  CHECK(std::abs(inverse_sqrt_scale({128, 64}) - 1 / std::sqrt(192.0)) < 1e-15);
  // Absorbed latent attention: rows of 12, the first 8 of which are the value; heads had 5 + 4 elements.
  const Inputs in({2, 3, 1, 4, 6, 12, 8});
  std::vector<std::int32_t> len{6, 4};
  const double scale = inverse_sqrt_scale({5, 4});
  Inputs joint = in;
  for (std::int64_t row = 0; row < 2 * 6; ++row) std::copy_n(in.k.begin() + row * 12, 8, joint.v.begin() + row * 8);
  const Wanted wanted =
      foreign(joint, {.score = [](auto, auto, auto, auto, double product) { return product / 3; },
                      .visible = [&](std::int64_t b, std::int64_t i,
                                     std::int64_t j) { return j <= i + len[static_cast<std::size_t>(b)] - 4; }});
  std::vector<float> o(2 * 3 * 4 * 8, NAN);
  Engine::shared()
      .run(stdlib::program("mla").value(), {{"Q", in.q_ref()},
                                            {"K", {in.k.data(), DType::f32, {2, 6, 12}}},
                                            {"len", {len.data(), DType::i32, {2}}},
                                            {"scale", scale},
                                            {"O", {o.data(), DType::f32, {2, 3, 4, 8}}}})
      .value();
  check_near(o, wanted.o);
}

TEST_CASE("a bias behind the scale and before it") {
  const Inputs in({1, 1, 1, 5, 7});
  std::vector<float> bias(35);
  for (std::size_t k = 0; k < bias.size(); ++k) bias[k] = static_cast<float>(k % 11) - 4;
  auto at = [&](std::int64_t i, std::int64_t j) { return double{bias[static_cast<std::size_t>(i * 7 + j)]}; };
  const Wanted behind =
      foreign(in, {.score = [&](auto, auto, auto i, auto j, double product) { return 0.3 * product + at(i, j); }});
  const Wanted before =
      foreign(in, {.score = [&](auto, auto, auto i, auto j, double product) { return 0.3 * (product + at(i, j)); }});
  check_near(call("dense_bias", in, {{"bias", {bias.data(), DType::f32, {1, 1, 5, 7}}}, {"scale", 0.3}}), behind.o);
  std::vector<float> o;
  Arguments arguments = short_views(in, o, 2);
  arguments.emplace_back("bias", TensorRef(bias.data(), DType::f32, {5, 7}));
  arguments.emplace_back("scale", 0.3);
  Engine::shared().run(documented("scaled_sum"), arguments).value();
  check_near(o, before.o);
  CHECK_FALSE(near(behind.o, before.o));
}

TEST_CASE("relative positions by row and column take the query unscaled") {
  const Inputs in({1, 1, 1, 6, 6});  // 2 rows of 3
  std::vector<float> rows(3 * 8), columns(5 * 8);
  for (std::size_t k = 0; k < rows.size(); ++k) rows[k] = 0.1f * static_cast<float>(k % 7) - 0.3f;
  for (std::size_t k = 0; k < columns.size(); ++k) columns[k] = 0.1f * static_cast<float>(k % 5) - 0.2f;
  const Wanted wanted = foreign(in, {.score = [&](auto, auto, std::int64_t i, std::int64_t j, double product) {
                                  double relative = 0;
                                  for (std::int64_t d = 0; d < 8; ++d) {
                                    const auto q = double{in.q[static_cast<std::size_t>(i * 8 + d)]};
                                    relative += q * double{rows[static_cast<std::size_t>((i / 3 - j / 3 + 1) * 8 + d)]};
                                    relative +=
                                        q * double{columns[static_cast<std::size_t>((i % 3 - j % 3 + 2) * 8 + d)]};
                                  }
                                  return product / std::sqrt(8.0) + relative;
                                }});
  check_near(
      call("sam", in, {{"rows", {rows.data(), DType::f32, {3, 8}}}, {"columns", {columns.data(), DType::f32, {5, 8}}}}),
      wanted.o);
}

TEST_CASE("ALiBi from the distance and from the key's position") {
  const Inputs in({1, 4, 4, 5, 8});
  const std::int64_t shift = in.s.n - in.s.m;
  std::vector<float> slope{0.25f, 0.0625f, 0.5f, 0.125f}, none(4, -inf), sink{0.5f, 1, 2, -1};
  auto of = [&](const std::vector<float>& list, std::int64_t h) { return double{list[static_cast<std::size_t>(h)]}; };
  auto visible = [&](auto, auto i, auto j) { return j <= i + shift; };
  auto distance = [&](auto, auto h, auto i, auto j, double product) {
    return product / std::sqrt(8.0) - of(slope, h) * std::abs(static_cast<double>(i + shift - j));
  };
  auto by_key = [&](auto, auto h, auto, auto j, double product) {
    return product / std::sqrt(8.0) + of(slope, h) * static_cast<double>(j);
  };
  const TensorRef slopes(slope.data(), DType::f32, {4});
  const Wanted from_distance = foreign(in, {.score = distance, .visible = visible});
  check_near(call("alibi", in, {{"slope", slopes}}), from_distance.o);

  auto run_by_key = [&](std::vector<float>& sinks, std::vector<float>& o, std::vector<float>& lse) {
    Arguments arguments = short_views(in, o, 3);
    lse.assign(20, NAN);
    arguments.emplace_back("slope", slopes);
    arguments.emplace_back("sink", TensorRef(sinks.data(), DType::f32, {4}));
    arguments.emplace_back("L", TensorRef(lse.data(), DType::f32, {4, 5}));
    Engine::shared().run(documented("by_key"), arguments).value();
  };
  std::vector<float> o, lse;
  run_by_key(none, o, lse);
  check_near(o, from_distance.o);
  for (std::int64_t h = 0; h < 4; ++h)
    for (std::int64_t i = 0; i < 5; ++i)
      lse[static_cast<std::size_t>(h * 5 + i)] -=
          static_cast<float>(alibi_row_constant(of(slope, h), i, in.s.m, in.s.n));
  check_near(lse, from_distance.lse);

  run_by_key(sink, o, lse);
  auto its_sink = [&](std::int64_t h) { return of(sink, h); };
  const Wanted with_sink = foreign(in, {.score = by_key, .visible = visible, .sink = its_sink});
  check_near(o, with_sink.o);
  check_near(lse, with_sink.lse);
  CHECK_FALSE(near(with_sink.o, foreign(in, {.score = distance, .visible = visible, .sink = its_sink}).o));
}

TEST_CASE("masks that are added, masks of either meaning") {
  const Inputs in({1, 1, 1, 4, 6});
  for (const float fill : {-inf, -std::numeric_limits<float>::max(), -1e9f, -1e4f, -100.0f}) {
    INFO(fill);
    std::vector<float> additive(24);
    for (std::size_t k = 0; k < additive.size(); ++k) additive[k] = k % 5 == 0 || k / 6 == 2 ? fill : 0;
    auto added = [&](auto, auto, auto i, auto j, double product) {
      return product / std::sqrt(8.0) + double{additive[static_cast<std::size_t>(i * 6 + j)]};
    };
    auto shown = [&](auto, auto i, auto j) { return additive[static_cast<std::size_t>(i * 6 + j)] == 0; };
    bool visible[24];
    const auto shown_count = static_cast<std::size_t>(std::count(additive.begin(), additive.end(), 0.0f));
    CHECK(visible_from_additive(additive, fill, visible).value() == shown_count);
    std::vector<float> o;
    Arguments arguments = short_views(in, o, 2);
    arguments.emplace_back("visible", TensorRef(static_cast<const void*>(visible), DType::boolean, {4, 6}));
    arguments.emplace_back("fill", double{-inf});
    const Program filled = documented("filled");
    Engine::shared().run(filled, arguments).value();
    check_near(o, foreign(in, {.visible = shown}).o);
    // The row that sees nothing: what a finite number leaves there.
    if (fill != -100 && fill != -1e9f) continue;
    arguments.pop_back();
    arguments.emplace_back("fill", double{fill});
    Engine::shared().run(filled, arguments).value();
    auto all =
        foreign(in, {.score =
                         [&](auto b, auto h, auto i, auto j, double product) {
                           return fill == -100 ? added(b, h, i, j, product) : 0;  // f32 has no digits left beside 1e9
                         }})
            .o;
    check_near({o.begin() + 8, o.begin() + 12}, {all.begin() + 8, all.begin() + 12});
  }
  bool three[3];
  CHECK(visible_from_additive(std::vector<float>{0, NAN, -100.5f}, -100, three).value() == 1);
  CHECK((three[0] && !three[1] && !three[2]));

  const Inputs batch({2, 1, 1, 3, 5});
  bool hidden[10] = {false, false, false, true, true, false, true, false, true, false};
  std::vector<float> o(24, NAN);
  Engine::shared()
      .run(documented("padding"), {{"Q", {batch.q.data(), DType::f32, {2, 3, 8}}},
                                   {"K", {batch.k.data(), DType::f32, {2, 5, 8}}},
                                   {"V", {batch.v.data(), DType::f32, {2, 5, 4}}},
                                   {"hidden", {static_cast<const void*>(hidden), DType::boolean, {2, 5}}},
                                   {"O", {o.data(), DType::f32, {2, 3, 4}}}})
      .value();
  check_near(o, foreign(batch, {.visible = [&](auto b, auto, auto j) { return !hidden[b * 5 + j]; }}).o);
}

TEST_CASE("consecutive heads share, and heads take turns") {
  const Inputs in({1, 6, 2, 3, 5});
  const Wanted consecutive = foreign(in, {.kv_head = [](auto h) { return h < 3 ? 0 : 1; }});
  const Wanted turns = foreign(in, {.kv_head = [](auto h) { return h % 2; }});
  std::vector<float> lse(18), o;
  check_near(call("softmax", in, {{"L", {lse.data(), DType::f32, {1, 6, 3}}}}), consecutive.o);
  Engine::shared().run(documented("in_turns"), short_views(in, o, 3)).value();
  check_near(o, turns.o);
  CHECK_FALSE(near(consecutive.o, turns.o));
}
