// SPDX-License-Identifier: Apache-2.0
// The tensor IR: typed definitions over named indices. What infer() makes of an AST, what the reference
// evaluates as it stands, and what simplify, stream and masks rewrite. Names are Syms; functions are expanded.
//
// Meaning of every expression: a value, or *absent* (language.md, rules 11 to 15).
#pragma once
#include <attune/diagnostic.hpp>
#include <attune/dtype.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

#include "common/node.hpp"
#include "common/sym.hpp"

namespace attune::tensor {

/// The type of a value. `dtype` is how it is stored or rounded: arithmetic on floats gives f32, on integers i64,
/// conditions give boolean; an access to an f16 tensor or a cast to f16 has dtype f16 (and contracts as f16).
/// `var` is set where the dtype is a type variable that is not bound yet (always a float; dtype is then f32).
struct Type {
  DType dtype = DType::f32;
  Sym var;
  bool is_float() const { return attune::is_float(dtype); }
  bool is_integer() const { return attune::is_integer(dtype); }
  bool is_bool() const { return attune::is_bool(dtype); }
  friend bool operator==(const Type&, const Type&) = default;
};
inline const Type type_f32{DType::f32, {}};
inline const Type type_i64{DType::i64, {}};
inline const Type type_bool{DType::boolean, {}};

struct Node;

/// A shared immutable typed expression. == is structural (Syms by identity, spans ignored).
class Expr {
 public:
  Expr() = default;
  template <class Kind>
  requires(!std::is_same_v<std::decay_t<Kind>, Expr>) Expr(Kind kind, Type type, Span span = {});
  explicit operator bool() const { return node_ != nullptr; }
  const Node* operator->() const { return node_.get(); }
  const Node& operator*() const { return *node_; }
  const Node* get() const { return node_.get(); }
  bool same(const Expr& other) const { return node_ == other.node_; }
  friend bool operator==(const Expr& a, const Expr& b);

 private:
  std::shared_ptr<const Node> node_;
};

/// An index with its half-open range; bounds use literals, dims and integer scalars only.
struct IndexRange {
  Sym index;
  Expr lo, hi;
  static constexpr auto fields = std::tuple(&IndexRange::lo, &IndexRange::hi);
  friend bool operator==(const IndexRange&, const IndexRange&) = default;
};

// ---- kinds --------------------------------------------------------------------------------------
/// A constant. int64_t for integer types, double for floats (rounded to f32 when used), bool for boolean.
struct Literal {
  std::variant<std::int64_t, double, bool> value;
  static constexpr auto fields = std::tuple<>();
  friend bool operator==(const Literal& a, const Literal& b) { return a.value == b.value; }
};
/// The value of an index in scope (i64).
struct Index {
  Sym index;
  static constexpr auto fields = std::tuple<>();
  friend bool operator==(const Index&, const Index&) = default;
};
/// The size of a dim (i64).
struct Dim {
  Sym dim;
  static constexpr auto fields = std::tuple<>();
  friend bool operator==(const Dim&, const Dim&) = default;
};
/// A scalar parameter.
struct Scalar {
  Sym scalar;
  static constexpr auto fields = std::tuple<>();
  friend bool operator==(const Scalar&, const Scalar&) = default;
};
/// An element of an input tensor or of a definition. A subscript outside the extent makes it absent and
/// raises the call's out-of-range flag if evaluated. Subscripts are i64.
struct Access {
  Sym target;
  std::vector<Expr> subscripts;
  static constexpr auto fields = std::tuple(&Access::subscripts);
  friend bool operator==(const Access&, const Access&) = default;
};
enum class UnaryOp : std::uint8_t {
  negate,
  logical_not,
  abs,
  exp,
  exp2,
  log,
  log2,
  sqrt,
  rsqrt,
  sin,
  cos,
  tanh,
  sigmoid,
  silu,
  relu,
  gelu,
  erf,
  softplus,
  floor,
  ceil,
  round
};
/// negate and abs keep integers (i64); logical_not is Kleene; all others are f32 -> f32. relu propagates NaN.
struct Unary {
  UnaryOp op;
  Expr operand;
  static constexpr auto fields = std::tuple(&Unary::operand);
  friend bool operator==(const Unary&, const Unary&) = default;
};
/// div is float division; floordiv and mod are the integer ones (round down, sign of the divisor; a zero divisor is
/// absent and raises the flag). min and max propagate NaN. both/either are Kleene and evaluate from left to right.
enum class LinkOp : std::uint8_t { add, sub, mul, div, floordiv, mod, min, max, both, either };
/// args[0] links[0] args[1] links[1] ... from left to right. All links are of one group: {add, sub}, {mul, div} for
/// floats, {mul, floordiv, mod} for integers, {min}, {max}, {both}, {either}. Operands have the chain's arithmetic
/// kind (infer inserts casts). links.size() == args.size() - 1 >= 1.
struct Chain {
  std::vector<LinkOp> links;
  std::vector<Expr> args;
  static constexpr auto fields = std::tuple(&Chain::args);
  friend bool operator==(const Chain&, const Chain&) = default;
};
/// Integers stay integers where the exponent is a literal >= 0 (wrapping); else f32 pow.
struct Power {
  Expr base, exponent;
  static constexpr auto fields = std::tuple(&Power::base, &Power::exponent);
  friend bool operator==(const Power&, const Power&) = default;
};
enum class Relation : std::uint8_t { less, less_equal, greater, greater_equal, equal, not_equal };
/// args[0] relations[0] args[1] and args[1] relations[1] args[2] ...; both sides of a relation have one kind
/// (both i64, both f32, or both boolean).
struct Compare {
  std::vector<Relation> relations;
  std::vector<Expr> args;
  static constexpr auto fields = std::tuple(&Compare::args);
  friend bool operator==(const Compare&, const Compare&) = default;
};
/// `then` where the condition holds, else `otherwise`; only the chosen one is evaluated; an absent condition: absent.
struct Select {
  Expr condition, then, otherwise;
  static constexpr auto fields = std::tuple(&Select::condition, &Select::then, &Select::otherwise);
  friend bool operator==(const Select&, const Select&) = default;
};
/// Conversion to the node's type. Integer/bool -> f32 is exact rounding; float -> narrow float rounds (to nearest
/// even; f8e4m3 saturates); float -> integer truncates (NaN, out of range: absent); integer -> integer wraps.
struct Cast {
  Expr operand;
  static constexpr auto fields = std::tuple(&Cast::operand);
  friend bool operator==(const Cast&, const Cast&) = default;
};
/// rand(seed, coordinates...) of language.md rule 10; f32 in [0, 1).
struct Random {
  Expr seed;
  std::vector<Expr> coordinates;
  static constexpr auto fields = std::tuple(&Random::seed, &Random::coordinates);
  friend bool operator==(const Random&, const Random&) = default;
};
/// `bound` is made by desugar(), not by text: the maximum of present float elements, but at least exponent_floor, and
/// it may drop a NaN: a value that only shifts an exponent.
enum class ReduceOp : std::uint8_t { sum, max, min, mean, prod, any, all, logsumexp, argmax, bound };
/// Below every legal finite score (language.md rule 9: above -2e38), finite, so that (-inf) - floor is -inf.
inline constexpr float exponent_floor = -3.05e38f;
/// Reduces `body` over `over` (bound here) where `guard` holds; absent bodies and guards that end absent or false are
/// skipped. Empty: rule 14. `extra` only for logsumexp. A body that is boolean only for any and all.
struct Reduce {
  ReduceOp op;
  std::vector<IndexRange> over;
  Expr guard;  ///< null: always
  Expr body;
  Expr extra;  ///< null: none
  static constexpr auto fields = std::tuple(&Reduce::over, &Reduce::guard, &Reduce::body, &Reduce::extra);
  friend bool operator==(const Reduce&, const Reduce&) = default;
};
/// softmax along indices that are in scope, read at them: absent outside the guard. `along[k]` carries the range of
/// the scope's index `along[k].index`; inside guard and body that index is re-bound for the statistics.
struct Softmax {
  std::vector<IndexRange> along;
  Expr guard;
  Expr body;
  Expr extra;
  static constexpr auto fields = std::tuple(&Softmax::along, &Softmax::guard, &Softmax::body, &Softmax::extra);
  friend bool operator==(const Softmax&, const Softmax&) = default;
};
/// Inclusive running sum along an index in scope; removed and absent elements add 0; present everywhere.
struct Cumsum {
  IndexRange along;
  Expr guard;
  Expr body;
  static constexpr auto fields = std::tuple(&Cumsum::along, &Cumsum::guard, &Cumsum::body);
  friend bool operator==(const Cumsum&, const Cumsum&) = default;
};
/// `body` where the condition holds, absent elsewhere (or where it ends absent). Made by passes, not by text.
struct Where {
  Expr condition;
  Expr body;
  static constexpr auto fields = std::tuple(&Where::condition, &Where::body);
  friend bool operator==(const Where&, const Where&) = default;
};

using Kind = std::variant<Literal, Index, Dim, Scalar, Access, Unary, Chain, Power, Compare, Select, Cast, Random,
                          Reduce, Softmax, Cumsum, Where>;

struct Node {
  Kind kind;
  Type type;
  Span span;
};

template <class K>
requires(!std::is_same_v<std::decay_t<K>, Expr>) Expr::Expr(K kind, Type type, Span span)
    : node_(std::make_shared<const Node>(Node{Kind(std::move(kind)), std::move(type), span})) {}

inline bool operator==(const Expr& a, const Expr& b) {
  if (a.node_ == b.node_) return true;
  return a.node_ && b.node_ && a.node_->type == b.node_->type && a.node_->kind == b.node_->kind;
}

/// The kind if the expression is one of it, else null.
template <class K>
const K* get_if(const Expr& expr) {
  return expr ? std::get_if<K>(&expr->kind) : nullptr;
}

/// The same node with each direct child replaced by f(child); the same pointer where nothing changed.
template <class F>
Expr map_children(const Expr& expr, F&& f) {
  return std::visit(
      [&](const auto& kind) -> Expr {
        auto copy = kind;
        return update_children<Expr>(copy, f) ? Expr(std::move(copy), expr->type, expr->span) : expr;
      },
      expr->kind);
}
template <class F>
void visit_children(const Expr& expr, F&& f) {
  std::visit([&](const auto& kind) { for_each_child<Expr>(kind, f); }, expr->kind);
}
/// Pre-order over the tree; `f(expr)` returns false to leave a subtree out.
template <class F>
void walk(const Expr& expr, F&& f) {
  if (!expr || !f(expr)) return;
  visit_children(expr, [&](const Expr& child) { walk(child, f); });
}

// ---- programs -----------------------------------------------------------------------------------
/// A tensor parameter or result: its type and extents over dims and integer literals/scalars.
struct Tensor {
  Sym sym;
  Type type;
  std::vector<Expr> extents;  ///< i64
  Span span;
};
struct ScalarParam {
  Sym sym;
  Type type;
  bool is_const = false;
  Expr default_value;  ///< null where the caller must give it; uses literals, dims, earlier scalars
  Span span;
};
struct Definition {
  Sym sym;
  std::vector<IndexRange> indices;  ///< lo is 0
  Expr body;
  Span span;
};
/// The statement that `divisor` divides `dividend` exactly (both dims), checked at the call.
struct ExactQuotient {
  Sym dividend, divisor;
  Span span;
};
/// That a written range lies within an axis, checked at the call: 0 <= lo, hi <= extent (unless lo >= hi).
struct RangeCheck {
  Expr lo, hi;
  Sym target;
  std::size_t axis;
  Expr extent;
  Span span;
};

/// One kernel, inferred. Definitions stand in dependence order (a definition only reads earlier ones).
struct Program {
  std::string name;
  Source source;  ///< of the text it came from, for diagnostics
  std::vector<Sym> type_variables;
  std::vector<Sym> dims;                ///< in order of appearance
  std::vector<Tensor> tensors;          ///< parameters in written order
  std::vector<ScalarParam> scalars;     ///< parameters in written order
  std::vector<Definition> definitions;  ///< results included; those no result reaches are left out
  std::vector<Tensor> results;          ///< sym is that of a definition; type is the declared storage
  std::vector<ExactQuotient> exact_quotients;
  std::vector<RangeCheck> range_checks;

  const Tensor* find_tensor(const Sym& sym) const;          ///< parameter, or null
  const ScalarParam* find_scalar(const Sym& sym) const;     ///< or null
  const Definition* find_definition(const Sym& sym) const;  ///< or null
};

// ---- construction helpers (ir.cpp) -----------------------------------------------------------------
Expr integer(std::int64_t value);
Expr real(double value);
Expr boolean(bool value);
Expr index(const Sym& sym);
Expr dim(const Sym& sym);
Expr unary(UnaryOp op, Expr operand, Span span = {});
/// a op b, folded into one flat chain where the left operand is a chain of the same group.
Expr link(LinkOp op, Expr a, Expr b, Span span = {});
/// A condition that holds where both do; either may be null (always).
Expr and_also(const Expr& a, const Expr& b);
Expr compare(Relation relation, Expr a, Expr b, Span span = {});
/// Conversion where needed: the same expression if it has the type already.
Expr cast(Expr operand, Type type, Span span = {});
/// Replaces free index/dim/scalar Syms by expressions (capture cannot happen: Syms are unique).
Expr substitute(const Expr& expr, const std::unordered_map<Sym, Expr>& replacements);
/// The same expression with every index bound inside renamed freshly (for use in two places).
Expr refresh(const Expr& expr);
/// Whether the free occurrence of an index/dim/scalar/target Sym appears (indices bound inside do not count as free).
bool mentions(const Expr& expr, const Sym& sym);

/// Structural checks of a program (types of operands, scopes, arity of accesses); "" or the first violation.
std::string verify(const Program& program);
/// Canonical text of a program or expression: deterministic, ambiguous names get .2, .3, ...
std::string print(const Program& program);
std::string print(const Expr& expr);

}  // namespace attune::tensor
