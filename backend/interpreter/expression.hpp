// SPDX-License-Identifier: Apache-2.0
// Expressions of one nest as closures: names become slots once, evaluation is by demand as the notation says.
#pragma once
#include <unordered_map>
#include <vector>

#include "backend/interpreter/frame.hpp"

namespace attune::interpreter {

/// Compiles verified expressions of one nest.
class Compiler {
 public:
  explicit Compiler(const loop::Kernel& kernel);
  /// Adds the tiles of a nest; those of the one before are forgotten.
  void enter(const loop::Nest& nest);

  Code compile(const loop::Expr& expr);
  /// The slot of a dim, scalar, Let or index, made at first use.
  int slot(const Sym& sym);
  int tile(const Sym& sym) const { return tiles_.at(sym); }
  int buffer(const Sym& sym) const { return buffers_.at(sym); }
  std::size_t slot_count() const { return slots_.size(); }

 private:
  std::vector<Code> compile(const std::vector<loop::Expr>& exprs);
  Code access(const tensor::Access& access);
  Code chain(const tensor::Chain& chain, bool whole);
  Code compare(const tensor::Compare& compare);
  Code cast(const loop::Expr& expr, const tensor::Cast& cast);

  std::unordered_map<Sym, int> slots_, tiles_, buffers_;
};

/// Notes a misread; the mark counts unless the value that asked for it is dropped.
void note(Frame& frame, Misuse misuse, const Sym& target, std::vector<std::int64_t> subscripts);

}  // namespace attune::interpreter
