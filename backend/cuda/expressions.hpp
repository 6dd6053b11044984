// SPDX-License-Identifier: Apache-2.0
// Expressions of the loop IR as CUDA C++: one named constant for each node, what is present where, and the out-of-range
// flag apart from values. Every value is pure: reads never leave their memory, whatever is demanded.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/cuda/cuda.hpp"
#include "loop/ir.hpp"
#include "loop/proofs.hpp"

namespace attune::cuda {

using tensor::Expr;

/// How a value is held: f32, a 64-bit integer that is the same for all elements of a statement, an integer of one
/// element (32 bits where Kernel::index_bits allows), a condition.
enum class Number : std::uint8_t { real, whole, element, truth };
std::string_view type_name(Number number);

struct Value {
  std::string text;
  Number number = Number::real;
  std::string present;                ///< a condition; empty: always
  std::optional<std::int64_t> known;  ///< an integer literal
};

/// A loop nest that cannot be turned into code: a bug of a pass.
struct Malformed {
  std::string what;
};

/// How the parameter words are laid out (cuda.hpp).
struct ParameterWords {
  explicit ParameterWords(const loop::Kernel& kernel);
  std::size_t dim(const Sym& sym) const;     ///< npos: no dim of the kernel
  std::size_t scalar(const Sym& sym) const;  ///< npos: no scalar of the kernel
  std::size_t buffer(const Sym& sym) const;  ///< number of the buffer; npos: no buffer
  std::size_t address(std::size_t buffer) const { return first_[buffer]; }
  std::size_t stride(std::size_t buffer, std::size_t axis) const { return first_[buffer] + 1 + axis; }
  std::size_t flag = 0, count = 0;
  static constexpr std::size_t npos = static_cast<std::size_t>(-1);

 private:
  const loop::Kernel& kernel_;
  std::vector<std::size_t> first_;
};

/// What is known inside one pair of braces.
struct Scope {
  std::unordered_map<const tensor::Node*, Value> values;
  std::unordered_map<const tensor::Node*, std::string> flags;
  std::unordered_map<std::string, std::string> texts;
};

/// Text of one function, with the scopes of its names.
class Expressions {
 public:
  Expressions(const loop::Kernel& kernel, const loop::Nest& nest, const ParameterWords& words);
  virtual ~Expressions() = default;
  Expressions(const Expressions&) = delete;
  Expressions& operator=(const Expressions&) = delete;

  const std::string& text() const { return text_; }
  bool may_flag() const { return may_flag_; }

 protected:
  // ---- text ----
  void line(std::string_view what);
  void insert(std::size_t at, std::string_view what);  ///< a line further up, at an offset that text().size() gave
  void open(std::string_view head);                    ///< `head {`, and a scope of names
  void close(std::string_view tail = "}");
  std::string fresh(std::string_view stem);
  /// A constant of this text, once in a scope.
  std::string define(Number number, const std::string& text);
  Value defined(Number number, const std::string& text, std::string present = {}) {
    return {define(number, text), number, std::move(present), {}};
  }

  /// Begins the evaluation of a statement: what was read before may have changed.
  class Fresh {
   public:
    explicit Fresh(Expressions& of) : of_(of), before_(std::move(of.scopes_)) {
      of_.scopes_.clear();
      of_.scopes_.emplace_back();
    }
    ~Fresh() { of_.scopes_ = std::move(before_); }
    Fresh(const Fresh&) = delete;
    Fresh& operator=(const Fresh&) = delete;

   private:
    Expressions& of_;
    std::vector<Scope> before_;
  };

  // ---- values (expressions.cpp, numbers.cpp) ----
  Value value(const Expr& expr);
  std::string uniform(const Expr& expr);  ///< a 64-bit integer
  std::string condition(const Expr& expr);
  std::string as(const Value& value, Number number);
  virtual Value read_tile(const tensor::Access& access, const loop::Tile& tile) = 0;
  /// Element of a buffer, as an offset in elements.
  std::string offset(std::size_t buffer, const std::vector<Expr>& subscripts);
  std::string pointer(std::size_t buffer, bool writes);
  static std::string stored(DType dtype, const std::string& value);  ///< a number as its storage type holds it
  std::string both(const std::string& a, const std::string& b);
  std::string either(const std::string& a, const std::string& b);
  std::string negation(const std::string& a);

  // ---- flags (flags.cpp) ----
  std::string flag(const Expr& expr);
  void raise(const std::string& flag);

  const loop::Kernel& kernel_;
  const loop::Nest& nest_;
  const ParameterWords& words_;
  loop::Proofs proofs_;
  std::unordered_map<Sym, Value> indices_;
  std::unordered_map<Sym, Value> lets_;
  std::unordered_map<Sym, const loop::Tile*> tiles_;

 private:
  Value evaluate(const Expr& expr);
  Value read_buffer(const tensor::Access& access, std::size_t buffer);
  Value sum(const tensor::Chain& chain, const Expr& expr);
  Value product(const tensor::Chain& chain, const Expr& expr);
  Value extremum(const tensor::Chain& chain, const Expr& expr);
  Value logical(const std::vector<Value>& args, bool conjunction);
  Value relation(tensor::Relation relation, const Value& a, const Value& b);
  Value compare(const tensor::Compare& node);
  Value cast(const tensor::Cast& node, const Expr& expr);
  Value unary(const tensor::Unary& node, const Expr& expr);
  Value power(const tensor::Power& node, const Expr& expr);
  Value random(const tensor::Random& node);
  Value scalar(const Sym& sym);
  Value settled(Value value);
  Number common(const std::vector<Value>& values) const;
  bool launch_constant(const Expr& expr) const;
  std::string inside(std::size_t buffer, const tensor::Access& access);
  std::string find_flag(const Expr& expr);
  std::string flag_logical(const std::vector<Value>& values, const std::vector<std::string>& flags, bool conjunction);
  std::string flag_product(const tensor::Chain& chain);

  std::string text_;
  int depth_ = 1;
  int names_ = 0;
  bool may_flag_ = false;
  std::vector<Scope> scopes_;
};

/// Functions in plain C++ that generated code calls besides the prelude's: storage formats of 8 bits, integer division,
/// checked conversions, random numbers.
std::string_view functions();

/// The most that an extent of a tile can be, where that is known without the sizes of a call.
std::optional<std::int64_t> largest(const Expr& extent);

/// The body of a nest where every thread does whole tasks by itself, one after the other.
struct NestCode {
  std::string text;
  bool may_flag = false;
};
NestCode emit_by_threads(const loop::Kernel& kernel, const loop::Nest& nest, const ParameterWords& words, int threads);

}  // namespace attune::cuda
