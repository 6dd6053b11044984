// SPDX-License-Identifier: Apache-2.0
// The peer of `attune bench --against eigen`: scores by a matrix product, a mask matrix, a row-wise softmax, a matrix
// product, each as Eigen's own operations over whole matrices, one (batch, head) at a time, heads dealt to threads.
#include "composition.hpp"

// Compiled for this machine (see CMakeLists.txt), so that the peer is not held back; a namespace of its own keeps these
// instantiations apart from those of the rest, which are compiled for any machine.
#define Eigen EigenForThisMachine
#include <Eigen/Dense>
#include <atomic>
#include <limits>
#include <thread>

#include "backend/binding.hpp"
#include "backend/reference/reference.hpp"
#include "runtime/state.hpp"
#include "tensor/passes.hpp"
#include "tensor/stream.hpp"

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

using namespace tensor;  // NOLINT: takes expressions apart
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using View = Eigen::Map<const Matrix, 0, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>>;

Diagnostic refuse(const std::string& why) {
  Diagnostic d;
  d.code = "A0620";
  d.message = "this program has no Eigen composition to compare with: " + why;
  d.help = "leave --against out";
  return d;
}

/// One operand as a matrix over two indices; other subscripts are evaluated for each (batch, head).
struct Operand {
  TensorRef ref;
  std::vector<Expr> subscripts;
  Sym row, column;

  View at(const std::unordered_map<Sym, Expr>& fixed, const Binding& call, Eigen::Index rows,
          Eigen::Index columns) const {
    std::int64_t offset = 0, row_stride = 0, column_stride = 0;
    for (std::size_t k = 0; k < subscripts.size(); ++k) {
      const auto* direct = get_if<tensor::Index>(subscripts[k]);
      if (direct && direct->index == row)
        row_stride = ref.strides[k];
      else if (direct && direct->index == column)
        column_stride = ref.strides[k];
      else
        offset += evaluate_extent(simplify(substitute(subscripts[k], fixed)), call) * ref.strides[k];
    }
    return View(static_cast<const float*>(ref.data) + offset, rows, columns, {row_stride, column_stride});
  }
};

}  // namespace

int kernel_threads(Engine& engine) { return engine.state()->executor->concurrency(); }

Result<Composition> compose(const Session& s) {
  Binding call = expect(attune::bind(s.bound, s.inputs, false));
  Streams streams = stream(simplify(desugar(s.bound)));
  if (streams.nests.size() != 1 || streams.nests[0].phases.size() != 1 || !streams.temporaries.empty())
    return refuse("it is not one sweep over one stream");
  const tensor::Nest& nest = streams.nests[0];
  const Phase& phase = nest.phases[0];
  const State* shift = nullptr;
  const State* out = nullptr;
  for (const State& state : phase.states) {
    if (state.op == ReduceOp::bound) shift = shift ? shift : &state;
    if (!state.extras.empty()) out = out ? nullptr : &state;
  }
  if (!shift || !out || out->extras.size() != 1 || phase.states.size() != 3 || phase.over.size() != 1)
    return refuse("it is not one row-wise maximum, sum and product");
  const Sym i = nest.row, j = phase.over[0].index, e = out->extras[0];
  // The score: scale * sum over d of two accesses.
  const Reduce* dot = nullptr;
  double scale = 1;
  for (const Factor& f : factors(shift->body)) {
    if (const auto* reduce = get_if<Reduce>(f.expr)) {
      if (dot || f.inverse) return refuse("its score is more than one contraction");
      dot = reduce;
    } else if (const auto* scalar = get_if<Scalar>(f.expr)) {
      scale *= f.inverse ? 1 / std::get<double>(call.scalars.at(scalar->scalar))
                         : std::get<double>(call.scalars.at(scalar->scalar));
    } else if (auto value = real_value(f.expr)) {
      scale *= f.inverse ? 1 / *value : *value;
    } else {
      return refuse("its score has terms beside the contraction");
    }
  }
  if (!dot || dot->over.size() != 1 || dot->guard) return refuse("its score is no plain contraction");
  const Sym d = dot->over[0].index;
  Operand q, k, v;
  auto operand = [&](const Expr& expr, const Sym& row, const Sym& column, Operand& into) {
    const auto* access = get_if<Access>(expr);
    if (!access || !s.bound.find_tensor(access->target)) return false;
    into = {call.tensors.at(access->target), access->subscripts, row, column};
    return into.ref.dtype == DType::f32;
  };
  for (const Factor& f : factors(dot->body)) {
    bool good = !f.inverse && (mentions(f.expr, j) ? operand(f.expr, j, d, k) : operand(f.expr, i, d, q));
    if (!good) return refuse("an operand is no plain f32 tensor");
  }
  bool have_v = false;
  for (const Factor& f : factors(out->body))
    if (mentions(f.expr, e)) have_v = !f.inverse && operand(f.expr, j, e, v);
  if (!q.ref.data || !k.ref.data || !have_v) return refuse("an operand is no plain f32 tensor");
  std::vector<IndexRange> heads;
  for (const IndexRange& r : nest.rows)
    if (!(r.index == i)) heads.push_back(r);
  auto extent = [&](const Sym& sym) {
    for (const auto* list : {&nest.rows, &nest.extras, &phase.over, &dot->over})
      for (const IndexRange& r : *list)
        if (r.index == sym) return evaluate_extent(r.hi, call);
    return std::int64_t{0};
  };
  const Eigen::Index m = extent(i), n = extent(j), depth = extent(d), width = extent(e);
  // The mask as an additive matrix, as frameworks pass it; made once and not timed.
  auto mask = std::make_shared<Matrix>();
  if (phase.states[0].guard) {
    const Expr& guard = phase.states[0].guard;
    for (const IndexRange& r : heads)
      if (mentions(guard, r.index)) return refuse("its mask differs between heads");
    tensor::Program probe = s.bound;
    Sym seen = Sym::fresh("seen");
    Expr value = Expr(Select{guard, real(0), real(-std::numeric_limits<double>::infinity())}, type_f32);
    IndexRange row{}, column{phase.over[0]};
    for (const IndexRange& r : nest.rows)
      if (r.index == i) row = r;
    probe.definitions = {{seen, {row, column}, value, {}}};
    probe.results = {{seen, type_f32, {row.hi, column.hi}, {}}};
    mask->resize(m, n);
    Binding binding = call;
    binding.tensors[seen] = TensorRef(static_cast<void*>(mask->data()), DType::f32, {m, n});
    expect(reference::run(probe, binding));
  }
  std::int64_t count = 1;
  for (const IndexRange& r : heads) count *= extent(r.index);
  auto results = std::make_shared<std::vector<Matrix>>(static_cast<std::size_t>(count), Matrix(m, width));
  Composition made;
  made.run = [=](int threads) {
    std::atomic<std::int64_t> next{0};
    auto work = [&] {
      Matrix scores(m, n);
      for (std::int64_t at = next++; at < count; at = next++) {
        std::unordered_map<Sym, Expr> fixed;
        std::int64_t rest = at;
        for (std::size_t h = heads.size(); h-- > 0;) {
          std::int64_t size = evaluate_extent(heads[h].hi, call);
          fixed[heads[h].index] = integer(rest % size);
          rest /= size;
        }
        scores.noalias() =
            (q.at(fixed, call, m, depth) * static_cast<float>(scale)) * k.at(fixed, call, n, depth).transpose();
        if (mask->size()) scores += *mask;
        Eigen::VectorXf top = scores.rowwise().maxCoeff();
        scores = (scores.colwise() - top).array().exp().matrix();
        Eigen::VectorXf sums = scores.rowwise().sum();
        Matrix& result = (*results)[static_cast<std::size_t>(at)];
        result.noalias() = scores * v.at(fixed, call, n, width);
        result.array().colwise() /= sums.array();
      }
    };
    std::vector<std::thread> pool;
    for (int t = 1; t < threads; ++t) pool.emplace_back(work);
    work();
    for (auto& thread : pool) thread.join();
  };
  return made;
}

}  // namespace attune::tool
