// SPDX-License-Identifier: Apache-2.0
// The out-of-range flag, apart from values: where the evaluation by demand of an expression (language.md, rule 13)
// would meet a gather outside its tensor or a zero divisor. Expressions that cannot raise it cost nothing.
#include <algorithm>

#include "backend/cpu/emit.hpp"

namespace attune::cpu {

using tensor::LinkOp;

Flag Emitter::flag(const Expr& expr) {
  if (!expr) return std::nullopt;
  const MemoKey key{expr.get(), env_.id};
  if (const auto found = flag_memo_.find(key); found != flag_memo_.end()) return found->second;
  Flag result = find_flag(expr);
  flag_memo_.emplace(key, result);
  return result;
}

/// Operands count from left to right until a present one decides.
Flag Emitter::flag_logical(const std::vector<Value>& values, const std::vector<Flag>& flags, bool conjunction) {
  Flag total;
  Mask open;  // where nothing decided yet
  for (std::size_t k = 0; k < values.size(); ++k) {
    total = any(total, within(flags[k], open));
    const bool needed = std::any_of(flags.begin() + static_cast<std::ptrdiff_t>(k) + 1, flags.end(),
                                    [](const Flag& f) { return f.has_value(); });
    if (!needed) break;
    const Value& v = values[k];
    V undecided = lnot(v.v);
    if (conjunction) undecided = v.present ? lor(v.v, lnot(*v.present)) : v.v;
    open = both(open, undecided);
  }
  return total;
}

/// No factor counts beside an absent one; where several are absent the flag rises only if each alone would raise it.
Flag Emitter::flag_product(const tensor::Chain& chain) {
  Flag some;
  std::vector<Flag> flags;
  for (const Expr& arg : chain.args) {
    flags.push_back(flag(arg));
    some = any(some, flags.back());
  }
  Flag zero_divisor;
  Mask present;
  for (std::size_t k = 0; k < chain.args.size(); ++k) {
    const Value arg = value(chain.args[k]);
    if (k > 0 && (chain.links[k - 1] == LinkOp::floordiv || chain.links[k - 1] == LinkOp::mod) &&
        (arg.v.whole ? *arg.v.whole == 0 : !launch_constant(chain.args[k])))
      zero_divisor = any(zero_divisor, arg.v.whole ? truth(true) : compare("icmp eq", arg.v, integer(0)));
    if (some || zero_divisor) present = both(present, arg.present);
  }
  for (const Expr& arg : chain.args)
    if (zero_divisor) present = both(present, value(arg).present);
  Flag result = within(zero_divisor, present);
  if (!some) return result;
  if (!present) return any(result, some);
  Mask all_alone;
  for (std::size_t k = 0; k < chain.args.size(); ++k) {
    const Mask here = value(chain.args[k]).present;
    if (!here) continue;
    all_alone = both(all_alone, flags[k] ? lor(*here, *flags[k]) : *here);
  }
  result = any(result, land(*some, *present));
  return any(result, land(lnot(*present), all_alone.value_or(truth(true))));
}

Flag Emitter::find_flag(const Expr& expr) {
  if (const auto* access = tensor::get_if<tensor::Access>(expr)) {
    Flag result;
    for (const Expr& subscript : access->subscripts) result = any(result, flag(subscript));
    const auto buffer = module_.buffer_index.find(access->target);
    if (buffer == module_.buffer_index.end()) return result;
    Mask present;
    for (const Expr& subscript : access->subscripts) present = both(present, value(subscript).present);
    const Mask inside = subscript_check(buffer->second, *access);
    return inside ? any(result, within(lnot(*inside), present)) : result;
  }
  if (const auto* chain = tensor::get_if<tensor::Chain>(expr)) {
    const LinkOp lead = chain->links[0];
    if (lead == LinkOp::mul || lead == LinkOp::div || lead == LinkOp::floordiv || lead == LinkOp::mod)
      return flag_product(*chain);
    if (lead == LinkOp::both || lead == LinkOp::either) {
      std::vector<Flag> flags;
      for (const Expr& arg : chain->args) flags.push_back(flag(arg));
      if (std::none_of(flags.begin(), flags.end(), [](const Flag& f) { return f.has_value(); })) return std::nullopt;
      std::vector<Value> values;
      for (const Expr& arg : chain->args) values.push_back(value(arg));
      return flag_logical(values, flags, lead == LinkOp::both);
    }
  }
  if (const auto* node = tensor::get_if<tensor::Compare>(expr)) {
    std::vector<Flag> flags;
    bool some = false;
    for (std::size_t k = 0; k < node->relations.size(); ++k) {
      flags.push_back(k == 0 ? any(flag(node->args[0]), flag(node->args[1])) : flag(node->args[k + 1]));
      some = some || flags.back();
    }
    if (!some) return std::nullopt;
    std::vector<Value> values;
    for (std::size_t k = 0; k < node->relations.size(); ++k)
      values.push_back(evaluate_relation(node->relations[k], value(node->args[k]), value(node->args[k + 1])));
    return flag_logical(values, flags, true);
  }
  if (const auto* node = tensor::get_if<tensor::Select>(expr)) {
    const Flag chosen = flag(node->condition), then = flag(node->then), otherwise = flag(node->otherwise);
    if (!then && !otherwise) return chosen;
    const Value condition = value(node->condition);
    V refused = lnot(condition.v);
    if (condition.present) refused = land(refused, *condition.present);
    return any(chosen, any(within(then, condition.v), within(otherwise, refused)));
  }
  if (const auto* node = tensor::get_if<tensor::Where>(expr)) {
    const Flag chosen = flag(node->condition), body = flag(node->body);
    return body ? any(chosen, within(body, value(node->condition).v)) : chosen;
  }
  Flag result;
  tensor::visit_children(expr, [&](const Expr& child) { result = any(result, flag(child)); });
  return result;
}

/// Raises the call's flag if any element below the lane limit would.
void Emitter::raise(const Flag& raised) {
  if (!raised || (raised->whole && *raised->whole == 0)) return;
  V bad = *raised;
  if (const Mask limit = limit_mask()) bad = land(bad, *limit);
  if (bad.width > 1) {
    const std::string type = "i" + std::to_string(bad.width);
    const V bits = define("bitcast " + bad.type() + " " + bad.s + " to " + type, Kind::i8, 1, bad.level);
    bad = define("icmp ne " + type + " " + bits.s + ", 0", Kind::i1, 1, bits.level);
  }
  const V place = frame_array(5);
  const V target = select(bad, place, {"%sink", Kind::pointer, 1, 0, {}, {}});
  effect("store atomic i32 1, ptr " + target.s + " monotonic, align 4");
}

void Emitter::raise(const Expr& guard, const Expr& expr) {
  Flag result = flag(guard);
  if (const Flag inner = flag(expr)) result = any(result, guard ? within(inner, value(guard).v) : inner);
  raise(result);
}

}  // namespace attune::cpu
