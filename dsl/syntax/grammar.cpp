// SPDX-License-Identifier: Apache-2.0
// The grammar of language.md in Spirit X3 over tokens. The only file that includes Boost.
#include "syntax/grammar.hpp"

#include <boost/spirit/home/x3.hpp>
#include <functional>
#include <string>

#include "syntax/builder.hpp"
#include "syntax/expected.hpp"

namespace attune::syntax {
namespace {

namespace x3 = boost::spirit::x3;
using K = TokenKind;

/// Matches one token of a set. `wanted` is what messages say was expected here.
struct One : x3::parser<One> {
  using attribute_type = Token;
  static constexpr bool has_attribute = true;
  TokenSet set;
  const char* wanted;

  constexpr One(TokenSet kinds, const char* text) : set(kinds), wanted(text) {}

  template <class Iterator, class Context, class RuleContext, class Attribute>
  bool parse(Iterator& first, const Iterator& last, const Context&, RuleContext&, Attribute& attribute) const {
    if (first == last || !contains(set, first->kind)) return false;
    x3::traits::move_to(*first, attribute);
    ++first;
    return true;
  }
};

constexpr One one(K kind) { return One(token_set(kind), describe(kind).data()); }
constexpr One one(K kind, const char* wanted) { return One(token_set(kind), wanted); }

}  // namespace
}  // namespace attune::syntax

// After `>` X3 asks a parser for its name and by default gets a mangled type. Actions are named after their subject,
// choices and sequences after the part that decides what should stand there.
namespace boost::spirit::x3 {
template <>
struct get_info<attune::syntax::One> {
  using result_type = std::string;
  std::string operator()(const attune::syntax::One& parser) const { return parser.wanted; }
};
template <class Subject, class Action>
struct get_info<action<Subject, Action>> {
  using result_type = std::string;
  std::string operator()(const action<Subject, Action>& parser) const { return what(parser.subject); }
};
template <class Subject>
struct get_info<and_predicate<Subject>> {
  using result_type = std::string;
  std::string operator()(const and_predicate<Subject>& parser) const { return what(parser.subject); }
};
template <class Left, class Right>
struct get_info<alternative<Left, Right>> {
  using result_type = std::string;
  std::string operator()(const alternative<Left, Right>& parser) const { return what(parser.right); }
};
template <class Left, class Right>
struct get_info<sequence<Left, Right>> {
  using result_type = std::string;
  std::string operator()(const sequence<Left, Right>& parser) const { return what(parser.left); }
};
}  // namespace boost::spirit::x3

namespace attune::syntax {
namespace {

struct builder_tag;
template <class Context>
Builder& builder(const Context& context) {
  return x3::get<builder_tag>(context).get();
}

/// Semantic actions: call a method of the builder, `act` with the token that matched, `run` without.
template <auto Method>
struct Act {
  template <class Context>
  void operator()(Context& context) const {
    (builder(context).*Method)(x3::_attr(context));
  }
};
template <auto Method>
struct Run {
  template <class Context>
  void operator()(Context& context) const {
    (builder(context).*Method)();
  }
};
template <auto Method>
constexpr Act<Method> act{};
template <auto Method>
constexpr Run<Method> run{};

/// An error inside such a rule is reported, and the rule accepted up to where its successor can start.
struct RecoversAtItemEnd {
  template <class Iterator, class Failure, class Context>
  x3::error_handler_result on_error(Iterator& first, const Iterator&, const Failure& failure, const Context& context) {
    first = builder(context).recover(failure.where(), failure.which());
    return x3::error_handler_result::accept;
  }
};
struct RecoversAtBrace {
  template <class Iterator, class Failure, class Context>
  x3::error_handler_result on_error(Iterator& first, const Iterator&, const Failure& failure, const Context& context) {
    first = builder(context).recover_header(failure.where(), failure.which());
    return x3::error_handler_result::accept;
  }
};

// ---- expressions ------------------------------------------------------------------------------
constexpr TokenSet starts_arithmetic = token_set(K::name, K::reducer, K::dtype, K::integer, K::real, K::kw_true,
                                                 K::kw_false, K::kw_inf, K::lparen, K::minus);

constexpr One name = one(K::name);
constexpr One literal(token_set(K::integer, K::real, K::kw_true, K::kw_false, K::kw_inf), want::expression);
constexpr One arithmetic_operator(token_set(K::plus, K::minus, K::star, K::slash, K::percent, K::caret),
                                  want::item_end);
constexpr One operator_of_numbers(arithmetic_operator.set | token_set(K::less, K::less_equal, K::greater,
                                                                      K::greater_equal, K::equal, K::not_equal),
                                  want::item_end);
constexpr One operator_of_conditions(token_set(K::kw_and, K::kw_or), want::item_end);
constexpr One arithmetic_start(starts_arithmetic, want::expression);
constexpr One expression_start(starts_arithmetic | token_set(K::kw_not), want::expression);
constexpr One after_parenthesised = one(K::rparen, want::after_operand);
constexpr One after_argument = one(K::rparen, want::after_argument);
constexpr One after_subscript = one(K::rbracket, want::after_subscript);

// Rules carry no attributes: the builder's stacks do.
constexpr x3::rule<struct ExpressionRule> expression = want::expression;
constexpr x3::rule<struct SumRule> sum = want::expression;
constexpr x3::rule<struct OperandRule> operand = want::expression;
constexpr x3::rule<struct OperandsRule> operands = want::expression;

constexpr auto begin = x3::eps[run<&Builder::begin_expression>];
constexpr auto end = x3::eps[run<&Builder::end_expression>];

constexpr auto number = (+one(K::minus)[act<&Builder::prefix>] > operand) | operand;
constexpr auto condition = (+one(K::kw_not)[act<&Builder::prefix>] > number) | number;

constexpr auto operands_def = condition >> *((operator_of_numbers[act<&Builder::binary>] > number) |
                                             (operator_of_conditions[act<&Builder::binary>] > condition));
constexpr auto expression_def = &expression_start >> begin >> operands >>
                                *(one(K::kw_if)[act<&Builder::binary>] > operands >
                                  one(K::kw_else, want::otherwise)[act<&Builder::binary>] > operands) >>
                                end;
constexpr auto sum_def = &arithmetic_start >> begin >> number >>
                         *(arithmetic_operator[act<&Builder::binary>] > number) >> end;

constexpr auto arguments = expression > *(one(K::comma) > expression);
constexpr auto index = name[act<&Builder::index>] >>
                       -(one(K::kw_in) > sum > one(K::dotdot, want::after_range) > sum[run<&Builder::range>]);
constexpr auto indices = index > *(one(K::comma) > index);

constexpr auto subscripts = one(K::lbracket) > (one(K::rbracket)[act<&Builder::end_subscript>] |
                                                (arguments > after_subscript[act<&Builder::end_subscript>]));
constexpr auto call = one(K::lparen) >
                      (one(K::rparen)[act<&Builder::end_call>] | (arguments > after_argument[act<&Builder::end_call>]));
constexpr auto named = name[act<&Builder::begin_form>] >> (subscripts | call | x3::eps[run<&Builder::end_name>]);
constexpr auto cast = one(K::dtype)[act<&Builder::begin_form>] > one(K::lparen) > expression >
                      one(K::rparen, want::after_operand)[act<&Builder::end_call>];
constexpr auto reduction = one(K::reducer)[act<&Builder::begin_form>] > one(K::lbracket) > indices >
                           -(one(K::kw_where) > expression[run<&Builder::guard>]) >
                           one(K::rbracket, want::after_index) >
                           one(K::lparen, want::body) > expression[run<&Builder::body>] >
                           -(one(K::comma) > one(K::kw_extra) > one(K::assign) >
                             expression[run<&Builder::extra>]) > after_argument[act<&Builder::end_reduction>];
constexpr auto group = one(K::lparen) > expression > after_parenthesised[act<&Builder::close_group>];

constexpr auto operand_def = literal[act<&Builder::literal>] | named | reduction | cast | group;

BOOST_SPIRIT_DEFINE(expression, sum, operand, operands)

// ---- items ------------------------------------------------------------------------------------
constexpr One separator(token_set(K::newline, K::semicolon), want::item_end);
constexpr TokenSet ends_item = token_set(K::newline, K::semicolon, K::rbrace, K::end);
constexpr auto item_end = &One(ends_item, want::item_end);
constexpr auto use_end = &One(ends_item, want::use_end);
/// Matches nothing: what stands here is not an item.
constexpr One no_item(TokenSet{0}, want::item);
constexpr One no_declaration(TokenSet{0}, want::declaration);

constexpr auto use = one(K::kw_use) > name[act<&Builder::use_part>] >
                     *(one(K::dot) > name[act<&Builder::use_part>]) > use_end > x3::eps[run<&Builder::end_use>];

constexpr auto parameters = name[act<&Builder::parameter>] > *(one(K::comma) > name[act<&Builder::parameter>]);
constexpr auto function = one(K::kw_fn)[act<&Builder::begin_function>] > name[act<&Builder::parameter>] >
                          one(K::lparen) > (one(K::rparen) | (parameters > one(K::rparen, want::after_parameter))) >
                          one(K::assign) > expression > item_end > x3::eps[run<&Builder::end_function>];

constexpr One defined(token_set(K::name, K::reducer), want::name);
constexpr auto definition = defined[act<&Builder::begin_form>] > one(K::lbracket) >
                            (one(K::rbracket) | (indices > one(K::rbracket, want::after_left_index))) >
                            one(K::assign) > expression > item_end > x3::eps[run<&Builder::end_definition>];

struct ItemRule : RecoversAtItemEnd {};
struct DeclarationRule : RecoversAtItemEnd {};
struct HeaderRule : RecoversAtBrace {};
constexpr x3::rule<ItemRule> item = want::item;
constexpr x3::rule<DeclarationRule> declaration = want::declaration;
constexpr x3::rule<HeaderRule> header = "a kernel's header";

constexpr auto item_def = function | definition | x3::expect[no_item];

// ---- kernels ----------------------------------------------------------------------------------
constexpr One type(token_set(K::dtype, K::name), want::dtype);
constexpr auto extents = one(K::lbracket)[run<&Builder::begin_extents>] >
                         (one(K::rbracket)[act<&Builder::end_extents>] |
                          (sum > *(one(K::comma) > sum) > after_subscript[act<&Builder::end_extents>]));
constexpr auto default_value = one(K::assign) > expression[run<&Builder::default_value>];
constexpr auto parameter =
    name[act<&Builder::declare>] > one(K::colon) >
    ((one(K::kw_const)[run<&Builder::declare_const>] > type[act<&Builder::declare_type>] > -default_value) |
     (type[act<&Builder::declare_type>] > (extents | -default_value))) > x3::eps[run<&Builder::end_parameter>];
constexpr auto result = name[act<&Builder::declare>] > one(K::colon) > type[act<&Builder::declare_type>] > extents
                        > x3::eps[run<&Builder::end_result>];
constexpr auto results =
    (one(K::lparen) > result > *(one(K::comma) > result) > one(K::rparen, want::after_parameter)) | result;

constexpr auto type_variables = one(K::less) > name[act<&Builder::type_variable>] >
                                *(one(K::comma) > name[act<&Builder::type_variable>]) > one(K::greater);
constexpr auto header_def = x3::eps > name[act<&Builder::kernel_name>] > -type_variables > one(K::lparen) >
                            (one(K::rparen) |
                             (parameter > *(one(K::comma) > parameter) > one(K::rparen, want::after_parameter))) >
                            one(K::arrow) > results > &one(K::lbrace);

// A header that failed may have no body; recovery then stands before the next declaration.
constexpr One closes(token_set(K::rbrace, K::end), want::item);
constexpr auto kernel = one(K::kw_kernel)[act<&Builder::begin_kernel>] > header >
                        -(one(K::lbrace) > *separator > *((x3::eps - closes) >> item >> *separator) >
                          one(K::rbrace)[act<&Builder::end_kernel>]);

constexpr auto declaration_def = use | function | kernel | x3::expect[no_declaration];

BOOST_SPIRIT_DEFINE(item, declaration, header)

constexpr auto module = *separator >> *(!one(K::end) >> declaration >> *separator) >> one(K::end);

}  // namespace

ast::Module parse_tokens(const std::vector<Token>& tokens, Reporter& reporter) {
  ast::Module parsed;
  parsed.source = reporter.source();
  Builder state(reporter, tokens, parsed);
  const Token* first = tokens.data();
  try {
    x3::parse(first, tokens.data() + tokens.size(), x3::with<builder_tag>(std::ref(state))[module]);
  } catch (const ParsingStopped&) {
    // The limit that was reached is reported; what was read so far is not used.
  }
  return parsed;
}

}  // namespace attune::syntax
