// SPDX-License-Identifier: Apache-2.0
// Streams: how every result of a program is computed in one sweep over an index where the algebra allows it, and in
// several, or through stored intermediates, with the reason, where it does not. Nothing here recognises a formula: what
// streams follows from dependence, hoisting and repair factors alone.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "tensor/algebra.hpp"
#include "tensor/ir.hpp"

namespace attune::tensor {

/// One running value. It is read as Access{sym, extras..., row}; for a row r and extras x its value after a sweep is
/// op over the phase's indices of `body` where `guard`, and what the program asks for is
/// condition ? value * product(hoisted) : 0 (sums; other ops are asked for as they are).
struct State {
  Sym sym;
  ReduceOp op = ReduceOp::sum;  ///< sum, max, min, prod, any, all, argmax, bound
  Type type;
  std::vector<Sym> extras;  ///< indices beyond the nest's rows
  Expr guard, body;         ///< of one step; body may read earlier states of the phase as they run
  /// When earlier states of the phase move from old to new, the running value is multiplied by
  /// exp(sum of coefficient * (new - old)): the factor c with body(new) = c * body(old).
  std::vector<std::pair<Sym, double>> repair;
  std::vector<Factor> hoisted;  ///< factors of the body that do not vary along the stream
  Expr condition;               ///< conjuncts of the guard that do not vary along the stream; null: none
  /// The same reduction without hoisting, over final values of earlier states: what the exact path evaluates.
  Expr direct_guard, direct_body;
  /// Exponents A of factors exp(A) of the body: an element with A = -inf is absent.
  std::vector<Expr> exponents;
  Span span;
};

/// One sweep: `over` (the last index runs in blocks) and the states it updates, in order of dependence.
struct Phase {
  std::vector<IndexRange> over;
  std::vector<State> states;
  std::string reason;  ///< why this sweep could not be part of an earlier one; "" for the first
};

/// A value stored per point: target[indices] = value.
struct Output {
  Sym target;  ///< result or temporary
  std::vector<Sym> indices;
  Expr value;  ///< may read states (as asked for) and hold reductions along the extras
};

/// Everything computed together for one row.
struct Nest {
  std::vector<IndexRange> rows;    ///< in written order
  std::vector<IndexRange> extras;  ///< further indices of outputs
  Sym row;                         ///< the row index that runs along lanes; null where there is none
  std::vector<Phase> phases;
  std::vector<Output> outputs;
  bool scan = false;  ///< outputs are stored at every step of the only phase (running sums)
};

/// An intermediate in memory.
struct Temporary {
  Sym sym;
  Type type;
  std::vector<Expr> extents;
  Sym presence;  ///< set where elements may be absent
  std::string reason;
  Sym definition;  ///< what it holds; null: a part of a formula
  Span span;       ///< of that definition or part
};

struct Streams {
  Program program;  ///< definitions are gone from expressions; temporaries are read like tensors
  std::vector<Temporary> temporaries;
  std::vector<Nest> nests;  ///< in the order they run
};

/// Derives them. The program is desugared and simplified and has its types bound.
Streams stream(const Program& program);
/// What was derived, as text: each sweep with state, step, repair and finish, and each temporary with its reason.
std::string print(const Streams& streams);

/// Combines two partial states of one phase (two halves of the stream) into one: for each state the expression over
/// reads of `a` and `b`, which hold the partial values under the states' Syms renamed by the maps.
struct Merge {
  std::vector<Sym> a, b;  ///< one Sym a state, read as Scalar{sym}
  std::vector<Expr>
      combined;  ///< one expression a state; null for argmax, whose position alone does not say which half wins
  std::vector<Expr> identity;  ///< the empty state
};
Merge merge(const Phase& phase);

/// The value of an empty reduction.
Expr identity(ReduceOp op, const Type& type);

}  // namespace attune::tensor
