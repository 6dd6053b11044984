// SPDX-License-Identifier: Apache-2.0
// Compiles one vector function into a loop over arrays, for every target and width that this machine can run.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/cpu.hpp"
#include "backend/cpu/math.hpp"

namespace attune::cpu::test {

/// Emits the function of x (and y, the second operand) and gives its result.
using Body = std::function<std::string(Writer& w, const std::string& x, const std::string& y, int width,
                                       const CpuTarget& target)>;

/// A module with one nest whose run() applies `body` to arrays: run(in, count, out); a second operand follows the
/// first.
inline std::string array_module(const Body& body, const std::string& from, const std::string& to, int width,
                                const CpuTarget& target) {
  Writer w;
  w.block("entry");
  w.line("br label %loop");
  w.block("loop");
  w.line("%i = phi i64 [ 0, %entry ], [ %next, %loop ]");
  w.line("%second = add i64 %i, %count");
  std::string in = vector_type(from, width), out = vector_type(to, width);
  auto load = [&](const std::string& at) {
    return w.def("load " + in + ", ptr " + w.def("getelementptr " + from + ", ptr %in, i64 " + at) + ", align 1");
  };
  std::string x = load("%i"), y = load("%second");
  std::string result = body(w, x, y, width, target);
  w.line("store " + out + " " + result + ", ptr " + w.def("getelementptr " + to + ", ptr %out, i64 %i") + ", align 1");
  w.line("%next = add i64 %i, " + std::to_string(width));
  w.line("br i1 " + w.def("icmp slt i64 %next, %count") + ", label %loop, label %done");
  w.block("done");
  w.line("ret void");
  return math_declarations(width, target) + "define i64 @nest0_tasks(ptr %frame) #0 {\n  ret i64 1\n}\n" +
         "define i64 @nest0_scratch(ptr %frame) #0 {\n  ret i64 0\n}\n" +
         "define void @nest0_run(ptr %in, i64 %count, ptr %out) #0 {\n" + w.text() + "}\nattributes #0 = { " +
         function_attributes(target) + " }\n";
}

inline CpuTarget named(Isa isa, std::string name, std::string features, bool f16c) {
  CpuTarget t;
  t.isa = isa;
  t.name = std::move(name);
  t.features = std::move(features);
  t.vector_lanes = isa == Isa::avx512 ? 16 : isa == Isa::avx2 ? 8 : 4;
  t.vector_registers = isa == Isa::avx512 ? 32 : 16;
  t.f16c = f16c;
  return t;
}

/// Targets whose code this machine runs.
inline std::vector<CpuTarget> runnable() {
  std::vector<CpuTarget> targets = {named(Isa::generic, "x86-64", "+sse2", false)};
  if (host().isa >= Isa::avx2) {
    targets.push_back(named(Isa::avx2, "x86-64-v3", "+avx2,+fma,-f16c", false));
    targets.push_back(host());
  }
  return targets;
}

/// Targets whose code is compiled everywhere, whatever runs.
inline std::vector<CpuTarget> compilable() {
  std::vector<CpuTarget> targets = runnable();
  targets.push_back(named(Isa::avx2, "haswell", "+avx2,+fma,+f16c", true));
  targets.push_back(named(Isa::avx512, "skylake-avx512", "+avx512f,+avx512bw,+avx512dq,+avx512vl,+fma,+f16c", true));
  targets.push_back(
      named(Isa::avx512, "znver5", "+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512bf16,+fma,+f16c", true));
  return targets;
}

inline const std::vector<int>& widths() {
  static const std::vector<int> all = {1, 4, 8, 16};
  return all;
}

/// The same function as callable code. Throws Error with LLVM's words.
template <class In, class Out>
class ArrayFunction {
 public:
  ArrayFunction(const Body& body, const std::string& from, const std::string& to, int width, const CpuTarget& target)
      : width_(width) {
    code_ = load(compile(array_module(body, from, to, width, target), target).value(), 1).value();
  }
  /// y may be empty for functions of one operand.
  std::vector<Out> operator()(std::vector<In> x, std::vector<In> y = {}) const {
    const std::size_t count = x.size();
    const std::size_t padded = (count + static_cast<std::size_t>(width_) - 1) / static_cast<std::size_t>(width_) *
                               static_cast<std::size_t>(width_);
    x.resize(padded);
    y.resize(padded);
    x.insert(x.end(), y.begin(), y.end());
    std::vector<Out> out(padded);
    code_->nests[0].run(reinterpret_cast<const Frame*>(x.data()), static_cast<std::int64_t>(padded), out.data());
    out.resize(count);
    return out;
  }

 private:
  std::shared_ptr<Loaded> code_;
  int width_;
};

inline float from_bits(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// Numbers that every function has to survive.
inline std::vector<float> special_values() {
  const float inf = std::numeric_limits<float>::infinity();
  return {0.0F,
          -0.0F,
          inf,
          -inf,
          from_bits(0x7fc00000),
          from_bits(0xffc00000),
          from_bits(0x7fc12345),
          1.0F,
          -1.0F,
          0.5F,
          -0.5F,
          1.5F,
          -1.5F,
          2.0F,
          -2.0F,
          2.5F,
          3.0F,
          -3.0F,
          126.0F,
          -126.0F,
          127.0F,
          -127.0F,
          127.5F,
          127.75F,
          127.99999F,
          128.0F,
          -128.0F,
          129.0F,
          150.0F,
          -150.0F,
          1e4F,
          -1e4F,
          8388607.5F,
          -8388607.5F,
          8388608.0F,
          16777216.0F,
          16777217.0F,
          1e30F,
          -1e30F,
          3.4028235e38F,
          -3.4028235e38F,
          1.17549435e-38F,
          -1.17549435e-38F,
          1e-40F,
          -1e-40F,
          1e-45F};
}

/// `count` numbers from lo to hi, evenly.
inline std::vector<float> sweep(double lo, double hi, int count) {
  std::vector<float> values;
  for (int k = 0; k < count; ++k) values.push_back(static_cast<float>(lo + (hi - lo) * k / (count - 1)));
  return values;
}

/// Numbers of both signs whose magnitudes are spread evenly over the exponents from 2^lo to 2^hi.
inline std::vector<float> magnitudes(double lo, double hi, int count) {
  std::vector<float> values;
  for (int k = 0; k < count; ++k) {
    double m = std::exp2(lo + (hi - lo) * k / (count - 1)) * (1 + 0.37 * ((k * 7919) % 1000) / 1000.0);
    values.push_back(static_cast<float>(k % 2 == 0 ? m : -m));
  }
  return values;
}

inline std::vector<float> joined(std::initializer_list<std::vector<float>> parts) {
  std::vector<float> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// Whether `got` is `want` within a relative or an absolute error; NaN and infinities must agree, and a subnormal may
/// be 0.
inline bool close(float got, long double want, double relative, double absolute) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(static_cast<float>(want)))
    return got == static_cast<float>(want) || (std::isfinite(want) && std::fabs(got) > 3.4e38F);
  if (!std::isfinite(got)) return false;
  long double error = std::fabs(static_cast<long double>(got) - want);
  return error <= relative * std::fabs(want) || error <= absolute || error <= 0x1p-126L;
}

}  // namespace attune::cpu::test
