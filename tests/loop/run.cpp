// SPDX-License-Identifier: Apache-2.0
// Interpreted kernels: values, ragged edges, reductions, order of tasks.
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/catch.hpp"
#include "tests/loop/kernels.hpp"

using namespace hand;

namespace {

std::vector<double> causal(const AttentionCall& c) {
  std::vector<double> out(c.o.size());
  for (std::int64_t b = 0; b < c.B; ++b)
    for (std::int64_t h = 0; h < c.H; ++h)
      for (std::int64_t i = 0; i < c.M; ++i) {
        const std::int64_t group = b * c.G + h / (c.H / c.G), row = (b * c.H + h) * c.M + i;
        const std::int64_t count = std::min(c.N, i + c.N - c.M + 1);
        double total = 0, most = -INFINITY;
        std::vector<double> p;
        for (std::int64_t j = 0; j < count; ++j) {
          double s = 0;
          for (std::int64_t d = 0; d < c.D; ++d)
            s += double{c.q[static_cast<std::size_t>(row * c.D + d)]} *
                 double{c.k[static_cast<std::size_t>((group * c.N + j) * c.D + d)]};
          p.push_back(s * c.scale);
          most = std::max(most, p.back());
        }
        for (double& x : p) total += x = std::exp(x - most);
        for (std::int64_t e = 0; e < c.E; ++e) {
          double sum = 0;
          for (std::int64_t j = 0; j < count; ++j)
            sum += p[static_cast<std::size_t>(j)] * double{c.v[static_cast<std::size_t>((group * c.N + j) * c.E + e)]};
          out[static_cast<std::size_t>(row * c.E + e)] = count > 0 ? sum / total : 0;
        }
      }
  return out;
}

void check_attention(AttentionCall call, std::int64_t lanes, std::int64_t step) {
  call.fill();
  Attention attention(lanes, step);
  const auto outcome = interpreter::run(attention.kernel, call.bind(attention));
  INFO(error_of(outcome));
  REQUIRE(outcome.ok());
  CHECK_FALSE(outcome->out_of_range);
  const std::vector<double> expected = causal(call);
  double worst = 0;
  for (std::size_t k = 0; k < expected.size(); ++k) worst = std::max(worst, std::fabs(call.o[k] - expected[k]));
  CHECK(worst < 2e-6);
  const std::vector<float> forward = call.o;
  call.o.assign(call.o.size(), -1.0f);
  REQUIRE(interpreter::run(attention.kernel, call.bind(attention), {true}).ok());
  CHECK(std::memcmp(forward.data(), call.o.data(), forward.size() * sizeof(float)) == 0);
}

/// A nest over rows i of a matrix X[R, C] with one result; `fill_in` makes tiles and body.
struct Rows {
  Sym R = Sym::fresh("R"), C = Sym::fresh("C"), X = Sym::fresh("X"), Y = Sym::fresh("Y"), i0 = Sym::fresh("i0"),
      i = Sym::fresh("i"), j = Sym::fresh("j"), best = Sym::fresh("best"), at = Sym::fresh("at");
  loop::Kernel kernel;
  loop::Range rows{i, ix(i0), ix(i0) + I(4)}, columns{j, I(0), dim(C)};

  explicit Rows(DType in, DType out) {
    kernel.name = "rows";
    kernel.dims = {R, C};
    kernel.buffers = {buffer(X, in, {dim(R), dim(C)}, loop::Role::input), buffer(Y, out, {dim(R)}, loop::Role::result)};
    loop::Nest nest;
    nest.name = "Y";
    nest.grid = {{i0, I(0), dim(R), I(4), false}};
    nest.lane = i;
    nest.lane_limit = dim(R);
    nest.lanes = 4;
    kernel.nests = {nest};
  }
  loop::Nest& nest() { return kernel.nests[0]; }
  loop::Tile row(const Sym& sym, DType dtype) { return tile(sym, {{i, ix(i0), I(4)}}, dtype); }
  Expr x(DType dtype) { return read(X, {ix(i), ix(j)}, dtype); }
  Binding bind(void* x_data, DType in, void* y_data, DType out, std::int64_t r, std::int64_t c) {
    Binding binding;
    binding.dims = {{R, r}, {C, c}};
    binding.tensors = {{X, view(x_data, in, {r, c})}, {Y, view(y_data, out, {r})}};
    return binding;
  }
};

}  // namespace

TEST_CASE("interpreter: copy and scale, whole and ragged", "[loop]") {
  for (const std::int64_t n : {0, 1, 3, 4, 5, 8, 13}) {
    CopyScale copy;
    // Exactly n elements: a load or a store beyond the limit would leave them.
    std::vector<float> x(static_cast<std::size_t>(n)), y(static_cast<std::size_t>(n), -1);
    for (std::size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>(k) + 0.5f;
    Binding binding;
    binding.dims = {{copy.N, n}};
    binding.scalars = {{copy.a, 3.0}};
    binding.tensors = {{copy.x, view(x.data(), DType::f32, {n})}, {copy.y, view(y.data(), DType::f32, {n})}};
    const auto outcome = interpreter::run(copy.kernel, binding);
    INFO(error_of(outcome));
    REQUIRE(outcome.ok());
    for (std::size_t k = 0; k < x.size(); ++k) CHECK(y[k] == 3.0f * x[k]);
  }
}

TEST_CASE("interpreter: strides of the call are followed", "[loop]") {
  CopyScale copy;
  std::vector<float> x{9, 0, 0, 8, 0, 0, 7}, y(5, -1);
  Binding binding;
  binding.dims = {{copy.N, 3}};
  binding.scalars = {{copy.a, 1.0}};
  binding.tensors = {{copy.x, TensorRef(x.data() + 6, DType::f32, {3}, {-3})},
                     {copy.y, TensorRef(y.data(), DType::f32, {3}, {2})}};
  REQUIRE(interpreter::run(copy.kernel, binding).ok());
  CHECK(y == std::vector<float>{7, -1, 8, -1, 9});
}

TEST_CASE("interpreter: streamed causal attention equals the formula", "[loop]") {
  check_attention({}, 4, 8);
  check_attention({}, 1, 1);
  check_attention({}, 8, 3);
  check_attention({}, 16, 128);
  AttentionCall square;
  square.M = square.N = 19;
  check_attention(square, 4, 8);
  AttentionCall empty_rows;  // more queries than keys: the first rows see nothing
  empty_rows.M = 12;
  empty_rows.N = 5;
  check_attention(empty_rows, 4, 2);
  AttentionCall no_keys;
  no_keys.M = 3;
  no_keys.N = 0;
  check_attention(no_keys, 4, 8);
}

TEST_CASE("interpreter: argmax takes the first of equals, a NaN before all, -1 for none", "[loop]") {
  constexpr std::int64_t R = 6, C = 4;
  const float nan = NAN, inf = INFINITY;
  std::array<float, R * C> x{1, 5, 5, 2, -inf, -inf, -inf, -inf, 3,  nan, 9,  nan,
                             7, 7, 7, 7, 0,    0,    0,    1,    -1, -2,  -3, -4};
  std::array<std::int64_t, R> y{};
  Rows k(DType::f32, DType::i64);
  k.nest().tiles = {k.row(k.best, DType::f32), k.row(k.at, DType::i64)};
  k.nest().body = {map(k.best, {k.rows}, F(-inf)), map(k.at, {k.rows}, I(-1)),
                   stmt(loop::Accumulate{loop::Op::argmax, k.best, k.at, {k.rows}, {k.columns}, k.x(DType::f32), {}}),
                   store(k.Y, {ix(k.i)}, {k.rows}, read(k.at, {ix(k.i)}, DType::i64))};
  auto outcome = interpreter::run(k.kernel, k.bind(x.data(), DType::f32, y.data(), DType::i64, R, C));
  INFO(error_of(outcome));
  REQUIRE(outcome.ok());
  CHECK(y == std::array<std::int64_t, R>{1, 0, 1, 0, 3, 0});
  // Two passes: the old best is replaced by a better one only.
  auto& body = k.nest().body;
  std::get<loop::Accumulate>(body[2].kind).over = {{k.j, I(0), I(2)}};
  body.insert(
      body.begin() + 3,
      stmt(loop::Accumulate{loop::Op::argmax, k.best, k.at, {k.rows}, {{k.j, I(2), dim(k.C)}}, k.x(DType::f32), {}}));
  REQUIRE(interpreter::run(k.kernel, k.bind(x.data(), DType::f32, y.data(), DType::i64, R, C)).ok());
  CHECK(y == std::array<std::int64_t, R>{1, 0, 1, 0, 3, 0});
  // A guard that nothing passes.
  for (std::size_t s : {std::size_t{2}, std::size_t{3}}) std::get<loop::Accumulate>(body[s].kind).guard = T(false);
  REQUIRE(interpreter::run(k.kernel, k.bind(x.data(), DType::f32, y.data(), DType::i64, R, C)).ok());
  CHECK(y == std::array<std::int64_t, R>{-1, -1, -1, -1, -1, -1});
}

TEST_CASE("interpreter: any, all and the numeric reductions", "[loop]") {
  constexpr std::int64_t R = 5, C = 3;
  std::array<std::int32_t, R * C> x{1, 2, 3, 0, 0, 0, -4, 5, 0, 7, 7, 7, -1, -1, -2};
  const auto reduce = [&](loop::Op op, Expr first, auto value) {
    const DType out = first->type.dtype;
    Rows k(DType::i32, out);
    k.nest().tiles = {k.row(k.best, out)};
    k.nest().body = {map(k.best, {k.rows}, first),
                     stmt(loop::Accumulate{op, k.best, {}, {k.rows}, {k.columns}, value(k), {}}),
                     store(k.Y, {ix(k.i)}, {k.rows}, read(k.best, {ix(k.i)}, out))};
    std::array<std::int64_t, R> wide{};
    std::array<std::uint8_t, R> truth{};
    std::array<float, R> real{};
    void* y = is_bool(out)    ? static_cast<void*>(truth.data())
              : is_float(out) ? static_cast<void*>(real.data())
                              : wide.data();
    const auto outcome = interpreter::run(k.kernel, k.bind(x.data(), DType::i32, y, out, R, C));
    INFO(error_of(outcome));
    REQUIRE(outcome.ok());
    std::vector<double> list;
    for (std::size_t r = 0; r < R; ++r)
      list.push_back(is_bool(out) ? truth[r] : is_float(out) ? double{real[r]} : static_cast<double>(wide[r]));
    return list;
  };
  const auto whole = [](Rows& k) { return k.x(DType::i32); };
  const auto real = [](Rows& k) { return cast(k.x(DType::i32), DType::f32); };
  const auto positive = [](Rows& k) { return k.x(DType::i32) > I(0); };
  using Values = std::vector<double>;
  CHECK(reduce(loop::Op::any, T(false), positive) == Values{1, 0, 1, 1, 0});
  CHECK(reduce(loop::Op::all, T(true), positive) == Values{1, 0, 0, 1, 0});
  CHECK(reduce(loop::Op::sum, I(0), whole) == Values{6, 0, 1, 21, -4});
  CHECK(reduce(loop::Op::prod, I(1), whole) == Values{6, 0, 0, 343, -2});
  CHECK(reduce(loop::Op::max, I(INT64_MIN), whole) == Values{3, 0, 5, 7, -1});
  CHECK(reduce(loop::Op::min, I(INT64_MAX), whole) == Values{1, 0, -4, 7, -2});
  CHECK(reduce(loop::Op::sum, F(0.5), real) == Values{6.5, 0.5, 1.5, 21.5, -3.5});
  CHECK(reduce(loop::Op::max_any, F(-INFINITY), real) == Values{3, 0, 5, 7, -1});
  CHECK(reduce(loop::Op::min, F(2), real) == Values{1, 0, -4, 2, -2});
}

TEST_CASE("interpreter: max propagates NaN, max_any may drop it", "[loop]") {
  std::array<float, 4> x{1, NAN, 2, 0}, y{};
  for (const loop::Op op : {loop::Op::max, loop::Op::max_any}) {
    Rows k(DType::f32, DType::f32);
    k.nest().tiles = {k.row(k.best, DType::f32)};
    k.nest().body = {map(k.best, {k.rows}, F(-INFINITY)),
                     stmt(loop::Accumulate{op, k.best, {}, {k.rows}, {k.columns}, k.x(DType::f32), {}}),
                     store(k.Y, {ix(k.i)}, {k.rows}, read(k.best, {ix(k.i)}))};
    REQUIRE(interpreter::run(k.kernel, k.bind(x.data(), DType::f32, y.data(), DType::f32, 1, 4)).ok());
    CHECK((op == loop::Op::max ? std::isnan(y[0]) : y[0] == 2.0f));
  }
}

TEST_CASE("interpreter: a nest without lanes, control flow, a materialised intermediate", "[loop]") {
  // Triangular numbers through a temporary: T[n] = sum of k < n, then y[n] = T[n] where n is even, else -1.
  const Sym N = Sym::fresh("N"), Y = Sym::fresh("Y"), W = Sym::fresh("W"), n = Sym::fresh("n"), n2 = Sym::fresh("n"),
            k = Sym::fresh("k"), acc = Sym::fresh("acc"), even = Sym::fresh("even");
  loop::Kernel kernel;
  kernel.name = "triangles";
  kernel.dims = {N};
  kernel.buffers = {buffer(Y, DType::i32, {dim(N)}, loop::Role::result),
                    buffer(W, DType::i64, {dim(N)}, loop::Role::temporary)};
  loop::Nest first, second;
  first.name = "W";
  first.grid = {{n, I(0), dim(N), I(1), true}};
  first.tiles = {tile(acc, {}, DType::i64)};
  loop::For count{k, I(0), ix(n), I(1), loop::ForKind::serial, "", {map(acc, {}, read(acc, {}, DType::i64) + ix(k))}};
  first.body = {map(acc, {}, I(0)), stmt(count), store(W, {ix(n)}, {}, read(acc, {}, DType::i64))};
  second.name = "Y";
  second.grid = {{n2, I(0), dim(N), I(1), false}};
  const Expr is_even = relate(Relation::equal, chain(LinkOp::mod, {ix(n2), I(2)}), I(0));
  second.body = {stmt(loop::Let{even, is_even}), stmt(loop::If{scalar(even, tensor::type_bool),
                                                               {store(Y, {ix(n2)}, {}, read(W, {ix(n2)}, DType::i64))},
                                                               {store(Y, {ix(n2)}, {}, I(-1))}})};
  kernel.nests = {first, second};
  std::array<std::int32_t, 7> y{};
  Binding binding;
  binding.dims = {{N, 7}};
  binding.tensors = {{Y, view(y.data(), DType::i32, {7})}};
  const auto outcome = interpreter::run(kernel, binding);
  INFO(error_of(outcome));
  REQUIRE(outcome.ok());
  CHECK(y == std::array<std::int32_t, 7>{0, -1, 1, -1, 6, -1, 15});
}
