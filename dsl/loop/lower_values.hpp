// SPDX-License-Identifier: Apache-2.0
// Expressions to tiles while a nest is lowered: the open axes, inner reductions, weights and factors of repair.
#pragma once
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "loop/ir.hpp"
#include "loop/rewrite.hpp"
#include "tensor/algebra.hpp"
#include "tensor/stream.hpp"

namespace attune::loop {

/// What a nest holds while it is filled: its axes and tiles, the body of the step that is open, and which tile already
/// holds which expression. The sweeps in `lower.cpp` open axes and steps; everything here puts statements into them.
class NestValues {
 protected:
  struct Axis {
    Sym index;
    Expr base, extent;  ///< of tiles
    Expr lo, hi;        ///< of domains
    bool streamed = false;
  };

  explicit NestValues(const tensor::Streams& streams) : streams_(streams) {}

  Axis* axis(const Sym& sym);
  bool is_lane(const Sym& sym) const { return out_.row && sym == out_.row; }
  Range range(const Axis& a) const { return {a.index, a.lo, a.hi}; }
  /// Open axes that an expression varies along, the row last.
  std::vector<Sym> varying(const Expr& expr);
  Sym make_tile(const std::string& name, const tensor::Type& type, const std::vector<Sym>& along);
  Expr read(const Sym& tile, const std::vector<Sym>& along, const tensor::Type& type) const;
  std::vector<Range> domain(const std::vector<Sym>& along);

  /// The expression with every inner reduction replaced by a read of a tile that holds it.
  Expr value(const Expr& expr);
  /// A tile that runs beside an argmax and holds the best value so far, from the lowest one there is.
  Sym make_best(const std::string& name, const Expr& body, const std::vector<Sym>& along, Block& block, Span span);
  static Op op_of(tensor::ReduceOp op);

  /// A tile of weights over (streamed indices, row): 0 where the guard fails or the value is absent.
  Expr weights(const Expr& product, const Expr& guard, const tensor::Phase& phase, Block& body, Span span);
  /// exp(sum of coefficient * (new - old)) as a tile along the row, or null. Equal values stand for factor 1, so that
  /// two infinite ones do not make a NaN.
  Expr repair(const tensor::State& state, Block& body);

  const tensor::Streams& streams_;
  Nest out_;
  std::vector<Axis> axes_;
  Block* step_ = nullptr;                                    ///< body of the open sweep
  std::vector<std::pair<Expr, Expr>> row_memo_, step_memo_;  ///< expression -> read of the tile that holds it
  std::unordered_map<Sym, Sym> old_, best_;                  ///< state -> value before the step; argmax -> best

 private:
  bool streamed(const Expr& expr) const;
  Expr absorb(const tensor::Chain& chain, const Expr& expr) const;
  Expr reduction(const tensor::Reduce& reduce, const Expr& expr);
  bool contract(Block& block, const Sym& tile, const std::vector<Sym>& along, const std::vector<Range>& over,
                const Expr& body, Span span);
  void accumulate(Block& block, tensor::ReduceOp op, const Sym& tile, const std::vector<Sym>& along,
                  const std::vector<Range>& over, const Expr& body, const Expr& guard, Span span);
};

}  // namespace attune::loop
