// SPDX-License-Identifier: Apache-2.0
// What was derived for a program, as prose: sweeps and why they are legal, masks and what becomes of blocks, what is
// stored and why, and what runs how often. It reads the streams alone, so it works where a later pass fails.
#include <fmt/format.h>

#include <algorithm>

#include "command.hpp"
#include "loop/passes.hpp"
#include "tensor/algebra.hpp"
#include "tensor/masks.hpp"
#include "tensor/passes.hpp"

namespace attune::tool {
namespace {

namespace ir = attune::tensor;
using ir::Expr;
using ir::ReduceOp;

std::string list_of(const std::vector<std::string>& words, const char* last = " and ") {
  std::string out;
  for (std::size_t k = 0; k < words.size(); ++k) out += (k == 0 ? "" : k + 1 == words.size() ? last : ", ") + words[k];
  return out;
}

std::string range_text(const ir::IndexRange& r) {
  return r.index.text() + " in " + ir::print(r.lo) + ".." + ir::print(r.hi);
}

std::string ranges_text(const std::vector<ir::IndexRange>& ranges) {
  std::string out;
  for (const auto& r : ranges) out += (out.empty() ? "" : ", ") + range_text(r);
  return out;
}

const char* word(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return "sum";
    case ReduceOp::max: return "maximum";
    case ReduceOp::min: return "minimum";
    case ReduceOp::prod: return "product";
    case ReduceOp::any: return "any";
    case ReduceOp::all: return "all";
    case ReduceOp::argmax: return "argmax";
    case ReduceOp::bound: return "running bound";
    default: return "reduction";
  }
}

/// Why the running value of an operation may be kept while the stream goes by.
std::string legality(const ir::State& state) {
  switch (state.op) {
    case ReduceOp::sum:
      if (!state.repair.empty()) break;
      return state.type.is_float() ? "sums of parts of the stream add up to the sum of all"
                                   : "integer sums wrap and add up in any order";
    case ReduceOp::bound:
      return "it only shifts exponents, so that they do not overflow: any value that is large enough gives the same "
             "result";
    case ReduceOp::argmax: return "the first of the greatest is known at every step";
    case ReduceOp::prod: return "products of parts of the stream multiply to the product of all";
    default: return fmt::format("the {} of parts of the stream combines to that of all", word(state.op));
  }
  return {};
}

/// Contractions inside of running values get names, so that formulas stay readable.
class Contractions {
 public:
  std::string print(const Expr& expr) { return ir::print(replace(expr)); }
  /// Those that print() met since the last call.
  std::vector<std::pair<std::string, Expr>> take() {
    std::vector<std::pair<std::string, Expr>> out(known_.begin() + static_cast<std::ptrdiff_t>(told_), known_.end());
    told_ = known_.size();
    return out;
  }

 private:
  Expr replace(const Expr& expr) {
    if (const auto* reduce = ir::get_if<ir::Reduce>(expr)) {
      for (std::size_t k = 0; k < known_.size(); ++k)
        if (known_[k].second == expr) return Expr(ir::Scalar{names_[k]}, expr->type);
      if (reduce->op == ReduceOp::sum) {
        names_.push_back(Sym::fresh("c" + std::to_string(known_.size())));
        known_.emplace_back(names_.back().text(), expr);
        return Expr(ir::Scalar{names_.back()}, expr->type);
      }
    }
    return ir::map_children(expr, [&](const Expr& child) { return replace(child); });
  }
  std::vector<std::pair<std::string, Expr>> known_;
  std::vector<Sym> names_;
  std::size_t told_ = 0;
};

/// What tiles can know of one condition.
struct Account {
  enum Kind { affine, once, measured, data } kind = affine;
  bool never_full = false, never_skipped = false;
  std::vector<Expr> lower, upper;  ///< closed-form bounds of the streamed index
  std::vector<std::string> gathers;
};

Account account_of(const Expr& condition, const ir::Nest& nest, const ir::Phase& phase, const ir::Program& program) {
  Account out;
  const Sym& stream = phase.over.back().index;
  auto block = [](const char* name) { return Expr(ir::Scalar{Sym::fresh(name)}, ir::type_i64); };
  std::unordered_map<Sym, ir::Interval> ranges{{stream, {block("first"), block("last"), {}}}};
  if (nest.row) ranges[nest.row] = {block("top"), block("bottom"), {}};
  auto along = [&](const Expr& e) {
    int count = 0;
    for (const auto& [sym, range] : ranges) count += ir::mentions(e, sym);
    return count;
  };
  bool elementwise = false;  // a gather of which no block knows its values
  ir::walk(condition, [&](const Expr& e) {
    const auto* access = ir::get_if<ir::Access>(e);
    if (!access) return true;
    out.gathers.push_back(ir::print(e));
    bool nested = false;
    for (const Expr& s : access->subscripts)
      ir::walk(s, [&](const Expr& part) {
        nested = nested || ir::get_if<ir::Access>(part);
        return !nested;
      });
    const int indices = along(e);
    elementwise = elementwise || indices > 1 || (indices == 1 && (nested || !e->type.is_integer()));
    out.kind = std::max(out.kind, indices == 0 ? Account::once : Account::measured);
    return false;
  });
  if (elementwise) out.kind = Account::data;
  bool inner = false;  // an index that only a part of the phase binds
  for (const Sym& sym : ir::free_indices(condition)) {
    bool known = ranges.contains(sym);
    for (const auto& r : nest.rows) known = known || r.index == sym;
    inner = inner || !known;
  }
  auto gather = [&](const Expr& e) -> std::optional<ir::Interval> {
    const auto* access = ir::get_if<ir::Access>(e);
    if (elementwise || !program.find_tensor(access->target) || along(e) != 1) return std::nullopt;
    return ir::Interval{block("least"), block("greatest"), {}};
  };
  ir::TileAnalysis analysis(ranges, gather);
  auto decided = [](const Expr& e, bool value) {
    const auto* literal = ir::get_if<ir::Literal>(e);
    return literal && std::get_if<bool>(&literal->value) && std::get<bool>(literal->value) == value;
  };
  out.never_full = inner || decided(analysis.must(condition), false);
  out.never_skipped = inner || decided(analysis.may(condition), true);
  ir::Solved solved = ir::solve(condition, stream);
  auto known = [&](const Expr& bound) { return !inner && analysis.interval(bound).has_value(); };
  std::copy_if(solved.lower.begin(), solved.lower.end(), std::back_inserter(out.lower), known);
  std::copy_if(solved.upper.begin(), solved.upper.end(), std::back_inserter(out.upper), known);
  return out;
}

std::string mask_text(const Expr& condition, const ir::Nest& nest, const ir::Phase& phase, const ir::Program& program,
                      const std::string& pad) {
  const Account a = account_of(condition, nest, phase, program);
  const std::string j = phase.over.back().index.text();
  const std::string gathered = list_of(a.gathers);
  std::string out = pad + "`" + ir::print(condition) + "`: ";
  if (a.never_full && a.never_skipped && a.lower.empty() && a.upper.empty()) {
    out += a.kind == Account::data ? "data-dependent (" + gathered + " varies in a way of which a block knows nothing)"
                                   : std::string("not of a form that bounds of a block decide");
    return out + ".\n" + pad + "  Tested for each element; no block is skipped for it or freed of the test.\n";
  }
  switch (a.kind) {
    case Account::affine: out += "affine (indices, dims and scalars only)"; break;
    case Account::once: out += "interval (" + gathered + " is read once for all rows of a task)"; break;
    default: out += "interval (least and greatest of " + gathered + " are measured for each block)"; break;
  }
  out += ".\n";
  std::vector<std::string> parts;
  auto bounds = [&](const std::vector<Expr>& list, const char* what) {
    for (const Expr& e : list) parts.push_back(fmt::format("{} `{}`", what, ir::print(e)));
  };
  bounds(a.lower, "begins at");
  bounds(a.upper, "ends before");
  if (!parts.empty())
    out += pad + fmt::format("  The sweep over {} {}{}.\n", j, list_of(parts),
                             nest.row ? ", taken over the rows of the block" : "");
  if (!a.never_full) out += pad + "  Blocks in which it holds everywhere are freed of its test.\n";
  if (!a.never_skipped) out += pad + "  Blocks in which it holds nowhere are skipped.\n";
  return out;
}

std::string repair_text(const ir::State& state) {
  std::string factor, moved;
  for (const auto& [sym, coefficient] : state.repair) {
    const std::string s = sym.text();
    std::string difference = coefficient < 0 ? s + ".old - " + s + ".new" : s + ".new - " + s + ".old";
    if (double size = std::abs(coefficient); size != 1) difference = fmt::format("{} * ({})", size, difference);
    factor += (factor.empty() ? "" : " + ") + difference;
    moved += (moved.empty() ? "" : " or ") + s;
  }
  return fmt::format(
      "when {} moves, the value so far is multiplied by exp({}). Legal, because {} is a plain term of an "
      "exponent in every step; so no sweep of its own is needed",
      moved, factor, moved);
}

std::string state_text(const ir::State& state, const ir::Phase& phase, Contractions& names) {
  std::string name = state.sym.text(), extras;
  for (const Sym& extra : state.extras) extras += (extras.empty() ? "" : ", ") + extra.text();
  if (!extras.empty()) name += "[" + extras + "]";
  std::string out = fmt::format("    {} = {} of {}", name, word(state.op), names.print(state.body));
  if (state.guard) out += " where " + ir::print(state.guard);
  out += "\n";
  const std::string why = state.repair.empty() ? legality(state) : repair_text(state);
  out += "      " + (state.repair.empty() ? "running value: " + why : "repair: " + why) + ".\n";
  if (!state.hoisted.empty())
    out += fmt::format(
        "      behind the sweep: times `{}`, which does not vary along {} (a common factor of all steps).\n",
        names.print(ir::product_of(state.hoisted, ir::type_f32)), phase.over.back().index.text());
  if (state.condition)
    out += fmt::format("      only where `{}`, which does not vary along the sweep either; 0 elsewhere.\n",
                       names.print(state.condition));
  return out;
}

std::string nest_text(const ir::Nest& nest, const ir::Program& program, std::size_t number, std::size_t count) {
  std::vector<std::string> targets, rows, extras;
  for (const auto& output : nest.outputs) targets.push_back("`" + output.target.text() + "`");
  for (const auto& r : nest.rows) rows.push_back(r.index.text());
  for (const auto& r : nest.extras) extras.push_back(r.index.text());
  std::string out = count > 1 ? fmt::format("Part {} of {} computes {}.\n", number, count, list_of(targets))
                              : fmt::format("It computes {}.\n", list_of(targets));
  if (nest.rows.empty())
    out += "  There are no rows: one task does all.\n";
  else
    out += fmt::format(
        "  Rows: {}. They are independent of each other{}.\n", ranges_text(nest.rows),
        nest.row ? fmt::format("; tasks take blocks of {}, one row on each vector lane", nest.row.text()) : "");
  Contractions names;
  if (nest.phases.empty()) out += "  No reduction goes along a stream: each element is computed by itself.\n";
  for (std::size_t p = 0; p < nest.phases.size(); ++p) {
    const ir::Phase& phase = nest.phases[p];
    const std::string kind = nest.scan                ? "Running sum"
                             : nest.phases.size() > 1 ? fmt::format("Sweep {}", p + 1)
                                                      : "One sweep";
    out += fmt::format("  {} over {}", kind, ranges_text(phase.over));
    if (!phase.reason.empty()) out += ", apart from the earlier one because " + phase.reason;
    out += ".\n";
    if (!phase.reason.empty() && p > 0)
      out += "    What it needs of earlier sweeps stays in the task's scratch; nothing goes to memory between them.\n";
    std::string states;
    for (const ir::State& state : phase.states) states += state_text(state, phase, names);
    for (const auto& [name, expr] : names.take())
      out += fmt::format("    {} stands for {}: computed in blocks, never stored as a whole.\n", name, ir::print(expr));
    out += states;
    if (nest.scan) out += "    The running value is the result: it is stored at every step.\n";
    std::vector<Expr> told;
    for (const ir::State& state : phase.states)
      for (const Expr& condition : ir::conjuncts(state.guard)) {
        if (std::find(told.begin(), told.end(), condition) != told.end()) continue;
        if (told.empty()) out += "    Masks:\n";
        told.push_back(condition);
        out += mask_text(condition, nest, phase, program, "      ");
      }
    if (told.empty() && !nest.scan) out += "    No mask: every element of the sweep counts.\n";
  }
  for (const ir::Output& output : nest.outputs) {
    std::string subscripts;
    for (const Sym& s : output.indices) subscripts += (subscripts.empty() ? "" : ", ") + s.text();
    out += fmt::format("  Stored: {}[{}] = {}\n", output.target.text(), subscripts, names.print(output.value));
  }
  for (const auto& [name, expr] : names.take())
    out += fmt::format("    where {} stands for {}\n", name, ir::print(expr));

  // How often what runs.
  auto per = [](std::vector<std::string> indices) {
    return indices.empty() ? std::string("once") : "once for each " + list_of(indices);
  };
  out += "  How often:\n";
  for (const ir::Phase& phase : nest.phases) {
    for (const ir::State& state : phase.states) {
      std::vector<std::string> step = rows;
      for (const Sym& extra : state.extras) step.push_back(extra.text());
      const std::vector<std::string> whole = step;
      std::vector<std::string> blocks = rows;
      blocks.push_back("block of " + phase.over.back().index.text());
      for (const auto& r : phase.over) step.push_back(r.index.text());
      out += fmt::format("    a step of {}: {}", state.sym.text(), per(step));
      if (state.guard) out += " that the mask leaves";
      if (!state.repair.empty()) out += "; its repair: " + per(blocks);
      if (!state.hoisted.empty()) out += "; what stands behind the sweep: " + per(whole);
      out += "\n";
    }
  }
  for (const ir::Output& output : nest.outputs) {
    std::vector<std::string> all;
    for (const Sym& s : output.indices) all.push_back(s.text());
    out += fmt::format("    {} is stored: {}\n", output.target.text(), per(all));
  }
  return out;
}

}  // namespace

std::string explain_program(const Session& s) {
  const ir::Streams streams = loop::derive(s.bound);
  std::string out = "kernel " + s.inferred.name + "\n\n";
  if (streams.temporaries.empty()) {
    out += "Nothing is stored between the inputs and the results.\n";
  } else {
    out += "Stored in memory between the inputs and the results:\n";
    for (const ir::Temporary& t : streams.temporaries) {
      std::string extents;
      for (const Expr& e : t.extents) extents += (extents.empty() ? "" : ", ") + ir::print(e);
      out += fmt::format("  {}: {}[{}], because {}.\n", t.sym.text(), name(t.type.dtype), extents, t.reason);
    }
  }
  for (std::size_t k = 0; k < streams.nests.size(); ++k)
    out += "\n" + nest_text(streams.nests[k], streams.program, k + 1, streams.nests.size());
  bool exponents = false;
  for (const ir::Nest& nest : streams.nests)
    for (const ir::Phase& phase : nest.phases)
      for (const ir::State& state : phase.states)
        exponents = exponents || !state.hoisted.empty() || !state.exponents.empty();
  if (exponents)
    out +=
        "\nA row whose sum is not finite is done again, element by element and without what was moved behind the\n"
        "sweep, so that removed elements do not reach it and visible NaN and infinities do.\n";
  return out;
}

}  // namespace attune::tool
