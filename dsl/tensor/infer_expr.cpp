// SPDX-License-Identifier: Apache-2.0
// Inference: expressions. Typing, and the expansion of functions by name with arguments elaborated where used.
#include <algorithm>
#include <array>
#include <limits>

#include "syntax/words.hpp"
#include "tensor/infer.hpp"

namespace attune::tensor::inference {

Value Inference::expr(const ast::Expr& e) {
  if (!e) {
    error("A0210", {}, "an expression is missing in " + subject_);
    return {};
  }
  if (stopped_) return {};
  if (level_ >= max_levels || work_ >= max_work) {
    const bool deep = level_ >= max_levels;
    exceeded(e->span, deep ? " nests too deeply after expansion" : " is too large after expansion",
             deep ? "this is too deep" : "the expansion becomes too large here");
    return {};
  }
  ++work_;
  ++level_;
  Value value = dispatch(e);
  --level_;
  return value;
}

/// One small frame a level, since this recurses as deep as texts nest.
Value Inference::dispatch(const ast::Expr& e) {
  static_assert(std::variant_size_v<ast::Kind> == 15, "every kind of expression needs its line here");
  const ast::Kind& kind = e->kind;
  const Span span = e->span;
  if (const auto* k = std::get_if<ast::Name>(&kind)) return name(*k, span);
  if (const auto* k = std::get_if<ast::Subscript>(&kind)) return subscript(*k, span);
  if (const auto* k = std::get_if<ast::Call>(&kind)) return call(*k, span);
  if (const auto* k = std::get_if<ast::Cast>(&kind)) return cast(*k, span);
  if (const auto* k = std::get_if<ast::Negate>(&kind)) return negate(*k, span);
  if (const auto* k = std::get_if<ast::Not>(&kind)) return logical_not(*k, span);
  if (const auto* k = std::get_if<ast::Chain>(&kind)) return chain(*k, span);
  if (const auto* k = std::get_if<ast::Comparison>(&kind)) return comparison(*k, span);
  if (const auto* k = std::get_if<ast::Power>(&kind)) return power(*k, span);
  if (const auto* k = std::get_if<ast::Conditional>(&kind)) return conditional(*k, span);
  if (const auto* k = std::get_if<ast::Reduction>(&kind)) return reduction(*k, span);
  return literal(kind, span);
}

Value Inference::literal(const ast::Kind& kind, Span span) {
  Type type = type_f32;
  Literal made{std::numeric_limits<double>::infinity()};
  if (const auto* integer = std::get_if<ast::Integer>(&kind)) {
    made.value = static_cast<std::int64_t>(integer->value);
    type = type_i64;
  } else if (const auto* real = std::get_if<ast::Float>(&kind)) {
    made.value = real->value;
  } else if (const auto* boolean = std::get_if<ast::Boolean>(&kind)) {
    made.value = boolean->value;
    type = type_bool;
  }
  return finish(Expr(made, type, at(span)), {}, false);
}

// ---- names and subscripts ---------------------------------------------------------------------------
Value Inference::argument(Argument& argument) {
  if (argument.known) return copy(argument.value);
  argument.known = true;
  if (!argument.expr) return {};
  Frame* const callee = frame_;
  frame_ = argument.frame;
  argument.value = expr(*argument.expr);
  frame_ = callee;
  return argument.value;
}

Value Inference::name(const ast::Name& name, Span span) {
  if (const Local* local = find_local(name.name)) {
    if (local->argument) return argument(*local->argument);
    return finish(Expr(Index{local->index}, type_i64, at(span)), {}, false);
  }
  const Named* named = find_named(name.name);
  if (named && named->entity == Entity::dim) return finish(Expr(Dim{named->sym}, type_i64, at(span)), {}, false);
  if (named && named->entity == Entity::scalar && !broken_.contains(name.name))
    if (const ScalarParam* scalar = program_.find_scalar(named->sym))
      return finish(Expr(Scalar{named->sym}, scalar->type, at(span)), {}, false);
  no_value(name.name, named, span);
  return {};
}

void Inference::no_value(const std::string& name, const Named* named, Span span) {
  const std::string quoted = "`" + name + "`";
  const bool function = named ? named->entity == Entity::function : find_function(name) || ast::is_function_word(name);
  if (function) {
    error("A0210", span, quoted + " is a function, not a value", "it is not called here",
          "call it: `" + name + "(...)`");
  } else if (!named) {
    unknown(name, span, Entity::dim);
  } else if (named->entity == Entity::scalar) {
    if (in_default_ && !broken_.contains(name))
      error("A0231", span, "a default may use only scalars that are declared before it", quoted + " comes later",
            "declare " + quoted + " first");
  } else if (named->entity == Entity::type_variable) {
    error("A0210", span, quoted + " is a type variable, not a value", "it cannot stand here",
          "cast with `" + name + "(...)`");
  } else {
    error("A0210", span, quoted + " is a " + std::string(describe(named->entity)) + " and needs subscripts",
          "it is not subscripted here", "write `" + name + "[...]`");
  }
}

Value Inference::subscript(const ast::Subscript& access, Span span) {
  const Span name_span = access.name_span == Span{} ? span : access.name_span;
  const Target* target = nullptr;
  Target unknown_target;
  unknown_target.poisoned = true;
  const std::string quoted = "`" + access.name + "`";
  auto no_tensor = [&](const std::string& what) {
    error("A0210", name_span, quoted + " is " + what + ", not a tensor", "it has no axes to subscript",
          "write " + quoted + " without brackets");
  };
  if (const Local* local = find_local(access.name)) {
    no_tensor(local->argument ? "a parameter of the function" : "an index");
  } else if (const Named* named = find_named(access.name)) {
    if (named->entity == Entity::tensor || named->entity == Entity::definition) {
      if (in_default_) {
        error("A0231", name_span, "a default may use only dims and scalars", quoted + " is known at the call only", "");
      } else if (auto found = targets_.find(named->sym); found != targets_.end()) {
        target = &found->second;
      }
    } else if (named->entity == Entity::function) {
      error("A0210", name_span, quoted + " is a function, not a tensor", "a call takes parentheses",
            "write `" + access.name + "(...)`");
    } else {
      no_tensor("a " + std::string(describe(named->entity)));
    }
  } else {
    unknown(access.name, name_span, Entity::tensor);
  }
  bool known = target && !target->poisoned;
  if (known && target->extents.size() != access.subscripts.size()) {
    const std::size_t rank = target->extents.size(), given = access.subscripts.size();
    Diagnostic& d = error("A0211", span,
                          quoted + " has " + std::to_string(rank) + (rank == 1 ? " axis" : " axes") + ", but " +
                              std::to_string(given) + (given == 1 ? " subscript is" : " subscripts are") + " given",
                          "", rank > given ? "subscript every axis" : "");
    if (auto named = names_.find(access.name); named != names_.end() && !frame_->pinned)
      d.labels.push_back({named->second.span, quoted + " is declared here"});
    known = false;
  }
  if (!known) target = &unknown_target;

  std::vector<Value> values;
  Access made{target->sym, {}};
  bool ok = known;
  for (std::size_t axis = 0; axis < access.subscripts.size(); ++axis) {
    const ast::Expr& e = access.subscripts[axis];
    Value value = number(expr(e));
    if (value && !value.expr->type.is_integer()) {
      integral(value, e->span, "a subscript");
      value = {};
    }
    if (const auto* index = get_if<Index>(value.expr)) use(index->index, *target, axis, e->span);
    ok = ok && value;
    made.subscripts.push_back(value.expr);
    values.push_back(std::move(value));
  }
  return ok ? finish(Expr(std::move(made), target->type, at(span)), values, true) : Value{};
}

// ---- calls ------------------------------------------------------------------------------------------
Value Inference::call(const ast::Call& call, Span span) {
  if (ast::is_function_word(call.name)) return builtin(call, span);
  const Span name_span = call.name_span == Span{} ? span : call.name_span;
  const Named* named = find_named(call.name);
  if (named && named->entity == Entity::type_variable && call.arguments.size() == 1)
    return cast({{call.name, name_span}, call.arguments[0]}, span);
  if (const Function* function = find_function(call.name)) return expand(*function, call, span);
  no_function(call.name, named, name_span);
  for (const ast::Expr& e : call.arguments) unclear(expr(e));
  return {};
}

void Inference::no_function(const std::string& name, const Named* named, Span name_span) {
  if (find_local(name) || (named && named->entity != Entity::function)) {
    const std::string what(named ? describe(named->entity) : "value");
    const bool axes = named && (named->entity == Entity::tensor || named->entity == Entity::definition);
    error("A0210", name_span, "`" + name + "` is a " + what + ", not a function", "it cannot be called",
          axes ? "write `" + name + "[...]`" : "write `*` for a product");
  } else if (ast::parse_reducer(name)) {
    error("A0210", name_span, "`" + name + "` is a reducer and needs an index", "it has no brackets here",
          "write `" + name + "[j](...)`");
  } else {
    unknown(name, name_span, Entity::function);
  }
}

void Inference::wrong_arity(const Function& function, std::size_t given, Span span) {
  const ast::FunctionDecl& decl = *function.decl;
  const std::size_t wanted = decl.parameters.size();
  Diagnostic& d = error("A0212", span,
                        "`" + decl.name + "` takes " + std::to_string(wanted) +
                            (wanted == 1 ? " argument, not " : " arguments, not ") + std::to_string(given));
  if (function.home != Function::Home::library && !frame_->pinned)
    d.labels.push_back({decl.name_span, "`" + decl.name + "` is declared here"});
  else
    d.notes.push_back("it is a function of " + function.origin);
}

Value Inference::expand(const Function& function, const ast::Call& call, Span span) {
  const ast::FunctionDecl& decl = *function.decl;
  collected_->called.insert(&function);
  const std::size_t wanted = decl.parameters.size(), given = call.arguments.size();
  if (wanted != given) {
    wrong_arity(function, given, span);
    for (const ast::Expr& e : call.arguments) unclear(expr(e));
    return {};
  }
  std::vector<Argument> arguments(given);
  Frame frame;
  frame.function = &function;
  frame.caller = frame_;
  frame.call = at(span);
  if (function.home == Function::Home::library) frame.pinned = frame.call;
  for (std::size_t k = 0; k < given; ++k) {
    arguments[k].expr = &call.arguments[k];
    arguments[k].frame = frame_;
    frame.locals.push_back({decl.parameters[k], {}, &arguments[k], {}});
  }
  Value value;
  if (!function.cyclic) {
    Frame* const caller = frame_;
    frame_ = &frame;
    ++level_;  // a call takes twice the stack of other levels
    value = expr(decl.body);
    --level_;
    frame_ = caller;
  }
  for (Argument& argument : arguments)
    if (!argument.known) check_dropped(argument, function.cyclic);
  return value;
}

/// What a function does not use is checked all the same, but does not count as a use of its indices.
void Inference::check_dropped(const Argument& argument, bool is_unclear) {
  const std::size_t mark = use_log_.size();
  Collected dropped;
  Collected* const kept = collected_;
  collected_ = &dropped;
  const Value value = expr(*argument.expr);
  collected_ = kept;
  forget_uses(mark);
  if (is_unclear) unclear(value);
}

namespace {

struct UnaryWord {
  std::string_view word;
  UnaryOp op;
};
constexpr UnaryWord unary_words[] = {
    {"abs", UnaryOp::abs},         {"exp", UnaryOp::exp},   {"exp2", UnaryOp::exp2},   {"log", UnaryOp::log},
    {"log2", UnaryOp::log2},       {"sqrt", UnaryOp::sqrt}, {"rsqrt", UnaryOp::rsqrt}, {"sin", UnaryOp::sin},
    {"cos", UnaryOp::cos},         {"tanh", UnaryOp::tanh}, {"relu", UnaryOp::relu},   {"gelu", UnaryOp::gelu},
    {"sigmoid", UnaryOp::sigmoid}, {"silu", UnaryOp::silu}, {"erf", UnaryOp::erf},     {"softplus", UnaryOp::softplus},
    {"floor", UnaryOp::floor},     {"ceil", UnaryOp::ceil}, {"round", UnaryOp::round}};

}  // namespace

Value Inference::builtin(const ast::Call& call, Span span) {
  std::vector<Value> values;
  bool ok = true;
  for (const ast::Expr& e : call.arguments) {
    values.push_back(number(expr(e)));
    ok = ok && values.back();
  }
  const std::size_t given = values.size();
  const auto* unary_word = std::find_if(std::begin(unary_words), std::end(unary_words),
                                        [&](const UnaryWord& entry) { return entry.word == call.name; });
  const bool is_unary = unary_word != std::end(unary_words);
  const bool extremum = call.name == "min" || call.name == "max";
  const std::string takes = is_unary               ? "1 argument"
                            : extremum             ? "two or more arguments"
                            : call.name == "clamp" ? "3 arguments"
                                                   : "a seed and one to four indices";
  const bool fits = is_unary               ? given == 1
                    : extremum             ? given >= 2
                    : call.name == "clamp" ? given == 3
                                           : given >= 2 && given <= 5;
  if (!fits) {
    error("A0212", span, "`" + call.name + "` takes " + takes + ", not " + std::to_string(given), "",
          extremum               ? "to reduce over an index write `" + call.name + "[j](...)`"
          : call.name == "clamp" ? "write `clamp(x, lo, hi)`"
          : call.name == "rand"  ? "write `rand(seed, i, j)`"
                                 : "");
    return {};
  }
  if (call.name == "rand") return random(values, call, span);
  if (!ok) return {};
  if (is_unary) {
    const bool keeps = unary_word->op == UnaryOp::abs && values[0].expr->type.is_integer();
    Value operand = keeps || values[0].expr->type.is_float() ? values[0] : convert(values[0], type_f32);
    return finish(unary(unary_word->op, operand.expr, at(span)), {&operand}, true);
  }
  const bool floats =
      std::any_of(values.begin(), values.end(), [](const Value& value) { return value.expr->type.is_float(); });
  const Type type = floats ? type_f32 : type_i64;
  for (Value& value : values)
    if (floats && !value.expr->type.is_float()) value = convert(std::move(value), type_f32);
  auto of = [&](LinkOp op, const std::vector<Value>& args) {
    Chain chain;
    chain.links.assign(args.size() - 1, op);
    for (const Value& value : args) chain.args.push_back(value.expr);
    return finish(Expr(std::move(chain), type, at(span)), args, true);
  };
  if (call.name == "clamp") {
    const Value above = of(LinkOp::max, {values[0], values[1]});
    return above ? of(LinkOp::min, {above, values[2]}) : Value{};
  }
  return of(call.name == "min" ? LinkOp::min : LinkOp::max, values);
}

Value Inference::random(const std::vector<Value>& values, const ast::Call& call, Span span) {
  bool ok = true;
  Random made;
  for (std::size_t k = 0; k < values.size(); ++k) {
    const Span place = call.arguments[k] ? call.arguments[k]->span : span;
    ok = integral(values[k], place, k == 0 ? "the seed of `rand`" : "an index of `rand`") && ok;
    if (k > 0) made.coordinates.push_back(values[k].expr);
  }
  if (!ok) return {};
  if (in_default_) {
    error("A0231", span, "a default may not use `rand`", "", "");
    return {};
  }
  made.seed = values[0].expr;
  return finish(Expr(std::move(made), type_f32, at(span)), values, true);
}

Value Inference::cast(const ast::Cast& cast, Span span) {
  const std::optional<Type> wanted = type(cast.type);
  Value operand = expr(cast.operand);
  if (!wanted || !operand) return {};
  if (wanted->is_bool() && !operand.expr->type.is_bool()) {
    error("A0215", span, "a number does not convert to bool",
          std::string("this is ") + (operand.expr->type.is_float() ? "a float" : "an integer"),
          "write a comparison, e.g. `x != 0`");
    return {};
  }
  if (operand.expr->type == *wanted) return operand;
  return finish(tensor::cast(operand.expr, *wanted, at(span)), {&operand}, true);
}

// ---- operators --------------------------------------------------------------------------------------
Value Inference::negate(const ast::Negate& negate, Span span) {
  Value operand = number(expr(negate.operand));
  if (!operand) return {};
  return finish(unary(UnaryOp::negate, operand.expr, at(span)), {&operand}, true);
}

Value Inference::logical_not(const ast::Not& inverse, Span span) {
  Value operand =
      condition(expr(inverse.operand), inverse.operand ? inverse.operand->span : span, "the operand of `not`");
  if (!operand) return {};
  return finish(unary(UnaryOp::logical_not, operand.expr, at(span)), {&operand}, true);
}

Value Inference::chain(const ast::Chain& chain, Span span) {
  if (chain.links.empty() || chain.operands.size() != chain.links.size() + 1) {
    error("A0210", span, "an operator without operands in " + subject_);
    return {};
  }
  if (chain.links[0] == ast::Link::both || chain.links[0] == ast::Link::either) return logical_chain(chain, span);

  // The chain so far: one operand, or links of one kind. It becomes a node when the kind changes or the text ends.
  std::vector<Value> values;
  Chain made;
  Type type = type_i64;
  Span covered;
  bool ok = true;
  auto flush = [&] {
    if (made.links.empty()) return values[0];
    Value value = finish(Expr(made, type, at(covered)), values, false);
    return value;
  };
  auto restart = [&](Value value) {
    made = Chain{};
    // A leading chain of the same group is the same chain: (a + b) - c.
    const bool sum = chain.links[0] == ast::Link::add || chain.links[0] == ast::Link::subtract;
    if (const auto* inner = get_if<Chain>(value.expr)) {
      const LinkOp first = inner->links[0];
      const bool inner_sum = first == LinkOp::add || first == LinkOp::sub;
      const bool inner_product =
          first == LinkOp::mul || first == LinkOp::div || first == LinkOp::floordiv || first == LinkOp::mod;
      if (sum ? inner_sum : inner_product) made = *inner;
    }
    type = value.expr->type.is_float() ? type_f32 : type_i64;
    if (made.links.empty()) made.args.push_back(value.expr);
    values = {std::move(value)};
  };
  for (std::size_t k = 0; k < chain.operands.size(); ++k) {
    const ast::Expr& e = chain.operands[k];
    Value next = number(expr(e));
    const Span place = e ? e->span : span;
    ok = ok && next;
    if (k == 0) {
      if (ok) restart(next);
      covered = place;
      continue;
    }
    const ast::Link link = chain.links[k - 1];
    const bool divides = link == ast::Link::divide || link == ast::Link::remainder;
    const Span whole = Span::join(covered, place);
    if (divides && next)
      if (const auto* zero = get_if<Literal>(next.expr); zero && *zero == Literal{std::int64_t{0}}) {
        error("A0217", place, link == ast::Link::divide ? "division by 0" : "remainder by 0", "this is 0", "");
        ok = false;
      }
    if (link == ast::Link::remainder) {
      const bool left = !ok || integral(Value{made.args[0]}, covered, "the dividend of `%`");
      const bool right = !next || integral(next, place, "the divisor of `%`");
      ok = ok && left && right;
    }
    if (ok) {
      const bool floats = !type.is_integer() || next.expr->type.is_float();
      if (floats && type.is_integer()) {
        Value before = convert(flush(), type_f32);
        ok = static_cast<bool>(before);
        if (ok) restart(std::move(before));
      }
      const Type target = next.expr->type.is_float() ? next.expr->type : type_f32;
      if (ok && floats) next = convert(std::move(next), target);
      LinkOp op = LinkOp::add;
      switch (link) {
        case ast::Link::add: op = LinkOp::add; break;
        case ast::Link::subtract: op = LinkOp::sub; break;
        case ast::Link::multiply: op = LinkOp::mul; break;
        case ast::Link::divide: op = floats ? LinkOp::div : LinkOp::floordiv; break;
        case ast::Link::remainder: op = LinkOp::mod; break;
        default: error("A0210", span, "operators of several precedences in one chain of " + subject_); return {};
      }
      if (ok && made.links.empty()) division(op, made.args[0], next.expr, whole);
      made.links.push_back(op);
      made.args.push_back(next.expr);
      values.push_back(std::move(next));
    }
    covered = whole;
  }
  if (!ok) return {};
  if (!made.links.empty() && !(span == Span{})) covered = span;
  return flush();
}

namespace {

/// The value of an integer expression of literals only.
std::optional<std::int64_t> constant_integer(const Expr& expr) {
  if (const auto* literal = get_if<Literal>(expr)) {
    const auto* value = std::get_if<std::int64_t>(&literal->value);
    return value ? std::optional(*value) : std::nullopt;
  }
  const bool composed = get_if<Unary>(expr) || get_if<Chain>(expr) || get_if<Power>(expr);
  if (!composed || !expr->type.is_integer()) return std::nullopt;
  const Polynomial value(expr);
  const std::int64_t* constant = value.constant_value();
  return constant ? std::optional(*constant) : std::nullopt;
}

}  // namespace

Value Inference::power(const ast::Power& power, Span span) {
  Value base = number(expr(power.base));
  Value exponent = number(expr(power.exponent));
  if (!base || !exponent) return {};
  if (const auto constant = constant_integer(exponent.expr);
      constant && *constant >= 0 && base.expr->type.is_integer()) {
    exponent = Value{Expr(Literal{*constant}, type_i64, exponent.expr->span), 1, 0, false};
    return finish(Expr(Power{base.expr, exponent.expr}, type_i64, at(span)), {&base, &exponent}, true);
  }
  if (!base.expr->type.is_float()) base = convert(std::move(base), type_f32);
  if (!exponent.expr->type.is_float()) exponent = convert(std::move(exponent), type_f32);
  return finish(Expr(Power{base.expr, exponent.expr}, type_f32, at(span)), {&base, &exponent}, true);
}

Value Inference::conditional(const ast::Conditional& conditional, Span span) {
  Value then = expr(conditional.then);
  Value decision = condition(expr(conditional.condition), conditional.condition ? conditional.condition->span : span,
                             "the condition of `if`");
  Value otherwise = expr(conditional.otherwise);
  if (!then || !decision || !otherwise) return {};
  Type type = type_bool;
  if (!then.expr->type.is_bool() || !otherwise.expr->type.is_bool()) {
    const bool floats = then.expr->type.is_float() || otherwise.expr->type.is_float();
    type = floats ? type_f32 : type_i64;
    for (Value* branch : {&then, &otherwise})
      if (branch->expr->type.is_bool() || (floats && !branch->expr->type.is_float()))
        *branch = convert(std::move(*branch), type);
  }
  return finish(Expr(Select{decision.expr, then.expr, otherwise.expr}, type, at(span)), {&decision, &then, &otherwise},
                true);
}

}  // namespace attune::tensor::inference
