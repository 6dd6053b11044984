// SPDX-License-Identifier: Apache-2.0
// The notation in C++: typed handles whose operators write the formula, and program() which makes a Program of it.
//
//   TypeVar T{"T"};  Dim M{"M"}, N{"N"}, D{"D"};  Index i{"i"}, j{"j"}, d{"d"};
//   Tensor Q{"Q", T, {M, D}}, K{"K", T, {N, D}}, V{"V", T, {N, D}};
//   Tensor S = define("S", {i, j}, sum(d)(Q(i, d) * K(j, d)) / sqrt(D));
//   Tensor P = define("P", {i, j}, softmax(j, where(j <= i + N - M))(S(i, j)));
//   Tensor O = define("O", {i, d}, sum(j)(P(i, j) * V(j, d)), T);
//   Program causal = program("causal", {Q, K, V}, {O});
//
// Handles are cheap to copy and immutable. Nothing throws before program(): what is wrong (a bad name, a wrong number
// of subscripts) is remembered and reported together. The program is the one that the equivalent text gives: functions
// and definitions stand in the order in which they were made, those that no result reaches are left out, and
// diagnostics of later stages have positions in the printed text (`Program::text()`).
#pragma once
#include <attune/diagnostic.hpp>
#include <attune/dtype.hpp>
#include <attune/program.hpp>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace attune {

inline constexpr DType f32 = DType::f32, f16 = DType::f16, bf16 = DType::bf16, f8e4m3 = DType::f8e4m3,
                       f8e5m2 = DType::f8e5m2, i64 = DType::i64, i32 = DType::i32, i8 = DType::i8, u8 = DType::u8,
                       boolean = DType::boolean;

class Expr;
class Tensor;

/// What stands behind the handles.
namespace build {
struct Node;
struct Declaration;
using NodeRef = std::shared_ptr<const Node>;
using DeclarationRef = std::shared_ptr<const Declaration>;
enum class Link : std::uint8_t { add, subtract, multiply, divide, remainder, both, either };
enum class Relation : std::uint8_t { less, less_equal, greater, greater_equal, equal, not_equal };
enum class Reduction : std::uint8_t { sum, max, min, mean, prod, any, all, logsumexp, argmax, softmax, cumsum };
NodeRef integer(std::uint64_t magnitude, bool negative);
NodeRef real(double value);
NodeRef truth(bool value);
Expr link(Link link, const Expr& a, const Expr& b);
Expr compare(Relation relation, const Expr& a, const Expr& b);
/// A built-in function.
Expr call(const char* name, std::initializer_list<Expr> arguments);
std::vector<Expr> parameters(std::size_t count);
}  // namespace build

/// An expression. Numbers, dims, indices and scalars are expressions.
class Expr {
 public:
  Expr() = default;
  template <class Number>
  requires std::is_arithmetic_v<Number> Expr(Number value) {  // NOLINT: implicit on purpose
    if constexpr (std::is_same_v<Number, bool>)
      node_ = build::truth(value);
    else if constexpr (std::is_floating_point_v<Number>)
      node_ = build::real(static_cast<double>(value));
    else
      node_ = build::integer(
          value < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value),
          value < 0);
  }
  explicit Expr(build::NodeRef node) : node_(std::move(node)) {}
  const build::NodeRef& node() const { return node_; }

 private:
  build::NodeRef node_;
};

/// A type variable of the program, e.g. the storage type of Q, K and V. `T(x)` casts.
class TypeVar {
 public:
  explicit TypeVar(std::string name) : name_(std::move(name)) {}
  const std::string& name() const { return name_; }
  Expr operator()(const Expr& x) const;

 private:
  std::string name_;
};

/// A storage type or a type variable.
class ElementType {
 public:
  ElementType(DType type) : name_(attune::name(type)) {}                             // NOLINT: implicit on purpose
  ElementType(const TypeVar& variable) : name_(variable.name()), variable_(true) {}  // NOLINT
  const std::string& name() const { return name_; }
  bool is_variable() const { return variable_; }

 private:
  std::string name_;
  bool variable_ = false;
};

/// The size of an axis, unified by name.
class Dim : public Expr {
 public:
  explicit Dim(const std::string& name);
};

/// An index with its half-open range: `j.in(0, N)`, or no range where a subscript gives it.
class IndexRange;
class Index : public Expr {
 public:
  explicit Index(const std::string& name);
  IndexRange in(const Expr& lo, const Expr& hi) const;
};
class IndexRange {
 public:
  IndexRange(const Index& index) : index_(index) {}  // NOLINT: implicit on purpose
  IndexRange(const Index& index, const Expr& lo, const Expr& hi) : index_(index), lo_(lo), hi_(hi), ranged_(true) {}
  const Expr& index() const { return index_; }
  const Expr& lo() const { return lo_; }
  const Expr& hi() const { return hi_; }
  bool has_range() const { return ranged_; }

 private:
  Expr index_, lo_, hi_;
  bool ranged_ = false;
};
inline IndexRange Index::in(const Expr& lo, const Expr& hi) const { return {*this, lo, hi}; }

/// A scalar parameter. Without a default the caller must give it; defaults may use dims and earlier scalars.
class Scalar : public Expr {
 public:
  Scalar(const std::string& name, const ElementType& type, const Expr& default_value = {});
  const build::DeclarationRef& declaration() const { return declaration_; }

 private:
  friend Scalar const_scalar(const std::string& name, const ElementType& type, const Expr& default_value);
  Scalar(build::DeclarationRef declaration);
  build::DeclarationRef declaration_;
};
/// A `const` scalar: its value is baked into the kernel.
Scalar const_scalar(const std::string& name, const ElementType& type, const Expr& default_value = {});

/// A tensor parameter, or what define() gives. Called with one subscript per axis it is an element.
class Tensor {
 public:
  Tensor() = default;
  /// A parameter; extents are dims and integers with + - * / % and pow.
  Tensor(const std::string& name, const ElementType& type, const std::vector<Expr>& extents);
  explicit Tensor(build::DeclarationRef declaration) : declaration_(std::move(declaration)) {}
  template <class... Subscripts>
  requires(std::is_convertible_v<const Subscripts&, Expr>&&...) Expr operator()(const Subscripts&... subscripts) const {
    return element({Expr(subscripts)...});
  }
  Expr element(const std::vector<Expr>& subscripts) const;
  const build::DeclarationRef& declaration() const { return declaration_; }

 private:
  build::DeclarationRef declaration_;
};

/// `name[indices] = body`. Each call makes a new definition; its place in the program is that of the call.
Tensor define(const std::string& name, const std::vector<IndexRange>& indices, const Expr& body);
/// The same with the type it has as a result. The result's extents are taken from the indices: a written range ends
/// with it, otherwise the first subscript (in the body, through functions and definitions) that is the index alone.
Tensor define(const std::string& name, const std::vector<IndexRange>& indices, const Expr& body,
              const ElementType& result);
/// The same with the extents given, one per index.
Tensor define(const std::string& name, const std::vector<IndexRange>& indices, const Expr& body,
              const ElementType& result, const std::vector<Expr>& extents);

/// A function of the kernel, made from a callable of up to eight expressions, which is called once, at once:
/// `Function pos{"pos", [&](Expr i) { return i + N - M; }}`. Its parameters have the names given; without names, that
/// of the index which the first call passes, else `x`, `y`, ...
class Function {
 public:
  template <class Body>
  Function(const std::string& name, const Body& body) : Function(name, std::vector<std::string>(), body) {}
  template <class Body>
  Function(const std::string& name, const std::vector<std::string>& parameters, const Body& body) {
    const std::vector<Expr> placeholders = build::parameters(arity<Body>());
    declare(name, parameters, placeholders, invoke(body, placeholders, std::make_index_sequence<arity<Body>()>()));
  }
  template <class... Arguments>
  requires(std::is_convertible_v<const Arguments&, Expr>&&...) Expr operator()(const Arguments&... arguments) const {
    return call({Expr(arguments)...});
  }
  Expr call(const std::vector<Expr>& arguments) const;
  const build::DeclarationRef& declaration() const { return declaration_; }

 private:
  template <class Body, class... Arguments>
  static constexpr std::size_t arity() {
    static_assert(sizeof...(Arguments) <= 8, "a Function's body takes up to eight attune::Expr");
    if constexpr (std::is_invocable_v<const Body&, Arguments...> || sizeof...(Arguments) > 8)
      return sizeof...(Arguments);
    else
      return arity<Body, Arguments..., const Expr&>();
  }
  template <class Body, std::size_t... k>
  static Expr invoke(const Body& body, const std::vector<Expr>& arguments, std::index_sequence<k...>) {
    return Expr(body(arguments[k]...));
  }
  void declare(const std::string& name, const std::vector<std::string>& names, const std::vector<Expr>& placeholders,
               const Expr& body);
  build::DeclarationRef declaration_;
};

/// A module of functions: `Use masks{"std.masks"}; ... where(masks("causal", i, j, M, N))`.
class Use {
 public:
  explicit Use(const std::string& path);
  template <class... Arguments>
  requires(std::is_convertible_v<const Arguments&, Expr>&&...) Expr operator()(const std::string& function,
                                                                               const Arguments&... arguments) const {
    return call(function, {Expr(arguments)...});
  }
  Expr call(const std::string& function, const std::vector<Expr>& arguments) const;

 private:
  build::DeclarationRef declaration_;
};

// ---- operators ------------------------------------------------------------------------------------
inline Expr operator+(const Expr& a, const Expr& b) { return build::link(build::Link::add, a, b); }
inline Expr operator-(const Expr& a, const Expr& b) { return build::link(build::Link::subtract, a, b); }
inline Expr operator*(const Expr& a, const Expr& b) { return build::link(build::Link::multiply, a, b); }
inline Expr operator/(const Expr& a, const Expr& b) { return build::link(build::Link::divide, a, b); }
inline Expr operator%(const Expr& a, const Expr& b) { return build::link(build::Link::remainder, a, b); }
/// `and`, `or`, `not` of the notation (nothing is evaluated here, so there is nothing to cut short).
inline Expr operator&&(const Expr& a, const Expr& b) { return build::link(build::Link::both, a, b); }
inline Expr operator||(const Expr& a, const Expr& b) { return build::link(build::Link::either, a, b); }
Expr operator!(const Expr& a);
Expr operator-(const Expr& a);
inline Expr operator<(const Expr& a, const Expr& b) { return build::compare(build::Relation::less, a, b); }
inline Expr operator<=(const Expr& a, const Expr& b) { return build::compare(build::Relation::less_equal, a, b); }
inline Expr operator>(const Expr& a, const Expr& b) { return build::compare(build::Relation::greater, a, b); }
inline Expr operator>=(const Expr& a, const Expr& b) { return build::compare(build::Relation::greater_equal, a, b); }
inline Expr operator==(const Expr& a, const Expr& b) { return build::compare(build::Relation::equal, a, b); }
inline Expr operator!=(const Expr& a, const Expr& b) { return build::compare(build::Relation::not_equal, a, b); }
/// One chain of comparisons: `chain(lo <= j, j < hi)` is `lo <= j < hi`; neighbours share the operand between them.
Expr chain(const std::vector<Expr>& comparisons);
template <class... Comparisons>
requires(sizeof...(Comparisons) > 0 && (std::is_same_v<Comparisons, Expr> && ...)) Expr
    chain(const Comparisons&... comparisons) {
  return chain(std::vector<Expr>{comparisons...});
}
/// `base ^ exponent`.
Expr pow(const Expr& base, const Expr& exponent);
/// `then if condition else otherwise`.
Expr select(const Expr& condition, const Expr& then, const Expr& otherwise);
/// Conversion, rounding to a narrow type: `f16(x)`, `T(x)`.
Expr cast(const ElementType& type, const Expr& x);
/// The literal `inf`.
Expr infinity();

// ---- built-in functions ---------------------------------------------------------------------------
inline Expr abs(const Expr& x) { return build::call("abs", {x}); }
inline Expr exp(const Expr& x) { return build::call("exp", {x}); }
inline Expr exp2(const Expr& x) { return build::call("exp2", {x}); }
inline Expr log(const Expr& x) { return build::call("log", {x}); }
inline Expr log2(const Expr& x) { return build::call("log2", {x}); }
inline Expr sqrt(const Expr& x) { return build::call("sqrt", {x}); }
inline Expr rsqrt(const Expr& x) { return build::call("rsqrt", {x}); }
inline Expr sin(const Expr& x) { return build::call("sin", {x}); }
inline Expr cos(const Expr& x) { return build::call("cos", {x}); }
inline Expr tanh(const Expr& x) { return build::call("tanh", {x}); }
inline Expr sigmoid(const Expr& x) { return build::call("sigmoid", {x}); }
inline Expr silu(const Expr& x) { return build::call("silu", {x}); }
inline Expr relu(const Expr& x) { return build::call("relu", {x}); }
inline Expr gelu(const Expr& x) { return build::call("gelu", {x}); }
inline Expr erf(const Expr& x) { return build::call("erf", {x}); }
inline Expr softplus(const Expr& x) { return build::call("softplus", {x}); }
inline Expr floor(const Expr& x) { return build::call("floor", {x}); }
inline Expr ceil(const Expr& x) { return build::call("ceil", {x}); }
inline Expr round(const Expr& x) { return build::call("round", {x}); }
inline Expr clamp(const Expr& x, const Expr& lo, const Expr& hi) { return build::call("clamp", {x, lo, hi}); }

/// At least one of the arguments is of ours, so that max(1, 2) stays what it was.
template <class... Arguments>
concept expressions = (std::is_convertible_v<const Arguments&, Expr> && ...) &&
                      (std::is_base_of_v<Expr, Arguments> || ...);
/// The larger of two or more values; for the reduction see below.
template <class... Arguments>
requires(sizeof...(Arguments) > 1 && expressions<Arguments...>) Expr max(const Arguments&... arguments) {
  return build::call("max", {Expr(arguments)...});
}
template <class... Arguments>
requires(sizeof...(Arguments) > 1 && expressions<Arguments...>) Expr min(const Arguments&... arguments) {
  return build::call("min", {Expr(arguments)...});
}
/// rand(seed, i, ..., j): uniform in [0, 1), a function of its arguments (Philox4x32-10).
template <class... Arguments>
requires expressions<Arguments...> Expr rand(const Arguments&... arguments) {
  return build::call("rand", {Expr(arguments)...});
}

// ---- reductions -----------------------------------------------------------------------------------
struct Where {
  Expr condition;
};
struct Extra {
  Expr term;
};
/// The elements that exist: `softmax(j, where(j <= i))(...)`.
inline Where where(const Expr& condition) { return {condition}; }
/// exp(term) more in the denominator: `softmax(j, extra(sink(h)))(...)`.
inline Extra extra(const Expr& term) { return {term}; }
/// Several indices as one part: `max(over(i, j))(...)`, since max(i, j) is the function of two arguments.
struct Over {
  std::vector<IndexRange> indices;
};
template <class... Indices>
Over over(const Indices&... indices) {
  return {{IndexRange(indices)...}};
}

/// What may stand in a reduction's brackets.
class ReductionPart {
 public:
  ReductionPart(const Index& index) : indices_{index} {}                               // NOLINT: implicit on purpose
  ReductionPart(const IndexRange& index) : indices_{index} {}                          // NOLINT
  ReductionPart(const Over& over) : indices_(over.indices) {}                          // NOLINT
  ReductionPart(const Where& where) : condition_(where.condition), is_where_(true) {}  // NOLINT
  ReductionPart(const Extra& extra) : extra_(extra.term), is_extra_(true) {}           // NOLINT
  const std::vector<IndexRange>& indices() const { return indices_; }
  const Expr* condition() const { return is_where_ ? &condition_ : nullptr; }
  const Expr* extra() const { return is_extra_ ? &extra_ : nullptr; }

 private:
  std::vector<IndexRange> indices_;
  Expr condition_, extra_;
  bool is_where_ = false, is_extra_ = false;
};

/// A reduction that waits for its body: `sum(j)` is called with what it sums.
class Reducer {
 public:
  Reducer(build::Reduction reduction, std::vector<ReductionPart> parts)
      : reduction_(reduction), parts_(std::move(parts)) {}
  Expr operator()(const Expr& body) const;

 private:
  build::Reduction reduction_;
  std::vector<ReductionPart> parts_;
};

template <class... Parts>
concept reduction_parts = sizeof...(Parts) > 0 && (std::is_convertible_v<const Parts&, ReductionPart> && ...);
/// Not the function of two or more arguments.
template <class... Parts>
concept only_reduction_parts = reduction_parts<Parts...> &&(sizeof...(Parts) == 1 || !expressions<Parts...>);

#define ATTUNE_REDUCER(word, constraint)                              \
  template <class... Parts>                                           \
  requires constraint<Parts...> Reducer word(const Parts&... parts) { \
    return {build::Reduction::word, {ReductionPart(parts)...}};       \
  }
ATTUNE_REDUCER(sum, reduction_parts)
ATTUNE_REDUCER(max, only_reduction_parts)
ATTUNE_REDUCER(min, only_reduction_parts)
ATTUNE_REDUCER(mean, reduction_parts)
ATTUNE_REDUCER(prod, reduction_parts)
ATTUNE_REDUCER(any, reduction_parts)
ATTUNE_REDUCER(all, reduction_parts)
ATTUNE_REDUCER(logsumexp, reduction_parts)
ATTUNE_REDUCER(argmax, reduction_parts)
ATTUNE_REDUCER(softmax, reduction_parts)
ATTUNE_REDUCER(cumsum, reduction_parts)
#undef ATTUNE_REDUCER

// ---- programs -------------------------------------------------------------------------------------
/// A tensor or scalar in the list of parameters.
class Parameter {
 public:
  Parameter(const Tensor& tensor) : declaration_(tensor.declaration()) {}  // NOLINT: implicit on purpose
  Parameter(const Scalar& scalar) : declaration_(scalar.declaration()) {}  // NOLINT
  const build::DeclarationRef& declaration() const { return declaration_; }

 private:
  build::DeclarationRef declaration_;
};

/// The kernel `name` with the parameters in this order and what the results need, or every error found (A07xx, or
/// what the parser says of the printed text, e.g. of its limits).
Result<Program> try_program(const std::string& name, const std::vector<Parameter>& parameters,
                            const std::vector<Tensor>& results);
/// The same; throws Error.
Program program(const std::string& name, const std::vector<Parameter>& parameters, const std::vector<Tensor>& results);

}  // namespace attune
