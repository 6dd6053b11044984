// SPDX-License-Identifier: Apache-2.0
// Values of expressions: what is present where (language.md, rules 11 to 14), conditions after Kleene, sums and
// products with their algebra of absent. Every value is pure: reads never leave their memory, whatever is demanded.
#include <algorithm>

#include "backend/cpu/emit.hpp"

namespace attune::cpu {

using tensor::get_if;
using tensor::LinkOp;
using tensor::Relation;

void Emitter::enter_uniform() {
  env_ = {};
  env_.id = env_.first_id = ++next_env_;
}

void Emitter::enter_vector(const Sym& index, const V& base, int width, const V& relative) {
  env_ = {index, width, base, relative, ++next_env_, 0};
  env_.first_id = ++next_env_;
}

void Emitter::renew() {
  env_.id = ++next_env_;
  env_.first_id = ++next_env_;
}

Value Emitter::value(const Expr& expr) {
  if (!expr) throw Malformed{"an expression is missing", {}};
  const MemoKey key{expr.get(), env_.id};
  if (const auto found = memo_.find(key); found != memo_.end()) return found->second;
  Value result = evaluate(expr);
  memo_.emplace(key, result);
  return result;
}

V Emitter::uniform(const Expr& expr) {
  Value result = value(expr);
  if (result.v.width != 1) throw Malformed{"a bound varies along the vector", expr->span};
  return result.v;
}

V Emitter::at_first_element(const Expr& expr) {
  const Env vector = env_;
  env_ = {};
  env_.id = env_.first_id = vector.first_id;
  indices_[vector.vector] = vector.base;
  const V result = uniform(expr);
  indices_.erase(vector.vector);
  env_ = vector;
  return result;
}

Value Emitter::settled(Value value) {
  if (value.present && value.present->whole == 1) value.present.reset();
  if (value.present && value.v.kind == Kind::i1) value.v = land(value.v, *value.present);
  return value;
}

Value Emitter::scalar_value(const Sym& sym) {
  if (const auto let = lets_.find(sym); let != lets_.end()) return let->second;
  for (std::size_t k = 0; k < kernel_.scalars.size(); ++k) {
    if (!(kernel_.scalars[k] == sym)) continue;
    const DType dtype = kernel_.scalar_types[k].dtype;
    if (is_float(dtype)) {
      const V place = element_pointer(frame_array(4), Kind::i64, integer(static_cast<std::int64_t>(k)));
      return {define("load float, ptr " + place.s + ", align 8, !invariant.load !0", Kind::f32, 1, 0), {}};
    }
    const V word = frame_word(4, k);
    return {is_bool(dtype) ? compare("icmp ne", word, integer(0)) : word, {}};
  }
  throw Malformed{"scalar `" + sym.text() + "` is not bound", {}};
}

Value Emitter::evaluate(const Expr& expr) {
  const auto inside = [&](const char* what) -> Value {
    throw Malformed{std::string(what) + " inside an expression of a loop nest", expr->span};
  };
  return match(
      expr->kind,
      [&](const tensor::Literal& literal) -> Value {
        if (const auto* whole = std::get_if<std::int64_t>(&literal.value))
          return {expr->type.is_float() ? real(static_cast<float>(*whole)) : integer(*whole), {}};
        if (const auto* number = std::get_if<double>(&literal.value)) return {real(static_cast<float>(*number)), {}};
        return {truth(std::get<bool>(literal.value)), {}};
      },
      [&](const tensor::Index& index) -> Value {
        if (env_.width > 1 && index.index == env_.vector)
          return {binary("add", spread(env_.base, env_.width), iota(env_.width)), {}};
        const auto bound = indices_.find(index.index);
        if (bound == indices_.end()) throw Malformed{"index `" + index.index.text() + "` is not bound", expr->span};
        return {bound->second, {}};
      },
      [&](const tensor::Dim& dim) -> Value {
        const auto found = std::find(kernel_.dims.begin(), kernel_.dims.end(), dim.dim);
        if (found == kernel_.dims.end()) throw Malformed{"dim `" + dim.dim.text() + "` is not bound", expr->span};
        return {frame_word(3, static_cast<std::size_t>(found - kernel_.dims.begin())), {}};
      },
      [&](const tensor::Scalar& scalar) -> Value { return scalar_value(scalar.scalar); },
      [&](const tensor::Access& access) -> Value { return settled(read(access, expr)); },
      [&](const tensor::Unary& unary) -> Value { return evaluate_unary(unary, expr); },
      [&](const tensor::Chain& chain) -> Value { return evaluate_chain(chain, expr); },
      [&](const tensor::Power& power) -> Value { return evaluate_power(power, expr); },
      [&](const tensor::Compare& node) -> Value { return evaluate_compare(node); },
      [&](const tensor::Select& node) -> Value {
        const Value condition = value(node.condition), then = value(node.then), otherwise = value(node.otherwise);
        Value result{select(condition.v, then.v, otherwise.v), condition.present};
        if (then.present || otherwise.present)
          result.present = both(result.present, select(condition.v, then.present.value_or(truth(true)),
                                                       otherwise.present.value_or(truth(true))));
        return settled(result);
      },
      [&](const tensor::Cast& cast) -> Value { return evaluate_cast(cast, expr); },
      [&](const tensor::Random& random) -> Value { return evaluate_random(random); },
      [&](const tensor::Reduce&) -> Value { return inside("a reduction"); },
      [&](const tensor::Softmax&) -> Value { return inside("a softmax"); },
      [&](const tensor::Cumsum&) -> Value { return inside("a cumsum"); },
      [&](const tensor::Where& where) -> Value {
        const Value condition = value(where.condition), body = value(where.body);
        return settled({body.v, both(condition.v, body.present)});
      });
}

Value Emitter::evaluate_chain(const tensor::Chain& chain, const Expr& expr) {
  if (chain.links.empty() || chain.args.size() != chain.links.size() + 1)
    throw Malformed{"a chain with the wrong number of operands", expr->span};
  switch (chain.links[0]) {
    case LinkOp::add:
    case LinkOp::sub: return evaluate_sum(chain, expr);
    case LinkOp::mul:
    case LinkOp::div:
    case LinkOp::floordiv:
    case LinkOp::mod: return evaluate_product(chain, expr);
    case LinkOp::min:
    case LinkOp::max: return evaluate_extremum(chain, expr);
    case LinkOp::both:
    case LinkOp::either: break;
  }
  std::vector<Value> args;
  for (const Expr& arg : chain.args) args.push_back(value(arg));
  return evaluate_logical(args, chain.links[0] == LinkOp::both);
}

/// absent + x = x; the sum is absent where all of its terms are.
Value Emitter::evaluate_sum(const tensor::Chain& chain, const Expr& expr) {
  const bool whole = expr->type.is_integer();
  struct Term {
    V v;
    bool negative;
  };
  std::vector<Term> terms;
  Mask present;
  for (std::size_t k = 0; k < chain.args.size(); ++k) {
    Value arg = value(chain.args[k]);
    present = k == 0 ? arg.present : either(present, arg.present);
    if (arg.present) arg.v = select(*arg.present, arg.v, whole ? integer(0) : real(0));
    terms.push_back({arg.v, k > 0 && chain.links[k - 1] == LinkOp::sub});
  }
  if (whole) {
    // Exact and wrapping, so the order is free: what is known further out is added there.
    std::stable_sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) {
      if ((a.v.width > 1) != (b.v.width > 1)) return b.v.width > 1;
      return a.v.level != b.v.level ? a.v.level < b.v.level : a.negative < b.negative;
    });
    V total = integer(0);
    for (const Term& term : terms) total = term.negative ? sub(total, term.v) : add(total, term.v);
    return {total, present};
  }
  V total = terms[0].v;
  for (std::size_t k = 1; k < terms.size(); ++k)
    total = binary(terms[k].negative ? "fsub contract" : "fadd contract", total, terms[k].v);
  return {total, present};
}

bool Emitter::launch_constant(const Expr& expr) const {
  bool constant = true;
  tensor::walk(expr, [&](const Expr& e) {
    if (get_if<tensor::Index>(e) || get_if<tensor::Access>(e)) constant = false;
    if (const auto* scalar = get_if<tensor::Scalar>(e)) {
      const auto let = proofs_.lets.find(scalar->scalar);
      if (let != proofs_.lets.end() && !launch_constant(let->second)) constant = false;
    }
    return constant;
  });
  return constant;
}

/// Absent where any factor is, and where a divisor that depends on an index or on data is 0.
Value Emitter::evaluate_product(const tensor::Chain& chain, const Expr& expr) {
  const bool whole = expr->type.is_integer();
  std::vector<Value> args;
  for (const Expr& arg : chain.args) args.push_back(value(arg));
  Mask present;
  for (const Value& arg : args) present = both(present, arg.present);
  const bool only_mul =
      std::all_of(chain.links.begin(), chain.links.end(), [](LinkOp op) { return op == LinkOp::mul; });
  if (whole && only_mul) {
    std::stable_sort(args.begin(), args.end(), [](const Value& a, const Value& b) {
      if ((a.v.width > 1) != (b.v.width > 1)) return b.v.width > 1;
      return a.v.level < b.v.level;
    });
    V total = integer(1);
    for (const Value& arg : args) total = mul(total, arg.v);
    return {total, present};
  }
  V total = args[0].v;
  for (std::size_t k = 0; k < chain.links.size(); ++k) {
    const V& next = args[k + 1].v;
    switch (chain.links[k]) {
      case LinkOp::mul: total = whole ? mul(total, next) : binary("fmul contract", total, next); break;
      case LinkOp::div: total = binary("fdiv", total, next); break;
      default:
        if (next.whole ? *next.whole == 0 : !launch_constant(chain.args[k + 1]))
          present = both(present, next.whole ? truth(false) : compare("icmp ne", next, integer(0)));
        total = divide(total, next, chain.links[k] == LinkOp::mod);
    }
  }
  return {total, present};
}

Value Emitter::evaluate_extremum(const tensor::Chain& chain, const Expr& expr) {
  const bool most = chain.links[0] == LinkOp::max;
  Value total = value(chain.args[0]);
  for (std::size_t k = 1; k < chain.args.size(); ++k) {
    const Value next = value(chain.args[k]);
    total.present = both(total.present, next.present);
    if (expr->type.is_integer())
      total.v = most ? maximum(total.v, next.v) : minimum(total.v, next.v);
    else
      total.v = most ? larger(total.v, next.v, true) : smaller(total.v, next.v);
  }
  return total;
}

/// Absent operands are false in `v`, so a conjunction is decided where a present operand is false.
Value Emitter::evaluate_logical(const std::vector<Value>& args, bool conjunction) {
  Value total = args[0];
  for (std::size_t k = 1; k < args.size(); ++k) {
    const Value& next = args[k];
    Value result{conjunction ? land(total.v, next.v) : lor(total.v, next.v), {}};
    if (total.present || next.present) {
      const V a = total.present.value_or(truth(true)), b = next.present.value_or(truth(true));
      const V decided = conjunction ? lor(land(a, lnot(total.v)), land(b, lnot(next.v))) : result.v;
      result.present = lor(land(a, b), decided);
    }
    total = settled(result);
  }
  return total;
}

Value Emitter::evaluate_relation(Relation relation, const Value& a, const Value& b) {
  static const char* const names[3][6] = {{"fcmp olt", "fcmp ole", "fcmp ogt", "fcmp oge", "fcmp oeq", "fcmp une"},
                                          {"icmp slt", "icmp sle", "icmp sgt", "icmp sge", "icmp eq", "icmp ne"},
                                          {"icmp ult", "icmp ule", "icmp ugt", "icmp uge", "icmp eq", "icmp ne"}};
  const int kind = a.v.kind == Kind::f32 ? 0 : a.v.kind == Kind::i1 ? 2 : 1;
  return settled({compare(names[kind][static_cast<int>(relation)], a.v, b.v), both(a.present, b.present)});
}

Value Emitter::evaluate_compare(const tensor::Compare& node) {
  std::vector<Value> relations;
  for (std::size_t k = 0; k < node.relations.size(); ++k)
    relations.push_back(evaluate_relation(node.relations[k], value(node.args[k]), value(node.args[k + 1])));
  return evaluate_logical(relations, true);
}

}  // namespace attune::cpu
