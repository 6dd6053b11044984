// SPDX-License-Identifier: Apache-2.0
// Random calls of any program, on any target, compared with the f64 reference. Outputs are poisoned.
#pragma once
#include <attune/attune.hpp>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "backend/binding.hpp"

namespace attune::test {

struct Case {
  std::map<std::string, std::int64_t> dims;
  std::string text() const {
    std::string out;
    for (const auto& [name, size] : dims) out += name + "=" + std::to_string(size) + " ";
    return out;
  }
};

/// A tensor with memory of its own, laid out with any permutation of axes.
struct Data {
  std::vector<std::uint8_t> memory;
  TensorRef ref;

  Data(DType type, std::vector<std::int64_t> shape) {
    std::int64_t count = 1;
    for (auto extent : shape) count *= extent;
    memory.assign(static_cast<std::size_t>(count) * size_of(type) + 8, 0xff);  // NaN in every float type
    ref = TensorRef(static_cast<void*>(memory.data()), type, std::move(shape));
  }
  void fill_normal(std::mt19937& random) {
    std::normal_distribution<double> normal;
    for (std::int64_t k = 0; k < ref.element_count(); ++k) store_element(ref.data, ref.dtype, k, normal(random));
  }
  template <class F>
  void fill_integers(F&& value) {
    for (std::int64_t k = 0; k < ref.element_count(); ++k) store_integer(ref.data, ref.dtype, k, value(k));
  }
};

/// The last line of the program's output says how many results were compared.
struct Tally {
  std::int64_t compared = 0;
  ~Tally() {
    if (compared) std::printf("%lld results compared\n", static_cast<long long>(compared));
  }
};
inline Tally tally;

struct Difference {
  double error = 0, scale = 0;
  bool special = true;  ///< NaN and infinities agree
};

inline Difference compare(const TensorRef& got, const TensorRef& wanted) {
  Difference out;
  ++tally.compared;
  for (std::int64_t k = 0; k < got.element_count(); ++k) {
    double a = load_element(got.data, got.dtype, k), b = load_element(wanted.data, wanted.dtype, k);
    if (std::isnan(a) != std::isnan(b) || ((std::isinf(a) || std::isinf(b)) && a != b)) out.special = false;
    if (!std::isfinite(a) || !std::isfinite(b)) continue;
    out.error = std::max(out.error, std::abs(a - b));
    out.scale = std::max(out.scale, std::abs(b));
  }
  return out;
}

/// A few units of the storage type relative to the largest value.
inline double tolerance(DType type) {
  switch (type) {
    case DType::f16: return 2e-3;
    case DType::bf16: return 1.6e-2;
    default: return 2e-5;
  }
}

}  // namespace attune::test
