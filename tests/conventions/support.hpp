// SPDX-License-Identifier: Apache-2.0
// Attention as another library means it, in plain loops and f64, and the programs of docs/conventions.md.
#pragma once
#include <attune/attune.hpp>
#include <attune/conventions.hpp>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "tests/catch.hpp"

namespace attune::test {

inline constexpr float inf = std::numeric_limits<float>::infinity();

struct Sizes {
  std::int64_t b = 1, h = 1, g = 1, m = 1, n = 1, d = 8, e = 4;
};

/// What the other convention says; everything but the sizes has the usual meaning by default.
struct Foreign {
  std::function<double(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j, double product)> score;
  std::function<bool(std::int64_t b, std::int64_t i, std::int64_t j)> visible;
  std::function<std::int64_t(std::int64_t h)> kv_head;
  std::function<double(std::int64_t h)> sink;
};

/// Q [B, H, M, D], K [B, G, N, D] and V [B, G, N, E], contiguous and random.
struct Inputs {
  Sizes s;
  std::vector<float> q, k, v;

  explicit Inputs(Sizes sizes, unsigned seed = 1) : s(sizes) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (auto [list, count] : {std::pair{&q, s.b * s.h * s.m * s.d}, std::pair{&k, s.b * s.g * s.n * s.d},
                               std::pair{&v, s.b * s.g * s.n * s.e}}) {
      list->resize(static_cast<std::size_t>(count));
      for (float& x : *list) x = normal(random);
    }
  }
  TensorRef q_ref() const { return {q.data(), DType::f32, {s.b, s.h, s.m, s.d}}; }
  TensorRef k_ref() const { return {k.data(), DType::f32, {s.b, s.g, s.n, s.d}}; }
  TensorRef v_ref() const { return {v.data(), DType::f32, {s.b, s.g, s.n, s.e}}; }
};

struct Wanted {
  std::vector<double> o, lse;  ///< [B, H, M, E], [B, H, M]
};

/// Empty rows: 0 and -inf.
inline Wanted foreign(const Inputs& in, const Foreign& means) {
  const Sizes& s = in.s;
  Wanted out;
  for (std::int64_t b = 0; b < s.b; ++b)
    for (std::int64_t h = 0; h < s.h; ++h)
      for (std::int64_t i = 0; i < s.m; ++i) {
        const std::int64_t g = means.kv_head ? means.kv_head(h) : h / (s.h / s.g);
        std::vector<double> sums(static_cast<std::size_t>(s.e));
        double total = means.sink ? std::exp(means.sink(h)) : 0;
        for (std::int64_t j = 0; j < s.n; ++j) {
          if (means.visible && !means.visible(b, i, j)) continue;
          double product = 0;
          for (std::int64_t d = 0; d < s.d; ++d)
            product += double{in.q[static_cast<std::size_t>(((b * s.h + h) * s.m + i) * s.d + d)]} *
                       double{in.k[static_cast<std::size_t>(((b * s.g + g) * s.n + j) * s.d + d)]};
          const double weight =
              std::exp(means.score ? means.score(b, h, i, j, product) : product / std::sqrt(static_cast<double>(s.d)));
          total += weight;
          for (std::int64_t e = 0; e < s.e; ++e)
            sums[static_cast<std::size_t>(e)] +=
                weight * double{in.v[static_cast<std::size_t>(((b * s.g + g) * s.n + j) * s.e + e)]};
        }
        for (double sum : sums) out.o.push_back(total == 0 ? 0 : sum / total);
        out.lse.push_back(std::log(total));
      }
  return out;
}

inline void check_near(const std::vector<float>& got, const std::vector<double>& wanted) {
  REQUIRE(got.size() == wanted.size());
  for (std::size_t k = 0; k < got.size(); ++k) {
    INFO("element " << k << ": " << got[k] << ", wanted " << wanted[k]);
    if (std::isinf(wanted[k]))
      CHECK(double{got[k]} == wanted[k]);
    else
      CHECK(std::abs(double{got[k]} - wanted[k]) < 2e-5 * (1 + std::abs(wanted[k])));
  }
}
inline bool near(const std::vector<double>& a, const std::vector<double>& b) {
  double error = 0;
  for (std::size_t k = 0; k < a.size(); ++k) error = std::max(error, std::abs(a[k] - b[k]));
  return error < 1e-3;
}

/// A program of docs/conventions.md by the name of its kernel.
inline Program documented(const std::string& kernel) {
  std::ifstream in(ATTUNE_SOURCE_DIR "/docs/conventions.md");
  std::stringstream page;
  page << in.rdbuf();
  const std::string text = page.str(), open = "```attn\nkernel " + kernel + "<";
  const auto at = text.find(open);
  INFO(kernel);
  REQUIRE(at != std::string::npos);
  const auto begin = at + 8;
  return Program::parse(text.substr(begin, text.find("```", begin) - begin), "conventions.md").value();
}

/// Calls a program with more arguments than Q, K, V and O.
inline std::vector<float> call(const Program& program, const Inputs& in, Arguments more) {
  std::vector<float> o(static_cast<std::size_t>(in.s.b * in.s.h * in.s.m * in.s.e), NAN);
  auto has = [&](const char* name) {
    return std::any_of(more.begin(), more.end(), [&](const Argument& a) { return a.name == name; });
  };
  if (!has("Q")) more.emplace_back("Q", in.q_ref());
  if (!has("K")) more.emplace_back("K", in.k_ref());
  if (!has("V")) more.emplace_back("V", in.v_ref());
  if (!has("O")) more.emplace_back("O", TensorRef(o.data(), DType::f32, {in.s.b, in.s.h, in.s.m, in.s.e}));
  Engine::shared().run(program, more).value();
  return o;
}
inline std::vector<float> call(const char* standard, const Inputs& in, Arguments more = {}) {
  return call(stdlib::program(standard).value(), in, std::move(more));
}

/// The tensors of one batch entry (and of one head, where `axes` is 2), as the short programs of the page have them.
inline Arguments short_views(const Inputs& in, std::vector<float>& o, std::size_t axes) {
  Arguments out;
  o.assign(static_cast<std::size_t>(in.s.b * in.s.h * in.s.m * in.s.e), NAN);
  TensorRef result(o.data(), DType::f32, {in.s.b, in.s.h, in.s.m, in.s.e});
  for (auto [name, ref] :
       {std::pair{"Q", in.q_ref()}, std::pair{"K", in.k_ref()}, std::pair{"V", in.v_ref()}, std::pair{"O", result}}) {
    ref.shape.erase(ref.shape.begin(), ref.shape.end() - static_cast<std::ptrdiff_t>(axes));
    ref.strides.erase(ref.strides.begin(), ref.strides.end() - static_cast<std::ptrdiff_t>(axes));
    out.emplace_back(name, ref);
  }
  return out;
}

}  // namespace attune::test
