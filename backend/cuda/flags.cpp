// SPDX-License-Identifier: Apache-2.0
// The out-of-range flag, apart from values: where the evaluation by demand of an expression (language.md, rule 13)
// would meet a gather outside its tensor or a zero divisor. Expressions that cannot raise it cost nothing.
#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/expressions.hpp"

namespace attune::cuda {

using tensor::LinkOp;

namespace {

/// Flags are conditions; an empty one never rises.
bool none(const std::vector<std::string>& flags) {
  return std::all_of(flags.begin(), flags.end(), [](const std::string& f) { return f.empty(); });
}

}  // namespace

std::string Expressions::flag(const Expr& expr) {
  if (!expr) return {};
  for (const Scope& scope : scopes_)
    if (const auto found = scope.flags.find(expr.get()); found != scope.flags.end()) return found->second;
  std::string result = find_flag(expr);
  scopes_.back().flags.emplace(expr.get(), result);
  return result;
}

void Expressions::raise(const std::string& flag) {
  if (flag.empty()) return;
  may_flag_ = true;
  line(fmt::format("out_of_range = out_of_range || {};", flag));
}

/// Operands count from left to right until a present one decides.
std::string Expressions::flag_logical(const std::vector<Value>& values, const std::vector<std::string>& flags,
                                      bool conjunction) {
  std::string total, still_open;
  for (std::size_t k = 0; k < values.size(); ++k) {
    if (!flags[k].empty()) {
      const std::string here = both(still_open, flags[k]);
      total = total.empty() ? here : either(total, here);
    }
    if (none({flags.begin() + static_cast<std::ptrdiff_t>(k) + 1, flags.end()})) break;
    const Value& v = values[k];
    std::string undecided = v.text;
    if (!conjunction)
      undecided = negation(v.text);
    else if (!v.present.empty())
      undecided = define(Number::truth, fmt::format("{} || !{}", v.text, v.present));
    still_open = both(still_open, undecided);
  }
  return total;
}

/// No factor counts beside an absent one; where several are absent the flag rises only if each alone would raise it.
std::string Expressions::flag_product(const tensor::Chain& chain) {
  const auto join = [&](const std::string& a, const std::string& b) {
    return a.empty() ? b : b.empty() ? a : either(a, b);
  };
  std::string some, zero_divisor, present;
  std::vector<std::string> flags;
  for (const Expr& arg : chain.args) {
    flags.push_back(flag(arg));
    some = join(some, flags.back());
  }
  for (std::size_t k = 1; k < chain.args.size(); ++k) {
    if (chain.links[k - 1] != LinkOp::floordiv && chain.links[k - 1] != LinkOp::mod) continue;
    const Value arg = value(chain.args[k]);
    if (arg.known ? *arg.known == 0 : !launch_constant(chain.args[k]))
      zero_divisor = join(zero_divisor, define(Number::truth, arg.text + " == 0"));
  }
  if (some.empty() && zero_divisor.empty()) return {};
  for (const Expr& arg : chain.args) present = both(present, value(arg).present);
  std::string result = zero_divisor.empty() ? "" : both(zero_divisor, present);
  if (some.empty()) return result;
  if (present.empty()) return join(result, some);
  std::string all_alone;
  for (std::size_t k = 0; k < chain.args.size(); ++k) {
    const std::string here = value(chain.args[k]).present;
    if (here.empty()) continue;
    all_alone = both(all_alone, flags[k].empty() ? here : either(here, flags[k]));
  }
  result = join(result, both(some, present));
  return join(result, both(negation(present), all_alone));
}

std::string Expressions::find_flag(const Expr& expr) {
  const auto join = [&](const std::string& a, const std::string& b) {
    return a.empty() ? b : b.empty() ? a : either(a, b);
  };
  const auto within = [&](const std::string& flag, const std::string& where) {
    return flag.empty() ? flag : both(flag, where);
  };
  if (const auto* access = tensor::get_if<tensor::Access>(expr)) {
    std::string result, present;
    for (const Expr& subscript : access->subscripts) result = join(result, flag(subscript));
    const std::size_t buffer = words_.buffer(access->target);
    if (buffer == ParameterWords::npos) return result;
    for (const Expr& subscript : access->subscripts) present = both(present, value(subscript).present);
    const std::string valid = inside(buffer, *access);
    return valid.empty() ? result : join(result, both(negation(valid), present));
  }
  if (const auto* chain = tensor::get_if<tensor::Chain>(expr)) {
    const LinkOp lead = chain->links[0];
    if (lead == LinkOp::mul || lead == LinkOp::div || lead == LinkOp::floordiv || lead == LinkOp::mod)
      return flag_product(*chain);
    if (lead == LinkOp::both || lead == LinkOp::either) {
      std::vector<std::string> flags;
      for (const Expr& arg : chain->args) flags.push_back(flag(arg));
      if (none(flags)) return {};
      std::vector<Value> values;
      for (const Expr& arg : chain->args) values.push_back(value(arg));
      return flag_logical(values, flags, lead == LinkOp::both);
    }
  }
  if (const auto* node = tensor::get_if<tensor::Compare>(expr)) {
    std::vector<std::string> flags;
    for (std::size_t k = 0; k < node->relations.size(); ++k)
      flags.push_back(k == 0 ? join(flag(node->args[0]), flag(node->args[1])) : flag(node->args[k + 1]));
    if (none(flags)) return {};
    std::vector<Value> values;
    for (std::size_t k = 0; k < node->relations.size(); ++k)
      values.push_back(relation(node->relations[k], value(node->args[k]), value(node->args[k + 1])));
    return flag_logical(values, flags, true);
  }
  if (const auto* node = tensor::get_if<tensor::Select>(expr)) {
    const std::string chosen = flag(node->condition), then = flag(node->then), otherwise = flag(node->otherwise);
    if (then.empty() && otherwise.empty()) return chosen;
    const Value choice = value(node->condition);
    const std::string refused = both(negation(choice.text), choice.present);
    return join(chosen, join(within(then, choice.text), within(otherwise, refused)));
  }
  if (const auto* node = tensor::get_if<tensor::Where>(expr)) {
    const std::string chosen = flag(node->condition), body = flag(node->body);
    return body.empty() ? chosen : join(chosen, within(body, value(node->condition).text));
  }
  std::string result;
  tensor::visit_children(expr, [&](const Expr& child) { result = join(result, flag(child)); });
  return result;
}

}  // namespace attune::cuda
