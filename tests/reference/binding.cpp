// SPDX-License-Identifier: Apache-2.0
// The rules of a call: dims, extents, quotients, ranges, scalars, names, aliasing; all errors of a call together.
#include "tests/reference/build.hpp"

using namespace attune;
using namespace attune::test;
using Codes = std::vector<std::string>;

namespace {

/// y[h, i] = x[h / (H / G), i] * scale, with x: f32[G, N], n: i32.
struct Call {
  Build b;
  Data<float> x = filled<float>({2, 5}, 1), y = filled<float>({8, 5}, 0);
  Call() {
    b.tensor("x", DType::f32, "G N");
    const Expr scale = b.scalar("scale", DType::f32, f64_default());
    b.scalar("n", DType::i32, integer(3));
    const Expr heads = b.d("H"), groups = b.d("G");
    const Expr head(Chain{{LinkOp::floordiv}, {b.i("h"), link(LinkOp::floordiv, heads, groups)}}, type_i64);
    b.define("y", b.ranges("h H i N"), b.at("x", {head, b.i("i")}) * scale);
    b.result("y", DType::f32);
    b.program.exact_quotients.push_back({b.sym("H"), b.sym("G"), {}});
  }
  /// 1 / sqrt(N)
  Expr f64_default() { return link(LinkOp::div, real(1), unary(UnaryOp::sqrt, cast(b.d("N"), type_f32))); }
  Result<Binding> operator()(const Arguments& arguments, bool results = true) {
    return attune::bind(b.program, arguments, results);
  }
  Argument in() { return {"x", x.ref(DType::f32)}; }
  Argument out() { return {"y", y.ref(DType::f32)}; }
};

}  // namespace

TEST_CASE("a good call solves dims and scalars") {
  Call c;
  const auto binding = c({c.in(), c.out()});
  REQUIRE(binding.ok());
  CHECK(binding->dims.at(c.b.sym("H")) == 8);
  CHECK(std::get<double>(binding->scalars.at(c.b.sym("scale"))) == static_cast<float>(1 / std::sqrt(5.0)));
  CHECK(std::get<std::int64_t>(binding->scalars.at(c.b.sym("n"))) == 3);
}

TEST_CASE("shapes need no results, but every dim") {
  Call c;
  CHECK(codes(c({c.in()}, false).diagnostics()) == Codes{"A0509"});
  const auto binding = c({c.in(), {"H", 4}}, false);
  REQUIRE(binding.ok());
  CHECK(binding->dims.at(c.b.sym("H")) == 4);
}

TEST_CASE("quotients of dims are exact") {
  Call c;
  c.y = filled<float>({7, 5}, 0);
  const auto binding = c({c.in(), c.out()});
  REQUIRE(codes(binding.diagnostics()) == Codes{"A0511"});
  CHECK(binding.diagnostics()[0].message == "H = 7 is not a multiple of G = 2");
}

TEST_CASE("a divisor that is 0 for the whole launch") {
  Call c;
  c.x = filled<float>({0, 5}, 0);
  CHECK(codes(c({c.in(), c.out()}).diagnostics()) == Codes{"A0512"});
}

TEST_CASE("every independent error is reported") {
  Call c;
  Data<float> wide = filled<float>({2, 5, 1}, 0);
  const auto binding = c({{"x", wide.ref(DType::f32)},
                          {"scael", 1.0},
                          {"n", std::int64_t{1} << 40},
                          {"n", 2},
                          {"y", c.y.ref(DType::f16)}});
  CHECK(codes(binding.diagnostics()) == Codes{"A0502", "A0503", "A0506", "A0505", "A0514"});
  CHECK(binding.diagnostics()[0].help == "did you mean `scale`?");
  CHECK(binding.diagnostics()[2].tensor == "x");
  CHECK(binding.diagnostics()[3].expected == "f32");
  CHECK(binding.diagnostics()[3].found == "f16");
}

TEST_CASE("missing and wrong kinds") {
  Call c;
  CHECK(codes(c({c.in()}).diagnostics()) == Codes{"A0501"});
  CHECK(codes(c({{"x", 3.0}, c.out()}).diagnostics()) == Codes{"A0504"});
  CHECK(codes(c({c.in(), c.out(), {"H", 8.0}}).diagnostics()) == Codes{"A0504"});
  CHECK(codes(c({c.in(), c.out(), {"n", 8.0}}).diagnostics()) == Codes{"A0504"});
  CHECK(codes(c({c.in(), c.out(), {"scale", true}}).diagnostics()) == Codes{"A0504"});
  CHECK(c({c.in(), c.out(), {"scale", 2}}).ok());
}

TEST_CASE("a dim has one value") {
  Call c;
  c.y = filled<float>({8, 6}, 0);
  const auto binding = c({c.in(), c.out()});
  REQUIRE(codes(binding.diagnostics()) == Codes{"A0508"});
  const Diagnostic& found = binding.diagnostics()[0];
  CHECK(found.tensor == "y");
  CHECK(found.axis == "1");
  CHECK(found.expected == "N = 5");
  CHECK(found.found == "6");
  CHECK(codes(c({c.in(), {"N", 4}, {"H", 2}}, false).diagnostics()) == Codes{"A0508"});
}

TEST_CASE("scalars as tensors of one element") {
  Call c;
  Data<float> scale{{1}, {2.5f}}, two{{2}, {1, 2}};
  Data<std::int64_t> n{{}, {7}};
  const auto binding = c({c.in(), c.out(), {"scale", scale.ref(DType::f32)}});
  REQUIRE(binding.ok());
  CHECK(std::get<double>(binding->scalars.at(c.b.sym("scale"))) == 2.5);
  CHECK(codes(c({c.in(), c.out(), {"scale", two.ref(DType::f32)}}).diagnostics()) == Codes{"A0504"});
  CHECK(codes(c({c.in(), c.out(), {"n", n.ref(DType::i64)}}).diagnostics()) == Codes{"A0505"});
}

TEST_CASE("values that a scalar cannot hold") {
  Call c;
  CHECK(codes(c({c.in(), c.out(), {"scale", 1e39}}).diagnostics()) == Codes{"A0514"});
  CHECK(c({c.in(), c.out(), {"scale", INFINITY}}).ok());
  CHECK(codes(c({c.in(), c.out(), {"n", std::int64_t{1} << 31}}).diagnostics()) == Codes{"A0514"});
  CHECK(c({c.in(), c.out(), {"n", -5}}).ok());
}

TEST_CASE("dims from scaled and shifted axes; other extents are checked") {
  Build b;
  b.tensor("x", DType::f32, {integer(2) * b.d("D")});
  b.tensor("p", DType::f32, {b.d("R") - integer(1)});
  b.tensor("z", DType::f32, {b.d("D") * b.d("R"), integer(3)});
  b.define("y", b.ranges("i D"), b.at("x", "i") + b.at("p", {integer(0)}) + b.at("z", {integer(0), integer(0)}));
  b.result("y", DType::f32);
  Data<float> x = filled<float>({8}, 0), odd = filled<float>({7}, 0), p = filled<float>({4}, 0),
              z = filled<float>({20, 3}, 0), bad = filled<float>({19, 4}, 0);
  const auto run = [&](Data<float>& a, Data<float>& c) {
    return attune::bind(b.program, {{"x", a.ref(DType::f32)}, {"p", p.ref(DType::f32)}, {"z", c.ref(DType::f32)}},
                        false);
  };
  const auto good = run(x, z);
  REQUIRE(good.ok());
  CHECK(good->dims.at(b.sym("D")) == 4);
  CHECK(good->dims.at(b.sym("R")) == 5);
  CHECK(codes(run(odd, z).diagnostics()) == Codes{"A0507"});
  const auto wrong = run(x, bad);
  REQUIRE(codes(wrong.diagnostics()) == Codes{"A0507", "A0507"});
  CHECK(wrong.diagnostics()[0].found == "19");
  CHECK(wrong.diagnostics()[1].axis == "1");
}

TEST_CASE("written ranges lie within the axes") {
  Build b;
  b.tensor("x", DType::f32, "D");
  b.tensor("u", DType::f32, "E");
  b.define("y", {}, b.reduce(ReduceOp::sum, b.ranges("e E"), b.at("x", "e") * b.at("u", "e")));
  b.result("y", DType::f32);
  b.program.range_checks.push_back({integer(0), b.d("E"), b.sym("x"), 0, b.d("D"), {}});
  Data<float> x = filled<float>({4}, 0), u = filled<float>({5}, 0), small = filled<float>({3}, 0);
  const auto bad = attune::bind(b.program, {{"x", x.ref(DType::f32)}, {"u", u.ref(DType::f32)}}, false);
  REQUIRE(codes(bad.diagnostics()) == Codes{"A0513"});
  CHECK(bad.diagnostics()[0].tensor == "x");
  CHECK(attune::bind(b.program, {{"x", x.ref(DType::f32)}, {"u", small.ref(DType::f32)}}, false).ok());
}

TEST_CASE("sizes and views that cannot be") {
  Call c;
  float one = 0;
  const auto view = [&](std::vector<std::int64_t> shape, std::vector<std::int64_t> strides, void* data) {
    return Argument("x", TensorRef(data, DType::f32, std::move(shape), std::move(strides)));
  };
  CHECK(codes(c({view({2, std::int64_t{1} << 31}, {0, 0}, &one), c.out()}).diagnostics()) == Codes{"A0510"});
  CHECK(codes(c({view({2, -1}, {0, 0}, &one), c.out()}).diagnostics()) == Codes{"A0510"});
  CHECK(codes(c({view({2, 5}, {5}, &one), c.out()}).diagnostics()) == Codes{"A0519"});
  CHECK(codes(c({view({2, 5}, {0, 0}, nullptr), c.out()}).diagnostics()) == Codes{"A0519"});
  CHECK(c({view({2, 5}, {0, 0}, &one), c.out()}).ok());
}

TEST_CASE("results alias nothing") {
  Call c;
  std::vector<float> memory(400);
  const auto view = [&](const char* name, std::int64_t at, std::vector<std::int64_t> shape,
                        std::vector<std::int64_t> strides) {
    return Argument(name, TensorRef(static_cast<void*>(memory.data() + at), DType::f32, shape, strides));
  };
  CHECK(codes(c({view("x", 0, {2, 5}, {5, 1}), view("y", 9, {8, 5}, {5, 1})}).diagnostics()) == Codes{"A0518"});
  CHECK(c({view("x", 0, {2, 5}, {5, 1}), view("y", 10, {8, 5}, {5, 1})}).ok());
  // Interleaved: x in the odd elements, y in the even ones.
  CHECK(c({view("x", 1, {2, 5}, {10, 2}), view("y", 0, {8, 5}, {10, 2})}).ok());
  CHECK(codes(c({view("x", 2, {2, 5}, {10, 2}), view("y", 0, {8, 5}, {10, 2})}).diagnostics()) == Codes{"A0518"});
  // Heads of one packed row: x is the last slot of each.
  CHECK(c({view("x", 5, {2, 5}, {10, 1}), view("y", 0, {8, 5}, {10, 1})}).ok());
  CHECK(codes(c({view("x", 4, {2, 5}, {10, 1}), view("y", 0, {8, 5}, {10, 1})}).diagnostics()) == Codes{"A0518"});
  CHECK(codes(c({c.in(), view("y", 0, {8, 5}, {0, 1})}).diagnostics()) == Codes{"A0517"});
  CHECK(codes(c({c.in(), view("y", 0, {8, 5}, {1, 1})}).diagnostics()) == Codes{"A0517"});
  CHECK(c({c.in(), view("y", 300, {8, 5}, {-5, 1})}).ok());
}

TEST_CASE("type variables from tensors") {
  Build b;
  const Sym variable = Sym::fresh("T");
  b.program.type_variables.push_back(variable);
  b.tensor("x", DType::f32, "N");
  b.tensor("z", DType::f32, "N");
  b.program.tensors[0].type.var = b.program.tensors[1].type.var = variable;
  b.define("y", b.ranges("i N"), b.at("x", "i") + b.at("z", "i"));
  b.result("y", DType::f32);
  Data<std::uint16_t> x = filled<std::uint16_t>({3}, 0);
  const Argument first("x", x.ref(DType::f16));
  const auto types = infer_types(b.program, {first, {"z", x.ref(DType::f16)}});
  REQUIRE(types.ok());
  CHECK(types->at("T") == DType::f16);
  CHECK(codes(infer_types(b.program, {first, {"z", x.ref(DType::bf16)}}).diagnostics()) == Codes{"A0515"});
  CHECK(codes(infer_types(b.program, {{"x", x.ref(DType::u8)}}).diagnostics()) == Codes{"A0515"});
  CHECK(codes(infer_types(b.program, {first}, {{"T", DType::f32}}).diagnostics()) == Codes{"A0515"});
  CHECK(codes(infer_types(b.program, {first}, {{"U", DType::f32}}).diagnostics()) == Codes{"A0502"});
  CHECK(codes(infer_types(b.program, {}).diagnostics()) == Codes{"A0501", "A0501"});
}
