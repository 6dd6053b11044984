// SPDX-License-Identifier: Apache-2.0
// Inference: reductions, which bind their indices, and softmax and cumsum, which work along indices in scope.
#include <algorithm>

#include "syntax/words.hpp"
#include "tensor/infer.hpp"

namespace attune::tensor::inference {
namespace {

using ast::Reducer;

ReduceOp op_of(Reducer reducer) {
  switch (reducer) {
    case Reducer::max: return ReduceOp::max;
    case Reducer::min: return ReduceOp::min;
    case Reducer::mean: return ReduceOp::mean;
    case Reducer::prod: return ReduceOp::prod;
    case Reducer::any: return ReduceOp::any;
    case Reducer::all: return ReduceOp::all;
    case Reducer::logsumexp: return ReduceOp::logsumexp;
    case Reducer::argmax: return ReduceOp::argmax;
    default: return ReduceOp::sum;
  }
}

std::string quoted(Reducer reducer) { return "`" + std::string(ast::word(reducer)) + "`"; }

}  // namespace

Value Inference::reduction(const ast::Reduction& reduction, Span span) {
  const Reducer reducer = reduction.reducer;
  const Span word = reduction.reducer_span == Span{} ? span : reduction.reducer_span;
  bool ok = true;
  if (reduction.indices.empty()) {
    error("A0218", word, quoted(reducer) + " needs an index");
    ok = false;
  }
  if ((reducer == Reducer::argmax || reducer == Reducer::cumsum) && reduction.indices.size() > 1) {
    error("A0218", reduction.indices[1].span, quoted(reducer) + " takes one index", "this is a second one");
    ok = false;
  }
  if (reduction.extra && reducer != Reducer::softmax && reducer != Reducer::logsumexp) {
    error("A0219", reduction.extra->span, quoted(reducer) + " takes no `extra`", "",
          "only `softmax` and `logsumexp` have an extra term; add it outside");
    ok = false;
  }
  if (in_default_) {
    error("A0231", word, "a default may not reduce", "", "");
    return {};
  }
  const bool works_along = reducer == Reducer::softmax || reducer == Reducer::cumsum;
  ++level_;  // it takes twice the stack of other levels
  Value value = works_along ? along(reduction, span) : binding(reduction, span);
  --level_;
  return ok ? value : Value{};
}

Value Inference::body_of(const ast::Reduction& reduction, Value body) {
  if (!body) return {};
  const Reducer reducer = reduction.reducer;
  const Type& type = body.expr->type;
  const Span place = reduction.body->span;
  switch (reducer) {
    case Reducer::any:
    case Reducer::all: return condition(std::move(body), place, "the body of " + quoted(reducer));
    case Reducer::softmax:
    case Reducer::logsumexp: return type.is_float() ? body : convert(std::move(body), type_f32);
    case Reducer::argmax: return number(std::move(body));
    default: break;
  }
  if (type.is_bool()) {
    std::string help = "convert it with `f32(...)` or `i64(...)`";
    if (reducer == Reducer::sum && !reduction.indices.empty())
      help = "count with `sum[" + reduction.indices[0].name + " where ...](1)`";
    if (reducer == Reducer::max) help = "use `any`";
    if (reducer == Reducer::min || reducer == Reducer::prod) help = "use `all`";
    error("A0214", place, "the body of " + quoted(reducer) + " is bool", "this is a condition", help);
    return {};
  }
  if (reducer == Reducer::mean && !type.is_float()) return convert(std::move(body), type_f32);
  return body;
}

Inference::Parts Inference::parts(const ast::Reduction& reduction, const std::vector<Sym>& indices) {
  Parts parts;
  if (reduction.guard) {
    parts.guard = condition(expr(reduction.guard), reduction.guard->span, "a `where`");
    parts.ok = parts.ok && parts.guard;
  }
  parts.body = body_of(reduction, expr(reduction.body));
  parts.ok = parts.ok && parts.body;
  if (!reduction.extra) return parts;
  parts.extra = number(expr(reduction.extra));
  if (parts.extra && !parts.extra.expr->type.is_float()) parts.extra = convert(std::move(parts.extra), type_f32);
  parts.ok = parts.ok && parts.extra;
  if (!parts.extra) return parts;
  for (const Sym& index : indices)
    if (mentions(parts.extra.expr, index)) {
      error("A0219", reduction.extra->span, "`extra` may not use the index `" + index.text() + "` of its reduction",
            "there is one extra term for the whole row", "");
      parts.ok = false;
    }
  return parts;
}

/// Names a new index and gives it its written range; false where the name is taken.
bool Inference::bind_index(const ast::Index& index, std::size_t first_local, Sym& sym) {
  sym = Sym::fresh(index.name);
  IndexInfo& info = indices_[sym];
  info.sym = sym;
  info.span = at(index.span);
  if (index.lo || index.hi) {
    info.written = true;
    info.lo = bound(index.lo, index.name);
    info.hi = bound(index.hi, index.name);
    info.poisoned = !info.lo || !info.hi;
  }
  const std::string quoted_name = "`" + index.name + "`";
  for (std::size_t k = frame_->locals.size(); k-- > 0;) {
    const Local& local = frame_->locals[k];
    if (local.name != index.name) continue;
    info.poisoned = true;
    if (local.index) indices_.at(local.index).poisoned = true;  // which of the two is used is unclear
    Diagnostic& d = k >= first_local
                        ? error("A0202", index.span, quoted_name + " is bound twice here", "the second time")
                        : error("A0205", index.span,
                                "index " + quoted_name + " shadows " +
                                    (local.argument ? "a parameter of the function" : "an index in scope"),
                                "", "choose another name");
    if (!(local.span == Span{}) && !frame_->pinned) d.labels.push_back({local.span, "first bound here"});
    return false;
  }
  if (const Named* named = find_named(index.name)) {
    info.poisoned = true;
    Diagnostic& d =
        error("A0205", index.span,
              "index " + quoted_name + " shadows the " + std::string(describe(named->entity)) + " " + quoted_name, "",
              "choose another name");
    if (!(named->span == Span{})) d.labels.push_back({named->span, "declared here"});
    return false;
  }
  return true;
}

Value Inference::binding(const ast::Reduction& reduction, Span span) {
  const std::size_t outside = frame_->locals.size();
  std::vector<Sym> indices;
  for (const ast::Index& index : reduction.indices) {
    Sym sym;
    bind_index(index, outside, sym);  // a name taken twice is reported; the inner one counts
    indices.push_back(sym);
    frame_->locals.push_back({index.name, sym, nullptr, at(index.span)});
  }
  Parts parts = this->parts(reduction, indices);
  frame_->locals.resize(outside);

  Reduce made{op_of(reduction.reducer), {}, parts.guard.expr, parts.body.expr, parts.extra.expr};
  bool ok = parts.ok && !indices.empty();
  for (const Sym& sym : indices) {
    made.over.push_back(close(sym));
    ok = ok && made.over.back().hi;
  }
  if (!ok) return {};
  if (any_along(made.over)) {
    made.body = fill_along(made.body, made.over);
    if (made.guard) made.guard = fill_along(made.guard, made.over);
  }
  Type type = type_f32;
  switch (made.op) {
    case ReduceOp::any:
    case ReduceOp::all: type = type_bool; break;
    case ReduceOp::argmax: type = type_i64; break;
    case ReduceOp::mean:
    case ReduceOp::logsumexp: break;
    default: type = made.body->type.is_float() ? type_f32 : type_i64; break;
  }
  Value value = finish(Expr(std::move(made), type, at(span)), {&parts.guard, &parts.body, &parts.extra}, true);
  value.binds = true;
  return value;
}

Value Inference::along(const ast::Reduction& reduction, Span span) {
  const Reducer reducer = reduction.reducer;
  std::vector<Sym> indices;
  bool ok = true;
  const std::size_t outside = frame_->locals.size();
  Argument nothing;  // stands for what is not in scope, so that its uses are not reported too
  nothing.known = true;
  for (const ast::Index& index : reduction.indices) {
    if (index.lo || index.hi) {
      error("A0218", index.span, quoted(reducer) + " takes no range", "`" + index.name + "` has its own already",
            "restrict it with `where`");
      ok = false;
    }
    Sym sym;
    if (const Local* local = find_local(index.name)) {
      sym = local->index;
      if (local->argument) {
        const Value given = argument(*local->argument);
        const auto* passed = get_if<Index>(given.expr);
        if (passed) {
          sym = passed->index;
        } else {
          if (given)
            error("A0218", index.span,
                  quoted(reducer) + " works along an index, and `" + index.name + "` stands for an expression here", "",
                  "pass an index to the function");
          ok = false;
          continue;
        }
      }
    } else {
      std::vector<std::string> candidates;
      for (const Local& other : frame_->locals) candidates.push_back(other.name);
      const std::string near = did_you_mean(index.name, candidates);
      error("A0201", index.span, "index `" + index.name + "` is not in scope",
            quoted(reducer) + " works along an index that is bound outside",
            near.empty() ? "bind it on the left of the definition or in a reduction around this"
                         : "did you mean `" + near + "`?");
      frame_->locals.push_back({index.name, {}, &nothing, {}});
      ok = false;
      continue;
    }
    if (std::find(indices.begin(), indices.end(), sym) != indices.end()) {
      error("A0202", index.span, "`" + index.name + "` is listed twice here", "the second time");
      ok = false;
    }
    indices.push_back(sym);
    if (auto info = indices_.find(sym); info != indices_.end()) info->second.along = true;
  }
  Parts parts = this->parts(reduction, indices);
  frame_->locals.resize(outside);
  if (!ok || !parts.ok || indices.empty()) return {};
  std::vector<IndexRange> ranges;  // their bounds are filled in where the index' scope ends
  for (const Sym& sym : indices) ranges.push_back({sym, {}, {}});
  if (reducer == Reducer::softmax)
    return finish(
        Expr(Softmax{std::move(ranges), parts.guard.expr, parts.body.expr, parts.extra.expr}, type_f32, at(span)),
        {&parts.guard, &parts.body, &parts.extra}, true);
  const Type type = parts.body.expr->type.is_float() ? type_f32 : type_i64;
  return finish(Expr(Cumsum{ranges[0], parts.guard.expr, parts.body.expr}, type, at(span)), {&parts.guard, &parts.body},
                true);
}

}  // namespace attune::tensor::inference
