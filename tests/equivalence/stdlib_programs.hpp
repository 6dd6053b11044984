// SPDX-License-Identifier: Apache-2.0
// Every program of the standard library, written with the fluent builder.
#pragma once
#include <attune/builder.hpp>
#include <functional>
#include <map>
#include <string>

/// By name, e.g. built_programs().at("causal")().
using Programs = std::map<std::string, std::function<attune::Program()>>;
const Programs& built_programs();
/// Those that stdlib_variants.cpp holds.
Programs built_variants();

namespace stdlib_parts {

using namespace attune;

inline const TypeVar T{"T"};
inline const Dim B{"B"}, H{"H"}, G{"G"}, M{"M"}, N{"N"}, D{"D"}, E{"E"};
inline const Index b{"b"}, h{"h"}, i{"i"}, j{"j"}, d{"d"}, e{"e"};

/// What nearly all programs share. Functions and definitions are made per program, in the order of the text.
struct Attention {
  Tensor Q{"Q", T, {B, H, M, D}}, K{"K", T, {B, G, N, D}}, V{"V", T, {B, G, N, E}};
  Scalar scale{"scale", f32, 1 / sqrt(D)};
  Function kv{"kv", [](Expr head) { return head / (H / G); }};

  Expr product() const { return scale * sum(d)(Q(b, h, i, d) * K(b, kv(h), j, d)); }
  static Tensor score(const Expr& value) { return define("S", {b, h, i, j}, value); }
  template <class... Parts>
  static Tensor weights(const Tensor& S, const Parts&... parts) {
    return define("P", {b, h, i, j}, softmax(j, parts...)(S(b, h, i, j)));
  }
  Tensor output(const Tensor& P) const {
    return define("O", {b, h, i, e}, sum(j)(P(b, h, i, j) * V(b, kv(h), j, e)), T);
  }
  template <class... Parts>
  static Tensor lse(const Tensor& S, const Parts&... parts) {
    return define("L", {b, h, i}, logsumexp(j, parts...)(S(b, h, i, j)), f32);
  }
};

/// The position of a query row, aligned at the bottom right.
inline Function bottom_right() {
  return {"pos", [](Expr row) { return row + N - M; }};
}

}  // namespace stdlib_parts
