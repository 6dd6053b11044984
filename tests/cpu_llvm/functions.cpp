// SPDX-License-Identifier: Apache-2.0
// Accuracy and special values of every vector function, against long double libm.
#include <fmt/format.h>

#include <algorithm>

#include "tests/catch.hpp"
#include "tests/cpu_llvm/harness.hpp"

using namespace attune;
using namespace attune::cpu;
using namespace attune::cpu::test;
using tensor::UnaryOp;

namespace {

struct Function {
  std::string name;
  UnaryOp op;
  std::function<long double(long double)> exact;
  double relative, absolute;
  std::vector<float> inputs;  ///< besides the special values
};

constexpr double eps = 0x1p-23;  // bounds are in units of this: 1 is at most 2 ulp

const std::vector<Function>& functions() {
  static const std::vector<Function> all = {
      {"negate", UnaryOp::negate, [](long double x) { return -x; }, 0, 0, magnitudes(-120, 120, 5000)},
      {"abs", UnaryOp::abs, [](long double x) { return std::fabs(x); }, 0, 0, magnitudes(-120, 120, 5000)},
      {"relu", UnaryOp::relu, [](long double x) { return x < 0 ? 0 : x; }, 0, 0, magnitudes(-120, 120, 5000)},
      {"floor", UnaryOp::floor, [](long double x) { return std::floor(x); }, 0, 0,
       joined({sweep(-20, 20, 4001), magnitudes(-30, 40, 5000)})},
      {"ceil", UnaryOp::ceil, [](long double x) { return std::ceil(x); }, 0, 0,
       joined({sweep(-20, 20, 4001), magnitudes(-30, 40, 5000)})},
      {"round", UnaryOp::round, [](long double x) { return std::nearbyint(x); }, 0, 0,
       joined({sweep(-20, 20, 4001), magnitudes(-30, 40, 5000)})},
      {"sqrt", UnaryOp::sqrt, [](long double x) { return std::sqrt(x); }, 0.5 * eps, 0, magnitudes(-120, 120, 20000)},
      {"rsqrt", UnaryOp::rsqrt, [](long double x) { return 1 / std::sqrt(x); }, eps, 0, magnitudes(-120, 120, 20000)},
      {"exp2", UnaryOp::exp2, [](long double x) { return std::exp2(x); }, 1.5 * eps, 0,
       joined({sweep(-130, 130, 200001), magnitudes(-30, 3, 50000)})},
      {"exp", UnaryOp::exp, [](long double x) { return std::exp(x); }, eps, 0,
       joined({sweep(-90, 90, 200001), magnitudes(-30, 3, 50000)})},
      {"log", UnaryOp::log, [](long double x) { return std::log(x); }, eps, 0,
       joined({sweep(0.5, 2, 100001), magnitudes(-140, 127.5, 100000)})},
      {"log2", UnaryOp::log2, [](long double x) { return std::log2(x); }, 1.5 * eps, 0,
       joined({sweep(0.5, 2, 100001), magnitudes(-140, 127.5, 100000)})},
      {"sin", UnaryOp::sin, [](long double x) { return std::sin(x); }, 0, 1.2e-7,
       joined({sweep(-10, 10, 100001), sweep(-1e5, 1e5, 200001)})},
      {"cos", UnaryOp::cos, [](long double x) { return std::cos(x); }, 0, 1.2e-7,
       joined({sweep(-10, 10, 100001), sweep(-1e5, 1e5, 200001)})},
      {"tanh", UnaryOp::tanh, [](long double x) { return std::tanh(x); }, 1.5 * eps, 0,
       joined({sweep(-12, 12, 100001), magnitudes(-30, 8, 50000)})},
      {"sigmoid", UnaryOp::sigmoid, [](long double x) { return 1 / (1 + std::exp(-x)); }, 2 * eps, 0,
       joined({sweep(-90, 90, 100001), magnitudes(-30, 8, 50000)})},
      {"silu", UnaryOp::silu, [](long double x) { return x / (1 + std::exp(-x)); }, 2 * eps,
       1e-36,  // exp(-x) overflows first
       joined({sweep(-80, 90, 100001), magnitudes(-30, 8, 50000)})},
      {"gelu", UnaryOp::gelu, [](long double x) { return x * std::erfc(-x * std::sqrt(0.5L)) / 2; }, 6 * eps, 1e-7,
       joined({sweep(-15, 20, 100001), magnitudes(-30, 8, 50000)})},
      {"erf", UnaryOp::erf, [](long double x) { return std::erf(x); }, 2 * eps, 0,
       joined({sweep(-6, 6, 100001), magnitudes(-30, 8, 50000)})},
      {"softplus", UnaryOp::softplus,
       [](long double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }, 2 * eps, 0,
       joined({sweep(-80, 90, 100001), magnitudes(-30, 8, 50000)})},
  };
  return all;
}

Body body_of(UnaryOp op) {
  return [op](Writer& w, const std::string& x, const std::string&, int width, const CpuTarget& target) {
    return emit_unary(w, op, x, width, target);
  };
}

const Body power = [](Writer& w, const std::string& x, const std::string& y, int width, const CpuTarget& target) {
  return emit_pow(w, x, y, width, target);
};

std::string where(const std::string& name, int width, const CpuTarget& target) {
  return fmt::format("{}, width {}, {}", name, width, target.name);
}

}  // namespace

TEST_CASE("unary functions keep their error bounds", "[math]") {
  for (const Function& function : functions()) {
    std::vector<float> inputs = function.inputs;
    // Far beyond the range of the reduction only "a value in [-1, 1]" is promised.
    for (float x : special_values())
      if (!(function.op == UnaryOp::sin || function.op == UnaryOp::cos) || !(std::fabs(x) > 1e5F) || std::isinf(x))
        inputs.push_back(x);
    std::vector<long double> exact;
    for (float x : inputs) exact.push_back(function.exact(x));
    for (const CpuTarget& target : runnable()) {
      // Without FMA each step of a polynomial rounds twice.
      double relative = target.isa == Isa::generic ? function.relative * 1.5 : function.relative;
      double absolute = target.isa == Isa::generic ? function.absolute * 1.5 : function.absolute;
      for (int width : widths()) {
        INFO(where(function.name, width, target));
        ArrayFunction<float, float> run(body_of(function.op), "float", "float", width, target);
        std::vector<float> got = run(inputs);
        double worst = 0;
        std::size_t bad = inputs.size();
        for (std::size_t k = 0; k < inputs.size(); ++k) {
          if (!close(got[k], exact[k], relative, absolute) && bad == inputs.size()) bad = k;
          if (std::isfinite(static_cast<float>(exact[k])) && std::fabs(exact[k]) > 0x1p-120L)
            worst = std::max(worst, static_cast<double>(std::fabs((got[k] - exact[k]) / exact[k])) / eps);
        }
        INFO("worst relative error " << worst << " * 2^-23");
        CHECK(bad == inputs.size());
        if (bad < inputs.size())
          FAIL_CHECK(fmt::format("x = {} ({:a}): got {} ({:08x}), want {}", inputs[bad], inputs[bad], got[bad],
                                 bits_of(got[bad]), static_cast<double>(exact[bad])));
      }
    }
  }
}

TEST_CASE("zeros keep their sign", "[math]") {
  for (const CpuTarget& target : runnable())
    for (int width : widths())
      for (UnaryOp op :
           {UnaryOp::floor, UnaryOp::ceil, UnaryOp::round, UnaryOp::sqrt, UnaryOp::sin, UnaryOp::tanh, UnaryOp::erf}) {
        INFO(where(std::to_string(static_cast<int>(op)), width, target));
        ArrayFunction<float, float> run(body_of(op), "float", "float", width, target);
        std::vector<float> got = run({0.0F, -0.0F, -0.25F});
        CHECK(bits_of(got[0]) == 0U);
        CHECK(bits_of(got[1]) == 0x80000000U);
        if (op == UnaryOp::ceil || op == UnaryOp::round) CHECK(bits_of(got[2]) == 0x80000000U);
      }
}

TEST_CASE("exp2 is exact at whole numbers and at its ends", "[math]") {
  const float inf = std::numeric_limits<float>::infinity();
  for (const CpuTarget& target : runnable())
    for (int width : widths()) {
      INFO(where("exp2", width, target));
      ArrayFunction<float, float> run(body_of(UnaryOp::exp2), "float", "float", width, target);
      std::vector<float> whole;
      for (int n = -126; n <= 127; ++n) whole.push_back(static_cast<float>(n));
      std::vector<float> got = run(whole);
      for (std::size_t k = 0; k < whole.size(); ++k) CHECK(got[k] == std::exp2(whole[k]));
      for (float zero : run({-127.0F, -127.5F, -128.0F, -200.0F, -1e30F, -3.4e38F, -inf})) CHECK(bits_of(zero) == 0U);
      for (float infinite : run({128.0F, 128.5F, 1000.0F, 1e30F, 3.4e38F, inf})) CHECK(infinite == inf);
      for (float nan : run({from_bits(0x7fc00000), from_bits(0xffc00000), from_bits(0x7fffffff), from_bits(0x7fc00001),
                            from_bits(0xffc00081)}))
        CHECK(std::isnan(nan));
      // Just below overflow the result is large and finite.
      got = run({127.5F, 127.99999F});
      CHECK(got[0] == Approx(2.4061597e38F).epsilon(1e-6));
      CHECK(std::isfinite(got[1]));
    }
}

TEST_CASE("exp keeps NaN payloads NaN and its ends exact", "[math]") {
  const float inf = std::numeric_limits<float>::infinity();
  for (const CpuTarget& target : runnable()) {
    ArrayFunction<float, float> run(body_of(UnaryOp::exp), "float", "float", 4, target);
    for (float nan : run({from_bits(0x7fc00001), from_bits(0x7fc00081), from_bits(0xffffffff)})) CHECK(std::isnan(nan));
    for (float zero : run({-88.1F, -1e30F, -inf})) CHECK(bits_of(zero) == 0U);
    std::vector<float> got = run({0.0F, 88.72283F, 88.72284F, 1e30F, inf});
    CHECK(got[0] == 1.0F);
    CHECK(std::isfinite(got[1]));
    CHECK(got[2] == inf);
    CHECK(got[3] == inf);
    CHECK(got[4] == inf);
  }
}

TEST_CASE("large angles stay within [-1, 1]", "[math]") {
  std::vector<float> far = magnitudes(17, 127.5, 20000);
  for (const CpuTarget& target : runnable())
    for (UnaryOp op : {UnaryOp::sin, UnaryOp::cos}) {
      ArrayFunction<float, float> run(body_of(op), "float", "float", 8, target);
      for (float value : run(far)) {
        if (!(std::fabs(value) <= 1.0F)) FAIL_CHECK(target.name << ": " << value);
      }
      if (target.isa == Isa::generic) continue;
      // With FMA the reduction holds for positions up to a million.
      std::vector<float> angles = sweep(1e5, 1e6, 100001);
      std::vector<float> got = run(angles);
      double worst = 0;
      for (std::size_t k = 0; k < angles.size(); ++k) {
        long double x = angles[k];
        long double want = op == UnaryOp::sin ? std::sin(x) : std::cos(x);
        worst = std::max(worst, static_cast<double>(std::fabs(got[k] - want)));
      }
      CHECK(worst < 1.5e-7);
    }
}

TEST_CASE("pow", "[math]") {
  std::vector<float> bases, exponents;
  auto add = [&](float x, float y) {
    bases.push_back(x);
    exponents.push_back(y);
  };
  for (float x : special_values())
    for (float y : special_values()) add(x, y);
  for (float x : magnitudes(-20, 20, 500))
    for (float y : sweep(-6, 6, 97)) add(x, y);
  for (float x : sweep(0.9, 1.1, 301))
    for (float y : magnitudes(-3, 11, 101)) add(x, y);
  for (const CpuTarget& target : runnable())
    for (int width : widths()) {
      INFO(where("pow", width, target));
      ArrayFunction<float, float> run(power, "float", "float", width, target);
      std::vector<float> got = run(bases, exponents);
      int bad = 0;
      for (std::size_t k = 0; k < bases.size(); ++k) {
        long double want = std::pow(static_cast<long double>(bases[k]), static_cast<long double>(exponents[k]));
        if (close(got[k], want, 1.5 * eps, 0) && (std::isnan(want) || std::signbit(got[k]) == std::signbit(want)))
          continue;
        if (++bad < 4)
          FAIL_CHECK(
              fmt::format("{} ^ {}: got {}, want {}", bases[k], exponents[k], got[k], static_cast<double>(want)));
      }
      CHECK(bad == 0);
    }
}

TEST_CASE("max and min", "[math]") {
  std::vector<float> a, b;
  for (float x : special_values())
    for (float y : special_values()) {
      a.push_back(x);
      b.push_back(y);
    }
  for (const CpuTarget& target : runnable())
    for (int width : widths())
      for (bool larger : {true, false})
        for (bool propagate : {true, false}) {
          INFO(where(larger ? "max" : "min", width, target));
          ArrayFunction<float, float> run(
              [=](Writer& w, const std::string& x, const std::string& y, int n, const CpuTarget&) {
                return larger ? emit_max(w, x, y, n, propagate) : emit_min(w, x, y, n, propagate);
              },
              "float", "float", width, target);
          std::vector<float> got = run(a, b);
          int bad = 0;
          for (std::size_t k = 0; k < a.size(); ++k) {
            bool nan = std::isnan(a[k]) || std::isnan(b[k]);
            if (nan && propagate) bad += !std::isnan(got[k]);
            if (!nan) bad += got[k] != (larger ? std::max(a[k], b[k]) : std::min(a[k], b[k]));
          }
          CHECK(bad == 0);
        }
}

TEST_CASE("no function becomes a call, on any target", "[math]") {
  for (const CpuTarget& target : compilable())
    for (int width : widths()) {
      auto check = [&](const std::string& name, const Body& body) {
        INFO(where(name, width, target));
        Result<std::string> text = assembly(array_module(body, "float", "float", width, target), target);
        if (!text) FAIL(render(text.diagnostics()));
        CHECK(text->find("\tcall") == std::string::npos);
        // The largest vector of the target is used, not split.
        if (target.isa == Isa::avx512 && width == 16) CHECK(text->find("%zmm") != std::string::npos);
        if (target.isa == Isa::avx2 && width == 8) CHECK(text->find("%ymm") != std::string::npos);
      };
      for (const Function& function : functions()) check(function.name, body_of(function.op));
      check("pow", power);
    }
}
