// SPDX-License-Identifier: Apache-2.0
// A call, checked: every dim solved, every tensor and scalar bound to a Sym. What all backends run on.
#pragma once
#include <attune/diagnostic.hpp>
#include <attune/kernel.hpp>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <variant>

#include "tensor/ir.hpp"

namespace attune {

using ScalarValue = std::variant<std::int64_t, double, bool>;

/// Inputs and results of one call. Sizes are below 2^31 each; offsets are 64-bit.
struct Binding {
  std::unordered_map<Sym, std::int64_t> dims;
  std::unordered_map<Sym, ScalarValue> scalars;  ///< rounded to the parameter's type (floats to f32 once)
  std::unordered_map<Sym, TensorRef> tensors;    ///< parameters and results
};

/// Dtypes of type variables as the given tensors fix them, by name. A variable that two tensors bind differently, or
/// bound to something that is no float, is an error (with both tensors named).
Result<std::map<std::string, DType>> infer_types(const tensor::Program& program, const Arguments& arguments,
                                                 const std::map<std::string, DType>& given = {});

/// Checks a call against a program whose types are bound: names, dtypes, ranks, extents, exact quotients, written
/// ranges, zero divisors, scalars. Solves dims (language.md rule 5). Every independent error is reported, with
/// tensor, axis, expected, found. `need_results`: whether result tensors must be given (and are checked: extents,
/// dtype, no zero stride on an axis longer than 1, no overlap with inputs).
Result<Binding> bind(const tensor::Program& program, const Arguments& arguments, bool need_results);

/// The value of an expression of dims, literals and scalars (integer rules: exact floor division). Rank-0 only.
std::int64_t evaluate_extent(const tensor::Expr& expr, const Binding& binding);

/// Element conversion between storage and compute form (host side), for references and tests.
double load_element(const void* data, DType dtype, std::int64_t offset);
std::int64_t load_integer(const void* data, DType dtype, std::int64_t offset);
/// Rounds to nearest even; f8e4m3 saturates; integers wrap; bool is value != 0.
void store_element(void* data, DType dtype, std::int64_t offset, double value);
void store_integer(void* data, DType dtype, std::int64_t offset, std::int64_t value);
/// The value after one store and load.
double round_to(DType dtype, double value);

}  // namespace attune
