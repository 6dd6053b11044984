// SPDX-License-Identifier: Apache-2.0
// The builder's graph: release without recursion, checks of names, conversion to AST expressions.
#include "builder/node.hpp"

#include <algorithm>
#include <string_view>

#include "syntax/words.hpp"

namespace attune::build {
namespace {

thread_local std::vector<std::shared_ptr<const void>>* waiting = nullptr;

/// What a dying node owns is released by the outermost release, so that long graphs need no deep stack.
template <class... Members>
void release(Members&... members) {
  std::vector<std::shared_ptr<const void>> own;
  const bool outermost = waiting == nullptr;
  if (outermost) waiting = &own;
  auto give = [](auto&& self, auto& member) -> void {
    using Member = std::decay_t<decltype(member)>;
    if constexpr (std::is_same_v<Member, NodeRef> || std::is_same_v<Member, DeclarationRef>) {
      if (member) waiting->push_back(std::move(member));
    } else if constexpr (std::is_same_v<Member, IndexNode>) {
      self(self, member.lo);
      self(self, member.hi);
    } else {
      for (auto& element : member) self(self, element);
    }
  };
  (give(give, members), ...);
  if (!outermost) return;
  while (!own.empty()) {
    std::shared_ptr<const void> last = std::move(own.back());
    own.pop_back();
    last.reset();
  }
  waiting = nullptr;
}

constexpr std::string_view reserved_words[] = {"use", "fn", "kernel", "const", "in",    "where", "if",   "else",
                                               "and", "or", "not",    "true",  "false", "inf",   "extra"};

template <class Words>
bool one_of(const Words& words, std::string_view word) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

}  // namespace

Node::~Node() { release(children, indices, declaration); }
Declaration::~Declaration() { release(extents, indices, body, parameters); }

std::optional<Finding> check_name(const std::string& what, const std::string& name) {
  auto is_letter = [](char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const bool well_formed = !name.empty() && is_letter(name[0]) &&
                           std::all_of(name.begin(), name.end(), [&](char c) { return is_letter(c) || is_digit(c); });
  if (!well_formed)
    return Finding{"A0701", "`" + name + "` is not a name for a " + what,
                   "names are letters, digits and `_`, and do not start with a digit"};
  if (one_of(reserved_words, name) || parse_dtype(name))
    return Finding{"A0701", "a " + what + " cannot be called `" + name + "`, a word of the notation",
                   "choose another name, e.g. `" + name + "_`"};
  const bool subscripted = what == "tensor" || what == "definition";
  if ((subscripted && one_of(ast::reducer_words, name)) || (what == "function" && one_of(ast::function_words, name)))
    return Finding{"A0701", "a " + what + " cannot be called `" + name + "`, which is built in",
                   "choose another name, e.g. `" + name + "_`"};
  return std::nullopt;
}

NodeRef error_node(Finding finding) {
  auto node = std::make_shared<Node>();
  node->finding = std::move(finding);
  return node;
}

std::string AstMaker::parameter_name(const Node& parameter) const {
  auto found = parameter_names_.find(parameter.integer);
  // No identifier, so that nothing else equals it where only a comparison is wanted.
  return found != parameter_names_.end() ? found->second : "$" + std::to_string(parameter.integer);
}

ast::Expr AstMaker::expr(const NodeRef& node) {
  if (!node) return {};
  if (auto found = made_.find(node.get()); found != made_.end()) return found->second;
  ast::Expr made = make(*node);
  made_.emplace(node.get(), made);
  return made;
}

ast::Index AstMaker::index(const IndexNode& index) { return {index.name, expr(index.lo), expr(index.hi), {}}; }

std::vector<ast::Expr> AstMaker::exprs(const std::vector<NodeRef>& nodes) {
  std::vector<ast::Expr> result;
  result.reserve(nodes.size());
  for (const NodeRef& node : nodes) result.push_back(expr(node));
  return result;
}

ast::Expr AstMaker::make(const Node& node) {
  switch (node.kind) {
    case NodeKind::integer: return ast::Expr(ast::Integer{node.integer});
    case NodeKind::real: return ast::Expr(ast::Float{node.real});
    case NodeKind::truth: return ast::Expr(ast::Boolean{node.integer != 0});
    case NodeKind::infinity: return ast::Expr(ast::Infinity{});
    case NodeKind::index:
    case NodeKind::dim: return ast::Expr(ast::Name{node.text});
    case NodeKind::scalar: return ast::Expr(ast::Name{node.declaration->name});
    case NodeKind::parameter: return ast::Expr(ast::Name{parameter_name(node)});
    case NodeKind::access: return ast::Expr(ast::Subscript{node.declaration->name, {}, exprs(node.children)});
    case NodeKind::call_builtin:
    case NodeKind::call_module: return ast::Expr(ast::Call{node.text, {}, exprs(node.children)});
    case NodeKind::call_function: return ast::Expr(ast::Call{node.declaration->name, {}, exprs(node.children)});
    case NodeKind::cast: return ast::Expr(ast::Cast{{node.type->name(), {}}, expr(node.children[0])});
    case NodeKind::negate: return ast::Expr(ast::Negate{expr(node.children[0])});
    case NodeKind::logical_not: return ast::Expr(ast::Not{expr(node.children[0])});
    case NodeKind::chain: {
      ast::Chain chain;
      const Node* at = &node;
      for (;; at = at->children[0].get()) {
        chain.links.push_back(static_cast<ast::Link>(at->link));
        chain.operands.push_back(expr(at->children[1]));
        const Node& left = *at->children[0];
        if (left.kind != NodeKind::chain || precedence(left.link) != precedence(node.link)) break;
      }
      chain.operands.push_back(expr(at->children[0]));
      std::reverse(chain.links.begin(), chain.links.end());
      std::reverse(chain.operands.begin(), chain.operands.end());
      return ast::Expr(std::move(chain));
    }
    case NodeKind::comparison: {
      ast::Comparison comparison;
      for (Relation relation : node.relations) comparison.relations.push_back(static_cast<ast::Relation>(relation));
      comparison.operands = exprs(node.children);
      return ast::Expr(std::move(comparison));
    }
    case NodeKind::power: return ast::Expr(ast::Power{expr(node.children[0]), expr(node.children[1])});
    case NodeKind::conditional:
      return ast::Expr(ast::Conditional{expr(node.children[1]), expr(node.children[0]), expr(node.children[2])});
    case NodeKind::reduction: {
      ast::Reduction reduction;
      reduction.reducer = static_cast<ast::Reducer>(node.reduction);
      for (const IndexNode& bound : node.indices) reduction.indices.push_back(index(bound));
      reduction.body = expr(node.children[0]);
      reduction.guard = expr(node.children[1]);
      reduction.extra = expr(node.children[2]);
      return ast::Expr(std::move(reduction));
    }
    case NodeKind::error: return {};
  }
  return {};
}

// The enumerations of the public header mirror those of the AST.
static_assert(static_cast<int>(Link::either) == static_cast<int>(ast::Link::either));
static_assert(static_cast<int>(Link::remainder) == static_cast<int>(ast::Link::remainder));
static_assert(static_cast<int>(Relation::not_equal) == static_cast<int>(ast::Relation::not_equal));
static_assert(static_cast<int>(Reduction::logsumexp) == static_cast<int>(ast::Reducer::logsumexp));
static_assert(static_cast<int>(Reduction::cumsum) == static_cast<int>(ast::Reducer::cumsum));

}  // namespace attune::build
