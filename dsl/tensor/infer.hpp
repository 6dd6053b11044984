// SPDX-License-Identifier: Apache-2.0
// Inference, AST to tensor IR: the state that its parts share. infer_module.cpp declares names and orders items,
// infer_expr.cpp and infer_reduce.cpp type and expand expressions, infer_ranges.cpp finds the range of every index.
#pragma once
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "syntax/ast.hpp"
#include "tensor/ir.hpp"

namespace attune::tensor::inference {

/// A module of functions that a `use std.NAME` brings in.
struct LibraryModule {
  std::string name;
  std::string text;  ///< in the notation, functions only
};
const std::vector<LibraryModule>& standard_library();

/// infer() with the library given.
Result<Program> infer(const ast::Module& module, const std::string& kernel_name,
                      const std::vector<LibraryModule>& library);

/// Levels of the tree that elaboration may recurse through; nesting 256 of text can need eight each.
inline constexpr int max_levels = 2100;
/// Elaborated nodes, dropped ones included: bounds the time that calls of calls can take.
inline constexpr std::size_t max_work = 400'000;

// ---- extents as polynomials (infer_ranges.cpp) --------------------------------------------------------
/// A polynomial of dims and scalars with integer coefficients; a quotient or remainder is one atom.
class Polynomial {
 public:
  explicit Polynomial(const Expr& expr);
  static Polynomial constant(std::int64_t value);
  friend bool operator==(const Polynomial&, const Polynomial&) = default;
  Polynomial minus(const Polynomial& other) const;
  /// Its value where it has no atoms.
  const std::int64_t* constant_value() const;
  std::string text() const;

 private:
  using Monomial = std::vector<std::string>;  ///< atoms in order, repeated for powers
  Polynomial() = default;
  static Polynomial atom(std::string text);
  static Polynomial divided(const Polynomial& a, const Polynomial& b, bool remainder);
  void add(const Polynomial& other, std::int64_t factor);
  bool times(const Polynomial& other);  ///< false (and unchanged) where it would grow too large
  std::map<Monomial, std::int64_t> terms_;
  mutable std::int64_t constant_ = 0;
};

// ---- values and names ---------------------------------------------------------------------------------
/// An elaborated expression; a null `expr` is poison: an error was reported, say nothing further.
struct Value {
  Expr expr;
  std::size_t size = 0;  ///< nodes of the tree
  int nesting = 0;       ///< that its text needs
  bool binds = false;    ///< whether an index is bound inside, so that a second copy needs names of its own
  explicit operator bool() const { return static_cast<bool>(expr); }
};

struct Function;
using FunctionTable = std::unordered_map<std::string, Function*>;
struct Function {
  enum class Home : std::uint8_t { kernel, module, library };
  const ast::FunctionDecl* decl = nullptr;
  Home home = Home::kernel;
  std::string origin;                  ///< "std.masks" for library functions
  const FunctionTable* own = nullptr;  ///< the functions that a library function sees
  bool cyclic = false;
};

struct Frame;
/// An argument, elaborated in the caller's frame when first used.
struct Argument {
  const ast::Expr* expr = nullptr;  ///< null: poison
  Frame* frame = nullptr;
  Value value;
  bool known = false;
};
struct Local {
  std::string name;
  Sym index;                     ///< of an index, or
  Argument* argument = nullptr;  ///< of a function's parameter
  Span span;
};
/// What names mean inside a definition, a default value or one expansion of a function.
struct Frame {
  const Function* function = nullptr;
  std::vector<Local> locals;
  Frame* caller = nullptr;
  Span call;
  std::optional<Span> pinned;  ///< library text has no place in this source: its nodes stand at the call
};

enum class Entity : std::uint8_t { type_variable, dim, tensor, scalar, definition, function };
std::string_view describe(Entity entity);
struct Named {
  Entity entity;
  Span span;
  Sym sym;
};

/// A tensor that subscripts can read: a parameter or a definition inferred already.
struct Target {
  Sym sym;
  Type type;
  bool poisoned = false;
  std::vector<Expr> extents;  ///< null where unknown
  std::vector<Polynomial> sizes;
};

/// An index used directly as a subscript.
struct Use {
  Sym target;
  std::size_t axis = 0;
  Expr extent;
  Span span;
};
struct IndexInfo {
  Sym sym;
  Span span;
  Expr lo, hi;             ///< null until known
  bool written = false;    ///< `in lo..hi`
  bool of_result = false;  ///< left-hand index of a result: hi is the result's extent
  bool poisoned = false;   ///< used where an extent is unknown
  bool along = false;      ///< a softmax or cumsum works along it
  std::vector<Use> uses;
  bool conflicts = false;  ///< whether uses[conflict] is on an axis of another extent
  std::size_t conflict = 0;
  std::vector<Sym> conflict_scope;  ///< the other indices visible there
};

/// One definition with what it drew in.
struct Item {
  const ast::Definition* decl = nullptr;
  bool cyclic = false;
  Definition made;
  bool ok = false;
  std::vector<ExactQuotient> quotients;
  std::vector<RangeCheck> checks;
  std::set<const Function*> called;
};

/// What belongs to the item that is being elaborated.
struct Collected {
  std::vector<ExactQuotient> quotients;
  std::vector<RangeCheck> checks;
  std::set<const Function*> called;
};

class Inference {
 public:
  Inference(const ast::Module& module, const std::vector<LibraryModule>& library)
      : module_(module), library_(library) {}
  Result<Program> run(const std::string& kernel_name);

 private:
  // ---- infer_module.cpp: declarations, order, definitions -------------------------------------------
  const ast::Kernel* choose(const std::string& name);
  void declare_functions();
  void import(const ast::Use& use);
  void declare(const std::string& name, Entity entity, Span span, Sym sym);
  void declare_kernel();
  void declare_dims(const ast::Expr& extent, int level);
  void declare_function(const ast::FunctionDecl& decl, Function::Home home, FunctionTable& table);
  std::optional<Type> type(const ast::TypeName& name);
  Tensor tensor(const ast::TensorDecl& decl);
  void scalar(const ast::ScalarDecl& decl);
  void definition(Item& item);
  std::optional<Expr> fit_result(const Value& body, const Tensor& result, const ast::Definition& decl);
  void check_uncalled();

  // ---- infer_order.cpp: dependence, cycles, what results reach ---------------------------------------
  void order();
  struct References {
    std::vector<std::pair<std::string, Span>> subscripts, calls;
    std::vector<std::string> names;
    bool too_deep = false;
  };
  static void references(const ast::Expr& expr, References& out, int level = 0);
  void prune();
  void prune_by_name();
  void assemble();

  // ---- infer_expr.cpp ------------------------------------------------------------------------------
  Value expr(const ast::Expr& e);
  Value dispatch(const ast::Expr& e);
  Value literal(const ast::Kind& kind, Span span);
  Value name(const ast::Name& name, Span span);
  void no_value(const std::string& name, const Named* named, Span span);
  void no_function(const std::string& name, const Named* named, Span name_span);
  void wrong_arity(const Function& function, std::size_t given, Span span);
  Value argument(Argument& argument);
  Value subscript(const ast::Subscript& access, Span span);
  Value call(const ast::Call& call, Span span);
  Value builtin(const ast::Call& call, Span span);
  Value random(const std::vector<Value>& values, const ast::Call& call, Span span);
  Value expand(const Function& function, const ast::Call& call, Span span);
  void check_dropped(const Argument& argument, bool is_unclear);
  Value cast(const ast::Cast& cast, Span span);
  Value negate(const ast::Negate& negate, Span span);
  Value logical_not(const ast::Not& inverse, Span span);
  Value chain(const ast::Chain& chain, Span span);
  Value power(const ast::Power& power, Span span);
  Value conditional(const ast::Conditional& conditional, Span span);

  // ---- infer_convert.cpp: kinds, conversions, comparisons, chains -------------------------------------
  Value comparison(const ast::Comparison& comparison, Span span);
  Value pair(ast::Relation relation, Value a, Value b, Span span);
  Value logical_chain(const ast::Chain& chain, Span span);
  Value convert(Value value, const Type& type);
  Value number(Value value);
  Value condition(Value value, Span span, std::string_view what);
  bool integral(const Value& value, Span span, std::string_view what);
  Value copy(const Value& value);
  Value conjunction(std::vector<Value> parts, Span span);
  Value finish(Expr made, std::initializer_list<const Value*> children, bool brackets);
  Value finish(Expr made, const std::vector<Value>& children, bool brackets);
  Value limited(Value value);
  void begin(std::string subject);
  void exceeded(Span span, const std::string& how, const std::string& here);
  void division(LinkOp op, const Expr& left, const Expr& right, Span span);

  // ---- infer_reduce.cpp ----------------------------------------------------------------------------
  Value reduction(const ast::Reduction& reduction, Span span);
  Value binding(const ast::Reduction& reduction, Span span);
  Value along(const ast::Reduction& reduction, Span span);
  struct Parts {
    Value guard, body, extra;
    bool ok = true;
  };
  Parts parts(const ast::Reduction& reduction, const std::vector<Sym>& indices);
  Value body_of(const ast::Reduction& reduction, Value body);
  bool bind_index(const ast::Index& index, std::size_t first_local, Sym& sym);

  // ---- infer_ranges.cpp ----------------------------------------------------------------------------
  Expr bound(const ast::Expr& expr, const std::string& index);
  void use(const Sym& index, const Target& target, std::size_t axis, Span span);
  void forget_uses(std::size_t mark);
  /// After an error that hides how an index would have been used: its range is not asked for.
  void unclear(const Value& value);
  /// Settles the range of an index whose scope ends; null bounds where an error was reported.
  IndexRange close(const Sym& index);
  void check_written(const IndexInfo& info);
  void report_conflict(const IndexInfo& info);
  /// Ranges of softmax and cumsum along the indices whose scope ends here.
  static Expr fill_along(const Expr& expr, const std::vector<IndexRange>& ranges);
  bool any_along(const std::vector<IndexRange>& ranges) const;

  // ---- names and findings (infer_names.cpp) ---------------------------------------------------------
  const Local* find_local(const std::string& name) const;
  const Named* find_named(const std::string& name) const;  ///< in the kernel, where it is visible
  const Function* find_function(const std::string& name) const;
  void unknown(const std::string& name, Span span, Entity wanted);
  Span at(Span span) const { return frame_ && frame_->pinned ? *frame_->pinned : span; }
  /// Adds an error unless the same one stands there already; what it returns may be completed either way.
  Diagnostic& error(const char* code, Span span, std::string message, std::string span_text = {},
                    std::string help = {});
  Diagnostic& warning(const char* code, Span span, std::string message, std::string span_text = {},
                      std::string help = {});
  Diagnostic& add(Severity severity, const char* code, Span span, std::string message, std::string span_text,
                  std::string help);

  const ast::Module& module_;
  const std::vector<LibraryModule>& library_;
  const ast::Kernel* kernel_ = nullptr;

  std::deque<ast::Module> library_modules_;
  std::deque<FunctionTable> library_tables_;
  std::deque<Function> functions_;
  FunctionTable kernel_functions_, module_functions_, imported_;
  std::map<std::string, Named> names_;
  std::unordered_map<Sym, Target> targets_;
  std::map<std::string, Tensor> results_;   ///< by name
  std::unordered_set<std::string> broken_;  ///< scalars that could not be made
  bool unknown_tensor_ = false;             ///< one that resembles no other was met
  std::set<std::string> suggested_;         ///< by a did-you-mean: perhaps used after all
  std::deque<Item> items_;
  std::vector<Item*> ordered_;
  Program program_;

  Frame* frame_ = nullptr;
  Collected* collected_ = nullptr;
  std::unordered_map<Sym, IndexInfo> indices_;
  std::vector<Sym> use_log_;
  int level_ = 0;
  std::size_t work_ = 0, size_ = 0;
  bool too_large_ = false;
  bool stopped_ = false;  ///< the subject is beyond a limit: say nothing further of it
  std::string subject_;   ///< what is being elaborated, for findings about limits
  bool in_default_ = false;

  std::deque<Diagnostic> diagnostics_;
  std::map<std::string, std::size_t> said_;
  Diagnostic surplus_;
  std::size_t errors_ = 0;
};

}  // namespace attune::tensor::inference
