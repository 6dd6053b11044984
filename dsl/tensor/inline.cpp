// SPDX-License-Identifier: Apache-2.0
// Decides what is stored: running sums, what is read at computed subscripts, and what is too large to copy.
#include "tensor/inline.hpp"

#include <algorithm>

namespace attune::tensor {
namespace {

constexpr std::size_t max_copied_nodes = 4000;

std::size_t tree_size(const Expr& expr, std::size_t limit) {
  std::size_t count = 0;
  walk(expr, [&](const Expr&) { return ++count < limit; });
  return count;
}

class Inliner {
 public:
  explicit Inliner(const Program& program) : program_(program) { out_.program = program; }

  Inlined run() {
    find_gathered();
    for (const Definition& definition : program_.definitions) {
      ranges_ = definition.indices;
      current_ = &definition;
      Expr body = expand(definition.body);
      auto reason = reasons_.find(definition.sym);
      std::string why = reason != reasons_.end() ? reason->second : "";
      if (why.empty() && tree_size(body, max_copied_nodes + 1) > max_copied_nodes)
        why = "its formula is too large to be copied into every reader";
      if (const Sym* same = stored_alike(body, definition.indices)) {
        stored_[definition.sym] = *same;
      } else if (!why.empty() && is_read(definition.sym)) {
        Sym temp = store(definition.sym.text(), definition.indices, body, why, definition.sym);
        stored_[definition.sym] = temp;
        body = read(temp, definition.indices, body->type);
      }
      bodies_[definition.sym] = {definition.indices, body};
    }
    for (const Tensor& result : program_.results) {
      const auto& [indices, body] = bodies_.at(result.sym);
      out_.roots.push_back({result.sym, indices, body});
    }
    out_.program.definitions.clear();
    // Nothing beyond this point sees definitions: temporaries read like tensors.
    for (const Temporary& t : out_.temporaries) out_.program.tensors.push_back({t.sym, t.type, t.extents, {}});
    return std::move(out_);
  }

 private:
  void find_gathered() {
    for (const Definition& definition : program_.definitions)
      walk(definition.body, [&](const Expr& e) {
        const auto* access = get_if<Access>(e);
        if (!access || !program_.find_definition(access->target)) return true;
        std::vector<Sym> seen;
        for (const Expr& subscript : access->subscripts) {
          const auto* direct = get_if<Index>(subscript);
          bool repeated = direct && std::find(seen.begin(), seen.end(), direct->index) != seen.end();
          if (!direct || repeated)
            reasons_[access->target] = repeated ? "it is read along a diagonal" : "it is read at computed subscripts";
          if (direct) seen.push_back(direct->index);
        }
        return true;
      });
  }

  bool is_read(const Sym& sym) const {
    bool found = false;
    for (const Definition& definition : program_.definitions)
      walk(definition.body, [&](const Expr& e) {
        if (const auto* access = get_if<Access>(e)) found = found || access->target == sym;
        return !found;
      });
    return found;
  }

  /// The temporary that holds `body` at the same indices already, if one does.
  const Sym* stored_alike(const Expr& body, const std::vector<IndexRange>& indices) const {
    const auto* access = get_if<Access>(body);
    if (!access || access->subscripts.size() != indices.size()) return nullptr;
    for (std::size_t k = 0; k < indices.size(); ++k) {
      const auto* direct = get_if<Index>(access->subscripts[k]);
      if (!direct || !(direct->index == indices[k].index)) return nullptr;
    }
    for (const Temporary& t : out_.temporaries)
      if (t.sym == access->target && std::equal(indices.begin(), indices.end(), t.extents.begin(), t.extents.end(),
                                                [](const IndexRange& a, const Expr& b) { return a.hi == b; }))
        return &t.sym;
    return nullptr;
  }

  static Expr read(const Sym& target, const std::vector<IndexRange>& indices, const Type& type) {
    Access access{target, {}};
    for (const auto& range : indices) access.subscripts.push_back(index(range.index));
    return Expr(std::move(access), type);
  }

  Sym store(const std::string& name, const std::vector<IndexRange>& indices, const Expr& body, std::string why,
            const Sym& definition) {
    Temporary t;
    t.sym = Sym::fresh(name);
    // A rounded value stays exact in f32.
    t.type = body->type.is_float() ? type_f32 : body->type.is_bool() ? type_bool : type_i64;
    for (const auto& range : indices) t.extents.push_back(range.hi);
    if (may_be_absent(body, out_.program, indices)) t.presence = Sym::fresh(name + ".present");
    t.reason = std::move(why);
    t.definition = definition;
    t.span = definition ? program_.find_definition(definition)->span : body->span;
    out_.temporaries.push_back(t);
    out_.roots.push_back({t.sym, indices, body});
    return t.sym;
  }

  Expr expand(const Expr& expr) {
    std::size_t depth = ranges_.size();
    if (const auto* reduce = get_if<Reduce>(expr))
      for (const auto& range : reduce->over) ranges_.push_back(range);
    Expr current = map_children(expr, [&](const Expr& child) { return expand(child); });
    ranges_.resize(depth);
    if (const auto* access = get_if<Access>(current)) {
      auto stored = stored_.find(access->target);
      if (stored != stored_.end())
        return Expr(Access{stored->second, access->subscripts}, current->type, current->span);
      auto body = bodies_.find(access->target);
      if (body == bodies_.end()) return current;
      std::unordered_map<Sym, Expr> values;
      for (std::size_t k = 0; k < access->subscripts.size(); ++k)
        values[body->second.first[k].index] = access->subscripts[k];
      return substitute(body->second.second, values);
    }
    if (const auto* scan = get_if<Cumsum>(current)) {
      std::vector<IndexRange> indices;
      for (const Sym& sym : free_indices(current))
        if (!(sym == scan->along.index))
          for (const auto& range : ranges_)
            if (range.index == sym) indices.push_back(range);
      indices.push_back(scan->along);
      // Own indices, so that the stored scan does not share the reader's.
      std::unordered_map<Sym, Expr> names;
      std::vector<IndexRange> own = indices;
      for (auto& range : own) {
        Sym fresh = Sym::fresh(range.index.text());
        names[range.index] = index(fresh);
        range.index = fresh;
      }
      Cumsum copy = *scan;
      copy.along = own.back();
      copy.body = refresh(substitute(copy.body, names));
      if (copy.guard) copy.guard = refresh(substitute(copy.guard, names));
      Expr body(std::move(copy), current->type, current->span);
      const bool whole = expr.same(current_->body);  // the definition is this running sum
      Sym temp = store(whole ? current_->sym.text() : "scan", own, body,
                       "a running sum along `" + scan->along.index.text() + "` is read at every step", current_->sym);
      return read(temp, indices, current->type);
    }
    return current;
  }

  const Program& program_;
  Inlined out_;
  std::unordered_map<Sym, std::string> reasons_;
  std::unordered_map<Sym, Sym> stored_;
  std::unordered_map<Sym, std::pair<std::vector<IndexRange>, Expr>> bodies_;
  std::vector<IndexRange> ranges_;
  const Definition* current_ = nullptr;
};

}  // namespace

Inlined inline_definitions(const Program& program) { return Inliner(program).run(); }

}  // namespace attune::tensor
