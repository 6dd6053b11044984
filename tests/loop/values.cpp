// SPDX-License-Identifier: Apache-2.0
// Interpreted expressions: absence, Kleene conditions, evaluation by demand and its flag, integers, casts, rand.
#include <array>
#include <cmath>
#include <limits>

#include "tests/catch.hpp"
#include "tests/loop/kernels.hpp"

using namespace hand;

namespace {

/// One expression, stored as an f32 or i64 result with presence: what it gives and whether the flag rises.
struct Probe {
  Sym x = Sym::fresh("x"), t = Sym::fresh("t"), zero = Sym::fresh("zero");
  std::array<float, 3> reals{10, 20, 30};
  std::array<std::int64_t, 3> wholes{2, 7, -1};

  Expr at(std::int64_t k) const { return read(x, {I(k)}); }
  Expr table(Expr k) const { return read(t, {std::move(k)}, DType::i64); }
  Expr nil() const { return scalar(zero, tensor::type_i64); }
  Expr gone() const { return where(T(false), F(1)); }  ///< absent without a flag
  Expr unknown() const { return at(9) < F(0); }        ///< an absent condition, with the flag
  Expr hidden() const { return gone() < F(0); }        ///< an absent condition, without

  struct Found {
    bool present = false, flag = false;
    double value = 0;
  };
  Found operator()(const Expr& expr, bool trusted = false) {
    const Sym y = Sym::fresh("y"), w = Sym::fresh("w"), p = Sym::fresh("p");
    const DType dtype = expr->type.is_float() ? DType::f32 : expr->type.is_integer() ? DType::i64 : DType::boolean;
    loop::Kernel kernel;
    kernel.name = "probe";
    kernel.trusted = trusted;
    kernel.scalars = {zero};
    kernel.scalar_types = {tensor::type_i64};
    kernel.buffers = {buffer(x, DType::f32, {I(3)}, loop::Role::input),
                      buffer(t, DType::i64, {I(3)}, loop::Role::input), buffer(y, dtype, {I(2)}, loop::Role::result),
                      buffer(w, dtype, {I(1)}, loop::Role::temporary),
                      buffer(p, DType::boolean, {I(1)}, loop::Role::temporary)};
    kernel.buffers[3].presence = p;
    loop::Nest make, show;
    make.name = "make";
    make.body = {store(w, {I(0)}, {}, expr)};
    show.name = "show";
    // y[0] is the value or 0; y[1] says whether the temporary kept it as present.
    const Expr one = is_float(dtype) ? F(1) : is_integer(dtype) ? I(1) : T(true);
    const Expr kept = read(w, {I(0)}, dtype);
    const Expr same = is_bool(dtype)
                          ? chain(LinkOp::either, {kept, call(UnaryOp::logical_not, kept)})
                          : chain(LinkOp::either, {kept <= kept, kept > kept, relate(Relation::not_equal, kept, kept)});
    show.body = {store(y, {I(0)}, {}, kept), store(y, {I(1)}, {}, where(same, one))};
    kernel.nests = {make, show};
    std::array<float, 2> real{-1, -1};
    std::array<std::int64_t, 2> whole{-1, -1};
    std::array<std::uint8_t, 2> truth{9, 9};
    void* data = is_float(dtype)     ? static_cast<void*>(real.data())
                 : is_integer(dtype) ? static_cast<void*>(whole.data())
                                     : truth.data();
    Binding binding;
    binding.scalars = {{zero, std::int64_t{0}}};
    binding.tensors = {{x, view(reals.data(), DType::f32, {3})},
                       {t, view(wholes.data(), DType::i64, {3})},
                       {y, view(data, dtype, {2})}};
    const auto outcome = interpreter::run(kernel, binding);
    INFO(error_of(outcome));
    REQUIRE(outcome.ok());
    const auto value = [&](std::size_t k) {
      return is_float(dtype) ? double{real[k]} : is_integer(dtype) ? static_cast<double>(whole[k]) : double(truth[k]);
    };
    return {value(1) == 1.0, outcome->out_of_range, value(0)};
  }
};

void present(const Probe::Found& found, double value, bool flag = false) {
  CHECK(found.present);
  CHECK(found.value == value);
  CHECK(found.flag == flag);
}
void missing(const Probe::Found& found, bool flag) {
  CHECK_FALSE(found.present);
  CHECK(found.value == 0);
  CHECK(found.flag == flag);
}

}  // namespace

TEST_CASE("interpreter: gathers in and out of range", "[loop]") {
  Probe p;
  present(p(p.at(2)), 30);
  missing(p(p.at(3)), true);
  missing(p(p.at(-1)), true);
  missing(p(p.at(std::numeric_limits<std::int64_t>::min())), true);
  present(p(read(p.x, {p.table(I(0))})), 30);
  missing(p(read(p.x, {p.table(I(1))})), true);
  missing(p(read(p.x, {p.table(I(5))})), true);
  missing(p(read(p.x, {where(T(false), I(77))})), false);  // a subscript that is absent raises nothing of its own
}

TEST_CASE("interpreter: absent in sums, products and everything else", "[loop]") {
  Probe p;
  present(p(p.gone() + F(2)), 2);
  present(p(F(2) + p.gone() + F(3)), 5);
  present(p(F(2) - p.gone()), 2);
  present(p(p.gone() - F(2)), -2);
  present(p(where(T(false), I(5)) - I(2)), -2);
  missing(p(p.gone() + p.gone()), false);
  present(p(p.at(9) + F(1)), 1, true);
  missing(p(p.gone() * F(2)), false);
  missing(p(F(2) / p.gone()), false);
  missing(p(chain(LinkOp::max, {F(2), p.gone()})), false);
  missing(p(call(UnaryOp::exp, p.gone())), false);
  missing(p(cast(p.gone(), DType::i64)), false);
  missing(p(p.gone() < F(1)), false);
  missing(p(Expr(tensor::Power{F(2), p.gone()}, tensor::type_f32)), false);
  missing(p(Expr(tensor::Random{I(1), {where(T(false), I(0))}}, tensor::type_f32)), false);
  missing(p(Expr(tensor::Select{p.hidden(), F(1), F(2)}, tensor::type_f32)), false);
}

TEST_CASE("interpreter: no factor beside an absent one, in either order", "[loop]") {
  Probe p;
  missing(p(p.gone() * p.at(9)), false);
  missing(p(p.at(9) * p.gone()), false);
  missing(p(p.at(9) * p.at(8)), true);
  missing(p(p.at(9) * F(2)), true);
  missing(p(F(2) * p.at(1) * p.at(9)), true);
  // A present factor whose evaluation raised the flag does not count either.
  missing(p((p.at(9) + F(1)) * p.gone()), false);
  present(p((p.at(9) + F(1)) * F(3)), 3, true);
}

TEST_CASE("interpreter: only what decides is evaluated", "[loop]") {
  Probe p;
  const auto both = [](Expr a, Expr b) { return chain(LinkOp::both, {a, b}); };
  const auto either = [](Expr a, Expr b) { return chain(LinkOp::either, {a, b}); };
  present(p(both(T(false), p.unknown())), 0);
  present(p(both(p.unknown(), T(false))), 0, true);
  present(p(either(T(true), p.unknown())), 1);
  present(p(either(p.hidden(), T(true))), 1);
  missing(p(both(p.hidden(), T(true))), false);
  missing(p(either(p.hidden(), T(false))), false);
  missing(p(call(UnaryOp::logical_not, p.hidden())), false);
  missing(p(where(p.hidden(), p.at(9))), false);
  missing(p(where(T(false), p.at(9))), false);
  present(p(Expr(tensor::Select{T(true), F(1), p.at(9)}, tensor::type_f32)), 1);
  missing(p(Expr(tensor::Select{T(false), F(1), p.at(9)}, tensor::type_f32)), true);
  const auto between = [](Expr a, Expr b, Expr c) {
    return Expr(tensor::Compare{{Relation::less, Relation::less}, {a, b, c}}, tensor::type_bool);
  };
  present(p(between(F(1), F(0), p.at(9))), 0);
  present(p(between(F(1), F(2), F(3))), 1);
  present(p(between(p.gone(), F(2), F(1))), 0);
  missing(p(between(p.gone(), F(2), F(3))), false);
}

TEST_CASE("interpreter: integers are exact, wrap, and round down", "[loop]") {
  Probe p;
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                         most = std::numeric_limits<std::int64_t>::max();
  const auto mod = [](Expr a, Expr b) { return chain(LinkOp::mod, {a, b}); };
  const std::array<std::array<std::int64_t, 4>, 5> cases{
      {{7, 2, 3, 1}, {-7, 2, -4, 1}, {7, -2, -4, -1}, {-7, -2, 3, -1}, {6, -3, -2, 0}}};
  for (const auto& [a, b, quotient, rest] : cases) {
    present(p(I(a) / I(b)), static_cast<double>(quotient));
    present(p(mod(I(a), I(b))), static_cast<double>(rest));
  }
  present(p(relate(Relation::equal, I(least) / I(-1), I(least))), 1);
  present(p(mod(I(least), I(-1))), 0);
  present(p(relate(Relation::equal, I(most) + I(1), I(least))), 1);
  present(p(relate(Relation::equal, I(most) * I(2), I(-2))), 1);
  present(p(relate(Relation::equal, call(UnaryOp::negate, I(least)), I(least))), 1);
  missing(p(I(1) / p.nil()), true);
  missing(p(mod(I(1), p.nil())), true);
  missing(p(where(T(false), I(1)) / p.nil()), false);
  present(p(Expr(tensor::Power{I(-3), I(3)}, tensor::type_i64)), -27);
  present(p(Expr(tensor::Power{I(5), I(0)}, tensor::type_i64)), 1);
  present(p(relate(Relation::equal, Expr(tensor::Power{I(2), I(64)}, tensor::type_i64), I(0))), 1);
}

TEST_CASE("interpreter: casts", "[loop]") {
  Probe p;
  present(p(cast(F(-2.9), DType::i64)), -2);
  missing(p(cast(F(NAN), DType::i64)), false);
  missing(p(cast(F(1e30), DType::i64)), false);
  present(p(cast(F(-0x1p63), DType::i64)), -0x1p63);
  missing(p(cast(F(0x1p63), DType::i64)), false);
  missing(p(cast(F(256), DType::u8)), false);
  present(p(cast(F(-0.5), DType::u8)), 0);
  present(p(cast(I(300), DType::u8)), 44);
  present(p(cast(I(200), DType::i8)), -56);
  present(p(cast(I((std::int64_t{1} << 32) + 5), DType::i32)), 5);
  present(p(cast(I((std::int64_t{1} << 24) + 1), DType::f32)), 16777216);
  present(p(cast(T(true), DType::f32)), 1);
  present(p(cast(T(true), DType::i64)), 1);
  present(p(cast(F(1.00390625), DType::bf16)), 1);  // half way between two bf16 values: to even
}

TEST_CASE("interpreter: float functions and their special values", "[loop]") {
  Probe p;
  const auto near = [&](UnaryOp op, double x, double value) {
    const auto found = p(call(op, F(x)));
    CHECK(found.present);
    CHECK(found.value == Approx(value).epsilon(1e-7));
  };
  near(UnaryOp::exp, 1, 2.718281828459045);
  near(UnaryOp::exp2, 10, 1024);
  near(UnaryOp::log, 2, 0.6931471805599453);
  near(UnaryOp::log2, 8, 3);
  near(UnaryOp::rsqrt, 4, 0.5);
  near(UnaryOp::sigmoid, -2, 0.11920292202211755);
  near(UnaryOp::silu, 1, 0.7310585786300049);
  near(UnaryOp::gelu, -6, -5.919525870226211e-09);
  near(UnaryOp::gelu, 1, 0.8413447460685429);
  near(UnaryOp::softplus, 100, 100);
  near(UnaryOp::softplus, -20, 2.0611536e-9);
  present(p(call(UnaryOp::round, F(2.5))), 2);
  present(p(call(UnaryOp::round, F(-3.5))), -4);
  present(p(call(UnaryOp::exp, F(-INFINITY))), 0);
  CHECK(std::isnan(p(call(UnaryOp::relu, F(NAN))).value));
  CHECK(std::isnan(p(chain(LinkOp::max, {F(1), F(NAN)})).value));
  CHECK(std::isnan(p(min(F(NAN), F(1))).value));
  // f32 after each operation: 2^24 + 1 is not representable.
  present(p((F(16777216) + F(1)) - F(16777216)), 0);
}

TEST_CASE("interpreter: rand is Philox4x32-10", "[loop]") {
  Probe p;
  // The published known answers: counter and key all zero, and all ones.
  const auto word = [](std::uint32_t bits) { return static_cast<double>(static_cast<float>(bits >> 8) * 0x1p-24f); };
  const std::array<std::uint32_t, 4> zeros{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  for (std::int64_t k = 0; k < 4; ++k)
    present(p(Expr(tensor::Random{I(0), {I(0), I(0), I(k)}}, tensor::type_f32)),
            word(zeros[static_cast<std::size_t>(k)]));
  // Only the low 32 bits of each index count; fewer coordinates are leading zeros.
  const auto draw = [&](std::vector<Expr> at) {
    return p(Expr(tensor::Random{I(42), std::move(at)}, tensor::type_f32)).value;
  };
  CHECK(draw({I(3), I(9)}) == draw({I(3 + (std::int64_t{1} << 32)), I(9)}));
  CHECK(draw({I(0), I(9)}) == draw({I(9)}));
  CHECK(draw({I(3), I(9)}) != draw({I(9), I(3)}));
}
