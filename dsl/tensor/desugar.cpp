// SPDX-License-Identifier: Apache-2.0
// Softmax, mean, logsumexp and extra terms in terms of bound, exp, sum and Where. The statistics of equal rows become
// one definition, so that several readers share them.
#include <limits>

#include "tensor/algebra.hpp"
#include "tensor/passes.hpp"

namespace attune::tensor {
namespace {

const double infinity = std::numeric_limits<double>::infinity();

class Desugar {
 public:
  explicit Desugar(const Program& program) : program_(program) {}

  Program run() {
    Program out = program_;
    out.definitions.clear();
    for (Definition definition : program_.definitions) {
      definition_name_ = definition.sym.text();
      scope_ = definition.indices;
      definition.body = rewrite(definition.body);
      for (Definition& made : made_) out.definitions.push_back(std::move(made));
      made_.clear();
      out.definitions.push_back(std::move(definition));
    }
    return out;
  }

 private:
  struct Statistics {
    Expr bound, sum;  ///< reads of the row's shift and of its sum of exp(body - shift), at the scope's indices
  };
  struct Known {
    std::vector<IndexRange> over;
    Expr guard, body;
    std::vector<Sym> rows;
    Sym bound, sum;
  };

  static Expr access(const Sym& target, const std::vector<Sym>& rows) {
    Access read{target, {}};
    for (const Sym& row : rows) read.subscripts.push_back(index(row));
    return Expr(std::move(read), type_f32);
  }

  const IndexRange* range_of(const Sym& sym) const {
    for (auto it = scope_.rbegin(); it != scope_.rend(); ++it)
      if (it->index == sym) return &*it;
    return nullptr;
  }

  /// Definitions of the shift and the sum over fresh copies of `over`; shared with an earlier equal row.
  Statistics statistics(const std::vector<IndexRange>& over, const Expr& guard, const Expr& body) {
    for (const Known& known : known_) {
      std::unordered_map<Sym, Sym> renaming;  // from the known row's indices to this one's
      bool equal = known.over.size() == over.size();
      for (std::size_t k = 0; equal && k < over.size(); ++k) {
        renaming[known.over[k].index] = over[k].index;
        equal = known.over[k].lo == over[k].lo && known.over[k].hi == over[k].hi;
      }
      if (!equal || !unify(known.guard, guard, renaming) || !unify(known.body, body, renaming)) continue;
      std::vector<Sym> rows;
      for (const Sym& row : known.rows) rows.push_back(renaming.contains(row) ? renaming[row] : row);
      return {access(known.bound, rows), access(known.sum, rows)};
    }
    // Free indices other than the reduced ones are the rows; the definitions get indices of their own.
    std::vector<Sym> rows;
    auto add_rows = [&](const Expr& expr) {
      if (!expr) return;
      for (const Sym& sym : free_indices(expr)) {
        bool reduced = false;
        for (const auto& range : over) reduced |= range.index == sym;
        for (const Sym& row : rows) reduced |= row == sym;
        if (!reduced) rows.push_back(sym);
      }
    };
    add_rows(body);
    add_rows(guard);
    auto define = [&](const char* suffix, ReduceOp op, const Expr& what) {
      std::unordered_map<Sym, Expr> fresh;
      Definition made;
      made.sym = Sym::fresh(definition_name_ + suffix);
      for (const Sym& row : rows) {
        IndexRange range = *range_of(row);
        range.index = Sym::fresh(row.text());
        fresh[row] = index(range.index);
        made.indices.push_back(range);
      }
      Reduce reduce{op, over, guard, what, {}};
      for (auto& range : reduce.over) {
        Sym renamed = Sym::fresh(range.index.text());
        fresh[range.index] = index(renamed);
        range.index = renamed;
      }
      reduce.body = refresh(substitute(reduce.body, fresh));
      if (reduce.guard) reduce.guard = refresh(substitute(reduce.guard, fresh));
      made.body = Expr(std::move(reduce), type_f32, body->span);
      made.span = body->span;
      made_.push_back(made);
      return made.sym;
    };
    Known known{over, guard, body, rows, {}, {}};
    known.bound = define(".max", ReduceOp::bound, body);
    Expr shifted = unary(UnaryOp::exp, link(LinkOp::sub, body, access(known.bound, rows)));
    known.sum = define(".sum", ReduceOp::sum, shifted);
    known_.push_back(known);
    return {access(known.bound, rows), access(known.sum, rows)};
  }

  Expr rewrite(const Expr& expr) {
    if (!expr) return expr;
    std::size_t depth = scope_.size();
    if (const auto* reduce = get_if<Reduce>(expr))
      for (const auto& range : reduce->over) scope_.push_back(range);
    Expr out = map_children(expr, [&](const Expr& child) { return rewrite(child); });
    scope_.resize(depth);
    if (const auto* soft = get_if<Softmax>(out)) return softmax(*soft, out);
    if (const auto* reduce = get_if<Reduce>(out)) {
      if (reduce->op == ReduceOp::logsumexp) return logsumexp(*reduce);
      if (reduce->op == ReduceOp::mean) return mean(*reduce, out);
    }
    return out;
  }

  Expr softmax(const Softmax& soft, const Expr& expr) {
    Expr body = cast(soft.body, type_f32);
    Statistics row = statistics(soft.along, soft.guard, body);
    // exp(extra - shift) may overflow to inf: then every weight is 0, which is what so large a term means. An absent
    // extra is neutral in the sum.
    Expr total = soft.extra ? link(LinkOp::add, row.sum,
                                   unary(UnaryOp::exp, link(LinkOp::sub, cast(soft.extra, type_f32), row.bound)))
                            : row.sum;
    std::vector<Expr> present = conjuncts(soft.guard);
    present.push_back(compare(Relation::not_equal, total, real(0)));  // an empty row is absent; NaN stays
    Expr weight = link(LinkOp::div, unary(UnaryOp::exp, link(LinkOp::sub, body, row.bound)), total);
    return Expr(Where{conjunction(present), weight}, type_f32, expr->span);
  }

  Expr logsumexp(const Reduce& reduce) {
    Statistics row = statistics(reduce.over, reduce.guard, cast(reduce.body, type_f32));
    // An empty row: shift + log(0) = -inf. A visible +inf makes the sum NaN and the result +inf.
    Expr log_sum = link(LinkOp::add, row.bound, unary(UnaryOp::log, row.sum));
    Expr plain = Expr(Select{compare(Relation::equal, row.bound, real(infinity)), real(infinity), log_sum}, type_f32);
    if (!reduce.extra) return plain;
    // log(exp(plain) + exp(extra)), with max(plain, extra) taken out; equal infinities stand for themselves. The
    // maximum over no index of an extra that may be absent is -inf where it is.
    Expr extra = cast(reduce.extra, type_f32);
    if (may_be_absent(extra, program_)) extra = Expr(Reduce{ReduceOp::max, {}, {}, extra, {}}, type_f32);
    Expr high = Expr(Chain{{LinkOp::max}, {plain, extra}}, type_f32);
    Expr both = link(LinkOp::add, high,
                     unary(UnaryOp::log, link(LinkOp::add, unary(UnaryOp::exp, link(LinkOp::sub, plain, high)),
                                              unary(UnaryOp::exp, link(LinkOp::sub, extra, high)))));
    Expr infinite = link(LinkOp::either, compare(Relation::equal, high, real(infinity)),
                         compare(Relation::equal, high, real(-infinity)));
    return Expr(Select{infinite, high, both}, type_f32);
  }

  Expr mean(const Reduce& reduce, const Expr& expr) {
    Expr body = cast(reduce.body, type_f32);
    // 1 where the body is present, absent where it is absent; a NaN counts as present.
    Expr one = real(1);
    Expr counted = Expr(Select{compare(Relation::equal, body, body), one, one}, type_f32);
    Expr total = Expr(Reduce{ReduceOp::sum, reduce.over, reduce.guard, body, {}}, type_f32, expr->span);
    Expr count = refresh(Expr(Reduce{ReduceOp::sum, reduce.over, reduce.guard, counted, {}}, type_f32, expr->span));
    if (!may_be_absent(body, program_)) {
      if (reduce.guard) {
        count = refresh(Expr(Reduce{ReduceOp::sum, reduce.over, reduce.guard, one, {}}, type_f32, expr->span));
      } else {
        Expr size;
        for (const auto& range : reduce.over) {
          Expr length = Expr(Chain{{LinkOp::max}, {integer(0), link(LinkOp::sub, range.hi, range.lo)}}, type_i64);
          size = size ? link(LinkOp::mul, size, length) : length;
        }
        count = cast(size, type_f32);
      }
    }
    return Expr(Select{compare(Relation::equal, count, real(0)), real(0), link(LinkOp::div, total, count)}, type_f32,
                expr->span);
  }

  const Program& program_;
  std::string definition_name_;
  std::vector<IndexRange> scope_;
  std::vector<Definition> made_;
  std::vector<Known> known_;
};

}  // namespace

Program desugar(const Program& program) { return Desugar(program).run(); }

}  // namespace attune::tensor
