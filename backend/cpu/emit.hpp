// SPDX-License-Identifier: Apache-2.0
// The emitter of one function: typed SSA values, sections (one per open loop) that hoist instructions to the outermost
// place where their operands exist, and the evaluation of expressions and statements over them. Private to backend/cpu.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/cpu/cpu.hpp"
#include "backend/cpu/math.hpp"
#include "backend/cpu/writer.hpp"
#include "loop/ir.hpp"
#include "loop/proofs.hpp"

namespace attune::cpu {

using loop::Expr;

/// Element kinds of SSA values. Integers of expressions are i64 as scalars and i64 or i32 in vectors.
enum class Kind : std::uint8_t { f32, i64, i32, i16, i8, i1, pointer };
int bits_of(Kind kind);
std::string_view element_type(Kind kind);
inline std::string type_text(Kind kind, int width) { return vector_type(element_type(kind), width); }

/// An SSA value or a constant. `level` is the section that defines it: it may be used in that one and all inside it.
struct V {
  std::string s;
  Kind kind = Kind::i64;
  int width = 1;
  int level = 0;
  std::optional<std::int64_t> whole;  ///< a constant integer or truth value (width 1)
  std::optional<float> real;          ///< a constant float (width 1)
  std::string type() const { return type_text(kind, width); }
};

/// Where something holds; nothing: everywhere.
using Mask = std::optional<V>;
/// Where something would raise the out-of-range flag; nothing: nowhere.
using Flag = std::optional<V>;

/// A value and where it is present. A boolean is false where it is absent.
struct Value {
  V v;
  Mask present;
};

/// A kernel that this backend cannot translate: becomes a diagnostic.
struct Malformed {
  std::string message;
  Span span;
};

/// What all functions of a module share: declarations of intrinsics, by name.
struct Module {
  const loop::Kernel& kernel;
  const CpuTarget& target;
  std::map<std::string, std::string> declarations;
  std::unordered_map<Sym, std::size_t> buffer_index;
  std::vector<std::size_t> first_axis;  ///< of each buffer, in Frame::strides and extents

  Module(const loop::Kernel& kernel, const CpuTarget& target);
  void declare(const std::string& text);
};

using loop::coefficient;
using loop::depends_on;
/// Work that an element costs, roughly in instructions.
int cost(const Expr& expr);

/// Where a text first uses an SSA name (`%v1` is not in `%v12`); npos.
std::size_t find_name(const std::string& text, const std::string& name);

/// What expressions may need in the first block of a function that they are evaluated in.
inline constexpr const char* locals =
    "  %zero = alloca i64, align 8\n  %sink = alloca [16 x float], align 64\n  store i64 0, ptr %zero, align 8\n";

class Emitter {
 public:
  Emitter(Module& module, const loop::Nest& nest);

  std::string tasks(std::size_t number);
  std::string scratch(std::size_t number);
  std::string run(std::size_t number);
  /// A function that run() calls.
  struct Part {
    std::string name;
    std::string parameters;  ///< with parentheses
    std::string body;        ///< from the attributes to the closing brace
  };
  /// Those of the last run().
  const std::vector<Part>& parts() const { return parts_; }

 private:
  // ---- instructions (emit_core.cpp) --------------------------------------------------------------
  struct Section {
    std::string text, current;                           ///< instructions; the block that they go to now
    std::unordered_map<std::string, std::string> known;  ///< instruction -> its name
    bool conditional = false;                            ///< loads must not leave it
  };
  int top() const { return static_cast<int>(sections_.size()) - 1; }
  Section& section() { return sections_.back(); }
  /// `name = text` in the section `level`, once.
  V define(const std::string& text, Kind kind, int width, int level);
  /// Lines that some function of math.hpp writes, once per key.
  V define_block(const std::string& key, Kind kind, int width, int level,
                 const std::function<std::string(Writer&)>& write);
  /// An instruction without a result, at the current place.
  void effect(const std::string& text) { section().text.append("  ").append(text).push_back('\n'); }

  V integer(std::int64_t value) const;
  V real(float value) const;
  V truth(bool value) const;
  V splat(const V& scalar, int width);
  /// An integer as an element of vectors: i32 where the kernel's integers fit.
  V spread(const V& value, int width);
  void unify(V& a, V& b);
  V binary(std::string_view op, V a, V b);
  V call(const std::string& function, Kind kind, int width, const std::vector<V>& args);
  V add(const V& a, const V& b);
  V sub(const V& a, const V& b);
  V mul(const V& a, const V& b);
  std::optional<V> multiple(const V& counter, const V& factor);
  /// Sum of terms, those of outer sections first so that they are computed there.
  V sum(std::vector<V> terms);
  V minimum(const V& a, const V& b);
  V maximum(const V& a, const V& b);
  V compare(std::string_view predicate, V a, V b);
  V select(const V& condition, V a, V b);
  V lnot(const V& a);
  V land(const V& a, const V& b);
  V lor(const V& a, const V& b);
  Mask both(const Mask& a, const Mask& b);
  Mask either(const Mask& a, const Mask& b);
  Flag any(const Flag& a, const Flag& b);
  Flag within(const Flag& flag, const Mask& mask);
  /// Where two optional masks hold: the flag is dropped where `mask` does not hold.
  V lane(const V& vector, int k);
  V gather_lanes(const std::vector<V>& scalars);
  V element_pointer(const V& base, Kind kind, const V& offset);
  /// The same value through an empty instruction: LLVM's loop strength reduction does not look behind it, which saves
  /// much of its time.
  V opaque(const V& value);
  V load(const V& pointer, Kind kind, int width, std::int64_t align, const Sym& memory);
  void store(const V& value, const V& pointer, std::int64_t align);
  V iota(int width);
  V scratch_slot(const char* name, int bytes);

  // ---- loops ---------------------------------------------------------------------------------------
  struct Loop {
    V lo, hi, step;
    std::string iv, label;
    std::vector<V> init, phis;
    std::vector<Sym> writes;
    int level = 0;                                                ///< its section
    std::vector<std::pair<std::int64_t, std::string>> multiples;  ///< factor and name of what moves with the counter
  };
  /// Opens `for (iv = lo; iv < hi; iv += step)`; `carried` in: first values, out: the values of this iteration.
  /// `writes`: tiles and buffers that the body stores to.
  V open_loop(const V& lo, const V& hi, const V& step, std::vector<V>& carried, const std::vector<Sym>& writes);
  std::vector<V> close_loop(const std::vector<V>& next);
  void open_scope();
  void close_scope();
  void pop_section();
  void wrote(const Sym& memory);
  std::string fresh_label(const char* stem) { return writer_.label(stem); }
  void begin();
  std::string finish(const std::string& header, const std::string& tail);

  V grid_count(const loop::GridAxis& axis);

  // ---- frame ---------------------------------------------------------------------------------------
  V frame_array(int slot);
  V frame_word(int slot, std::size_t index);
  V buffer_base(std::size_t buffer);
  V buffer_stride(std::size_t buffer, std::size_t axis);
  V buffer_extent(std::size_t buffer, std::size_t axis);

  // ---- expressions (emit_expr.cpp, emit_number.cpp, emit_flag.cpp) ---------------------------------------
  /// How expressions are evaluated now: which index runs along a vector, and where.
  struct Env {
    Sym vector;  ///< null: everything is uniform
    int width = 1;
    V base;             ///< index value of element 0
    V relative;         ///< base relative to the first lane of the domain, for the lane index
    long id = 0;        ///< names this environment in the memo
    long first_id = 0;  ///< the same for the environment of element 0
  };
  void enter_uniform();
  void enter_vector(const Sym& index, const V& base, int width, const V& relative);
  void renew();  ///< memory changed: forget what was read
  Value value(const Expr& expr);
  V uniform(const Expr& expr);           ///< an integer that is the same everywhere
  V at_first_element(const Expr& expr);  ///< a uniform integer: the expression at element 0 of the vector
  Value evaluate(const Expr& expr);
  Value evaluate_chain(const tensor::Chain& chain, const Expr& expr);
  Value evaluate_sum(const tensor::Chain& chain, const Expr& expr);
  Value evaluate_product(const tensor::Chain& chain, const Expr& expr);
  Value evaluate_extremum(const tensor::Chain& chain, const Expr& expr);
  Value evaluate_logical(const std::vector<Value>& args, bool conjunction);
  Value evaluate_compare(const tensor::Compare& compare);
  Value evaluate_relation(tensor::Relation relation, const Value& a, const Value& b);
  Value evaluate_cast(const tensor::Cast& cast, const Expr& expr);
  Value evaluate_unary(const tensor::Unary& unary, const Expr& expr);
  Value evaluate_power(const tensor::Power& power, const Expr& expr);
  Value evaluate_random(const tensor::Random& random);
  V divide(V a, V b, bool remainder);
  Value scalar_value(const Sym& sym);
  Value settled(Value value);
  bool launch_constant(const Expr& expr) const;
  V round_to(DType dtype, const V& x);
  V narrow(DType dtype, const V& x);
  V math_unary(tensor::UnaryOp op, const V& x);
  V larger(const V& a, const V& b, bool propagate);
  V smaller(const V& a, const V& b);
  Flag flag(const Expr& expr);
  Flag find_flag(const Expr& expr);
  Flag flag_logical(const std::vector<Value>& values, const std::vector<Flag>& flags, bool conjunction);
  Flag flag_product(const tensor::Chain& chain);
  void raise(const Flag& flag);
  void raise(const Expr& guard, const Expr& value);

  // ---- memory (emit_access.cpp) ----------------------------------------------------------
  struct TileInfo {
    const loop::Tile* tile = nullptr;
    int lane_axis = -1;
    Kind kind = Kind::f32;
  };
  /// Where the elements of a read lie, in elements from the start of the memory.
  struct Address {
    V first;                                 ///< of element 0
    V stride;                                ///< from one element of the vector to the next
    std::vector<std::pair<V, V>> scattered;  ///< subscript vectors and their strides, where there is no common stride
  };
  struct Subscript {
    const Expr* expr;
    V stride;
  };
  Value read(const tensor::Access& access, const Expr& expr);
  Value read_buffer(const tensor::Access& access, std::size_t buffer);
  Value read_tile(const tensor::Access& access, const TileInfo& tile);
  V fetch(const Address& address, const V& base, Kind kind, std::int64_t align, const Mask& valid, bool only_limit,
          const Sym& memory);
  bool along_vector(const Expr& expr) const { return env_.width > 1 && depends_on(expr, env_.vector); }
  void locate(Address& address, std::vector<V>& terms, const Expr& subscript, const V& stride);
  Address buffer_address(std::size_t buffer, const std::vector<Expr>& subscripts);
  Address tile_address(const TileInfo& tile, const std::vector<Expr>& subscripts);
  std::vector<V> tile_strides(const TileInfo& tile);
  V tile_base(const Sym& sym);
  V tile_bytes(const loop::Tile& tile);
  void write_tile(const Sym& sym, const V& value);
  V convert_in(DType dtype, const V& bits);
  V convert_out(DType dtype, const V& value);
  V bit_of(const V& mask, int k);
  V live_lanes();
  V mask_below(const V& count);
  Mask limit_mask();
  Mask subscript_check(std::size_t buffer, const tensor::Access& access);

  // ---- statements (emit_stmt.cpp, emit_sweep.cpp, emit_store.cpp, emit_contract.cpp) ---------------------
  /// A block; outside of parts its statements become parts where they are much code.
  void emit(const loop::Block& block);
  /// Statements in place.
  void emit(std::span<const loop::Stmt> block);
  void emit(const loop::Let& let);
  void emit(const loop::For& loop);
  void emit(const loop::If& branch);
  void emit_loop(const loop::For& loop);
  void call_part(const std::function<void(Emitter&)>& body_of);
  void emit(const loop::Store& store);
  void emit(const loop::Contract& contract);
  std::vector<Sym> written(std::span<const loop::Stmt> block) const;
  void bind(const loop::Range& range, const V& value);
  void unbind(const loop::Range& range);
  /// Opens the loop over a range and binds its index.
  V open_range(const loop::Range& range, std::vector<V>& carried, const std::vector<Sym>& writes);
  /// lo + the largest multiple of `count` that fits: where a blocked loop ends and the loop over the rest begins.
  V blocked_end(const V& lo, const V& hi, int count);
  const loop::Range* lane_range(const std::vector<loop::Range>& domain) const;

  /// Neighbouring element-wise statements over one domain, done in one pass over it.
  struct Sweep {
    std::vector<const loop::Stmt*> stmts;
    const loop::Range* lane = nullptr;
    std::vector<loop::Range> loops;  ///< without the lane index; the reduced ones last
    std::size_t reduce_from = 0;     ///< the first loop that accumulators run through
    bool reduces = false;
  };
  Sweep sweep_of(const loop::Stmt& stmt) const;
  bool join(Sweep& sweep, const loop::Stmt& stmt) const;
  void emit(const Sweep& sweep);
  int copies_for(const Sweep& sweep) const;
  void sweep_lanes(const Sweep& sweep, const V& group, int copies);
  void sweep_last_axis(const Sweep& sweep, std::size_t depth);
  void sweep_outer(const Sweep& sweep, std::size_t depth);
  std::vector<V> sweep_inner(const Sweep& sweep, std::size_t depth, std::vector<V> state);
  std::vector<V> sweep_body(const Sweep& sweep, std::vector<V> state);
  void enter_copy(int copy);
  void renew_copies();
  void map_element(const loop::Map& map);
  bool reduces_lanes(const Sweep& sweep) const;
  void sweep_across_lanes(const Sweep& sweep, std::size_t depth);
  std::vector<V> across_lanes_loops(const Sweep& sweep, const loop::Range& lanes, std::size_t depth,
                                    std::vector<V> state);
  V combine(loop::Op op, const V& best, const V& x);
  void accumulate_element(const loop::Accumulate& accumulate, V* state, const Mask& inside);
  V own_bits(const Sym& sym);
  V accumulator_form(const V& x);
  std::vector<Sym> sweep_writes(const Sweep& sweep, bool accumulators) const;

  void store_loops(const loop::Store& store, const std::vector<loop::Range>& loops, std::size_t depth,
                   const loop::Range* vector);
  void store_element(const loop::Store& store);
  // Square blocks of lanes x elements of a tensor's unit axis (emit_transpose.cpp).
  std::vector<V> transpose(std::vector<V> rows);
  bool packs_by_blocks(const Sweep& sweep) const;
  void pack_by_blocks(const Sweep& sweep, std::size_t depth);
  bool stores_by_blocks(const loop::Store& store, const loop::Range* vector) const;
  void store_by_blocks(const loop::Store& store, const std::vector<loop::Range>& loops, std::size_t depth,
                       const loop::Range& along);
  void scatter(const V& value, const Address& address, const V& base, Kind kind, const Mask& mask);

  struct Micro {
    const loop::Contract* contract;
    const loop::Range* row;  ///< null: one row
    int rows;
    int copies;
  };
  void contract_by_sweeps(const loop::Contract& contract);
  void contract_others(const Micro& micro, const std::vector<const loop::Range*>& others, std::size_t depth);
  void contract_tile(const Micro& micro, const V& first);
  std::vector<V> contract_over(const Micro& micro, const V& first, std::size_t depth, std::vector<V> state);
  std::vector<V> contract_kernel(const Micro& micro, const V& first, std::vector<V> state);
  V multiply_add(const V& a, const V& b, const V& c);

  Module& module_;
  const loop::Kernel& kernel_;
  const loop::Nest& nest_;
  const CpuTarget& target_;
  Writer writer_;
  std::vector<Section> sections_;
  std::vector<Loop> loops_;
  Kind vector_integer_ = Kind::i64;
  int lane_width_ = 1;
  bool mask_registers_ = false;

  std::unordered_map<Sym, V> indices_;  ///< uniform indices in scope
  loop::Proofs proofs_;                 ///< of the place in hand
  std::unordered_map<Sym, Value> lets_;
  std::unordered_map<Sym, TileInfo> tiles_;
  std::unordered_map<Sym, std::pair<long, int>>
      versions_;          ///< of memory: which contents, and the section it is known in
  std::set<Sym> stored_;  ///< buffers that the nest writes
  long version_ = 0;
  bool rare_ = false;           ///< inside a branch on computed data: small code before fast code
  std::size_t number_ = 0;      ///< of the nest
  std::vector<Part> parts_;     ///< other functions of the nest
  bool inside_part_ = false;    ///< what is emitted now is such a function
  bool guarded_ = false;        ///< in the other branch of a class of tiles: fewer of them, so less code for each
  V lane_lo_;                   ///< first lane of the domain in hand
  bool lane_block_ = false;     ///< lane_lo_ is the first lane of a block, and the lane index lies in that block
  bool lanes_bounded_ = false;  ///< a scalar loop over lanes ends at the lane limit

  Env env_;
  long next_env_ = 0;
  struct MemoKey {
    const tensor::Node* node;
    long env;
    friend bool operator==(const MemoKey&, const MemoKey&) = default;
  };
  struct MemoHash {
    std::size_t operator()(const MemoKey& key) const {
      std::size_t seed = std::hash<const void*>{}(key.node);
      hash_mix(seed, static_cast<std::size_t>(key.env));
      return seed;
    }
  };
  std::unordered_map<MemoKey, Value, MemoHash> memo_;
  std::unordered_map<MemoKey, Flag, MemoHash> flag_memo_;
  std::vector<Env> copies_;                                ///< environments of the vectors that a sweep handles at once
  std::vector<std::unordered_map<Sym, Value>> forwarded_;  ///< per copy: elements just written in this sweep
  int copy_ = -1;
};

}  // namespace attune::cpu
