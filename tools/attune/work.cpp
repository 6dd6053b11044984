// SPDX-License-Identifier: Apache-2.0
// How much work a call is: visible elements counted exactly from the guards, FLOPs of their contractions, bytes of
// inputs and outputs. And the guard as a picture.
#include <algorithm>
#include <cmath>

#include "backend/binding.hpp"
#include "backend/reference/reference.hpp"
#include "command.hpp"
#include "loop/passes.hpp"
#include "tensor/masks.hpp"
#include "tensor/passes.hpp"

namespace attune::tool {

// The tensor IR's words, not the builder's of the same names.
using tensor::Expr;
using tensor::Index;
using tensor::IndexRange;
using tensor::Relation;
using tensor::Scalar;
using tensor::Tensor;
using tensor::Where;
namespace {

using namespace tensor;  // NOLINT: builds expressions throughout

/// Runs a small program that counts, for each value of `rows`, how many streamed elements are visible, and sums it up.
/// Conjuncts that are solved for the last streamed index are counted in closed form.
double count_visible(const Session& s, const Binding& call, const tensor::Nest& nest, const Phase& phase,
                     const Expr& guard) {
  auto length = [&](const IndexRange& r) {
    return static_cast<double>(std::max<std::int64_t>(0, evaluate_extent(r.hi, call) - evaluate_extent(r.lo, call)));
  };
  double repeated = 1;
  std::vector<IndexRange> rows;
  for (const IndexRange& r : nest.rows) {
    if (guard && mentions(guard, r.index))
      rows.push_back(r);
    else
      repeated *= length(r);
  }
  double along = 1;
  for (const IndexRange& r : phase.over) along *= length(r);
  if (!guard) return repeated * along;

  const IndexRange& last = phase.over.back();
  Solved solved = solve(guard, last.index);
  bool closed = solved.lower.size() + solved.upper.size() == conjuncts(guard).size();
  Expr body;
  std::vector<IndexRange> over(phase.over.begin(), phase.over.end());
  if (closed) {
    Expr lo = last.lo, hi = last.hi;
    for (const Expr& e : solved.lower) lo = Expr(Chain{{LinkOp::max}, {lo, e}}, type_i64);
    for (const Expr& e : solved.upper) hi = Expr(Chain{{LinkOp::min}, {hi, e}}, type_i64);
    body = Expr(Chain{{LinkOp::max}, {integer(0), link(LinkOp::sub, hi, lo)}}, type_i64);
    over.pop_back();
    if (!over.empty()) body = Expr(Reduce{ReduceOp::sum, over, {}, body, {}}, type_i64);
  } else {
    body = Expr(Reduce{ReduceOp::sum, over, guard, integer(1), {}}, type_i64);
  }
  tensor::Program counter = s.bound;
  Sym count = Sym::fresh("count");
  counter.definitions = {{count, rows, body, {}}};
  Tensor result{count, type_i64, {}, {}};
  Owned memory;
  std::vector<std::int64_t> shape;
  for (const IndexRange& r : rows) {
    result.extents.push_back(r.hi);
    shape.push_back(static_cast<std::int64_t>(length(r)));
  }
  memory = allocate(DType::i64, shape, false);
  counter.results = {result};
  Binding binding = call;
  binding.tensors[count] = memory.ref;
  expect(reference::run(counter, binding));
  double total = 0;
  for (std::int64_t k = 0; k < memory.ref.element_count(); ++k)
    total += static_cast<double>(static_cast<const std::int64_t*>(memory.ref.data)[k]);
  return total * repeated;
}

/// FLOPs of the inner contractions of one visible element: 2 for each product and depth.
void inner_flop(const Expr& expr, const Binding& call, std::vector<Expr>& seen, double& flop) {
  walk(expr, [&](const Expr& e) {
    const auto* reduce = get_if<Reduce>(e);
    if (!reduce) return true;
    for (const Expr& known : seen)
      if (known == e) return false;
    seen.push_back(e);
    if (reduce->op == ReduceOp::sum && factors(reduce->body).size() > 1) {
      double depth = 2;
      for (const IndexRange& r : reduce->over)
        depth *=
            static_cast<double>(std::max<std::int64_t>(0, evaluate_extent(r.hi, call) - evaluate_extent(r.lo, call)));
      flop += depth;
    }
    return true;
  });
}

}  // namespace

Work count_work(const Session& s) {
  Work work;
  Binding call = expect(attune::bind(s.bound, s.inputs, false));
  Streams streams = stream(simplify(desugar(s.bound)));
  for (const tensor::Nest& nest : streams.nests)
    for (const Phase& phase : nest.phases) {
      bool readable = true;  // a guard over temporaries is not counted
      Expr guard = phase.states[0].guard;
      for (const State& state : phase.states)
        if (!state.guard || !guard || !(state.guard == guard)) guard = {};
      if (guard)
        walk(guard, [&](const Expr& e) {
          if (get_if<Reduce>(e)) readable = false;
          if (const auto* access = get_if<Access>(e)) readable = readable && s.bound.find_tensor(access->target);
          return readable;
        });
      double visible = count_visible(s, call, nest, phase, readable ? guard : Expr());
      std::vector<Expr> seen;
      double each = 0;
      for (const State& state : phase.states) {
        inner_flop(state.body, call, seen, each);
        if (state.op == ReduceOp::sum && !state.extras.empty()) {
          double width = 2;
          for (const Sym& extra : state.extras)
            for (const IndexRange& r : nest.extras)
              if (r.index == extra)
                width *= static_cast<double>(
                    std::max<std::int64_t>(0, evaluate_extent(r.hi, call) - evaluate_extent(r.lo, call)));
          each += width;
        }
      }
      work.visible += static_cast<std::int64_t>(visible);
      work.flop += visible * each;
    }
  for (const Argument& a : s.arguments)
    if (const auto* ref = std::get_if<TensorRef>(&a.value))
      work.byte += static_cast<double>(ref->element_count()) * static_cast<double>(size_of(ref->dtype));
  return work;
}

std::string mask_picture(const Session& s, int width, int height) {
  Binding call = expect(attune::bind(s.bound, s.inputs, false));
  Streams streams = stream(simplify(desugar(s.bound)));
  for (const tensor::Nest& nest : streams.nests)
    for (const Phase& phase : nest.phases) {
      if (phase.states.empty() || phase.states[0].extras.size() > 4 || !nest.row) continue;
      Expr guard = phase.states[0].guard;
      const IndexRange& j = phase.over.back();
      const IndexRange* i = nullptr;
      for (const IndexRange& r : nest.rows)
        if (r.index == nest.row) i = &r;
      std::int64_t m = evaluate_extent(i->hi, call), n = evaluate_extent(j.hi, call) - evaluate_extent(j.lo, call);
      if (m <= 0 || n <= 0) return "(no elements)\n";
      // Dense visibility of the first value of every other row index.
      std::unordered_map<Sym, Expr> first;
      for (const IndexRange& r : nest.rows)
        if (!(r.index == nest.row)) first[r.index] = integer(0);
      tensor::Program probe = s.bound;
      Sym seen = Sym::fresh("seen");
      Expr visible = guard ? Expr(Select{substitute(guard, first), integer(1), integer(0)}, type_i64) : integer(1);
      std::int64_t rows = std::min<std::int64_t>(height, m), columns = std::min<std::int64_t>(width, n);
      // One cell is a block; counted by a program: sum over the block.
      Sym ci = Sym::fresh("y"), cj = Sym::fresh("x");
      std::vector<std::int64_t> counts(static_cast<std::size_t>(rows * columns)), sizes = counts;
      probe.definitions = {{seen, {*i, {j.index, integer(0), j.hi}}, visible, {}}};
      probe.results = {{seen, Type{DType::u8, {}}, {i->hi, j.hi}, {}}};
      std::int64_t all = evaluate_extent(j.hi, call);
      if (static_cast<double>(m) * static_cast<double>(all) > 64e6)
        return "(too large for a picture: give a smaller --shape)\n";
      Owned memory = allocate(DType::u8, {m, all}, false);
      Binding binding = call;
      binding.tensors[seen] = memory.ref;
      expect(reference::run(probe, binding));
      const auto* cells = static_cast<const std::uint8_t*>(memory.ref.data);
      for (std::int64_t y = 0; y < m; ++y)
        for (std::int64_t x = 0; x < all; ++x) {
          auto at = static_cast<std::size_t>(y * rows / m * columns + x * columns / all);
          counts[at] += cells[y * all + x];
          ++sizes[at];
        }
      std::string out = "rows " + i->index.text() + " 0.." + std::to_string(m) + " down, " + j.index.text() + " 0.." +
                        std::to_string(n) + " across; █ all, ▒ some, · none\n";
      for (std::int64_t y = 0; y < rows; ++y) {
        for (std::int64_t x = 0; x < columns; ++x) {
          auto at = static_cast<std::size_t>(y * columns + x);
          out += counts[at] == 0 ? "·" : counts[at] == sizes[at] ? "█" : "▒";
        }
        out += "\n";
      }
      return out;
    }
  return "(the program has no stream over rows)\n";
}

}  // namespace attune::tool
