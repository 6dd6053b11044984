// SPDX-License-Identifier: Apache-2.0
// The semantic actions of the grammar: operator precedence, forms, declarations, and recovery after errors.
#include "syntax/builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <attune/dtype.hpp>
#include <utility>

#include "syntax/expected.hpp"
#include "syntax/syntax.hpp"
#include "syntax/words.hpp"

namespace attune::syntax {
namespace {

using K = TokenKind;

/// Precedence, loosest first. A prefix operator binds looser than the operators above its level.
enum Precedence { barrier = -1, conditional, either, both, inverse, comparison, sum, product, negation, power };

int precedence(K op) {
  switch (op) {
    case K::kw_or: return either;
    case K::kw_and: return both;
    case K::less:
    case K::less_equal:
    case K::greater:
    case K::greater_equal:
    case K::equal:
    case K::not_equal: return comparison;
    case K::plus:
    case K::minus: return sum;
    case K::star:
    case K::slash:
    case K::percent: return product;
    case K::caret: return power;
    default: return conditional;
  }
}

ast::Link link_of(K op) {
  switch (op) {
    case K::plus: return ast::Link::add;
    case K::minus: return ast::Link::subtract;
    case K::star: return ast::Link::multiply;
    case K::slash: return ast::Link::divide;
    case K::percent: return ast::Link::remainder;
    case K::kw_and: return ast::Link::both;
    default: return ast::Link::either;
  }
}

ast::Relation relation_of(K op) {
  switch (op) {
    case K::less: return ast::Relation::less;
    case K::less_equal: return ast::Relation::less_equal;
    case K::greater: return ast::Relation::greater;
    case K::greater_equal: return ast::Relation::greater_equal;
    case K::equal: return ast::Relation::equal;
    default: return ast::Relation::not_equal;
  }
}

/// What other languages call the dtypes.
constexpr std::pair<std::string_view, std::string_view> foreign_types[] = {
    {"float", "f32"}, {"double", "f32"},   {"float64", "f32"}, {"f64", "f32"},  {"float32", "f32"},
    {"fp32", "f32"},  {"half", "f16"},     {"float16", "f16"}, {"fp16", "f16"}, {"bfloat16", "bf16"},
    {"int", "i32"},   {"int32", "i32"},    {"int64", "i64"},   {"long", "i64"}, {"i16", "i32"},
    {"u32", "i64"},   {"u64", "i64"},      {"int8", "i8"},     {"char", "i8"},  {"uint8", "u8"},
    {"byte", "u8"},   {"boolean", "bool"}, {"fp8", "f8e4m3"},  {"f8", "f8e4m3"}};

constexpr TokenSet separators = token_set(K::newline, K::semicolon, K::lbrace, K::rbrace);

}  // namespace

template <class Kind>
ast::Expr Builder::make(Kind kind, Span span) {
  if (++nodes_ > max_nodes) {
    reporter_.error("A0113", span, fmt::format("the text has more than {} nodes", max_nodes), "this is one too many",
                    "split it into several texts");
    throw ParsingStopped{};
  }
  return ast::Expr(std::move(kind), span);
}

Builder::Parsed Builder::pop() {
  Parsed top = std::move(values_.back());
  values_.pop_back();
  return top;
}

std::vector<ast::Expr> Builder::pop_from(std::size_t base) {
  std::vector<ast::Expr> popped;
  popped.reserve(values_.size() - base);
  for (std::size_t i = base; i < values_.size(); ++i) popped.push_back(std::move(values_[i].expr));
  values_.resize(base);
  return popped;
}

Builder::Form Builder::pop_form() {
  Form top = std::move(forms_.back());
  forms_.pop_back();
  return top;
}

// ---- expressions ------------------------------------------------------------------------------
void Builder::begin_expression() { frames_.emplace_back().level = barrier; }

void Builder::end_expression() {
  Parsed whole = close_above(barrier, pop());
  frames_.pop_back();
  values_.push_back(std::move(whole));
}

void Builder::prefix(const Token& op) {
  Frame& frame = frames_.emplace_back();
  frame.level = op.kind == K::kw_not ? inverse : negation;
  frame.start = op.span();
}

void Builder::binary(const Token& op) {
  int level = precedence(op.kind);
  Parsed operand = close_above(level, pop());
  bool continues = frames_.back().level == level && level != power && op.kind != K::kw_if;
  if (!continues) {
    frames_.emplace_back().level = level;
    frames_.back().start = operand.span;
  }
  frames_.back().operands.push_back(std::move(operand.expr));
  frames_.back().operators.push_back(op.kind);
  frames_.back().operator_spans.push_back(op.span());
}

Builder::Parsed Builder::close_above(int level, Parsed last) {
  while (frames_.back().level > level) {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    last = close(std::move(frame), std::move(last));
  }
  return last;
}

Builder::Parsed Builder::close(Frame frame, Parsed last) {
  Span span = Span::join(frame.start, last.span);
  auto done = [&](auto kind) { return Parsed{make(std::move(kind), span), span}; };
  switch (frame.level) {
    case inverse: return done(ast::Not{std::move(last.expr)});
    case negation: return done(ast::Negate{std::move(last.expr)});
    case power: return done(ast::Power{std::move(frame.operands[0]), std::move(last.expr)});
    case conditional:
      return done(ast::Conditional{std::move(frame.operands[0]), std::move(frame.operands[1]), std::move(last.expr)});
    default: break;
  }
  frame.operands.push_back(std::move(last.expr));
  if (frame.level == comparison) {
    ast::Comparison node{{}, std::move(frame.operands), std::move(frame.operator_spans)};
    for (K op : frame.operators) node.relations.push_back(relation_of(op));
    return done(std::move(node));
  }
  ast::Chain node{{}, std::move(frame.operands), std::move(frame.operator_spans)};
  for (K op : frame.operators) node.links.push_back(link_of(op));
  return done(std::move(node));
}

void Builder::literal(const Token& token) {
  Span span = token.span();
  switch (token.kind) {
    case K::integer: return push(make(ast::Integer{token.bits}, span), span);
    case K::real: return push(make(ast::Float{token.real()}, span), span);
    case K::kw_inf: return push(make(ast::Infinity{}, span), span);
    default: return push(make(ast::Boolean{token.kind == K::kw_true}, span), span);
  }
}

void Builder::close_group(const Token& closer) {
  values_.back().span = Span::join(tokens_[closer.match].span(), closer.span());
}

// ---- forms ------------------------------------------------------------------------------------
void Builder::begin_form(const Token& head) {
  Form& form = forms_.emplace_back();
  form.head = head;
  form.values = values_.size();
}

void Builder::end_name() {
  Form form = pop_form();
  push(make(ast::Name{text(form.head)}, form.head.span()), form.head.span());
}

void Builder::end_subscript(const Token& closer) {
  Form form = pop_form();
  Span span = Span::join(form.head.span(), closer.span());
  push(make(ast::Subscript{text(form.head), form.head.span(), pop_from(form.values)}, span), span);
}

void Builder::end_call(const Token& closer) {
  Form form = pop_form();
  Span span = Span::join(form.head.span(), closer.span());
  std::vector<ast::Expr> arguments = pop_from(form.values);
  std::string head = text(form.head);
  if (form.head.kind != K::dtype && !is_type_variable(head))
    return push(make(ast::Call{std::move(head), form.head.span(), std::move(arguments)}, span), span);
  if (arguments.size() != 1) {
    reporter_.error("A0115", span, fmt::format("a cast takes one operand, found {}", arguments.size()),
                    fmt::format("`{}` is a type here", head), fmt::format("write `{}(x)`", head));
    arguments.resize(1);
    if (!arguments[0]) arguments[0] = make(ast::Integer{0}, span);  // reported: the module is dropped
  }
  push(make(ast::Cast{{std::move(head), form.head.span()}, std::move(arguments[0])}, span), span);
}

void Builder::index(const Token& name) { forms_.back().indices.push_back({text(name), {}, {}, name.span()}); }

void Builder::range() {
  ast::Index& index = forms_.back().indices.back();
  Parsed hi = pop();
  index.hi = std::move(hi.expr);
  index.lo = pop().expr;
  index.span = Span::join(index.span, hi.span);
}

void Builder::guard() { forms_.back().guard = pop().expr; }
void Builder::body() { forms_.back().body = pop().expr; }
void Builder::extra() { forms_.back().extra = pop().expr; }

void Builder::end_reduction(const Token& closer) {
  Form form = pop_form();
  Span span = Span::join(form.head.span(), closer.span());
  ast::Reducer reducer = *ast::parse_reducer(reporter_.text(form.head.span()));
  push(make(ast::Reduction{reducer, form.head.span(), std::move(form.indices), std::move(form.guard),
                           std::move(form.body), std::move(form.extra)},
            span),
       span);
}

// ---- items ------------------------------------------------------------------------------------
void Builder::use_part(const Token& name) { path_.push_back(name); }

void Builder::end_use() {
  ast::Use use;
  for (const Token& part : path_) use.path.push_back(text(part));
  use.span = Span::join(path_.front().span(), path_.back().span());
  path_.clear();
  module_.declarations.push_back(std::move(use));
}

void Builder::begin_function(const Token& keyword) { begin_form(keyword); }

void Builder::parameter(const Token& name) { forms_.back().names.push_back(name); }

void Builder::check_definable(const Token& name) {
  std::string word = text(name);
  bool reducer = ast::parse_reducer(word).has_value();
  if (!reducer && !ast::is_function_word(word)) return;
  reporter_.error("A0117", name.span(),
                  fmt::format("`{}` is a built-in {} and cannot be redefined", word, reducer ? "reducer" : "function"),
                  "already has a meaning", "choose another name");
}

void Builder::end_function() {
  Form form = pop_form();
  Parsed body = pop();
  ast::FunctionDecl function;
  function.name = text(form.names[0]);
  function.name_span = form.names[0].span();
  check_definable(form.names[0]);
  for (std::size_t i = 1; i < form.names.size(); ++i) {
    function.parameters.push_back(text(form.names[i]));
    function.parameter_spans.push_back(form.names[i].span());
  }
  function.body = std::move(body.expr);
  function.span = Span::join(form.head.span(), body.span);
  if (in_kernel_)
    kernel_.items.push_back(std::move(function));
  else
    module_.declarations.push_back(std::move(function));
}

void Builder::end_definition() {
  Form form = pop_form();
  Parsed body = pop();
  check_definable(form.head);
  kernel_.items.push_back(ast::Definition{text(form.head), std::move(form.indices), std::move(body.expr),
                                          Span::join(form.head.span(), body.span), form.head.span()});
}

void Builder::begin_kernel(const Token& keyword) {
  kernel_ = ast::Kernel{};
  kernel_.span = keyword.span();
  in_kernel_ = true;
  header_failed_ = false;
}

void Builder::kernel_name(const Token& name) {
  kernel_.name = text(name);
  kernel_.name_span = name.span();
}

void Builder::type_variable(const Token& name) {
  check_definable(name);
  kernel_.type_variables.push_back(text(name));
  kernel_.type_variable_spans.push_back(name.span());
}

bool Builder::is_type_variable(std::string_view name) const {
  const auto& known = kernel_.type_variables;
  return in_kernel_ && std::find(known.begin(), known.end(), name) != known.end();
}

void Builder::declare(const Token& name) {
  declared_ = Declared{};
  declared_.name = name;
  declared_.span = name.span();
}

void Builder::declare_const() { declared_.is_const = true; }

void Builder::declare_type(const Token& type) {
  declared_.type = type;
  declared_.span = Span::join(declared_.span, type.span());
  std::string word = text(type);
  if (type.kind == K::dtype || is_type_variable(word)) return;
  std::string instead;
  for (auto [foreign, ours] : foreign_types)
    if (foreign == word) instead = ours;
  std::vector<std::string> known = kernel_.type_variables;
  for (DType dtype : all_dtypes) known.emplace_back(name(dtype));
  if (instead.empty()) instead = did_you_mean(word, known);
  reporter_.error("A0119", type.span(), fmt::format("unknown type `{}`", word), "neither a dtype nor a type variable",
                  !instead.empty() ? fmt::format("did you mean `{}`?", instead)
                                   : fmt::format("declare it as a type variable: `kernel {}<{}>(...)`",
                                                 kernel_.name.empty() ? "name" : kernel_.name, word));
}

void Builder::begin_extents() {
  declared_.is_tensor = true;
  declared_.values = values_.size();
}

void Builder::check_extent(const ast::Expr& extent) {
  auto wrong = [&](const char* what) {
    reporter_.error("A0118", extent->span, fmt::format("{} cannot stand in an extent", what), "not a dim or an integer",
                    "extents are made of dims and integers with `+ - * / % ^`, such as `2 * D` or `(N + 15) / 16`");
  };
  auto inner = [&](const ast::Expr& part) { check_extent(part); };
  if (const auto* chain = std::get_if<ast::Chain>(&extent->kind)) {
    if (chain->links[0] == ast::Link::both || chain->links[0] == ast::Link::either) return wrong("a condition");
    for (const ast::Expr& part : chain->operands) inner(part);
  } else if (const auto* raised = std::get_if<ast::Power>(&extent->kind)) {
    inner(raised->base);
    inner(raised->exponent);
  } else if (const auto* negate = std::get_if<ast::Negate>(&extent->kind)) {
    inner(negate->operand);
  } else if (std::holds_alternative<ast::Float>(extent->kind) || std::holds_alternative<ast::Infinity>(extent->kind)) {
    wrong("a float");
  } else if (std::holds_alternative<ast::Call>(extent->kind) || std::holds_alternative<ast::Cast>(extent->kind)) {
    wrong("a call");
  } else if (!std::holds_alternative<ast::Integer>(extent->kind) && !std::holds_alternative<ast::Name>(extent->kind)) {
    wrong("this expression");
  }
}

void Builder::end_extents(const Token& closer) {
  declared_.extents = pop_from(declared_.values);
  declared_.span = Span::join(declared_.span, closer.span());
  for (const ast::Expr& extent : declared_.extents) check_extent(extent);
}

void Builder::default_value() {
  Parsed value = pop();
  declared_.default_value = std::move(value.expr);
  declared_.span = Span::join(declared_.span, value.span);
}

ast::TensorDecl Builder::tensor() {
  check_definable(declared_.name);
  return {text(declared_.name),
          {text(declared_.type), declared_.type.span()},
          std::move(declared_.extents),
          declared_.span,
          declared_.name.span()};
}

void Builder::end_parameter() {
  if (declared_.is_tensor) {
    kernel_.params.push_back(tensor());
  } else {
    kernel_.params.push_back(ast::ScalarDecl{text(declared_.name),
                                             {text(declared_.type), declared_.type.span()},
                                             declared_.is_const,
                                             std::move(declared_.default_value),
                                             declared_.span,
                                             declared_.name.span()});
  }
}

void Builder::end_result() { kernel_.results.push_back(tensor()); }

void Builder::end_kernel(const Token& closer) {
  kernel_.span = Span::join(kernel_.span, closer.span());
  in_kernel_ = false;
  if (!header_failed_) module_.declarations.push_back(std::move(kernel_));
  kernel_ = ast::Kernel{};
}

// ---- recovery ---------------------------------------------------------------------------------
void Builder::abandon() {
  values_.clear();
  frames_.clear();
  forms_.clear();
  path_.clear();
}

bool Builder::echoes(const Token* from, const Token* at, const Token* to) const {
  while (from != tokens_.data() && !contains(separators, from[-1].kind)) --from;
  // A `}` that had to be added closes the kernel and says nothing about its last item.
  return std::any_of(from, std::max(to, at + 1),
                     [](const Token& t) { return t.kind == K::bad || (t.repaired && t.kind != K::rbrace); });
}

void Builder::report(const Token* at, const Token* to, const std::string& wanted) {
  if (!echoes(at, at, to)) report_expected(reporter_, tokens_, static_cast<std::size_t>(at - tokens_.data()), wanted);
  abandon();
  if (reporter_.full()) throw ParsingStopped{};
}

const Token* Builder::recover(const Token* at, const std::string& wanted) {
  constexpr TokenSet stops = token_set(K::newline, K::semicolon, K::rbrace, K::end);
  constexpr TokenSet starts = token_set(K::name, K::reducer, K::kw_fn, K::kw_use, K::kw_kernel, K::rbrace, K::end);
  const Token* to = at;
  // Where the line ended too early and the next one starts no item, that one goes on with this item.
  if (at->kind == K::newline && !contains(starts, at[1].kind)) ++to;
  while (!contains(stops, to->kind)) {
    // What stands in braces belongs to the item that failed, and ends it.
    if (to->kind == K::lbrace && tokens_.data() + to->match > to) {
      to = tokens_.data() + to->match + 1;
      break;
    }
    ++to;
  }
  if (to->kind == K::rbrace && !in_kernel_) ++to;
  report(at, to, wanted);
  return to;
}

const Token* Builder::recover_header(const Token* at, const std::string& wanted) {
  constexpr TokenSet stops = token_set(K::lbrace, K::rbrace, K::newline, K::semicolon, K::end);
  constexpr TokenSet starts = token_set(K::kw_kernel, K::kw_use, K::kw_fn);
  const Token* to = at;
  while (!contains(stops, to->kind) && !(to->first_on_line && contains(starts, to->kind))) ++to;
  report(at, to, wanted);
  header_failed_ = true;
  if (to->kind != K::lbrace) in_kernel_ = false;
  return to;
}

}  // namespace attune::syntax
