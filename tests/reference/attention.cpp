// SPDX-License-Identifier: Apache-2.0
// Softmax attention of the reference on hand-made tensor IR: empty rows, masked NaN, sinks, visible NaN and Inf.
#include <functional>

#include "tests/reference/build.hpp"

using namespace attune;
using namespace attune::test;

namespace {

/// O and L of one head: S[i, j] = scale * Q.K, P = softmax[j where guard], O = P V.
struct Attention {
  Build build;
  Data<float> q, k, v, o, l;

  using Guard = std::function<Expr(Build&)>;
  Attention(std::int64_t m, std::int64_t n, std::int64_t d, const Guard& guard, const Guard& extra = {})
      : q(noise({m, d}, 1)), k(noise({n, d}, 2)), v(noise({n, d}, 3)), o(filled({m, d}, NaN)), l(filled({m}, NaN)) {
    Build& b = build;
    b.tensor("Q", DType::f32, "M D");
    b.tensor("K", DType::f32, "N D");
    b.tensor("V", DType::f32, "N D");
    b.define("S", b.ranges("i M j N"), b.reduce(ReduceOp::sum, b.ranges("d D"), b.at("Q", "i d") * b.at("K", "j d")));
    const Expr keep = guard ? guard(b) : Expr();
    const Expr term = extra ? extra(b) : Expr();
    b.define("P", b.ranges("i M j N"), b.softmax(b.ranges("j N"), b.at("S", "i j"), keep, term));
    b.define("O", b.ranges("i M e D"), b.reduce(ReduceOp::sum, b.ranges("j N"), b.at("P", "i j") * b.at("V", "j e")));
    b.define("L", b.ranges("i M"), b.reduce(ReduceOp::logsumexp, b.ranges("j N"), b.at("S", "i j"), keep, term));
    b.result("O", DType::f32);
    b.result("L", DType::f32);
  }
  bool run(Arguments more = {}) {
    Arguments arguments{{"Q", q.ref(DType::f32)},
                        {"K", k.ref(DType::f32)},
                        {"V", v.ref(DType::f32)},
                        {"O", o.ref(DType::f32)},
                        {"L", l.ref(DType::f32)}};
    for (Argument& argument : more) arguments.push_back(std::move(argument));
    return call(build.program, arguments);
  }
  std::int64_t rows() const { return q.shape[0]; }
  std::int64_t depth() const { return q.shape[1]; }

  /// The expected row by a loop over the visible keys.
  template <class Visible>
  void check(const Visible& visible, double extra = -INFINITY) const {
    const std::int64_t n = k.shape[0], d = depth();
    for (std::int64_t i = 0; i < rows(); ++i) {
      std::vector<double> weights;
      std::vector<std::int64_t> keys;
      double top = extra;
      for (std::int64_t j = 0; j < n; ++j) {
        if (!visible(i, j)) continue;
        double s = 0;
        for (std::int64_t x = 0; x < d; ++x) s += double(q.values[i * d + x]) * double(k.values[j * d + x]);
        weights.push_back(s);
        keys.push_back(j);
        top = std::max(top, s);
      }
      double total = std::isfinite(extra) ? std::exp(extra - top) : 0;
      for (double& w : weights) total += (w = std::exp(w - top));
      const double lse = total > 0 ? top + std::log(total) : -INFINITY;
      if (std::isinf(lse))
        CHECK(l.values[i] == -inf);
      else
        CHECK(l.values[i] == Approx(lse).epsilon(1e-6));
      for (std::int64_t e = 0; e < d; ++e) {
        double expected = 0;
        for (std::size_t t = 0; t < keys.size(); ++t)
          expected += weights[t] / total * double(v.values[keys[t] * d + e]);
        CHECK(o.values[i * d + e] == Approx(expected).margin(1e-6));
      }
    }
  }
};

Expr causal_bottom_right(Build& b) { return le(b.i("j"), b.i("i") + b.d("N") - b.d("M")); }
Expr causal_top_left(Build& b) { return le(b.i("j"), b.i("i")); }

}  // namespace

TEST_CASE("plain softmax attention") {
  Attention a(5, 7, 8, nullptr);
  CHECK_FALSE(a.run());
  a.check([](auto, auto) { return true; });
}

TEST_CASE("a row that sees nothing is 0 with LSE -inf") {
  Attention a(4, 4, 8, [](Build& b) {
    b.tensor("mask", DType::boolean, "M N");
    return b.at("mask", "i j");
  });
  Data<std::uint8_t> mask = filled<std::uint8_t>({4, 4}, 1);
  for (int j = 0; j < 4; ++j) mask.values[4 + j] = 0;
  CHECK_FALSE(a.run({{"mask", mask.ref(DType::boolean)}}));
  a.check([](auto i, auto) { return i != 1; });
  for (int e = 0; e < 8; ++e) CHECK(a.o.values[8 + e] == 0);
}

TEST_CASE("both alignments of causal") {
  Attention more_rows(5, 2, 4, causal_bottom_right);
  more_rows.run();
  more_rows.check([](auto i, auto j) { return j <= i - 3; });
  Attention bottom(2, 5, 4, causal_bottom_right);
  bottom.run();
  bottom.check([](auto i, auto j) { return j <= i + 3; });
  Attention top(2, 5, 4, causal_top_left);
  top.run();
  top.check([](auto i, auto j) { return j <= i; });
}

TEST_CASE("no keys and no queries") {
  Attention none(5, 0, 4, causal_top_left);
  none.run();
  none.check([](auto, auto) { return false; });
  Attention empty(0, 5, 4, nullptr);
  CHECK_FALSE(empty.run());
}

TEST_CASE("windows see the keys that their inequality says") {
  for (const int w : {1, 7, 40, 50}) {
    Attention a(40, 40, 4, [w](Build& b) {
      return Expr(Compare{{Relation::less, Relation::less_equal}, {b.i("i") - integer(w), b.i("j"), b.i("i")}},
                  type_bool);
    });
    a.run();
    a.check([w](auto i, auto j) { return i - w < j && j <= i; });
  }
}

TEST_CASE("scores far below every sentinel") {
  Attention a(1, 64, 2, nullptr);
  a.q.values = {1, 0};
  for (int j = 0; j < 64; ++j) a.k.values[2 * j] = j == 20 ? -9.5e4f : -1e5f;
  a.run();
  a.check([](auto, auto) { return true; });
  CHECK(a.o.values[0] == a.v.values[40]);
}

TEST_CASE("masked NaN and Inf do not reach the result") {
  const auto guard = [](Build& b) { return both(lt(b.i("j"), integer(40)), causal_top_left(b)); };
  Attention clean(64, 64, 8, guard), dirty(64, 64, 8, guard);
  for (int x = 40 * 8; x < 64 * 8; ++x) {
    clean.k.values[x] = clean.v.values[x] = 0;
    dirty.k.values[x] = NaN;
    dirty.v.values[x] = x % 2 ? inf : NaN;
  }
  clean.run();
  dirty.run();
  for (std::size_t x = 0; x < 64 * 8; ++x) CHECK(dirty.o.values[x] == clean.o.values[x]);
  clean.check([](auto i, auto j) { return j < 40 && j <= i; });
}

TEST_CASE("sinks add to the denominator only") {
  const auto sink = [](Build& b) { return b.scalar("sink", DType::f32); };
  for (const double value : {0.0, 5.0, 1e4}) {
    Attention a(6, 5, 4, causal_bottom_right, sink);
    a.run({{"sink", value}});
    a.check([](auto i, auto j) { return j <= i - 1; }, value);
  }
  Attention none(6, 5, 4, causal_bottom_right, sink);
  none.run({{"sink", -INFINITY}});
  none.check([](auto i, auto j) { return j <= i - 1; });
  Attention all(6, 5, 4, causal_bottom_right, sink);
  all.run({{"sink", INFINITY}});
  for (std::size_t x = 0; x < 24; ++x) CHECK(all.o.values[x] == 0);
  for (std::size_t x = 0; x < 6; ++x) CHECK(all.l.values[x] == inf);
}

TEST_CASE("a visible NaN reaches exactly the rows that see it") {
  Attention a(8, 8, 8, causal_top_left);
  a.k.values[5 * 8 + 3] = NaN;
  a.run();
  for (int i = 0; i < 8; ++i) {
    for (int e = 0; e < 8; ++e) CHECK(std::isnan(a.o.values[i * 8 + e]) == (i >= 5));
    CHECK(std::isnan(a.l.values[i]) == (i >= 5));
  }
}

TEST_CASE("a NaN in V reaches its column of the rows that see it") {
  Attention a(8, 8, 8, causal_top_left);
  a.v.values[5 * 8 + 3] = NaN;
  a.run();
  for (int i = 0; i < 8; ++i)
    for (int e = 0; e < 8; ++e) CHECK(std::isnan(a.o.values[i * 8 + e]) == (i >= 5 && e == 3));
}

TEST_CASE("visible infinities") {
  Attention a(3, 3, 1, nullptr);
  a.q.values = {1, 1, 1};
  a.v.values = {1, 2, 3};
  a.k.values = {0, inf, 0};  // a score of +inf: the row is NaN, its logsumexp +inf
  a.run();
  for (int i = 0; i < 3; ++i) {
    CHECK(std::isnan(a.o.values[i]));
    CHECK(a.l.values[i] == inf);
  }
  a.k.values = {0, -inf, 0};  // -inf: weight 0 and absent, also beside a NaN in V
  a.v.values[1] = NaN;
  a.run();
  for (int i = 0; i < 3; ++i) {
    CHECK(a.o.values[i] == Approx(2.0));
    CHECK(a.l.values[i] == Approx(std::log(2.0)));
  }
  a.k.values = {-inf, -inf, -inf};  // nothing else visible: empty
  a.run();
  for (int i = 0; i < 3; ++i) {
    CHECK(a.o.values[i] == 0);
    CHECK(a.l.values[i] == -inf);
  }
}
