// SPDX-License-Identifier: Apache-2.0
// Tensor IR by hand, and calls of the reference with vectors: what these tests are written with.
#pragma once
#include <attune/kernel.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "backend/binding.hpp"
#include "backend/reference/reference.hpp"
#include "tensor/ir.hpp"
#include "tests/catch.hpp"

namespace attune::test {

using namespace attune::tensor;

inline constexpr float inf = std::numeric_limits<float>::infinity();
inline const float NaN = std::numeric_limits<float>::quiet_NaN();

/// Assembles one program; names are dims, tensors and indices as they come.
struct Build {
  tensor::Program program;
  std::map<std::string, Sym> syms;

  explicit Build(const std::string& name = "test") { program.name = name; }

  Sym sym(const std::string& name) {
    Sym& entry = syms[name];
    if (!entry) entry = Sym::fresh(name);
    return entry;
  }
  Expr d(const std::string& name) {
    const bool known = syms.count(name) != 0;
    const Sym dim_sym = sym(name);
    if (!known) program.dims.push_back(dim_sym);
    return dim(dim_sym);
  }
  Expr i(const std::string& name) { return index(sym(name)); }
  static std::vector<std::string> words(const std::string& text) {
    std::istringstream stream(text);
    std::vector<std::string> list;
    for (std::string word; stream >> word;) list.push_back(word);
    return list;
  }
  void tensor(const std::string& name, DType dtype, std::vector<Expr> shape) {
    program.tensors.push_back({sym(name), {dtype, {}}, std::move(shape), {}});
  }
  /// Extents as dims: "M N".
  void tensor(const std::string& name, DType dtype, const std::string& dims) {
    std::vector<Expr> shape;
    for (const std::string& word : words(dims)) shape.push_back(d(word));
    tensor(name, dtype, std::move(shape));
  }
  Expr scalar(const std::string& name, DType dtype, Expr value = {}) {
    program.scalars.push_back({sym(name), {dtype, {}}, false, std::move(value), {}});
    return Expr(Scalar{sym(name)}, {dtype, {}});
  }
  IndexRange range(const std::string& name, Expr lo, Expr hi) { return {sym(name), std::move(lo), std::move(hi)}; }
  IndexRange range(const std::string& name, const std::string& extent) { return range(name, integer(0), d(extent)); }
  /// "i M j N": i in 0..M, j in 0..N.
  std::vector<IndexRange> ranges(const std::string& text) {
    const std::vector<std::string> list = words(text);
    std::vector<IndexRange> made;
    for (std::size_t k = 0; k + 1 < list.size(); k += 2) made.push_back(range(list[k], list[k + 1]));
    return made;
  }
  void define(const std::string& name, std::vector<IndexRange> indices, Expr body) {
    program.definitions.push_back({sym(name), std::move(indices), std::move(body), {}});
  }
  void result(const std::string& name, DType dtype) {
    const Definition* definition = program.find_definition(sym(name));
    REQUIRE(definition != nullptr);
    std::vector<Expr> shape;
    for (const IndexRange& indices : definition->indices) shape.push_back(indices.hi);
    program.results.push_back({sym(name), {dtype, {}}, shape, {}});
  }
  /// An element, of the type of the tensor or definition.
  Expr at(const std::string& name, std::vector<Expr> subscripts) {
    Type type = type_f32;
    if (const Tensor* parameter = program.find_tensor(sym(name))) type = parameter->type;
    if (const Definition* definition = program.find_definition(sym(name))) type = definition->body->type;
    return Expr(Access{sym(name), std::move(subscripts)}, type);
  }
  /// Subscripts as indices: "i j".
  Expr at(const std::string& name, const std::string& indices) {
    std::vector<Expr> subscripts;
    for (const std::string& word : words(indices)) subscripts.push_back(i(word));
    return at(name, std::move(subscripts));
  }
  Expr reduce(ReduceOp op, std::vector<IndexRange> over, Expr body, Expr guard = {}, Expr extra = {}) {
    Type type = body->type.is_float() ? type_f32 : type_i64;
    if (op == ReduceOp::any || op == ReduceOp::all) type = type_bool;
    if (op == ReduceOp::argmax) type = type_i64;
    if (op == ReduceOp::mean) type = type_f32;
    return Expr(Reduce{op, std::move(over), std::move(guard), std::move(body), std::move(extra)}, type);
  }
  Expr softmax(std::vector<IndexRange> along, Expr body, Expr guard = {}, Expr extra = {}) {
    return Expr(Softmax{std::move(along), std::move(guard), std::move(body), std::move(extra)}, type_f32);
  }
};

inline Expr operator+(const Expr& a, const Expr& b) { return link(LinkOp::add, a, b); }
inline Expr operator-(const Expr& a, const Expr& b) { return link(LinkOp::sub, a, b); }
inline Expr operator*(const Expr& a, const Expr& b) { return link(LinkOp::mul, a, b); }
inline Expr le(const Expr& a, const Expr& b) { return compare(Relation::less_equal, a, b); }
inline Expr lt(const Expr& a, const Expr& b) { return compare(Relation::less, a, b); }
inline Expr both(const Expr& a, const Expr& b) { return link(LinkOp::both, a, b); }
inline Expr either(const Expr& a, const Expr& b) { return link(LinkOp::either, a, b); }

/// Elements with a shape; `stored` is what a TensorRef points at.
template <class T>
struct Data {
  std::vector<std::int64_t> shape;
  std::vector<T> values;
  TensorRef ref(DType dtype) { return TensorRef(static_cast<void*>(values.data()), dtype, shape); }
  std::int64_t count() const {
    std::int64_t n = 1;
    for (const auto extent : shape) n *= extent;
    return n;
  }
};
template <class T = float>
Data<T> filled(std::vector<std::int64_t> shape, T value) {
  Data<T> data{std::move(shape), {}};
  data.values.assign(static_cast<std::size_t>(data.count()) + 1, value);  // never a null pointer
  return data;
}
/// Deterministic numbers in [-1, 1).
inline Data<float> noise(std::vector<std::int64_t> shape, std::uint64_t seed) {
  Data<float> data = filled<float>(std::move(shape), 0.0f);
  std::uint64_t x = seed * 0x9E3779B97F4A7C15ull + 1;
  for (float& value : data.values) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    value = static_cast<float>(static_cast<double>(x >> 11) * 0x1p-52 - 1.0);
  }
  return data;
}

/// Binds and runs; the flag.
inline bool call(const tensor::Program& program, const Arguments& arguments) {
  INFO(tensor::verify(program));
  REQUIRE(tensor::verify(program).empty());
  const auto binding = attune::bind(program, arguments, true);
  INFO(render(binding.diagnostics()));
  REQUIRE(binding.ok());
  const auto outcome = reference::run(program, *binding);
  REQUIRE(outcome.ok());
  return outcome->out_of_range;
}

/// The codes of what is wrong with a call.
inline std::vector<std::string> codes(const Diagnostics& diagnostics) {
  std::vector<std::string> list;
  for (const Diagnostic& diagnostic : diagnostics) list.push_back(diagnostic.code);
  return list;
}

}  // namespace attune::test
