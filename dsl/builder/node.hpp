// SPDX-License-Identifier: Apache-2.0
// What stands behind the builder's handles: a graph of nodes and declarations, before it becomes an AST.
// Nodes are shared; chains are linked along their left operand, so that a loop of `x = x + y` stays linear.
#pragma once
#include <attune/builder.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "syntax/ast.hpp"

namespace attune::build {

/// A finding that has no place yet: nodes carry it until a program meets it.
struct Finding {
  std::string code, message, help;
};

enum class NodeKind : std::uint8_t {
  integer,
  real,
  truth,
  infinity,
  index,
  dim,            ///< text
  scalar,         ///< declaration
  parameter,      ///< integer: identity, shared by no other parameter
  access,         ///< declaration; children: subscripts
  call_builtin,   ///< text; children: arguments
  call_function,  ///< declaration; children
  call_module,    ///< declaration (the module), text; children
  cast,           ///< type; child
  negate,
  logical_not,  ///< child
  chain,        ///< link; children: left (perhaps the chain so far), right
  comparison,   ///< relations; children
  power,        ///< children: base, exponent
  conditional,  ///< children: condition, then, otherwise
  reduction,    ///< reduction, indices; children: body, guard or null, extra or null
  error         ///< finding
};

struct IndexNode {
  std::string name;
  NodeRef lo, hi;  ///< null without a range
};

struct Node {
  NodeKind kind = NodeKind::error;
  std::string text;
  std::uint64_t integer = 0;
  double real = 0;
  std::optional<ElementType> type;
  Link link{};
  Reduction reduction{};
  std::vector<Relation> relations;
  std::vector<IndexNode> indices;
  std::vector<NodeRef> children;
  DeclarationRef declaration;
  Finding finding;
  std::uint32_t depth = 1;  ///< chains count once
  std::uint64_t size = 1;   ///< of the tree this graph stands for, saturating
  ~Node();
};

enum class DeclarationKind : std::uint8_t { tensor, scalar, definition, function, module };

struct Declaration {
  DeclarationKind kind = DeclarationKind::tensor;
  std::string name;
  std::uint64_t sequence = 0;  ///< order of making
  std::optional<ElementType> type;
  bool is_const = false;
  std::vector<NodeRef> extents;  ///< of a tensor; of a result where given
  bool extents_given = false;
  std::vector<IndexNode> indices;            ///< of a definition
  NodeRef body;                              ///< of a definition or function; a scalar's default or null
  std::vector<NodeRef> parameters;           ///< of a function: nodes of kind parameter
  std::vector<std::string> parameter_names;  ///< of a function: given, or none
  std::vector<Finding> findings;             ///< what is wrong with it
  ~Declaration();
};

/// The precedence of a link; links of one precedence form one chain.
inline int precedence(Link link) {
  return link <= Link::subtract ? 0 : link <= Link::remainder ? 1 : static_cast<int>(link);
}

/// Whether the text could hold this name; else the finding that says why not. `what`: "tensor", "index", ...
std::optional<Finding> check_name(const std::string& what, const std::string& name);

/// A node that remembers a finding.
NodeRef error_node(Finding finding);

/// Makes AST expressions of nodes; shared nodes become shared expressions. Function parameters are called what
/// `parameter_names` says (by identity).
class AstMaker {
 public:
  explicit AstMaker(std::unordered_map<std::uint64_t, std::string> parameter_names = {})
      : parameter_names_(std::move(parameter_names)) {}
  ast::Expr expr(const NodeRef& node);  ///< null for null
  ast::Index index(const IndexNode& index);
  std::string parameter_name(const Node& parameter) const;

 private:
  ast::Expr make(const Node& node);
  std::vector<ast::Expr> exprs(const std::vector<NodeRef>& nodes);
  std::unordered_map<std::uint64_t, std::string> parameter_names_;
  std::unordered_map<const Node*, ast::Expr> made_;
};

}  // namespace attune::build
