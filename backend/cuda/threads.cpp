// SPDX-License-Identifier: Apache-2.0
// Nests where every thread does whole tasks by itself: statements as loops, tiles as arrays of the thread. Any loop
// nest can run like this.
#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/expressions.hpp"
#include "loop/print.hpp"
#include "loop/rewrite.hpp"
#include "tensor/passes.hpp"

namespace attune::cuda {
namespace {

using loop::Op;
using loop::Range;
using tensor::get_if;

class ThreadNest : public Expressions {
 public:
  ThreadNest(const loop::Kernel& kernel, const loop::Nest& nest, const ParameterWords& words, int threads)
      : Expressions(kernel, nest, words), names_(kernel, nest), threads_(threads) {}

  NestCode emit() {
    line("bool out_of_range = false;");
    grid();
    for (const loop::Tile& tile : nest_.tiles) declare(tile);
    emit(nest_.body);
    if (may_flag()) line(fmt::format("if (out_of_range) *(int*)p.w[{}] = 1;", words_.flag));
    return {text(), may_flag()};
  }

 private:
  // ---- tasks ----

  void grid() {
    line(fmt::format("i64 task = block_index() * {} + thread_index();", threads_));
    std::vector<std::string> counts;
    for (const loop::GridAxis& axis : nest_.grid) {
      // Bounds depend on sizes only.
      const std::string lo = uniform(axis.lo), hi = uniform(axis.hi), step = uniform(axis.step);
      const std::string count = fresh("count");
      line(fmt::format("const i64 {0} = {1} < {2} ? ({2} - {1} - 1) / {3} + 1 : 0;", count, lo, hi, step));
      counts.push_back(count);
    }
    for (std::size_t k = nest_.grid.size(); k-- > 0;) {
      const loop::GridAxis& axis = nest_.grid[k];
      const std::string name = fresh(axis.index.text()), at = fresh("at");
      // The outermost axis takes what is left, so that a task beyond the last one shows there.
      line(fmt::format("const i64 {} = {};", at, k == 0 ? "task" : "task % " + counts[k]));
      if (k == 0)
        line(fmt::format("if ({} >= {}) return;", at, counts[k]));
      else
        line(fmt::format("task /= {};", counts[k]));
      line(fmt::format("const i64 {} = {} + ({}) * {};", name, uniform(axis.lo),
                       axis.descending ? counts[k] + " - 1 - " + at : at, uniform(axis.step)));
      indices_[axis.index] = {name, Number::whole, {}, {}};
      proofs_.ranges[axis.index] = {axis.index, axis.lo, axis.hi};
    }
    if (nest_.grid.empty()) line("if (task > 0) return;");
  }

  // ---- tiles ----

  struct Storage {
    std::string name;
    std::vector<std::int64_t> extents;
  };

  void declare(const loop::Tile& tile) {
    Storage storage{fresh(tile.sym.text()), {}};
    std::int64_t count = 1;
    for (const loop::TileAxis& axis : tile.axes) {
      const auto extent = largest(axis.extent);
      if (!extent) throw Malformed{fmt::format("tile `{}` has no fixed size", tile.sym.text())};
      storage.extents.push_back(*extent);
      count *= *extent;
    }
    const char* type = is_float(tile.dtype) ? "float" : is_bool(tile.dtype) ? "bool" : "i64";
    line(fmt::format("{} {}[{}];", type, storage.name, std::max<std::int64_t>(count, 1)));
    storage_.emplace(tile.sym, std::move(storage));
  }

  /// The element for subscripts that are values already.
  std::string element(const loop::Tile& tile, const std::vector<std::string>& subscripts) {
    const Storage& storage = storage_.at(tile.sym);
    std::string total;
    std::int64_t stride = 1;
    for (std::size_t k = subscripts.size(); k-- > 0;) {
      if (storage.extents[k] != 1) {
        const std::string base = uniform(tile.axes[k].base);
        std::string term = base == "0LL" ? "(int)" + subscripts[k] : fmt::format("(int)({} - {})", subscripts[k], base);
        if (stride != 1) term += fmt::format(" * {}", stride);
        total = total.empty() ? term : term + " + " + total;
      }
      stride *= storage.extents[k];
    }
    return fmt::format("{}[{}]", storage.name, total.empty() ? "0" : total);
  }
  std::string element(const Sym& sym) {
    const loop::Tile& tile = *tiles_.at(sym);
    std::vector<std::string> subscripts;
    for (const loop::TileAxis& axis : tile.axes) subscripts.push_back(indices_.at(axis.index).text);
    return element(tile, subscripts);
  }

  static Number number_of(const loop::Tile& tile) {
    return is_float(tile.dtype) ? Number::real : is_bool(tile.dtype) ? Number::truth : Number::whole;
  }

  Value read_tile(const tensor::Access& access, const loop::Tile& tile) override {
    std::vector<std::string> subscripts;
    std::string present;
    for (const Expr& expr : access.subscripts) {
      const Value subscript = value(expr);
      present = both(present, subscript.present);
      subscripts.push_back(subscript.text);
    }
    std::string text = element(tile, subscripts);
    const Number number = number_of(tile);
    if (!present.empty()) text = fmt::format("{} ? {} : {}", present, text, number == Number::truth ? "false" : "0");
    return defined(number, text, present);
  }

  // ---- loops ----

  /// Opens the loops of a domain; elements of the lane index end at the limit.
  void open_domain(const std::vector<Range>& domain) {
    for (const Range& range : domain) {
      const bool rows = nest_.lane && range.index == nest_.lane && nest_.lane_limit;
      const std::string lo = uniform(range.lo), name = fresh(range.index.text());
      if (tensor::simplify(tensor::link(tensor::LinkOp::sub, range.hi, range.lo)) == tensor::integer(1)) {
        // One element: no loop.
        open(rows && !below_limit(range.lo) ? fmt::format("if ({} < {})", lo, uniform(nest_.lane_limit)) : "");
        line(fmt::format("const Int {} = (Int){};", name, lo));
      } else {
        std::string hi = uniform(range.hi);
        if (rows) hi = define(Number::whole, fmt::format("{0} < {1} ? {0} : {1}", hi, uniform(nest_.lane_limit)));
        open(fmt::format("for (Int {0} = (Int){1}; {0} < (Int){2}; ++{0})", name, lo, hi));
      }
      indices_[range.index] = {name, Number::element, {}, {}};
      proofs_.ranges[range.index] = range;
    }
  }
  /// Whether tasks start below the lane limit anyway.
  bool below_limit(const Expr& row) const {
    const auto* index = get_if<tensor::Index>(row);
    return index && std::any_of(nest_.grid.begin(), nest_.grid.end(), [&](const loop::GridAxis& axis) {
             return axis.index == index->index && axis.hi == nest_.lane_limit;
           });
  }
  void close_domain(const std::vector<Range>& domain) {
    for (std::size_t k = domain.size(); k-- > 0;) {
      close();
      indices_.erase(domain[k].index);
      proofs_.ranges.erase(domain[k].index);
    }
  }

  void emit(const loop::Block& block) {
    for (const loop::Stmt& stmt : block) {
      std::visit([&](const auto& kind) { emit(kind, stmt); }, stmt.kind);
    }
  }

  void comment(const loop::Stmt& stmt) { line("// " + loop::print(stmt, names_)); }

  void emit(const loop::Map& map, const loop::Stmt& stmt) {
    const Fresh fresh_values(*this);
    comment(stmt);
    open("");
    open_domain(map.domain);
    const std::string dst = element(map.dst);
    const Number number = number_of(*tiles_.at(map.dst));
    std::string kept;
    if (map.guard) {
      raise(flag(map.guard));
      kept = condition(map.guard);
      open(fmt::format("if ({})", kept));
    }
    raise(flag(map.value));
    const Value result = value(map.value);
    if (!result.present.empty()) open(fmt::format("if ({})", result.present));
    line(fmt::format("{} = {};", dst, as(result, number)));
    const auto fill = [&](const char* tail) {
      if (!map.fill) return close();
      close(tail);
      open("else");
      line(fmt::format("{} = {};", dst, as(value(map.fill), number)));
      close();
    };
    if (!result.present.empty()) fill("}");
    if (map.guard) fill("}");
    close_domain(map.domain);
    close();
  }

  std::string combined(Op op, bool whole, const std::string& old, const std::string& next) {
    switch (op) {
      case Op::sum: return whole ? fmt::format("wrap_add({}, {})", old, next) : fmt::format("{} + {}", old, next);
      case Op::prod: return whole ? fmt::format("wrap_mul({}, {})", old, next) : fmt::format("{} * {}", old, next);
      case Op::max:
        return whole ? fmt::format("{0} > {1} ? {0} : {1}", old, next) : fmt::format("larger({}, {})", old, next);
      case Op::min:
        return whole ? fmt::format("{0} < {1} ? {0} : {1}", old, next) : fmt::format("smaller({}, {})", old, next);
      case Op::max_any: return fmt::format("max_number({}, {})", old, next);
      case Op::any: return fmt::format("{} || {}", old, next);
      case Op::all: return fmt::format("{} && {}", old, next);
      case Op::argmax: break;
    }
    throw Malformed{"an operation that is no fold"};
  }

  void emit(const loop::Accumulate& accumulate, const loop::Stmt& stmt) {
    const Fresh fresh_values(*this);
    comment(stmt);
    open("");
    open_domain(accumulate.domain);
    const Number number = number_of(*tiles_.at(accumulate.dst));
    const std::string dst = element(accumulate.dst), state = fresh("state"), best = fresh("best");
    line(fmt::format("{} {} = {};", type_name(number), state, dst));
    const bool argmax = accumulate.op == Op::argmax;
    if (argmax) line(fmt::format("i64 {} = {};", best, element(accumulate.dst_index)));
    open_domain(accumulate.over);
    if (accumulate.guard) {
      raise(flag(accumulate.guard));
      open(fmt::format("if ({})", condition(accumulate.guard)));
    }
    raise(flag(accumulate.value));
    const Value next = value(accumulate.value);
    if (!next.present.empty()) open(fmt::format("if ({})", next.present));
    const std::string text = as(next, number);
    if (argmax) {
      open(fmt::format("if (is_better({}, {}, {}))", text, state, best));
      line(fmt::format("{} = {};", state, text));
      line(fmt::format("{} = {};", best, indices_.at(accumulate.over[0].index).text));
      close();
    } else {
      line(fmt::format("{} = {};", state, combined(accumulate.op, number == Number::whole, state, text)));
    }
    if (!next.present.empty()) close();
    if (accumulate.guard) close();
    close_domain(accumulate.over);
    line(fmt::format("{} = {};", dst, state));
    if (argmax) line(fmt::format("{} = {};", element(accumulate.dst_index), best));
    close_domain(accumulate.domain);
    close();
  }

  void emit(const loop::Contract& contract, const loop::Stmt& stmt) {
    const Fresh fresh_values(*this);
    comment(stmt);
    open("");
    open_domain(contract.domain);
    const std::string dst = element(contract.dst), state = fresh("state");
    if (contract.scale)
      line(fmt::format("float {} = {} * {};", state, dst, as(value(contract.scale), Number::real)));
    else
      line(fmt::format("float {} = 0.0f;", state));
    open_domain(contract.over);
    const std::string a = value(contract.a).text, b = value(contract.b).text;
    line(fmt::format("{0} = fma_f32({1}, {2}, {0});", state, a, b));
    close_domain(contract.over);
    line(fmt::format("{} = {};", dst, state));
    close_domain(contract.domain);
    close();
  }

  void emit(const loop::Store& store, const loop::Stmt& stmt) {
    const Fresh fresh_values(*this);
    comment(stmt);
    open("");
    open_domain(store.domain);
    const std::size_t target = words_.buffer(store.target);
    if (target == ParameterWords::npos) throw Malformed{"a store to nothing"};
    for (const Expr& subscript : store.subscripts) raise(flag(subscript));
    raise(flag(store.value));
    const Value result = value(store.value);
    const loop::Buffer& buffer = kernel_.buffers[target];
    const Number number = is_float(buffer.dtype) ? Number::real : is_bool(buffer.dtype) ? Number::truth : Number::whole;
    std::string text = as(result, number);
    if (!result.present.empty())
      text = define(number, fmt::format("{} ? {} : {}", result.present, text,
                                        number == Number::real    ? "0.0f"
                                        : number == Number::truth ? "false"
                                                                  : "0"));
    line(fmt::format("{}[{}] = {};", pointer(target, true), offset(target, store.subscripts),
                     stored(buffer.dtype, text)));
    if (buffer.presence) {
      const std::size_t marks = words_.buffer(buffer.presence);
      line(fmt::format("{}[{}] = (u8)({} ? 1 : 0);", pointer(marks, true), offset(marks, store.subscripts),
                       result.present.empty() ? "true" : result.present));
    }
    close_domain(store.domain);
    close();
  }

  void emit(const loop::Let& let, const loop::Stmt& stmt) {
    comment(stmt);
    const Number number = let.value->type.is_float()     ? Number::real
                          : let.value->type.is_integer() ? Number::whole
                                                         : Number::truth;
    const std::string name = fresh(let.sym.text()), present = name + "_present";
    std::string there;
    line(fmt::format("{} {};", type_name(number), name));
    const std::size_t before = text().size();
    {
      const Fresh fresh_values(*this);
      open("");
      raise(flag(let.value));
      const Value result = value(let.value);
      there = result.present;
      line(fmt::format("{} = {};", name, as(result, number)));
      if (!there.empty()) line(fmt::format("{} = {};", present, there));
      close();
    }
    if (!there.empty()) insert(before, fmt::format("bool {};", present));
    lets_[let.sym] = {name, number, there.empty() ? "" : present, {}};
    proofs_.lets[let.sym] = let.value;
  }

  void emit(const loop::For& loop, const loop::Stmt& stmt) {
    comment(stmt);
    const std::string name = fresh(loop.index.text()), hi = fresh("hi"), lo = fresh("lo"), step = fresh("step");
    line(fmt::format("i64 {}, {}, {};", lo, hi, step));
    {
      const Fresh fresh_values(*this);
      open("");
      line(fmt::format("{} = {};", lo, uniform(loop.lo)));
      line(fmt::format("{} = {};", hi, uniform(loop.hi)));
      line(fmt::format("{} = {};", step, uniform(loop.step)));
      close();
    }
    const auto before = proofs_.ranges.find(loop.index);
    const bool bound = before != proofs_.ranges.end();
    if (bound) throw Malformed{"an index is bound twice"};
    if (loop.kind == loop::ForKind::serial) line("#pragma unroll 1");
    // The bound is a size or below one, so the step past it cannot overflow.
    open(fmt::format("for (i64 {0} = {1}; {0} < {2}; {0} += {3})", name, lo, hi, step));
    indices_[loop.index] = {name, Number::whole, {}, {}};
    proofs_.ranges[loop.index] = {loop.index, loop.lo, loop.hi};
    emit(loop.body);
    close();
    indices_.erase(loop.index);
    proofs_.ranges.erase(loop.index);
  }

  void emit(const loop::If& branch, const loop::Stmt& stmt) {
    comment(stmt);
    const std::string name = fresh("choice");
    line(fmt::format("bool {};", name));
    {
      const Fresh fresh_values(*this);
      open("");
      raise(flag(branch.condition));
      line(fmt::format("{} = {};", name, condition(branch.condition)));
      close();
    }
    const auto lets = lets_;
    const auto let_exprs = proofs_.lets;
    const auto inside = [&](const loop::Block& block) {
      emit(block);
      lets_ = lets;
      proofs_.lets = let_exprs;
    };
    open(fmt::format("if ({})", name));
    inside(branch.then);
    close();
    if (branch.otherwise.empty()) return;
    open("else");
    inside(branch.otherwise);
    close();
  }

  const loop::Names names_;
  int threads_;
  std::unordered_map<Sym, Storage> storage_;
};

}  // namespace

NestCode emit_by_threads(const loop::Kernel& kernel, const loop::Nest& nest, const ParameterWords& words, int threads) {
  return ThreadNest(kernel, nest, words, threads).emit();
}

}  // namespace attune::cuda
