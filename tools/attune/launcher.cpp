// SPDX-License-Identifier: Apache-2.0
// Writes the C header and launcher of `attune emit`: the checks of a call, its frame, temporaries and scratch, in C99.
#include "launcher.hpp"

#include <fmt/format.h>

#include <cmath>
#include <set>
#include <vector>

#include "backend/constant.hpp"

namespace attune::tool {
namespace {

using namespace tensor;  // NOLINT: reads expressions throughout

/// A parameter's name as a member of a C struct.
std::string member(const std::string& name) {
  static const std::set<std::string> words = {
      "auto",     "break",    "case",     "char",   "const",    "continue", "default",   "do",        "double",
      "else",     "enum",     "extern",   "float",  "for",      "goto",     "if",        "inline",    "int",
      "long",     "register", "return",   "short",  "signed",   "sizeof",   "static",    "struct",    "switch",
      "typedef",  "union",    "unsigned", "void",   "volatile", "while",    "bool",      "class",     "delete",
      "new",      "this",     "try",      "catch",  "throw",    "public",   "private",   "using",     "virtual",
      "operator", "template", "typename", "friend", "mutable",  "restrict", "namespace", "protected", "explicit",
      "export",   "asm",      "errno",    "NULL",   "INFINITY", "NAN",      "complex",   "I"};
  return words.contains(name) ? name + "_" : name;
}

const char* c_type(DType type) {
  switch (type) {
    case DType::i64: return "int64_t";
    case DType::i32: return "int32_t";
    case DType::i8: return "int8_t";
    case DType::u8: return "uint8_t";
    case DType::boolean: return "bool";
    default: return "float";
  }
}

/// A launch-uniform expression in C: integers as int64_t that wraps, floats as double. "" where C99 cannot say it
/// (rounding to a narrow float).
class Formula {
 public:
  std::string operator()(const Expr& expr) {
    std::string text = visit(expr);
    return failed_ ? std::string() : text;
  }

 private:
  std::string fail() {
    failed_ = true;
    return "0";
  }
  static std::string call(const char* name, const std::string& a, const std::string& b) {
    return fmt::format("attune_{}({}, {})", name, a, b);
  }
  std::string visit(const Expr& expr) {
    const bool whole = !expr->type.is_float();
    if (const auto* node = get_if<Literal>(expr)) {
      if (const auto* truth = std::get_if<bool>(&node->value)) return *truth ? "1" : "0";
      if (const auto* value = std::get_if<std::int64_t>(&node->value))
        return *value == INT64_MIN ? "INT64_MIN" : fmt::format("INT64_C({})", *value);
      const double value = std::get<double>(node->value);
      if (std::isinf(value)) return value < 0 ? "(-(double)INFINITY)" : "((double)INFINITY)";
      return fmt::format("{:a}", value);
    }
    if (const auto* node = get_if<Dim>(expr)) return "call->" + member(node->dim.text());
    if (const auto* node = get_if<tensor::Scalar>(expr))
      return fmt::format("({})call->{}", whole ? "int64_t" : "double", member(node->scalar.text()));
    if (const auto* node = get_if<Unary>(expr)) return unary(node->op, visit(node->operand), whole);
    if (const auto* node = get_if<Chain>(expr)) {
      std::string out = visit(node->args[0]);
      for (std::size_t k = 0; k < node->links.size(); ++k)
        out = link(node->links[k], out, visit(node->args[k + 1]), whole);
      return out;
    }
    if (const auto* node = get_if<Power>(expr))
      return whole ? call("power", visit(node->base), visit(node->exponent))
                   : fmt::format("pow({}, {})", visit(node->base), visit(node->exponent));
    if (const auto* node = get_if<Compare>(expr)) {
      static constexpr const char* signs[] = {"<", "<=", ">", ">=", "==", "!="};
      std::string out;
      for (std::size_t k = 0; k < node->relations.size(); ++k)
        out += fmt::format("{}({}) {} ({})", k ? " && " : "", visit(node->args[k]),
                           signs[static_cast<int>(node->relations[k])], visit(node->args[k + 1]));
      return "(" + out + ")";
    }
    if (const auto* node = get_if<Select>(expr))
      return fmt::format("(({}) ? ({}) : ({}))", visit(node->condition), visit(node->then), visit(node->otherwise));
    if (const auto* node = get_if<Cast>(expr)) {
      const bool from_float = node->operand->type.is_float();
      if (expr->type.is_float()) {
        if (expr->type.dtype != DType::f32) return fail();
        return fmt::format("(double)({})", visit(node->operand));
      }
      if (from_float) return fail();  // absent out of range
      if (expr->type.is_bool()) return fmt::format("(({}) != 0)", visit(node->operand));
      return fmt::format("(int64_t)({})({})", c_type(expr->type.dtype), visit(node->operand));
    }
    return fail();
  }
  std::string unary(UnaryOp op, const std::string& x, bool whole) {
    switch (op) {
      case UnaryOp::logical_not: return "(!(" + x + "))";
      case UnaryOp::negate: return whole ? call("sub", "0", x) : "(-(" + x + "))";
      case UnaryOp::abs: return whole ? "attune_abs(" + x + ")" : "fabs(" + x + ")";
      case UnaryOp::exp: return "exp(" + x + ")";
      case UnaryOp::exp2: return "exp2(" + x + ")";
      case UnaryOp::log: return "log(" + x + ")";
      case UnaryOp::log2: return "log2(" + x + ")";
      case UnaryOp::sqrt: return "sqrt(" + x + ")";
      case UnaryOp::rsqrt: return "(1 / sqrt(" + x + "))";
      case UnaryOp::sin: return "sin(" + x + ")";
      case UnaryOp::cos: return "cos(" + x + ")";
      case UnaryOp::tanh: return "tanh(" + x + ")";
      case UnaryOp::erf: return "erf(" + x + ")";
      case UnaryOp::floor: return "floor(" + x + ")";
      case UnaryOp::ceil: return "ceil(" + x + ")";
      case UnaryOp::round: return "nearbyint(" + x + ")";
      case UnaryOp::sigmoid: return "(1 / (1 + exp(-(" + x + "))))";
      default: return fail();
    }
  }
  std::string link(LinkOp op, const std::string& a, const std::string& b, bool whole) {
    switch (op) {
      case LinkOp::add: return whole ? call("add", a, b) : "(" + a + " + " + b + ")";
      case LinkOp::sub: return whole ? call("sub", a, b) : "(" + a + " - " + b + ")";
      case LinkOp::mul: return whole ? call("mul", a, b) : "(" + a + " * " + b + ")";
      case LinkOp::div: return "(" + a + " / " + b + ")";
      case LinkOp::floordiv: return call("div", a, b);
      case LinkOp::mod: return call("mod", a, b);
      case LinkOp::min: return whole ? call("min", a, b) : "fmin(" + a + ", " + b + ")";
      case LinkOp::max: return whole ? call("max", a, b) : "fmax(" + a + ", " + b + ")";
      case LinkOp::both: return "((" + a + ") && (" + b + "))";
      case LinkOp::either: return "((" + a + ") || (" + b + "))";
    }
    return fail();
  }
  bool failed_ = false;
};

std::string formula(const Expr& expr) { return Formula()(expr); }

std::string extents_text(const std::vector<Expr>& extents) {
  std::string out;
  for (const Expr& e : extents) out += (out.empty() ? "" : ", ") + print(e);
  return "[" + out + "]";
}

/// The checks of a call, each with the text that its error code stands for.
class Checks {
 public:
  void add(const std::string& good, const std::string& text) {
    if (good.empty() || !seen_.insert(good).second) return;
    texts.push_back(text);
    code += fmt::format("  if (!({})) return {};\n", good, -static_cast<int>(texts.size()));
  }
  int reserve(const std::string& text) {
    texts.push_back(text);
    return -static_cast<int>(texts.size());
  }
  std::string code;
  std::vector<std::string> texts;

 private:
  std::set<std::string> seen_;
};

void check_divisors(const Expr& root, Checks& checks) {
  walk(root, [&](const Expr& node) {
    if (const auto* chain = get_if<Chain>(node))
      for (std::size_t k = 0; k < chain->links.size(); ++k)
        if ((chain->links[k] == LinkOp::floordiv || chain->links[k] == LinkOp::mod) &&
            is_launch_uniform(chain->args[k + 1]) && !get_if<Literal>(chain->args[k + 1])) {
          const std::string divisor = formula(chain->args[k + 1]);
          if (!divisor.empty()) checks.add(divisor + " != 0", "the divisor " + print(chain->args[k + 1]) + " is 0");
        }
    return true;
  });
}

constexpr const char* helpers = R"(
/* Integers as the notation has them: 64 bits that wrap, quotients that round down. A divisor of 0 is found by a check. */
static inline int64_t attune_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static inline int64_t attune_sub(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
static inline int64_t attune_mul(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static inline int64_t attune_div(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return attune_sub(0, a);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static inline int64_t attune_mod(int64_t a, int64_t b) { return b == 0 ? 0 : attune_sub(a, attune_mul(attune_div(a, b), b)); }
static inline int64_t attune_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t attune_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t attune_abs(int64_t a) { return a < 0 ? attune_sub(0, a) : a; }
static inline int64_t attune_power(int64_t a, int64_t n) {
  int64_t out = 1;
  for (; n > 0; n >>= 1, a = attune_mul(a, a))
    if (n & 1) out = attune_mul(out, a);
  return out;
}
static inline int64_t attune_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (int64_t)bits;
}
/* Rounded up to a cache line; negative where it was, or where no address space has as much. */
static inline int64_t attune_line(int64_t bytes) {
  return bytes < 0 || bytes > INT64_C(1) << 47 ? -1 : (bytes + 63) / 64 * 64;
}
/* a times b, or negative where that is more than any address space has. */
static inline int64_t attune_size(int64_t a, int64_t b) {
  if (a < 0 || b < 0) return -1;
  return b != 0 && a > (INT64_C(1) << 47) / b ? -1 : a * b;
}
)";

constexpr const char* tensor_types = R"(#ifndef ATTUNE_TENSORS
#define ATTUNE_TENSORS
/* A tensor of the caller. Strides count elements; NULL: contiguous, the last axis innermost. */
typedef struct attune_input {
  const void *data;
  const int64_t *strides;
} attune_input;
typedef struct attune_output {
  void *data;
  const int64_t *strides;
} attune_output;
#endif
)";

}  // namespace

Launcher launcher(const Program& program, const loop::Kernel& kernel, const std::string& prefix,
                  const std::string& note) {
  const std::string type = "struct " + prefix;
  Launcher out;
  // ---- header ----
  std::string fields, defaults;
  std::vector<std::string> required;
  for (const Sym& dim : program.dims) fields += fmt::format("  int64_t {};\n", member(dim.text()));
  for (const ScalarParam& scalar : program.scalars) {
    const std::string name = member(scalar.sym.text());
    std::string value = scalar.default_value ? formula(scalar.default_value) : "";
    fields += fmt::format("  {} {};", c_type(scalar.type.dtype), name);
    std::string remark;
    if (scalar.type.is_float() && scalar.type.dtype != DType::f32)
      remark = fmt::format("a value that {} holds", attune::name(scalar.type.dtype));
    if (!value.empty()) {
      remark += (remark.empty() ? "" : "; ") + ("default " + print(scalar.default_value));
      defaults += fmt::format("  call->{} = ({})({});\n", name, c_type(scalar.type.dtype), value);
    }
    fields += remark.empty() ? "\n" : "  /* " + remark + " */\n";
  }
  for (const Tensor& t : program.tensors)
    fields += fmt::format("  attune_input {};  /* {} {} */\n", member(t.sym.text()), attune::name(t.type.dtype),
                          extents_text(t.extents));
  for (const Tensor& t : program.results)
    fields += fmt::format("  attune_output {};  /* {} {} */\n", member(t.sym.text()), attune::name(t.type.dtype),
                          extents_text(t.extents));
  const std::string guard = prefix + "_h";
  out.header = fmt::format(R"(/* {}: compiled by attune {}. */
#ifndef {}
#define {}
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

{}
/* One call: sizes, scalars and memory. Results must not share memory with anything else of the call. */
{} {{
{}}};

/* Sets the scalars that have a default, from the sizes that are already there. */
void {}_defaults({} *call);
/* Bytes of workspace that a call with this many threads needs, or a negative error. */
int64_t {}_workspace(const {} *call, int threads);
/* Runs the call. The workspace is aligned to 64 bytes and may be NULL where it needs 0 bytes. More than one thread works
   where the launcher was compiled with OpenMP. Returns 0; 1 where a subscript left its tensor (such elements count as
   absent); or a negative error, and then nothing was written. */
int {}_run(const {} *call, void *workspace, int threads);
/* What an error stands for. */
const char *{}_error(int code);

#ifdef __cplusplus
}}
#endif
#endif
)",
                           program.name, note, guard, guard, tensor_types, type, fields, prefix, type, prefix, type,
                           prefix, type, prefix);
  // ---- checks ----
  Checks checks;
  for (const Sym& dim : program.dims)
    checks.add(fmt::format("call->{0} >= 0 && call->{0} <= INT32_MAX", member(dim.text())),
               fmt::format("{} does not lie in 0..2^31 - 1", dim.text()));
  for (const ExactQuotient& q : program.exact_quotients) {
    const std::string a = member(q.dividend.text()), b = member(q.divisor.text());
    checks.add(fmt::format("call->{} != 0", b), fmt::format("the divisor {} is 0", q.divisor.text()));
    checks.add(fmt::format("call->{} % call->{} == 0", a, b),
               fmt::format("{} is not a multiple of {}", q.dividend.text(), q.divisor.text()));
  }
  for (const auto* list : {&program.tensors, &program.results})
    for (const Tensor& t : *list)
      for (const Expr& e : t.extents) check_divisors(e, checks);
  for (const Definition& d : program.definitions) {
    for (const IndexRange& r : d.indices) check_divisors(r.hi, checks);
    check_divisors(d.body, checks);
  }
  for (const RangeCheck& r : program.range_checks) {
    const std::string lo = formula(r.lo), hi = formula(r.hi), extent = formula(r.extent);
    if (lo.empty() || hi.empty() || extent.empty()) continue;
    checks.add(fmt::format("{0} >= {1} || ({0} >= 0 && {1} <= {2})", lo, hi, extent),
               fmt::format("the range {}..{} leaves axis {} of {}", print(r.lo), print(r.hi), r.axis, r.target.text()));
  }
  // ---- frame ----
  std::size_t axes = 0;
  std::string layout;
  for (std::size_t b = 0; b < kernel.buffers.size(); ++b) {
    const loop::Buffer& buffer = kernel.buffers[b];
    const std::size_t first = axes, rank = buffer.extents.size();
    axes += rank;
    const std::string name = buffer.sym.text(), field = "call->" + member(name);
    const auto bytes = size_of(buffer.dtype);
    layout += fmt::format("  /* {}: {} {} */\n", name, attune::name(buffer.dtype), extents_text(buffer.extents));
    for (std::size_t k = 0; k < rank; ++k) {
      const std::string value = formula(buffer.extents[k]);
      layout += fmt::format("  f->extents[{}] = {};\n", first + k,
                            buffer.role == loop::Role::temporary ? "attune_max(0, " + value + ")" : value);
      if (buffer.role != loop::Role::temporary && !get_if<Dim>(buffer.extents[k]))
        layout += fmt::format("  if (f->extents[{0}] < 0 || f->extents[{0}] > INT32_MAX) return {1};\n", first + k,
                              checks.reserve(fmt::format("axis {} of {} has an impossible extent", k, name)));
    }
    layout += "  n = 1;\n";
    for (std::size_t k = rank; k-- > 0;)
      layout +=
          fmt::format("  f->strides[{0}] = n;\n  n = attune_size(n, attune_max(1, f->extents[{0}]));\n", first + k);
    layout += fmt::format("  if (n < 0) return {};\n", checks.reserve(name + " is too large"));
    std::string empty;
    for (std::size_t k = 0; k < rank; ++k) empty += fmt::format("{}f->extents[{}] == 0", k ? " || " : "", first + k);
    if (empty.empty()) empty = "0";
    if (buffer.role == loop::Role::temporary) {
      layout += fmt::format(
          "  f->pointers[{}] = memory ? (char *)memory + f->bytes : NULL;\n  n = attune_line(attune_size(({}) ? 0 : n, "
          "{}));\n"
          "  if (n < 0 || attune_line(f->bytes + n) < 0) return {};\n  f->bytes += n;\n",
          b, empty, bytes, checks.reserve(name + " would have to be stored and is too large"));
      continue;
    }
    layout += fmt::format("  if ({}.strides) memcpy(f->strides + {}, {}.strides, {} * sizeof(int64_t));\n", field,
                          first, field, rank);
    // The code reads an axis of one element with whatever stride: it gets one that it can trust.
    for (std::size_t k = 0; k < rank; ++k) {
      const bool unit = static_cast<std::int64_t>(k) == buffer.unit_axis;
      layout += fmt::format("  if (f->extents[{0}] <= 1) f->strides[{0}] = {1};\n", first + k, unit ? 1 : 0);
      if (unit)
        layout += fmt::format("  if (f->strides[{}] != 1) return {};\n", first + k,
                              checks.reserve(fmt::format("axis {} of {} must have stride 1 in this code", k, name)));
    }
    layout += fmt::format("  if (memory_needed && !({}) && (!{}.data || (uintptr_t){}.data % {} != 0)) return {};\n",
                          empty, field, field, bytes, checks.reserve(name + " has no memory, or it is not aligned"));
    layout += fmt::format("  f->pointers[{}] = (void *){}.data;\n", b, field);
  }
  for (std::size_t k = 0; k < kernel.dims.size(); ++k)
    layout += fmt::format("  f->dims[{}] = call->{};\n", k, member(kernel.dims[k].text()));
  for (std::size_t k = 0; k < kernel.scalars.size(); ++k) {
    const std::string value = "call->" + member(kernel.scalars[k].text());
    layout += fmt::format("  f->scalars[{}] = {};\n", k,
                          kernel.scalar_types[k].is_float()  ? "attune_bits(" + value + ")"
                          : kernel.scalar_types[k].is_bool() ? value + " ? 1 : 0"
                                                             : value);
  }
  const int too_large = checks.reserve("the workspace is too large"),
            bad_threads = checks.reserve("threads is below 1"),
            no_workspace = checks.reserve("the workspace is missing or not aligned to 64 bytes");
  // ---- source ----
  auto room = [](std::size_t count) { return std::max<std::size_t>(count, 1); };
  std::string s = fmt::format(R"(/* Launches {}: compiled by attune {}. C99, no libraries but libm. */
#include "{}.h"

#include <math.h>
#include <stddef.h>
#include <string.h>
{}
typedef struct {{
  void *const *pointers;
  const int64_t *strides, *extents, *dims, *scalars;
  int32_t *out_of_range;
}} attune_frame;

)",
                              program.name, note, prefix, helpers);
  for (std::size_t k = 0; k < kernel.nests.size(); ++k)
    s += fmt::format(
        "extern int64_t {0}_nest{1}_tasks(const attune_frame *);\nextern int64_t {0}_nest{1}_scratch(const "
        "attune_frame *);\n"
        "extern void {0}_nest{1}_run(const attune_frame *, int64_t, void *);\n",
        prefix, k);
  auto column = [&](const char* part) {
    std::string list;
    for (std::size_t k = 0; k < kernel.nests.size(); ++k)
      list += fmt::format("{}{}_nest{}_{}", k ? ", " : "", prefix, k, part);
    return list;
  };
  const std::size_t nests = kernel.nests.size();
  s += fmt::format("\nstatic int64_t (*const nest_tasks[])(const attune_frame *) = {{{}}};\n", column("tasks"));
  s += fmt::format("static int64_t (*const nest_scratch[])(const attune_frame *) = {{{}}};\n", column("scratch"));
  s += fmt::format("static void (*const nest_run[])(const attune_frame *, int64_t, void *) = {{{}}};\n", column("run"));
  s += fmt::format(R"(
typedef struct {{
  void *pointers[{}];
  int64_t strides[{}], extents[{}], dims[{}], scalars[{}];
  int64_t bytes;   /* of stored intermediates */
  int64_t scratch; /* of one task */
  int32_t out_of_range;
}} call_frame;

static attune_frame view(call_frame *f) {{
  attune_frame out = {{f->pointers, f->strides, f->extents, f->dims, f->scalars, &f->out_of_range}};
  return out;
}}

/* Checks the call and lays it out; 0 or a negative error. */
static int lay_out(const {} *call, void *memory, bool memory_needed, call_frame *f) {{
  int64_t n = 0;
  attune_frame frame;
  size_t k;
  (void)memory;
  (void)memory_needed;
  memset(f, 0, sizeof *f);
{}{}  frame = view(f);
  for (k = 0; k < {}; ++k) {{
    n = nest_tasks[k](&frame) > 0 ? attune_line(nest_scratch[k](&frame)) : 0;
    if (n < 0) return {};
    f->scratch = attune_max(f->scratch, n);
  }}
  return 0;
}}

void {}_defaults({} *call) {{
  (void)call;
{}}}

int64_t {}_workspace(const {} *call, int threads) {{
  call_frame f;
  int error = lay_out(call, NULL, false, &f);
  int64_t scratch;
  if (error) return error;
  if (threads < 1) return {};
  scratch = attune_line(attune_size(f.scratch, threads));
  return scratch < 0 || attune_line(f.bytes + scratch) < 0 ? {} : f.bytes + scratch;
}}

int {}_run(const {} *call, void *workspace, int threads) {{
  call_frame f;
  attune_frame frame;
  int64_t needed = {}_workspace(call, threads);
  int error = needed < 0 ? (int)needed : lay_out(call, workspace, true, &f);
  size_t k;
  if (error) return error;
  if (needed > 0 && (!workspace || (uintptr_t)workspace % 64 != 0)) return {};
  frame = view(&f);
  for (k = 0; k < {}; ++k) {{
    int64_t task, count = nest_tasks[k](&frame);
    char *scratch = (char *)workspace + f.bytes;
#ifdef _OPENMP
#pragma omp parallel num_threads(threads) if (threads > 1)
    {{
      char *mine = scratch + f.scratch * omp_get_thread_num();
#pragma omp for schedule(dynamic)
      for (task = 0; task < count; ++task) nest_run[k](&frame, task, mine);
    }}
#else
    for (task = 0; task < count; ++task) nest_run[k](&frame, task, scratch);
#endif
  }}
  return f.out_of_range ? 1 : 0;
}}

const char *{}_error(int code) {{
  switch (code) {{
    case 0: return "done";
    case 1: return "done; a subscript left its tensor";
)",
                   room(kernel.buffers.size()), room(axes), room(axes), room(kernel.dims.size()),
                   room(kernel.scalars.size()), type, checks.code, layout, nests, too_large, prefix, type, defaults,
                   prefix, type, bad_threads, too_large, prefix, type, prefix, no_workspace, nests, prefix);
  for (std::size_t k = 0; k < checks.texts.size(); ++k)
    s += fmt::format("    case {}: return \"{}\";\n", -static_cast<int>(k) - 1, checks.texts[k]);
  s += "    default: return \"not an error of this kernel\";\n  }\n}\n";
  const std::string include = "#include <string.h>\n";
  s.insert(s.find(include) + include.size(), "#ifdef _OPENMP\n#include <omp.h>\n#endif\n");
  out.source = std::move(s);
  return out;
}

}  // namespace attune::tool
