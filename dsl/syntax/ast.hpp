// SPDX-License-Identifier: Apache-2.0
// The abstract syntax tree: what the parser and the fluent builder both make. Names are still strings.
// Chains of one precedence are flat lists, so no pass recurses along them.
#pragma once
#include <attune/dtype.hpp>
#include <attune/source.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "common/node.hpp"

namespace attune::ast {

struct Node;

/// A shared immutable expression; copying shares. Equality (==) is structural and ignores spans.
class Expr {
 public:
  Expr() = default;
  template <class Kind>
  requires(!std::is_same_v<std::decay_t<Kind>, Expr>) explicit Expr(Kind kind, Span span = {});
  explicit operator bool() const { return node_ != nullptr; }
  const Node* operator->() const { return node_.get(); }
  const Node& operator*() const { return *node_; }
  bool same(const Expr& other) const { return node_ == other.node_; }
  friend bool operator==(const Expr& a, const Expr& b);

 private:
  std::shared_ptr<const Node> node_;
};

/// A dtype word or a type variable of the kernel ("T").
struct TypeName {
  std::string text;  ///< as written: "f32", "T"
  Span span;
  friend bool operator==(const TypeName& a, const TypeName& b) { return a.text == b.text; }
};

/// An index in a definition's or reduction's brackets: `j` or `j in lo..hi` (both null without a range).
struct Index {
  std::string name;
  Expr lo, hi;
  Span span;
  static constexpr auto fields = std::tuple(&Index::lo, &Index::hi);
  friend bool operator==(const Index& a, const Index& b) { return a.name == b.name && a.lo == b.lo && a.hi == b.hi; }
};

// ---- expression kinds -------------------------------------------------------------------------
struct Integer {
  std::uint64_t value;  ///< below 2^63
  static constexpr auto fields = std::tuple<>();
  friend bool operator==(const Integer&, const Integer&) = default;
};
struct Float {
  double value;  ///< finite, non-negative (a sign is a Negate)
  static constexpr auto fields = std::tuple<>();
  friend bool operator==(const Float&, const Float&) = default;
};
struct Boolean {
  bool value;
  static constexpr auto fields = std::tuple<>();
  friend bool operator==(const Boolean&, const Boolean&) = default;
};
struct Infinity {
  static constexpr auto fields = std::tuple<>();
  friend bool operator==(const Infinity&, const Infinity&) = default;
};
/// A dim, index, scalar parameter, or definition/tensor name without brackets (the last is an error of inference).
struct Name {
  std::string name;
  static constexpr auto fields = std::tuple<>();
  friend bool operator==(const Name&, const Name&) = default;
};
/// `Q[b, h, i, d]`, also `x[]`.
struct Subscript {
  std::string name;
  Span name_span;
  std::vector<Expr> subscripts;
  static constexpr auto fields = std::tuple(&Subscript::subscripts);
  friend bool operator==(const Subscript& a, const Subscript& b) {
    return a.name == b.name && a.subscripts == b.subscripts;
  }
};
/// A built-in or user function: `exp(x)`, `max(a, b)`, `rand(seed, i)`, `pos(i)`.
struct Call {
  std::string name;
  Span name_span;
  std::vector<Expr> arguments;
  static constexpr auto fields = std::tuple(&Call::arguments);
  friend bool operator==(const Call& a, const Call& b) { return a.name == b.name && a.arguments == b.arguments; }
};
/// `f16(x)`, and `T(x)` where T is a type variable in scope.
struct Cast {
  TypeName type;
  Expr operand;
  static constexpr auto fields = std::tuple(&Cast::operand);
  friend bool operator==(const Cast&, const Cast&) = default;
};
struct Negate {
  Expr operand;
  static constexpr auto fields = std::tuple(&Negate::operand);
  friend bool operator==(const Negate&, const Negate&) = default;
};
struct Not {
  Expr operand;
  static constexpr auto fields = std::tuple(&Not::operand);
  friend bool operator==(const Not&, const Not&) = default;
};
enum class Link : std::uint8_t { add, subtract, multiply, divide, remainder, both, either };
/// One flat chain of operators of one precedence: a + b - c, a * b / c % d, p and q, p or q.
/// links.size() == operands.size() - 1 >= 1; all links belong to one precedence; evaluated left to right.
struct Chain {
  std::vector<Link> links;
  std::vector<Expr> operands;
  std::vector<Span> link_spans;  ///< of the operators (same size as links), empty from the builder
  static constexpr auto fields = std::tuple(&Chain::operands);
  friend bool operator==(const Chain& a, const Chain& b) { return a.links == b.links && a.operands == b.operands; }
};
enum class Relation : std::uint8_t { less, less_equal, greater, greater_equal, equal, not_equal };
/// `a <= j < b`: all of them, each middle operand once. relations.size() == operands.size() - 1 >= 1.
struct Comparison {
  std::vector<Relation> relations;
  std::vector<Expr> operands;
  std::vector<Span> relation_spans;
  static constexpr auto fields = std::tuple(&Comparison::operands);
  friend bool operator==(const Comparison& a, const Comparison& b) {
    return a.relations == b.relations && a.operands == b.operands;
  }
};
/// `base ^ exponent`, right-associative.
struct Power {
  Expr base, exponent;
  static constexpr auto fields = std::tuple(&Power::base, &Power::exponent);
  friend bool operator==(const Power&, const Power&) = default;
};
/// `then if condition else otherwise`.
struct Conditional {
  Expr then, condition, otherwise;
  static constexpr auto fields = std::tuple(&Conditional::then, &Conditional::condition, &Conditional::otherwise);
  friend bool operator==(const Conditional&, const Conditional&) = default;
};
enum class Reducer : std::uint8_t { sum, max, min, mean, prod, any, all, logsumexp, argmax, softmax, cumsum };
/// `sum[j in lo..hi where guard](body)`, `softmax[j where p](s, extra = t)`.
struct Reduction {
  Reducer reducer;
  Span reducer_span;
  std::vector<Index> indices;
  Expr guard;  ///< null without `where`
  Expr body;
  Expr extra;  ///< null without `extra =`
  static constexpr auto fields =
      std::tuple(&Reduction::indices, &Reduction::guard, &Reduction::body, &Reduction::extra);
  friend bool operator==(const Reduction& a, const Reduction& b) {
    return a.reducer == b.reducer && a.indices == b.indices && a.guard == b.guard && a.body == b.body &&
           a.extra == b.extra;
  }
};

using Kind = std::variant<Integer, Float, Boolean, Infinity, Name, Subscript, Call, Cast, Negate, Not, Chain,
                          Comparison, Power, Conditional, Reduction>;

struct Node {
  Kind kind;
  Span span;
};

template <class K>
requires(!std::is_same_v<std::decay_t<K>, Expr>) Expr::Expr(K kind, Span span)
    : node_(std::make_shared<const Node>(Node{Kind(std::move(kind)), span})) {}

inline bool operator==(const Expr& a, const Expr& b) {
  if (a.node_ == b.node_) return true;
  return a.node_ && b.node_ && a.node_->kind == b.node_->kind;
}

// ---- declarations -----------------------------------------------------------------------------
struct TensorDecl {
  std::string name;
  TypeName type;
  std::vector<Expr> extents;  ///< Name, Integer, Chain, Power of those
  Span span, name_span;
  friend bool operator==(const TensorDecl& a, const TensorDecl& b) {
    return a.name == b.name && a.type == b.type && a.extents == b.extents;
  }
};
struct ScalarDecl {
  std::string name;
  TypeName type;
  bool is_const = false;
  Expr default_value;  ///< null where the caller must give it
  Span span, name_span;
  friend bool operator==(const ScalarDecl& a, const ScalarDecl& b) {
    return a.name == b.name && a.type == b.type && a.is_const == b.is_const && a.default_value == b.default_value;
  }
};
using Param = std::variant<TensorDecl, ScalarDecl>;

struct FunctionDecl {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<Span> parameter_spans;
  Expr body;
  Span span, name_span;
  friend bool operator==(const FunctionDecl& a, const FunctionDecl& b) {
    return a.name == b.name && a.parameters == b.parameters && a.body == b.body;
  }
};
struct Definition {
  std::string name;
  std::vector<Index> indices;
  Expr body;
  Span span, name_span;
  friend bool operator==(const Definition& a, const Definition& b) {
    return a.name == b.name && a.indices == b.indices && a.body == b.body;
  }
};
using Item = std::variant<FunctionDecl, Definition>;

struct Kernel {
  std::string name;
  std::vector<std::string> type_variables;
  std::vector<Span> type_variable_spans;
  std::vector<Param> params;
  std::vector<TensorDecl> results;
  std::vector<Item> items;  ///< functions and definitions in written order
  Span span, name_span;
  friend bool operator==(const Kernel& a, const Kernel& b) {
    return a.name == b.name && a.type_variables == b.type_variables && a.params == b.params && a.results == b.results &&
           a.items == b.items;
  }
};
struct Use {
  std::vector<std::string> path;  ///< {"std", "masks"}
  Span span;
  friend bool operator==(const Use& a, const Use& b) { return a.path == b.path; }
};
using Declaration = std::variant<Use, FunctionDecl, Kernel>;

/// A whole text: uses, module functions and kernels in written order.
struct Module {
  Source source;
  std::vector<Declaration> declarations;
  friend bool operator==(const Module& a, const Module& b) { return a.declarations == b.declarations; }
};

}  // namespace attune::ast
