// SPDX-License-Identifier: Apache-2.0
// Derives streams: inlines definitions, takes reductions out of expressions as running values, hoists what does not
// vary along the stream, and finds repair factors. See stream.hpp for what the result means.
#include "tensor/stream.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "tensor/inline.hpp"

namespace attune::tensor {
namespace {

constexpr std::size_t max_distributed_terms = 16;

/// Peels Where from a product: what remains, and the conditions.
void peel(const Expr& expr, std::vector<Expr>& conditions, std::vector<Factor>& out, bool inverse = false) {
  for (const Factor& factor : factors(expr)) {
    if (const auto* where = get_if<Where>(factor.expr)) {
      for (const Expr& c : conjuncts(where->condition)) conditions.push_back(c);
      peel(where->body, conditions, out, inverse != factor.inverse);
    } else {
      out.push_back({inverse != factor.inverse, factor.expr});
    }
  }
}

class NestBuilder {
 public:
  NestBuilder(std::vector<IndexRange> lhs) : lhs_(std::move(lhs)) {}

  Nest nest;

  /// Replaces every reduction of `expr` that does not vary along `bound` by a read of a state.
  Expr extract(const Expr& expr, const std::vector<Sym>& bound) {
    if (!expr) return expr;
    if (const auto* reduce = get_if<Reduce>(expr)) {
      if (!mentions_any(expr, bound)) return state_for(*reduce, expr);
      std::vector<Sym> inner = bound;
      for (const auto& range : reduce->over) inner.push_back(range.index);
      return map_children(expr, [&](const Expr& child) { return extract(child, inner); });
    }
    return map_children(expr, [&](const Expr& child) { return extract(child, bound); });
  }

  /// Rows, extras and the lane index, once all outputs are in.
  void finish() {
    // An index is a row if every state depends on it; the others are extras of the states that do. What a bound
    // depends on is a row too, where all outputs have it: only a bound of one value a row repairs the sums beside it,
    // and a state that does without the index is then computed again for each of its values.
    std::vector<Sym> row_syms;
    for (const auto& range : lhs_) {
      bool in_all = true, in_bound = false;
      for (const Pending& p : pending_) {
        const bool depends = mentions(p.state.direct_body, range.index) || state_mentions(p, range.index) ||
                             (p.state.direct_guard && mentions(p.state.direct_guard, range.index));
        in_all = in_all && depends;
        in_bound = in_bound || (depends && p.state.op == ReduceOp::bound);
      }
      for (const Output& output : nest.outputs)
        in_bound =
            in_bound && std::find(output.indices.begin(), output.indices.end(), range.index) != output.indices.end();
      if (in_all || in_bound) row_syms.push_back(range.index);
    }
    auto is_row = [&](const Sym& s) { return std::find(row_syms.begin(), row_syms.end(), s) != row_syms.end(); };
    if (row_syms.size() == lhs_.size() && lhs_.size() > 1 && !pending_.empty() && splits(lhs_.back().index))
      row_syms.pop_back();
    for (const auto& range : lhs_) (is_row(range.index) ? nest.rows : nest.extras).push_back(range);
    choose_row();
    // Reads of states are completed with extras and row, now that these are known.
    for (Pending& p : pending_)
      for (const auto& extra : nest.extras)
        if (mentions(p.state.direct_body, extra.index) || state_mentions(p, extra.index) ||
            (p.state.direct_guard && mentions(p.state.direct_guard, extra.index)))
          p.state.extras.push_back(extra.index);
    for (Pending& p : pending_) place(p);
    for (Output& output : nest.outputs) output.value = complete(output.value);
  }

  void add_output(const Sym& target, std::vector<Sym> indices, const Expr& value) {
    nest.outputs.push_back({target, std::move(indices), extract(value, {})});
  }

  /// A running sum: one state along the scan index, stored at every step.
  void add_scan(const Sym& target, std::vector<Sym> indices, const Cumsum& scan) {
    State state;
    state.sym = Sym::fresh(target.text() + ".running");
    state.op = ReduceOp::sum;
    state.type = scan.body->type.is_float() ? type_f32 : type_i64;
    state.guard = state.direct_guard = scan.guard;
    state.body = state.direct_body = scan.body;
    nest.scan = true;
    for (const auto& range : lhs_)
      if (!(range.index == scan.along.index)) nest.rows.push_back(range);
    choose_row_for({&state}, {scan.along.index});
    nest.phases.push_back({{scan.along}, {state}, ""});
    nest.outputs.push_back({target, std::move(indices), complete_read(state.sym, {}, state.type)});
  }

  struct Pending {
    State state;
    std::vector<IndexRange> over;
    std::vector<Sym> reads;  ///< earlier states
  };
  const std::vector<Pending>& pending() const { return pending_; }
  const std::vector<IndexRange>& lhs() const { return lhs_; }

 private:
  static Expr raw_read(const Sym& sym, const Type& type) { return Expr(Access{sym, {}}, type); }

  Expr state_for(const Reduce& reduce, const Expr& expr) {
    std::vector<Sym> over;
    for (const auto& range : reduce.over) over.push_back(range.index);
    Expr body = extract(reduce.body, over);
    Expr guard = extract(reduce.guard, over);
    if (reduce.op == ReduceOp::sum && reduce.body->type.is_float()) {
      auto split = distribute(body);
      if (split.size() > 1) {
        std::vector<Term> parts;
        for (const Term& term : split) parts.push_back({term.negative, make_state(reduce, guard, term.expr, expr)});
        return sum_of(parts, type_f32);
      }
    }
    return make_state(reduce, guard, body, expr);
  }

  Expr make_state(const Reduce& reduce, const Expr& guard, const Expr& body, const Expr& expr) {
    Type type = reduce.op == ReduceOp::argmax ? type_i64
                : reduce.op == ReduceOp::any || reduce.op == ReduceOp::all
                    ? type_bool
                    : (body->type.is_float() ? type_f32 : type_i64);
    for (const Pending& known : pending_) {
      std::unordered_map<Sym, Sym> renaming;
      for (const auto& range : lhs_) renaming[range.index] = range.index;
      bool equal = known.state.op == reduce.op && known.over.size() == reduce.over.size();
      for (std::size_t k = 0; equal && k < reduce.over.size(); ++k) {
        equal = known.over[k].lo == reduce.over[k].lo && known.over[k].hi == reduce.over[k].hi;
        renaming[reduce.over[k].index] = known.over[k].index;
      }
      if (equal && unify(guard, known.state.direct_guard, renaming) && unify(body, known.state.direct_body, renaming))
        return raw_read(known.state.sym, type);
    }
    Pending made;
    made.over = reduce.over;
    made.state.sym = Sym::fresh("s" + std::to_string(pending_.size()));
    made.state.op = reduce.op;
    made.state.type = type;
    made.state.direct_guard = guard;
    made.state.direct_body = body;
    made.state.span = expr->span;
    auto note = [&](const Expr& part) {
      walk(part, [&](const Expr& e) {
        if (const auto* access = get_if<Access>(e))
          for (const Pending& p : pending_)
            if (p.state.sym == access->target &&
                std::find(made.reads.begin(), made.reads.end(), access->target) == made.reads.end())
              made.reads.push_back(access->target);
        return true;
      });
    };
    note(body);
    note(guard);
    pending_.push_back(made);
    return raw_read(made.state.sym, type);
  }

  bool reads_state(const Expr& expr) const {
    bool found = false;
    walk(expr, [&](const Expr& e) {
      if (const auto* access = get_if<Access>(e)) found = found || find(access->target);
      return !found;
    });
    return found;
  }
  const Pending* find(const Sym& sym) const {
    for (const Pending& p : pending_)
      if (p.state.sym == sym) return &p;
    return nullptr;
  }
  bool state_mentions(const Pending& p, const Sym& index) const {
    for (const Sym& read : p.reads) {
      const Pending* other = find(read);
      if (mentions(other->state.direct_body, index) ||
          (other->state.direct_guard && mentions(other->state.direct_guard, index)) || state_mentions(*other, index))
        return true;
    }
    return false;
  }

  /// (a - b) * c as a * c - b * c, where a or b reads a state: only then each term can be hoisted by itself.
  std::vector<Term> distribute(const Expr& body) const {
    std::vector<Term> out{{false, {}}};
    std::vector<std::vector<Factor>> products{{}};
    std::vector<bool> signs{false};
    for (const Factor& factor : factors(body)) {
      auto parts =
          factor.inverse || !reads_state(factor.expr) ? std::vector<Term>{{false, factor.expr}} : terms(factor.expr);
      if (products.size() * parts.size() > max_distributed_terms) return {{false, body}};
      std::vector<std::vector<Factor>> next;
      std::vector<bool> next_signs;
      for (std::size_t k = 0; k < products.size(); ++k)
        for (const Term& part : parts) {
          auto product = products[k];
          product.push_back({factor.inverse, part.expr});
          next.push_back(std::move(product));
          next_signs.push_back(signs[k] != part.negative);
        }
      products = std::move(next);
      signs = std::move(next_signs);
    }
    if (products.size() == 1) return {{false, body}};
    out.clear();
    for (std::size_t k = 0; k < products.size(); ++k) out.push_back({signs[k], product_of(products[k], type_f32)});
    return out;
  }

  /// Whether index x can be the broadcast side of contractions: products separate into factors with x and without.
  bool splits(const Sym& x) const {
    const Sym& lane = lhs_[lhs_.size() - 2].index;
    for (const Pending& p : pending_) {
      if (p.state.op != ReduceOp::sum || !p.state.type.is_float()) return false;
      bool with_x = false, with_lane = false;
      std::vector<Expr> conditions;
      std::vector<Factor> parts;
      peel(p.state.direct_body, conditions, parts);
      for (const Factor& f : parts) {
        bool has_x = mentions(f.expr, x), has_lane = mentions(f.expr, lane);
        if (has_x && has_lane) return false;
        with_x |= has_x;
        with_lane |= has_lane;
      }
      if (!with_x || !with_lane ||
          mentions_any(conjunction(conditions) ? conjunction(conditions) : boolean(true), {x}) ||
          (p.state.direct_guard && mentions(p.state.direct_guard, x)))
        return false;
    }
    return true;
  }

  void choose_row() {
    std::vector<const State*> states;
    std::vector<Sym> over;
    for (const Pending& p : pending_) {
      states.push_back(&p.state);
      for (const auto& range : p.over) over.push_back(range.index);
    }
    choose_row_for(states, over);
  }

  /// The lane index: the last row that fewest broadcast-side factors depend on. A factor is on the broadcast side if it
  /// varies along the stream (inside an inner reduction's product) or along an extra.
  void choose_row_for(const std::vector<const State*>& states, const std::vector<Sym>& over) {
    std::vector<Sym> broadcast = over;
    for (const auto& extra : nest.extras) broadcast.push_back(extra.index);
    auto conflicts = [&](const Sym& candidate) {
      int count = 0;
      auto product = [&](const Expr& body) {
        std::vector<Expr> conditions;
        std::vector<Factor> parts;
        peel(body, conditions, parts);
        for (const Factor& f : parts)
          if (get_if<Access>(f.expr) || !has_reduction(f.expr))
            count += mentions_any(f.expr, broadcast) && mentions(f.expr, candidate) && touches_memory(f.expr);
      };
      for (const State* state : states) {
        product(state->direct_body);
        walk(state->direct_body, [&](const Expr& e) {
          if (const auto* inner = get_if<Reduce>(e)) product(inner->body);
          return true;
        });
      }
      return count;
    };
    int best = std::numeric_limits<int>::max();
    for (const auto& range : nest.rows) {
      int now = conflicts(range.index);
      if (now <= best) {
        best = now;
        nest.row = range.index;
      }
    }
  }
  static bool touches_memory(const Expr& expr) {
    bool found = false;
    walk(expr, [&](const Expr& e) {
      found = found || get_if<Access>(e);
      return !found;
    });
    return found;
  }

  /// The full read of a state: extras, then the row.
  Expr complete_read(const Sym& sym, const std::vector<Sym>& extras, const Type& type) const {
    Access read{sym, {}};
    for (const Sym& extra : extras) read.subscripts.push_back(index(extra));
    if (nest.row) read.subscripts.push_back(index(nest.row));
    return Expr(std::move(read), type);
  }
  Expr complete(const Expr& expr) const {
    if (!expr) return expr;
    if (const auto* access = get_if<Access>(expr))
      if (const Pending* p = find(access->target)) return complete_read(p->state.sym, p->state.extras, p->state.type);
    return map_children(expr, [&](const Expr& child) { return complete(child); });
  }
  bool same_range(const std::vector<IndexRange>& a, const std::vector<IndexRange>& b) const {
    if (a.size() != b.size()) return false;
    for (std::size_t k = 0; k < a.size(); ++k)
      if (!(a[k].lo == b[k].lo && a[k].hi == b[k].hi)) return false;
    return true;
  }
  std::pair<std::size_t, const State*> placed(const Sym& sym) const {
    for (std::size_t k = 0; k < nest.phases.size(); ++k)
      for (const State& state : nest.phases[k].states)
        if (state.sym == sym) return {k, &state};
    return {0, nullptr};
  }

  /// Puts a state into the earliest sweep that the algebra allows.
  void place(Pending& p) {
    std::size_t ready = 0;  // the first phase in which everything it reads is complete
    for (const Sym& read : p.reads) ready = std::max(ready, placed(read).first + 1);
    std::string reason;
    for (std::size_t k = 0; k < nest.phases.size(); ++k) {
      if (!same_range(nest.phases[k].over, p.over)) continue;
      State state = renamed(p, nest.phases[k].over);
      if (k < ready && std::any_of(p.reads.begin(), p.reads.end(), [&](const Sym& s) { return placed(s).first > k; }))
        continue;
      if (auto why = analyse(state, k); why.empty()) {
        nest.phases[k].states.push_back(std::move(state));
        return;
      } else {
        reason = why;
      }
    }
    Phase phase{p.over, {}, ""};
    if (!nest.phases.empty())
      phase.reason = reason.empty() ? std::string(p.reads.empty()
                                                      ? "it runs along another range"
                                                      : "it needs values that are complete only after an earlier sweep")
                                    : reason;
    nest.phases.push_back(phase);
    State state = renamed(p, p.over);
    analyse(state, nest.phases.size() - 1);  // alone in its phase: everything it reads is complete
    nest.phases.back().states.push_back(std::move(state));
  }

  State renamed(const Pending& p, const std::vector<IndexRange>& over) const {
    std::unordered_map<Sym, Expr> names;
    for (std::size_t k = 0; k < over.size(); ++k)
      if (!(over[k].index == p.over[k].index)) names[p.over[k].index] = index(over[k].index);
    State state = p.state;
    state.direct_body = complete(substitute(state.direct_body, names));
    if (state.direct_guard) state.direct_guard = complete(substitute(state.direct_guard, names));
    return state;
  }

  /// Fills guard, body, hoisted, condition, repair for a state in phase k; "" or why it cannot run there.
  std::string analyse(State& state, std::size_t k) const {
    std::vector<Sym> over;
    for (const auto& range : nest.phases[k].over) over.push_back(range.index);
    auto runs_here = [&](const Sym& sym) {
      const auto [phase, found] = placed(sym);
      return found && phase == k;
    };
    auto reads_running = [&](const Expr& expr) {
      bool found = false;
      walk(expr, [&](const Expr& e) {
        if (const auto* access = get_if<Access>(e)) found = found || runs_here(access->target);
        return !found;
      });
      return found;
    };
    std::vector<Expr> guard = conjuncts(state.direct_guard);
    std::vector<Factor> product;
    if (state.op == ReduceOp::sum && state.type.is_float()) {
      peel(state.direct_body, guard, product);
    } else {
      Expr body = state.direct_body;
      while (const auto* where = get_if<Where>(body)) {
        for (const Expr& c : conjuncts(where->condition)) guard.push_back(c);
        body = where->body;
      }
      if (reads_running(body)) return "a " + op_name(state.op) + " has no factor that repairs an earlier running value";
      product.push_back({false, body});
    }
    std::vector<Expr> varying;
    for (const Expr& condition : guard) {
      if (state.op == ReduceOp::sum && state.type.is_float() && !mentions_any(condition, over)) {
        state.condition = state.condition ? link(LinkOp::both, state.condition, condition) : condition;
      } else {
        if (reads_running(condition)) return "its guard reads a running value";
        varying.push_back(condition);
      }
    }
    state.guard = conjunction(varying);
    std::vector<Factor> kept;
    for (const Factor& factor : product) {
      if (state.op == ReduceOp::sum && state.type.is_float() && !mentions_any(factor.expr, over)) {
        state.hoisted.push_back(factor);
        continue;
      }
      const auto* call = get_if<Unary>(factor.expr);
      if (call && (call->op == UnaryOp::exp || call->op == UnaryOp::exp2)) {
        std::vector<Term> without;
        for (const Term& term : terms(call->operand)) {
          const auto* access = get_if<Access>(term.expr);
          // What runs is what is asked for only where nothing was hoisted out of it.
          if (access && runs_here(access->target) && placed(access->target).second->extras.empty() &&
              placed(access->target).second->hoisted.empty() && !placed(access->target).second->condition) {
            double coefficient =
                (term.negative != factor.inverse ? -1.0 : 1.0) * (call->op == UnaryOp::exp2 ? std::log(2.0) : 1.0);
            state.repair.emplace_back(access->target, coefficient);
          } else if (reads_running(term.expr)) {
            return "no factor repairs `exp` of an expression that reads a running value other than as a plain term";
          } else {
            without.push_back(term);
          }
        }
        if (!factor.inverse) state.exponents.push_back(sum_of(without, type_f32));
      } else if (reads_running(factor.expr)) {
        return "no factor repairs a running value outside of an exponent";
      }
      kept.push_back(factor);
    }
    state.body = product_of(kept, state.type);
    if (kept.empty()) state.body = state.type.is_float() ? real(1) : integer(1);
    return "";
  }

  static std::string op_name(ReduceOp op) {
    switch (op) {
      case ReduceOp::sum: return "integer sum";
      case ReduceOp::max: return "max";
      case ReduceOp::min: return "min";
      case ReduceOp::prod: return "prod";
      case ReduceOp::any: return "any";
      case ReduceOp::all: return "all";
      case ReduceOp::argmax: return "argmax";
      case ReduceOp::bound: return "running maximum";
      default: return "reduction";
    }
  }

  std::vector<IndexRange> lhs_;
  std::vector<Pending> pending_;
};

/// A renaming of the new output's indices to those of a nest whose states it shares; empty where they do not match.
std::unordered_map<Sym, Sym> shared_rows(const NestBuilder& fresh, const NestBuilder& old) {
  for (const auto& a : fresh.pending())
    for (const auto& b : old.pending()) {
      if (a.state.op != b.state.op || a.over.size() != b.over.size() || !a.reads.empty() || !b.reads.empty()) continue;
      std::unordered_map<Sym, Sym> renaming;
      bool equal = true;
      for (std::size_t k = 0; equal && k < a.over.size(); ++k) {
        equal = a.over[k].lo == b.over[k].lo && a.over[k].hi == b.over[k].hi;
        renaming[a.over[k].index] = b.over[k].index;
      }
      if (!equal || !unify(a.state.direct_guard, b.state.direct_guard, renaming) ||
          !unify(a.state.direct_body, b.state.direct_body, renaming))
        continue;
      std::unordered_map<Sym, Sym> rows;
      std::set<Sym> taken;
      bool extents = true;
      for (const auto& range : fresh.lhs()) {
        auto at = renaming.find(range.index);
        if (at == renaming.end()) continue;
        auto other = std::find_if(old.lhs().begin(), old.lhs().end(),
                                  [&](const IndexRange& r) { return r.index == at->second; });
        extents = extents && other != old.lhs().end() && other->hi == range.hi && taken.insert(at->second).second;
        rows[range.index] = at->second;
      }
      if (extents && !rows.empty()) return rows;
    }
  return {};
}

}  // namespace

Expr identity(ReduceOp op, const Type& type) {
  const double inf = std::numeric_limits<double>::infinity();
  switch (op) {
    case ReduceOp::prod: return type.is_float() ? real(1) : integer(1);
    case ReduceOp::max: return type.is_float() ? real(-inf) : integer(std::numeric_limits<std::int64_t>::min());
    case ReduceOp::min: return type.is_float() ? real(inf) : integer(std::numeric_limits<std::int64_t>::max());
    case ReduceOp::any: return boolean(false);
    case ReduceOp::all: return boolean(true);
    case ReduceOp::argmax: return integer(-1);
    case ReduceOp::bound: return real(exponent_floor);
    default: return type.is_float() ? real(0) : integer(0);
  }
}

Streams stream(const Program& original) {
  Inlined inlined = inline_definitions(original);
  Streams out;
  out.program = inlined.program;
  out.temporaries = inlined.temporaries;
  std::vector<NestBuilder> builders;
  std::vector<std::set<Sym>> writes;
  for (const Root& root : inlined.roots) {
    std::vector<Sym> indices;
    for (const auto& range : root.indices) indices.push_back(range.index);
    std::set<Sym> needs;
    walk(root.value, [&](const Expr& e) {
      if (const auto* access = get_if<Access>(e))
        for (const auto& t : out.temporaries)
          if (t.sym == access->target) needs.insert(t.sym);
      return true;
    });
    NestBuilder fresh(root.indices);
    if (const auto* scan = get_if<Cumsum>(root.value)) {
      fresh.add_scan(root.target, indices, *scan);
      builders.push_back(std::move(fresh));
      writes.push_back({root.target});
      continue;
    }
    fresh.add_output(root.target, indices, root.value);
    bool merged = false;
    for (std::size_t k = 0; !merged && k < builders.size(); ++k) {
      if (builders[k].nest.scan) continue;
      bool available = true;  // everything it reads is written by earlier nests
      for (const Sym& need : needs) {
        bool earlier = false;
        for (std::size_t w = 0; w < k; ++w) earlier = earlier || writes[w].contains(need);
        available = available && earlier;
      }
      auto rows = shared_rows(fresh, builders[k]);
      if (!available || rows.empty() || rows.size() != root.indices.size()) continue;
      std::unordered_map<Sym, Expr> names;
      for (const auto& [from, to] : rows) names[from] = index(to);
      std::vector<Sym> renamed;
      for (const Sym& sym : indices) renamed.push_back(rows.at(sym));
      builders[k].add_output(root.target, renamed, substitute(root.value, names));
      writes[k].insert(root.target);
      merged = true;
    }
    if (!merged) {
      builders.push_back(std::move(fresh));
      writes.push_back({root.target});
    }
  }
  for (NestBuilder& builder : builders) {
    if (!builder.nest.scan) builder.finish();
    out.nests.push_back(std::move(builder.nest));
  }
  return out;
}

Merge merge(const Phase& phase) {
  Merge out;
  std::vector<Expr> a, b, joined;
  auto read = [](const Sym& sym, const Type& type) { return Expr(Scalar{sym}, type); };
  for (const State& state : phase.states) {
    out.a.push_back(Sym::fresh(state.sym.text() + ".a"));
    out.b.push_back(Sym::fresh(state.sym.text() + ".b"));
    Expr left = read(out.a.back(), state.type), right = read(out.b.back(), state.type);
    for (const auto& [other, coefficient] : state.repair) {
      std::size_t at = 0;
      while (!(phase.states[at].sym == other)) ++at;
      auto repaired = [&, &coefficient = coefficient](const Expr& value, const Expr& old) {
        Expr moved = unary(UnaryOp::exp, link(LinkOp::mul, real(coefficient), link(LinkOp::sub, joined[at], old)));
        return link(LinkOp::mul, value,
                    Expr(Select{compare(Relation::equal, joined[at], old), real(1), moved}, type_f32));
      };
      left = repaired(left, a[at]);
      right = repaired(right, b[at]);
    }
    a.push_back(read(out.a.back(), state.type));
    b.push_back(read(out.b.back(), state.type));
    out.identity.push_back(identity(state.op, state.type));
    LinkOp op = LinkOp::add;
    switch (state.op) {
      case ReduceOp::argmax:
        joined.emplace_back();
        out.combined.emplace_back();
        continue;
      case ReduceOp::max:
      case ReduceOp::bound: op = LinkOp::max; break;
      case ReduceOp::min: op = LinkOp::min; break;
      case ReduceOp::prod: op = LinkOp::mul; break;
      case ReduceOp::any: op = LinkOp::either; break;
      case ReduceOp::all: op = LinkOp::both; break;
      default: break;
    }
    joined.push_back(link(op, left, right));
    out.combined.push_back(joined.back());
  }
  return out;
}

}  // namespace attune::tensor
