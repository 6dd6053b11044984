// SPDX-License-Identifier: Apache-2.0
// The fluent builder's handles: every operator, function and declaration makes a node of the graph.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "builder/node.hpp"
#include "syntax/syntax.hpp"

namespace attune {
namespace build {
namespace {

/// Each level of brackets holds at most one level of each precedence; the parser has the exact limit.
constexpr std::uint32_t deepest = 8 * max_nesting;

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> counter{0};
  return ++counter;
}

std::shared_ptr<Node> new_node(NodeKind kind, std::vector<NodeRef> children = {}) {
  auto node = std::make_shared<Node>();
  node->kind = kind;
  node->children = std::move(children);
  return node;
}

NodeRef checked(const Expr& expr) {
  if (expr.node()) return expr.node();
  return error_node({"A0703", "an empty expression is used",
                     "an attune::Expr without a value came from its default constructor; give it one"});
}

std::vector<NodeRef> checked(const std::vector<Expr>& exprs) {
  std::vector<NodeRef> nodes;
  for (const Expr& expr : exprs) nodes.push_back(checked(expr));
  return nodes;
}

/// Completes a node: its depth and size. A tree beyond the limits of the notation becomes an error and is let go.
Expr finish(std::shared_ptr<Node> node) {
  const bool is_chain = node->kind == NodeKind::chain;
  auto count = [&](const NodeRef& child, std::uint32_t levels) {
    if (!child) return;
    node->depth = std::max(node->depth, child->depth + levels);
    node->size += child->size;
  };
  for (std::size_t i = 0; i < node->children.size(); ++i) {
    const NodeRef& child = node->children[i];
    const bool extends =
        is_chain && i == 0 && child->kind == NodeKind::chain && precedence(child->link) == precedence(node->link);
    count(child, extends ? 0 : 1);
  }
  for (const IndexNode& index : node->indices) {
    count(index.lo, 1);
    count(index.hi, 1);
  }
  if (node->size > max_nodes)
    return Expr(error_node(
        {"A0710", "an expression has more than " + std::to_string(max_nodes) + " nodes", "split it into definitions"}));
  if (node->depth > deepest)
    return Expr(error_node({"A0710", "an expression is nested too deeply", "split it into definitions"}));
  return Expr(NodeRef(std::move(node)));
}

std::shared_ptr<Declaration> new_declaration(DeclarationKind kind, const std::string& what, const std::string& name) {
  auto declaration = std::make_shared<Declaration>();
  declaration->kind = kind;
  declaration->name = name;
  declaration->sequence = next_number();
  if (auto finding = check_name(what, name)) declaration->findings.push_back(std::move(*finding));
  return declaration;
}

void check_type(Declaration& declaration) {
  if (!declaration.type || !declaration.type->is_variable()) return;
  if (auto finding = check_name("type variable", declaration.type->name()))
    declaration.findings.push_back(std::move(*finding));
}

NodeRef name_node(NodeKind kind, const std::string& what, const std::string& name) {
  if (auto finding = check_name(what, name)) return error_node(std::move(*finding));
  auto node = new_node(kind);
  node->text = name;
  return node;
}

/// Indices of a definition or a reduction; what is wrong with them goes to `findings`.
std::vector<IndexNode> index_nodes(const std::vector<IndexRange>& indices, std::vector<Finding>& findings) {
  std::vector<IndexNode> nodes;
  for (const IndexRange& index : indices) {
    const NodeRef name = checked(index.index());
    if (name->kind == NodeKind::error) findings.push_back(name->finding);
    IndexNode node{name->text, nullptr, nullptr};
    if (index.has_range()) {
      node.lo = checked(index.lo());
      node.hi = checked(index.hi());
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

std::string plural(std::size_t count, const std::string& word) {
  return std::to_string(count) + " " + word + (count == 1 ? "" : "s");
}

Tensor make_definition(const std::string& name, const std::vector<IndexRange>& indices, const Expr& body,
                       const ElementType* result, const std::vector<Expr>* extents) {
  auto declaration = new_declaration(DeclarationKind::definition, "definition", name);
  declaration->indices = index_nodes(indices, declaration->findings);
  declaration->body = checked(body);
  if (result) declaration->type = *result;
  check_type(*declaration);
  if (extents) {
    declaration->extents = checked(*extents);
    declaration->extents_given = true;
    if (extents->size() != indices.size())
      declaration->findings.push_back({"A0702",
                                       "definition `" + name + "` has " + std::to_string(indices.size()) +
                                           (indices.size() == 1 ? " index and " : " indices and ") +
                                           plural(extents->size(), "extent"),
                                       "give one extent for each index"});
  }
  return Tensor(std::move(declaration));
}

}  // namespace

NodeRef integer(std::uint64_t magnitude, bool negative) {
  if (magnitude >> 63)
    return error_node({"A0707", "an integer is beyond 2^63 - 1 in size", "the notation has no larger literals"});
  auto node = new_node(NodeKind::integer);
  node->integer = magnitude;
  return negative ? finish(new_node(NodeKind::negate, {NodeRef(std::move(node))})).node() : NodeRef(std::move(node));
}

NodeRef real(double value) {
  if (std::isnan(value)) return error_node({"A0707", "a number is NaN", "the notation has no literal for it"});
  auto node = new_node(std::isinf(value) ? NodeKind::infinity : NodeKind::real);
  node->real = std::abs(value);
  return std::signbit(value) ? finish(new_node(NodeKind::negate, {NodeRef(std::move(node))})).node()
                             : NodeRef(std::move(node));
}

NodeRef truth(bool value) {
  auto node = new_node(NodeKind::truth);
  node->integer = value;
  return node;
}

Expr link(Link link, const Expr& a, const Expr& b) {
  auto node = new_node(NodeKind::chain, {checked(a), checked(b)});
  node->link = link;
  return finish(std::move(node));
}

Expr compare(Relation relation, const Expr& a, const Expr& b) {
  auto node = new_node(NodeKind::comparison, {checked(a), checked(b)});
  node->relations = {relation};
  return finish(std::move(node));
}

Expr call(const char* name, std::initializer_list<Expr> arguments) {
  auto node = new_node(NodeKind::call_builtin, checked(std::vector<Expr>(arguments)));
  node->text = name;
  return finish(std::move(node));
}

std::vector<Expr> parameters(std::size_t count) {
  std::vector<Expr> result;
  for (std::size_t i = 0; i < count; ++i) {
    auto node = new_node(NodeKind::parameter);
    node->integer = next_number();
    result.emplace_back(NodeRef(std::move(node)));
  }
  return result;
}

}  // namespace build

using namespace build;

// ---- names --------------------------------------------------------------------------------------
Dim::Dim(const std::string& name) : Expr(name_node(NodeKind::dim, "dim", name)) {}
Index::Index(const std::string& name) : Expr(name_node(NodeKind::index, "index", name)) {}

static DeclarationRef scalar_declaration(const std::string& name, const ElementType& type, const Expr& default_value,
                                         bool is_const) {
  auto declaration = new_declaration(DeclarationKind::scalar, "scalar", name);
  declaration->type = type;
  declaration->is_const = is_const;
  declaration->body = default_value.node();
  check_type(*declaration);
  return declaration;
}
static NodeRef scalar_node(const DeclarationRef& declaration) {
  auto node = new_node(NodeKind::scalar);
  node->declaration = declaration;
  return node;
}
Scalar::Scalar(DeclarationRef declaration) : Expr(scalar_node(declaration)), declaration_(std::move(declaration)) {}
Scalar::Scalar(const std::string& name, const ElementType& type, const Expr& default_value)
    : Scalar(scalar_declaration(name, type, default_value, false)) {}
Scalar const_scalar(const std::string& name, const ElementType& type, const Expr& default_value) {
  return Scalar(scalar_declaration(name, type, default_value, true));
}

Tensor::Tensor(const std::string& name, const ElementType& type, const std::vector<Expr>& extents) {
  auto declaration = new_declaration(DeclarationKind::tensor, "tensor", name);
  declaration->type = type;
  declaration->extents = checked(extents);
  check_type(*declaration);
  declaration_ = std::move(declaration);
}

Expr Tensor::element(const std::vector<Expr>& subscripts) const {
  if (!declaration_)
    return Expr(error_node({"A0703", "an empty tensor is subscripted",
                            "an attune::Tensor without a declaration came from its default constructor"}));
  const bool defined = declaration_->kind == DeclarationKind::definition;
  const std::size_t rank = defined ? declaration_->indices.size() : declaration_->extents.size();
  if (rank != subscripts.size())
    return Expr(error_node({"A0702",
                            (defined ? "definition `" : "tensor `") + declaration_->name + "` has " +
                                std::to_string(rank) + (rank == 1 ? " axis" : " axes") + " and is called with " +
                                plural(subscripts.size(), "subscript"),
                            ""}));
  auto node = new_node(NodeKind::access, checked(subscripts));
  node->declaration = declaration_;
  return finish(std::move(node));
}

// ---- declarations -------------------------------------------------------------------------------
Tensor define(const std::string& name, const std::vector<IndexRange>& indices, const Expr& body) {
  return make_definition(name, indices, body, nullptr, nullptr);
}
Tensor define(const std::string& name, const std::vector<IndexRange>& indices, const Expr& body,
              const ElementType& result) {
  return make_definition(name, indices, body, &result, nullptr);
}
Tensor define(const std::string& name, const std::vector<IndexRange>& indices, const Expr& body,
              const ElementType& result, const std::vector<Expr>& extents) {
  return make_definition(name, indices, body, &result, &extents);
}

void Function::declare(const std::string& name, const std::vector<std::string>& names,
                       const std::vector<Expr>& placeholders, const Expr& body) {
  auto declaration = new_declaration(DeclarationKind::function, "function", name);
  declaration->parameters = checked(placeholders);
  declaration->parameter_names = names;
  declaration->body = checked(body);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (auto finding = check_name("parameter", names[i])) declaration->findings.push_back(std::move(*finding));
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<std::ptrdiff_t>(i))
      declaration->findings.push_back(
          {"A0705", "function `" + name + "` has two parameters called `" + names[i] + "`", ""});
  }
  if (!names.empty() && names.size() != placeholders.size())
    declaration->findings.push_back({"A0702",
                                     "function `" + name + "` names " + plural(names.size(), "parameter") +
                                         " and its body takes " + std::to_string(placeholders.size()),
                                     ""});
  declaration_ = std::move(declaration);
}

Expr Function::call(const std::vector<Expr>& arguments) const {
  if (!declaration_)
    return Expr(error_node({"A0703", "a function is called within its own body", "the notation has no recursion"}));
  if (declaration_->parameters.size() != arguments.size())
    return Expr(error_node({"A0702",
                            "function `" + declaration_->name + "` takes " +
                                plural(declaration_->parameters.size(), "argument") + " and is called with " +
                                std::to_string(arguments.size()),
                            ""}));
  auto node = new_node(NodeKind::call_function, checked(arguments));
  node->declaration = declaration_;
  return finish(std::move(node));
}

Use::Use(const std::string& path) {
  auto declaration = std::make_shared<Declaration>();
  declaration->kind = DeclarationKind::module;
  declaration->name = path;
  declaration->sequence = next_number();
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    if (auto finding = check_name("module", path.substr(begin, end - begin)))
      declaration->findings.push_back(std::move(*finding));
    begin = end + 1;
  }
  declaration_ = std::move(declaration);
}

Expr Use::call(const std::string& function, const std::vector<Expr>& arguments) const {
  if (auto finding = check_name("function", function)) return Expr(error_node(std::move(*finding)));
  auto node = new_node(NodeKind::call_module, checked(arguments));
  node->text = function;
  node->declaration = declaration_;
  return finish(std::move(node));
}

// ---- operators ----------------------------------------------------------------------------------
Expr operator!(const Expr& a) { return finish(new_node(NodeKind::logical_not, {checked(a)})); }
Expr operator-(const Expr& a) { return finish(new_node(NodeKind::negate, {checked(a)})); }
Expr pow(const Expr& base, const Expr& exponent) {
  return finish(new_node(NodeKind::power, {checked(base), checked(exponent)}));
}
Expr select(const Expr& condition, const Expr& then, const Expr& otherwise) {
  return finish(new_node(NodeKind::conditional, {checked(condition), checked(then), checked(otherwise)}));
}
Expr infinity() { return Expr(std::numeric_limits<double>::infinity()); }
Expr TypeVar::operator()(const Expr& x) const { return cast(*this, x); }

Expr cast(const ElementType& type, const Expr& x) {
  if (type.is_variable())
    if (auto finding = check_name("type variable", type.name())) return Expr(error_node(std::move(*finding)));
  auto node = new_node(NodeKind::cast, {checked(x)});
  node->type = type;
  return finish(std::move(node));
}

Expr chain(const std::vector<Expr>& comparisons) {
  auto node = new_node(NodeKind::comparison);
  for (const Expr& part : comparisons) {
    const NodeRef next = checked(part);
    if (next->kind == NodeKind::error) return Expr(next);
    if (next->kind != NodeKind::comparison)
      return Expr(
          error_node({"A0708", "chain() is given something that is not a comparison", "write chain(lo <= j, j < hi)"}));
    if (node->children.empty()) {
      node->children.push_back(next->children.front());
    } else {
      AstMaker maker;
      if (!(maker.expr(node->children.back()) == maker.expr(next->children.front())))
        return Expr(error_node({"A0708", "neighbours in chain() do not share the operand between them",
                                "write chain(lo <= j, j < hi); join other comparisons with &&"}));
    }
    node->children.insert(node->children.end(), next->children.begin() + 1, next->children.end());
    node->relations.insert(node->relations.end(), next->relations.begin(), next->relations.end());
  }
  if (node->relations.empty()) return Expr(error_node({"A0708", "chain() is given no comparison", ""}));
  return finish(std::move(node));
}

Expr Reducer::operator()(const Expr& body) const {
  auto node = new_node(NodeKind::reduction, {checked(body), nullptr, nullptr});
  node->reduction = reduction_;
  std::vector<Finding> findings;
  for (const ReductionPart& part : parts_) {
    for (IndexNode& index : index_nodes(part.indices(), findings)) node->indices.push_back(std::move(index));
    auto once = [&](const Expr* given, std::size_t slot, const std::string& word) {
      if (!given) return;
      if (node->children[slot])
        findings.push_back({"A0702", "a reduction has two `" + word + "` parts",
                            slot == 1 ? "join the conditions with &&" : "add them as log(exp(a) + exp(b))"});
      node->children[slot] = checked(*given);
    };
    once(part.condition(), 1, "where");
    once(part.extra(), 2, "extra");
  }
  if (node->indices.empty()) findings.push_back({"A0702", "a reduction has no index", "write sum(j)(...)"});
  if (!findings.empty()) return Expr(error_node(std::move(findings.front())));
  return finish(std::move(node));
}

}  // namespace attune
