// SPDX-License-Identifier: Apache-2.0
// Conversions of narrow floats, exhaustively, against arithmetic in double that shares nothing with the emitted code.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>

#include "tests/catch.hpp"
#include "tests/cpu_llvm/harness.hpp"

using namespace attune;
using namespace attune::cpu;
using namespace attune::cpu::test;

namespace {

struct Format {
  DType dtype;
  int exponent, mantissa;
  bool infinite;
  int bits() const { return 1 + exponent + mantissa; }
  int bias() const { return (1 << (exponent - 1)) - 1; }
};

const Format formats[] = {
    {DType::f16, 5, 10, true}, {DType::bf16, 8, 7, true}, {DType::f8e4m3, 4, 3, false}, {DType::f8e5m2, 5, 2, true}};

/// The value of a bit pattern, from the definition of the format.
double value_of(const Format& f, std::uint32_t pattern) {
  std::uint32_t magnitude = pattern & ((1U << (f.bits() - 1)) - 1);
  int e = static_cast<int>(magnitude >> f.mantissa);
  int m = static_cast<int>(magnitude & ((1U << f.mantissa) - 1));
  double sign = (pattern >> (f.bits() - 1)) != 0 ? -1 : 1;
  if (f.infinite && e == (1 << f.exponent) - 1)
    return m == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  if (!f.infinite && magnitude == (1U << (f.bits() - 1)) - 1) return std::numeric_limits<double>::quiet_NaN();
  if (e == 0) return sign * std::ldexp(m, 1 - f.bias() - f.mantissa);
  return sign * std::ldexp((1 << f.mantissa) + m, e - f.bias() - f.mantissa);
}

/// The pattern nearest to a number, ties to the even pattern: by search among the ordered finite values.
class Rounder {
 public:
  explicit Rounder(const Format& f) : f_(f) {
    for (std::uint32_t p = 0; p < 1U << (f.bits() - 1); ++p) {
      double value = value_of(f, p);
      if (std::isfinite(value)) values_.push_back(value);
    }
  }
  std::uint32_t operator()(float x) const {  // not for NaN
    std::uint32_t sign = std::signbit(x) ? 1U << (f_.bits() - 1) : 0;
    double a = std::fabs(static_cast<double>(x));
    std::uint32_t last = static_cast<std::uint32_t>(values_.size() - 1);
    if (a >= values_.back()) {
      if (!f_.infinite) return sign | last;
      // As if the next value of the format existed: halfway to it and beyond is infinity.
      double half = (values_[last] - values_[last - 1]) / 2;
      return sign | (a >= values_.back() + half ? last + 1 : last);
    }
    auto above = static_cast<std::uint32_t>(std::upper_bound(values_.begin(), values_.end(), a) - values_.begin());
    double up = values_[above] - a, down = a - values_[above - 1];
    if (up == down) return sign | (above % 2 == 0 ? above : above - 1);
    return sign | (up < down ? above : above - 1);
  }

 private:
  Format f_;
  std::vector<double> values_;
};

Body widen(DType dtype) {
  return [dtype](Writer& w, const std::string& x, const std::string&, int width, const CpuTarget& target) {
    return emit_to_f32(w, dtype, x, width, target);
  };
}

Body narrow(DType dtype) {
  return [dtype](Writer& w, const std::string& x, const std::string&, int width, const CpuTarget& target) {
    return emit_from_f32(w, dtype, x, width, target);
  };
}

template <class Bits>
void check_widen(const Format& f, int width, const CpuTarget& target) {
  std::vector<Bits> patterns;
  for (std::uint32_t p = 0; p < 1U << f.bits(); ++p) patterns.push_back(static_cast<Bits>(p));
  ArrayFunction<Bits, float> run(widen(f.dtype), fmt::format("i{}", f.bits()), "float", width, target);
  std::vector<float> got = run(patterns);
  int bad = 0;
  for (std::uint32_t p = 0; p < 1U << f.bits(); ++p) {
    double want = value_of(f, p);
    bool right = std::isnan(want) ? std::isnan(got[p]) : bits_of(got[p]) == bits_of(static_cast<float>(want));
    if (!right && ++bad < 4) FAIL_CHECK(fmt::format("{:x}: got {}, want {}", p, got[p], want));
  }
  CHECK(bad == 0);
}

/// Every value of the format, every midpoint, the neighbours of both, random numbers and the special ones.
std::vector<float> hard_inputs(const Format& f) {
  std::vector<float> inputs = special_values();
  const float inf = std::numeric_limits<float>::infinity();
  for (std::uint32_t p = 0; p < 1U << f.bits(); ++p) {
    double a = value_of(f, p), b = value_of(f, p + 1);
    for (double x : {a, (a + b) / 2}) {
      if (!std::isfinite(x)) continue;
      auto y = static_cast<float>(x);
      for (float z : {y, std::nextafter(y, inf), std::nextafter(y, -inf)}) inputs.push_back(z);
    }
  }
  for (double x :
       {448.0, 464.0, 465.0, 480.0, 500.0, 57344.0, 61439.99, 61440.0, 65504.0, 65519.99, 65520.0, 65536.0, 1e6})
    for (double sign : {1.0, -1.0}) inputs.push_back(static_cast<float>(sign * x));
  std::mt19937 random(7);
  for (int k = 0; k < 100000; ++k) inputs.push_back(from_bits(random()));
  return inputs;
}

template <class Bits>
void check_narrow(const Format& f, const std::vector<float>& inputs, const std::vector<std::uint32_t>& want, int width,
                  const CpuTarget& target) {
  ArrayFunction<float, Bits> run(narrow(f.dtype), "float", fmt::format("i{}", f.bits()), width, target);
  std::vector<Bits> got = run(inputs);
  int bad = 0;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    bool right = std::isnan(inputs[k]) ? std::isnan(value_of(f, got[k])) : got[k] == want[k];
    if (!right && ++bad < 4)
      FAIL_CHECK(fmt::format("{} ({:08x}): got {:x}, want {:x}", inputs[k], bits_of(inputs[k]), got[k], want[k]));
  }
  CHECK(bad == 0);
}

}  // namespace

TEST_CASE("every stored value is read as what it is", "[convert]") {
  for (const Format& f : formats)
    for (const CpuTarget& target : runnable())
      for (int width : widths()) {
        INFO(fmt::format("{}, width {}, {}", name(f.dtype), width, target.name));
        if (f.bits() == 8)
          check_widen<std::uint8_t>(f, width, target);
        else
          check_widen<std::uint16_t>(f, width, target);
      }
}

TEST_CASE("storing rounds to the nearest, ties to even", "[convert]") {
  for (const Format& f : formats) {
    const std::vector<float> inputs = hard_inputs(f);
    const Rounder nearest(f);
    std::vector<std::uint32_t> want;
    for (float x : inputs) want.push_back(std::isnan(x) ? 0 : nearest(x));
    for (const CpuTarget& target : runnable())
      for (int width : widths()) {
        INFO(fmt::format("{}, width {}, {}", name(f.dtype), width, target.name));
        if (f.bits() == 8)
          check_narrow<std::uint8_t>(f, inputs, want, width, target);
        else
          check_narrow<std::uint16_t>(f, inputs, want, width, target);
      }
  }
}

TEST_CASE("no conversion becomes a call, on any target", "[convert]") {
  for (const CpuTarget& target : compilable())
    for (int width : widths())
      for (const Format& f : formats) {
        INFO(fmt::format("{}, width {}, {}", name(f.dtype), width, target.name));
        std::string stored = fmt::format("i{}", f.bits());
        Result<std::string> in = assembly(array_module(widen(f.dtype), stored, "float", width, target), target);
        Result<std::string> out = assembly(array_module(narrow(f.dtype), "float", stored, width, target), target);
        CHECK(in.value().find("\tcall") == std::string::npos);
        CHECK(out.value().find("\tcall") == std::string::npos);
      }
}

namespace {

/// Philox4x32-10 in plain C++, from the paper.
float philox(std::uint64_t seed, std::vector<std::int64_t> coordinates) {
  std::uint32_t c[4] = {0, 0, 0, 0};
  std::reverse(coordinates.begin(), coordinates.end());
  for (std::size_t k = 0; k < coordinates.size(); ++k) c[k] = static_cast<std::uint32_t>(coordinates[k]);
  std::uint32_t word = c[0] % 4;
  c[0] /= 4;
  auto k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    std::uint64_t p0 = std::uint64_t{0xD2511F53} * c[0], p1 = std::uint64_t{0xCD9E8D57} * c[2];
    std::uint32_t next[4] = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
                             static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
    std::copy(next, next + 4, c);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return static_cast<float>(c[word] >> 8) * 0x1p-24F;
}

}  // namespace

TEST_CASE("random numbers are Philox4x32-10", "[random]") {
  // The paper's known answers: all zero, and all ones with key of ones.
  CHECK(philox(0, {0}) == static_cast<float>(0x6627e8d5U >> 8) * 0x1p-24F);
  CHECK(philox(0, {1}) == static_cast<float>(0xe169c58dU >> 8) * 0x1p-24F);

  std::mt19937_64 random(11);
  std::vector<std::int64_t> seeds, last;
  for (int k = 0; k < 1000; ++k) {
    seeds.push_back(static_cast<std::int64_t>(random()));
    last.push_back(k < 500 ? k : static_cast<std::int64_t>(random()));
  }
  for (const CpuTarget& target : runnable())
    for (int width : widths())
      for (std::size_t count : {1U, 2U, 4U}) {
        INFO(fmt::format("{} coordinates, width {}, {}", count, width, target.name));
        // x: the last coordinate, one per lane; y: the others where more are wanted, one of them per lane.
        auto body = [count](Writer& w, const std::string& x, const std::string& y, int n, const CpuTarget&) {
          std::vector<std::string> coordinates;
          std::vector<bool> vector;
          if (count == 4) {
            coordinates = {"-3", "77", y, x};
            vector = {false, false, true, true};
          } else if (count == 2) {
            coordinates = {y, x};
            vector = {true, true};
          } else {
            coordinates = {x};
            vector = {true};
          }
          return emit_random(w, "81985529216486895", coordinates, vector, n);
        };
        ArrayFunction<std::int64_t, float> run(body, "i64", "float", width, target);
        std::vector<float> got = run(last, seeds);
        int bad = 0;
        for (std::size_t k = 0; k < last.size(); ++k) {
          std::vector<std::int64_t> at = {last[k]};
          if (count == 2) at = {seeds[k], last[k]};
          if (count == 4) at = {-3, 77, seeds[k], last[k]};
          bad += got[k] != philox(81985529216486895ULL, at);
        }
        CHECK(bad == 0);
      }
  // Coordinates without a lane give one number for all lanes.
  ArrayFunction<float, float> uniform(
      [](Writer& w, const std::string&, const std::string&, int n, const CpuTarget&) {
        return emit_random(w, "5", {"6", "7"}, {false, false}, n);
      },
      "float", "float", 8, host());
  for (float value : uniform(std::vector<float>(8))) CHECK(value == philox(5, {6, 7}));
}
