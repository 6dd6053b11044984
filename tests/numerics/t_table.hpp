// SPDX-License-Identifier: Apache-2.0
// The table of cases in which attention kernels have been wrong: shapes, masks and values that were reported against
// other libraries, each with what has to come out. T1, T2, ... are its rows; the folder's files hold the forward ones.
// Every case runs on every target, results are poisoned with NaN before.
#pragma once
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/numerics/harness.hpp"
#include "tests/numerics/on_device.hpp"

namespace attune::test {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr const char* every_target[] = {"reference", "interpreter", "cpu", "cuda"};
constexpr const char* compiled_targets[] = {"interpreter", "cpu", "cuda"};

inline Engine& table_engine() {
  static Engine engine([] {
    EngineOptions options;
    options.disk_cache = false;
    options.threads = 2;
    return options;
  }());
  return engine;
}

inline bool available(const char* target) {
  static std::map<std::string, bool> known;
  const auto found = known.find(target);
  if (found != known.end()) return found->second;
  CompileOptions options;
  options.target = *Target::parse(target);
  const auto kernel = table_engine().compile(stdlib::program("softmax").value(), options);
  if (!kernel && !is_missing(kernel.diagnostics())) FAIL(render(kernel.diagnostics()));
  return known[target] = kernel.ok();
}

inline Kernel compiled(const Program& program, const char* target) {
  CompileOptions options;
  options.target = *Target::parse(target);
  return table_engine().compile(program, options).value();
}

/// Normal numbers in memory of their own.
inline Data normal(DType type, std::vector<std::int64_t> shape, unsigned seed) {
  Data out(type, std::move(shape));
  std::mt19937 random(seed);
  out.fill_normal(random);
  return out;
}
template <class F>
Data filled(DType type, std::vector<std::int64_t> shape, F&& value) {
  Data out(type, std::move(shape));
  for (std::int64_t k = 0; k < out.ref.element_count(); ++k) {
    if (is_float(type))
      store_element(out.ref.data, type, k, static_cast<double>(value(k)));
    else
      store_integer(out.ref.data, type, k, static_cast<std::int64_t>(value(k)));
  }
  return out;
}
inline double at(const Data& data, std::int64_t k) { return load_element(data.ref.data, data.ref.dtype, k); }

/// The results of a call, in the program's order, in poisoned memory.
inline std::vector<Data> results_of(const Kernel& kernel, const Arguments& inputs) {
  auto shapes = kernel.shapes(inputs);
  if (!shapes) FAIL(render(shapes.diagnostics()));
  std::vector<Data> out;
  out.reserve(shapes->results.size());
  Arguments call = inputs;
  for (const auto& result : shapes->results) {
    out.emplace_back(result.dtype, result.shape);
    call.emplace_back(result.name, out.back().ref);
  }
  auto report = run(kernel, call);
  if (!report) FAIL(render(report.diagnostics()));
  return out;
}
inline std::vector<Data> results_of(const Program& program, const Arguments& inputs, const char* target) {
  return results_of(compiled(program, target), inputs);
}

/// The table's tolerances: f32 relative to the largest value, 16-bit types absolute on normal inputs.
inline void check_equal(const Data& got, const Data& wanted, double at_least = 0) {
  Difference d = compare(got.ref, wanted.ref);
  INFO("error " << d.error << " of " << d.scale);
  CHECK(d.special);
  const double relative = wanted.ref.dtype == DType::f32 ? 1e-5 : tolerance(wanted.ref.dtype);
  CHECK(d.error <= std::max(at_least, relative * std::max(1.0, d.scale)));
}

/// The same call on every target: the reference's results, with which the others agree.
inline std::vector<Data> agree(const Program& program, const Arguments& inputs) {
  std::vector<Data> wanted = results_of(program, inputs, "reference");
  for (const char* target : compiled_targets) {
    if (!available(target)) continue;
    INFO(target);
    std::vector<Data> got = results_of(program, inputs, target);
    for (std::size_t r = 0; r < got.size(); ++r) check_equal(got[r], wanted[r]);
  }
  return wanted;
}

inline Program standard(const char* name) { return stdlib::program(name).value(); }
inline Program parsed(const std::string& text) {
  auto program = Program::parse(text, "t_table");
  if (!program) FAIL(render(program.diagnostics()));
  return program.value();
}

/// Attention with its log-sum-exp over a condition on `i`, `j` and the dims.
inline Program masked(const std::string& condition, const std::string& parameters = "") {
  return parsed("kernel k<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E]" +
                (parameters.empty() ? "" : ", " + parameters) +
                ") -> (O: T[B, H, M, E], L: f32[B, H, M]) {\n"
                "  S[b, h, i, j] = sum[d](Q[b, h, i, d] * K[b, h / (H / G), j, d]) / sqrt(D)\n"
                "  O[b, h, i, e] = sum[j](softmax[j where " +
                condition +
                "](S[b, h, i, j]) * V[b, h / (H / G), j, e])\n"
                "  L[b, h, i] = logsumexp[j where " +
                condition + "](S[b, h, i, j])\n}");
}

/// Q, K and V of a case of the table.
struct Attention {
  Data q, k, v;
  Attention(DType type, std::int64_t b, std::int64_t hq, std::int64_t hkv, std::int64_t m, std::int64_t n,
            std::int64_t d, std::int64_t dv, unsigned seed)
      : q(normal(type, {b, hq, m, d}, seed)),
        k(normal(type, {b, hkv, n, d}, seed + 1)),
        v(normal(type, {b, hkv, n, dv}, seed + 2)) {}
  Arguments arguments() const { return {{"Q", q.ref}, {"K", k.ref}, {"V", v.ref}}; }
  Arguments with(const std::string& name, const Data& data) const {
    Arguments out = arguments();
    out.emplace_back(name, data.ref);
    return out;
  }
  template <class Value>
  Arguments with(const std::string& name, Value value) const {
    Arguments out = arguments();
    out.emplace_back(name, value);
    return out;
  }
};

}  // namespace attune::test
