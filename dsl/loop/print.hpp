// SPDX-License-Identifier: Apache-2.0
// Names and text of single expressions and statements of the loop IR: for the printer and for diagnostics.
#pragma once
#include <string>
#include <unordered_map>

#include "loop/ir.hpp"

namespace attune::loop {

/// Text for each Sym of one nest: the first of a name is plain, the next ones get .2, .3, ... in order of appearance.
class Names {
 public:
  /// Dims, scalars and buffers: what every nest sees.
  explicit Names(const Kernel& kernel);
  /// Those and the names that the nest binds.
  Names(const Kernel& kernel, const Nest& nest);
  /// The text of a name; one that nothing binds has its plain text.
  const std::string& of(const Sym& sym) const;

 private:
  void add(const Sym& sym);
  void add(const Block& block);
  std::unordered_map<Sym, std::string> text_;
  std::unordered_map<std::string, int> count_;
};

/// An expression in the notation, with Where as `where(condition, body)`.
std::string print(const Expr& expr, const Names& names);
/// One line: a statement, without the body of a For or an If.
std::string print(const Stmt& stmt, const Names& names);
/// The word of an accumulation ("sum", "max_any", ...).
std::string_view name(Op op);

}  // namespace attune::loop
