// SPDX-License-Identifier: Apache-2.0
// The rules that every expression of a loop nest obeys, and the scope that they are checked in: part of verify().
#pragma once
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "loop/ir.hpp"
#include "loop/print.hpp"

namespace attune::loop {

/// What kinds of numbers an expression computes with.
enum class Numbers : std::uint8_t { real, whole, truth };
Numbers numbers_of(DType dtype);
std::string_view name(Numbers numbers);

/// Names in scope at a place of a nest.
struct Bound {
  std::unordered_map<Sym, DType> scalars;  ///< parameters and Lets
  std::unordered_set<Sym> dims;
  std::unordered_set<Sym> outer;  ///< grid and loop indices
  std::unordered_set<Sym> inner;  ///< indices of the statement's domain and `over`
  std::unordered_map<Sym, const Buffer*> buffers;
  std::unordered_map<Sym, const Tile*> tiles;
};

/// "" or the first violation inside an expression: unbound names, arity and types of operands, reductions, tiles whose
/// base is unknown here.
std::string verify(const Expr& expr, const Bound& scope, const Names& names);

}  // namespace attune::loop
