// SPDX-License-Identifier: Apache-2.0
// Absence, demand and the flag, empty sets, integers, casts and random numbers, with expectations made by hand.
#include "tests/reference/build.hpp"

using namespace attune;
using namespace attune::test;

namespace {

/// y[i] = body over inputs x: f32[N], w: f32[N], t: i32[N]; flag and values.
struct Vector {
  Build b;
  Data<float> x, w, y;
  Data<std::int32_t> t;
  bool flag = false;
  explicit Vector(std::vector<std::int32_t> table = {0, 1, 2, 3})
      : x(filled<float>({4}, 0)), w(filled<float>({4}, 1)), y(filled({4}, NaN)), t(filled<std::int32_t>({4}, 0)) {
    b.tensor("x", DType::f32, "N");
    b.tensor("w", DType::f32, "N");
    b.tensor("t", DType::i32, "N");
    for (int k = 0; k < 4; ++k) x.values[k] = static_cast<float>(10 * (k + 1)), t.values[k] = table[k];
  }
  Expr element(const char* name, const char* index = "i") { return b.at(name, index); }
  Expr table(const char* index = "i") { return cast(b.at("t", index), type_i64); }
  /// x[t[index]]
  Expr gather(const char* index = "i") { return b.at("x", {table(index)}); }
  Expr where(Expr condition, Expr body) { return Expr(Where{condition, body}, body->type); }
  std::vector<float> operator()(const Expr& body) {
    b.define("y", b.ranges("i N"), body);
    b.result("y", DType::f32);
    flag =
        call(b.program,
             {{"x", x.ref(DType::f32)}, {"w", w.ref(DType::f32)}, {"t", t.ref(DType::i32)}, {"y", y.ref(DType::f32)}});
    return {y.values.begin(), y.values.begin() + 4};
  }
};
using Floats = std::vector<float>;

/// A result without indices.
template <class T = float>
T single(Build& b, const Expr& body, DType dtype, Arguments arguments = {}, bool* flag = nullptr) {
  Data<T> y = filled<T>({}, T(77));
  b.define("y", {}, body);
  b.result("y", dtype);
  arguments.emplace_back("y", y.ref(dtype));
  const bool raised = call(b.program, arguments);
  if (flag) *flag = raised;
  return y.values[0];
}

Expr f(double value) { return real(value); }
Expr absent_float() { return Expr(Where{boolean(false), f(1)}, type_f32); }
Expr absent_bool() { return compare(Relation::less, absent_float(), f(0)); }
Expr select(Expr condition, Expr then, Expr otherwise) { return Expr(Select{condition, then, otherwise}, then->type); }

}  // namespace

TEST_CASE("an out-of-range gather is absent and raises the flag") {
  Vector v({2, -1, 4, 0});
  CHECK(v(v.gather()) == Floats{30, 0, 0, 10});
  CHECK(v.flag);
}

TEST_CASE("no factor beside an absent one is evaluated, in either order") {
  for (const bool first : {false, true}) {
    Vector v({2, -1, 4, 0});
    const Expr keep = v.where(le(integer(0), v.table()) /* not the 4 */, v.element("w"));
    const Expr product = first ? keep * v.gather() : v.gather() * keep;
    CHECK(v(product) == Floats{30, 0, 0, 10});
    CHECK(v.flag);  // of element 2
    Vector all({2, -1, -1, 0});
    const Expr keep_all = all.where(le(integer(0), all.table()), all.element("w"));
    CHECK(all(first ? keep_all * all.gather() : all.gather() * keep_all) == Floats{30, 0, 0, 10});
    CHECK_FALSE(all.flag);
  }
}

TEST_CASE("a present factor's flag vanishes beside an absent one, also through definitions and sums") {
  for (const bool guarded : {false, true}) {
    Vector v({2, -1, 1, 0});
    Build& b = v.b;
    b.define("G", b.ranges("k N"), v.gather("k"));
    b.define("P", b.ranges("k N"),
             guarded ? v.where(le(integer(0), v.table("k")), v.element("w", "k")) : v.element("w", "k"));
    const Expr body = b.reduce(ReduceOp::sum, b.ranges("j N"), b.at("G", "j") * b.at("P", "j"));
    CHECK(v(body) == Floats{60, 60, 60, 60});
    CHECK(v.flag == !guarded);
  }
}

TEST_CASE("a guard keeps the body from being evaluated") {
  Vector v({2, -1, 1, 9});
  Build& b = v.b;
  const Expr inside =
      Expr(Compare{{Relation::less_equal, Relation::less}, {integer(0), v.table("j"), b.d("N")}}, type_bool);
  CHECK(v(b.reduce(ReduceOp::sum, b.ranges("j N"), v.gather("j"), inside)) == Floats{50, 50, 50, 50});
  CHECK_FALSE(v.flag);
}

TEST_CASE("an out-of-range row of a sum leaves the empty sum and the flag") {
  Vector v({-1, -1, -1, -1});
  Build& b = v.b;
  CHECK(v(b.reduce(ReduceOp::sum, b.ranges("j N"), v.element("w", "j") * v.gather("i"))) == Floats{0, 0, 0, 0});
  CHECK(v.flag);
}

TEST_CASE("conditions decide from left to right") {
  Vector v;
  Build& b = v.b;
  // i < 2 or x[i - 2] > 15
  const Expr late = lt(f(15), b.at("x", {b.i("i") - integer(2)}));
  CHECK(v(select(either(lt(b.i("i"), integer(2)), late), f(1), f(2))) == Floats{1, 1, 2, 1});
  CHECK_FALSE(v.flag);
  Vector w;
  const Expr early = lt(f(15), w.b.at("x", {w.b.i("i") - integer(2)}));
  CHECK(w(select(either(early, lt(w.b.i("i"), integer(2))), f(1), f(2))) == Floats{1, 1, 2, 1});
  CHECK(w.flag);
}

TEST_CASE("Kleene's tables") {
  const auto value = [](const Expr& condition) {  // 1 true, 2 false, 0 absent
    Build b;
    return single(b, select(condition, f(1), f(2)), DType::f32);
  };
  const Expr yes = boolean(true), no = boolean(false), unknown = absent_bool();
  CHECK(value(both(unknown, no)) == 2);
  CHECK(value(both(no, unknown)) == 2);
  CHECK(value(both(unknown, yes)) == 0);
  CHECK(value(either(unknown, yes)) == 1);
  CHECK(value(either(unknown, no)) == 0);
  CHECK(value(unary(UnaryOp::logical_not, unknown)) == 0);
  CHECK(value(unary(UnaryOp::logical_not, no)) == 1);
  CHECK(value(Expr(Compare{{Relation::less, Relation::less}, {absent_float(), f(3), f(2)}}, type_bool)) == 2);
  CHECK(value(Expr(Compare{{Relation::less, Relation::less}, {absent_float(), f(1), f(2)}}, type_bool)) == 0);
  CHECK(value(lt(f(NAN), f(1))) == 2);
}

TEST_CASE("absent is neutral in sums, annihilates products, spoils the rest") {
  const auto value = [](const Expr& body) {
    Build b;
    return single(b, body, DType::f32);
  };
  CHECK(value(absent_float() + f(3)) == 3);
  CHECK(value(absent_float() - f(3)) == -3);
  CHECK(value(f(3) - absent_float()) == 3);
  CHECK(value(absent_float() * f(3)) == 0);
  CHECK(value(link(LinkOp::div, f(3), absent_float())) == 0);
  CHECK(value(f(1) + link(LinkOp::max, f(3), absent_float())) == 1);
  CHECK(value(f(1) + unary(UnaryOp::exp, absent_float())) == 1);
  CHECK(value(f(1) + select(absent_bool(), f(3), f(4))) == 1);
  CHECK(value(link(LinkOp::max, f(3), f(NAN))) != value(f(0)));
  CHECK(std::isnan(value(link(LinkOp::min, f(NAN), f(3)))));
  CHECK(std::isnan(value(unary(UnaryOp::relu, f(NAN)))));
  CHECK(value(unary(UnaryOp::round, f(2.5))) == 2);
}

TEST_CASE("the empty set has a value") {
  const auto number = [](ReduceOp op) {
    Build b;
    return single(b, b.reduce(op, {b.range("j", integer(0), integer(0))}, f(5)), DType::f32);
  };
  CHECK(number(ReduceOp::sum) == 0);
  CHECK(number(ReduceOp::prod) == 1);
  CHECK(number(ReduceOp::mean) == 0);
  CHECK(number(ReduceOp::max) == -inf);
  CHECK(number(ReduceOp::min) == inf);
  CHECK(number(ReduceOp::logsumexp) == -inf);
  const auto integers = [](ReduceOp op, bool alone, auto zero, DType dtype) {
    using T = decltype(zero);
    Build b;
    Expr body = b.reduce(op, {b.range("j", integer(3), integer(1))}, integer(5));
    // Inference gives a whole right-hand side the type of its result.
    body = alone ? Expr(*get_if<Reduce>(body), Type{dtype, {}}) : body + integer(0);
    return static_cast<std::int64_t>(single<T>(b, body, dtype));
  };
  CHECK(integers(ReduceOp::max, true, std::int8_t{}, DType::i8) == -128);
  CHECK(integers(ReduceOp::min, true, std::uint8_t{}, DType::u8) == 255);
  CHECK(integers(ReduceOp::max, true, std::int32_t{}, DType::i32) == INT32_MIN);
  CHECK(integers(ReduceOp::max, false, std::int32_t{}, DType::i32) == 0);  // i64's smallest, stored modulo 2^32
  CHECK(integers(ReduceOp::min, false, std::int64_t{}, DType::i64) == INT64_MAX);
  CHECK(integers(ReduceOp::argmax, true, std::int32_t{}, DType::i32) == -1);
  Build any, all;
  const auto none = [](Build& b) { return std::vector{b.range("j", integer(0), integer(0))}; };
  CHECK(single<std::uint8_t>(any, any.reduce(ReduceOp::any, none(any), boolean(true)), DType::boolean) == 0);
  CHECK(single<std::uint8_t>(all, all.reduce(ReduceOp::all, none(all), boolean(false)), DType::boolean) == 1);
  Build sink;
  CHECK(single(sink, sink.reduce(ReduceOp::logsumexp, none(sink), f(1), {}, f(3)), DType::f32) == 3);
}

TEST_CASE("argmax takes the first of equals and a NaN before all, and gives the index") {
  const auto at = [](Floats values) {
    Build b;
    b.tensor("x", DType::f32, std::vector<Expr>{integer(4)});
    Data<float> x{{4}, values};
    return single<std::int64_t>(b, b.reduce(ReduceOp::argmax, {b.range("j", integer(1), integer(4))}, b.at("x", "j")),
                                DType::i64, {{"x", x.ref(DType::f32)}});
  };
  CHECK(at({9, 2, 7, 7}) == 2);
  CHECK(at({9, 2, 7, NaN}) == 3);
  CHECK(at({9, NaN, 7, NaN}) == 1);
  CHECK(at({9, -inf, -inf, -inf}) == 1);
}

TEST_CASE("mean divides by the number present") {
  Vector v({0, -1, 2, 3});
  Build& b = v.b;
  CHECK(v(b.reduce(ReduceOp::mean, b.ranges("j N"), v.gather("j")))[0] == Approx(80.0 / 3));
  CHECK(v.flag);
  Vector w({0, 1, 2, 4});
  CHECK(w(w.b.reduce(ReduceOp::mean, w.b.ranges("j N"), cast(w.table("j"), type_f32)))[0] == 1.75f);
}

TEST_CASE("cumsum is inclusive and present everywhere") {
  Vector v;
  Build& b = v.b;
  const Expr odd = compare(Relation::equal, Expr(Chain{{LinkOp::mod}, {b.i("i"), integer(2)}}, type_i64), integer(1));
  const Expr sums(Cumsum{b.range("i", "N"), odd, v.element("x")}, type_f32);
  CHECK(v(sums) == Floats{0, 20, 20, 60});
}

TEST_CASE("softmax is absent outside its guard and a later sum inherits that") {
  Vector v;
  Build& b = v.b;
  b.define("P", b.ranges("k N"), b.softmax(b.ranges("k N"), v.element("w", "k"), lt(b.i("k"), integer(2))));
  const Expr inherited = b.reduce(ReduceOp::mean, b.ranges("j N"), b.at("P", "j") * v.element("x", "j"));
  CHECK(v(inherited)[0] == Approx(7.5));  // (10 / 2 + 20 / 2) / 2
}

TEST_CASE("a masked activation weight beside an infinity") {
  Vector v;
  Build& b = v.b;
  v.w.values[3] = -inf;  // silu(-inf) would be NaN
  const Expr weight = unary(UnaryOp::silu, v.element("w", "j"));
  const float one = 1 / (1 + std::exp(-1.0f));
  CHECK(v(b.reduce(ReduceOp::sum, b.ranges("j N"), weight * v.element("x", "j"), lt(b.i("j"), integer(3))))[0] ==
        Approx(60 * one));
}

TEST_CASE("integers are exact, wrap, and divide downwards") {
  const auto value = [](const Expr& body) {
    Build b;
    return single<std::int64_t>(b, body, DType::i64);
  };
  const auto div = [](std::int64_t a, std::int64_t b) { return link(LinkOp::floordiv, integer(a), integer(b)); };
  const auto mod = [](std::int64_t a, std::int64_t b) { return link(LinkOp::mod, integer(a), integer(b)); };
  for (const std::int64_t a : {-7, -6, 0, 6, 7})
    for (const std::int64_t b : {-3, -1, 1, 3}) {
      const auto q = static_cast<std::int64_t>(std::floor(double(a) / double(b)));
      CHECK(value(div(a, b)) == q);
      CHECK(value(mod(a, b)) == a - q * b);
    }
  CHECK(value(div(INT64_MIN, -1)) == INT64_MIN);
  CHECK(value(mod(INT64_MIN, -1)) == 0);
  CHECK(value(integer(INT64_MAX) + integer(2)) == INT64_MIN + 1);
  CHECK(value(Expr(Power{integer(3), integer(41)}, type_i64)) == -420491770248316829);
  CHECK(value(integer(9007199254740993) + integer(0)) == 9007199254740993);  // no detour by f64
}

TEST_CASE("a divisor of 0 that comes from data is absent with the flag") {
  Vector v({0, 1, 2, 4});
  const Expr quotient(Chain{{LinkOp::floordiv}, {integer(8), v.table()}}, type_i64);
  CHECK(v(cast(quotient, type_f32)) == Floats{0, 8, 4, 2});
  CHECK(v.flag);
}

TEST_CASE("casts round, saturate, wrap or are absent") {
  const auto value = [](const Expr& body, DType to) {
    Build b;
    Expr made = cast(body, {to, {}});
    if (made->type.is_integer()) made = cast(made, type_f32);
    return single(b, f(0.5) + made, DType::f32) - 0.5f;
  };
  CHECK(value(integer(300), DType::i8) == 44);
  CHECK(value(integer(300), DType::u8) == 44);
  CHECK(value(f(-2.9), DType::i32) == -2);
  CHECK(value(f(3e9), DType::i32) == 0);
  CHECK(value(f(NAN), DType::i64) == 0);
  CHECK(value(f(300), DType::u8) == 0);
  CHECK(value(f(2049), DType::f16) == 2048);
  CHECK(value(f(70000), DType::f16) == inf);
  CHECK(value(f(257), DType::bf16) == 256);
  CHECK(value(f(1000), DType::f8e4m3) == 448);
  CHECK(value(f(-INFINITY), DType::f8e4m3) == -448);
  CHECK(value(f(1e6), DType::f8e5m2) == inf);
  CHECK(value(integer(16777217), DType::f32) == 16777216);
}

TEST_CASE("narrow floats round-trip bit by bit") {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2}) {
    const unsigned patterns = size_of(dtype) == 2 ? 65536 : 256;
    for (unsigned bits = 0; bits < patterns; ++bits) {
      const auto in = static_cast<std::uint16_t>(bits);
      std::uint16_t out = 0;
      const double number = load_element(&in, dtype, 0);
      store_element(&out, dtype, 0, number);
      if (std::isnan(number) ? !std::isnan(load_element(&out, dtype, 0)) : in != out) FAIL(name(dtype) << " " << bits);
    }
  }
  CHECK(round_to(DType::f16, 1 + 0x1p-11) == 1);
  CHECK(round_to(DType::f16, 1 + 3 * 0x1p-11) == 1 + 0x1p-9);
  CHECK(round_to(DType::f16, 0x1p-25) == 0);
  CHECK(round_to(DType::f16, 0x1.8p-25) == 0x1p-24);
  CHECK(round_to(DType::f8e4m3, 0x1p-10) == 0);
  CHECK(round_to(DType::f8e4m3, 19) == 20);
}

TEST_CASE("random numbers are Philox4x32-10") {
  const auto value = [](std::int64_t seed, std::vector<std::int64_t> at) {
    Build b;
    std::vector<Expr> coordinates;
    for (const std::int64_t one : at) coordinates.push_back(integer(one));
    return single(b, Expr(Random{integer(seed), coordinates}, type_f32), DType::f32);
  };
  const auto from = [](std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; };
  // Known answers of the generator's authors.
  const std::uint32_t zeros[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  const std::uint32_t pi[] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
  for (int k = 0; k < 4; ++k) {
    CHECK(value(0, {k}) == from(zeros[k]));
    CHECK(value(0x299f31d0a4093822, {0x03707344, 0x13198a2e, 0x85a308d3, 0x90fdaa20 + k}) == from(pi[k]));
  }
}

TEST_CASE("strides come with the tensors") {
  Build b;
  b.tensor("x", DType::f32, "M N");
  b.define("y", b.ranges("i M"), b.reduce(ReduceOp::sum, b.ranges("j N"), b.at("x", "i j")));
  b.result("y", DType::f32);
  Floats memory{1, 2, 3, 4, 5, 6}, out(5, NaN);
  const auto run = [&](float* data, std::vector<std::int64_t> strides) {
    call(b.program, {{"x", TensorRef(static_cast<void*>(data), DType::f32, {2, 3}, std::move(strides))},
                     {"y", TensorRef(static_cast<void*>(out.data()), DType::f32, {2}, {3})}});
    return std::pair(out[0], out[3]);
  };
  CHECK(run(memory.data(), {3, 1}) == std::pair(6.f, 15.f));
  CHECK(run(memory.data(), {1, 2}) == std::pair(9.f, 12.f));
  CHECK(run(memory.data(), {0, 1}) == std::pair(6.f, 6.f));
  CHECK(run(memory.data() + 5, {-3, -1}) == std::pair(15.f, 6.f));
  CHECK(std::isnan(out[1]));
}

TEST_CASE("thousands of definitions on each other do not exhaust the stack") {
  Build b;
  b.tensor("x", DType::f32, "N");
  std::string last = "x";
  for (int k = 0; k < 5000; ++k) {
    const std::string next = "d" + std::to_string(k), at = "i" + std::to_string(k);
    b.define(next, b.ranges(at + " N"), b.at(last, at) + f(1));
    last = next;
  }
  b.result(last, DType::f32);
  Data<float> x{{2}, {1, 2}}, y = filled({2}, NaN);
  call(b.program, {{"x", x.ref(DType::f32)}, {last, y.ref(DType::f32)}});
  CHECK(y.values[1] == 5002);
}
