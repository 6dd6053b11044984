// SPDX-License-Identifier: Apache-2.0
// Binds type variables to float dtypes and const scalars to values; both vanish from the program.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "tensor/passes.hpp"

namespace attune::tensor {
namespace {

// ---- values of const scalars ------------------------------------------------------------------------
/// Rounds to the nearest value with `mantissa` explicit bits, ties to even, subnormals below 2^`lowest`.
double round_binary(double value, int mantissa, int lowest) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value), lowest);
  const double unit = std::ldexp(1.0, exponent - mantissa);
  return std::nearbyint(value / unit) * unit;
}

/// One store and load; beyond the range infinity, f8e4m3 saturates.
double rounded(DType dtype, double value) {
  const double infinity = std::numeric_limits<double>::infinity();
  auto limit = [&](double rounded_value, double largest) {
    return std::fabs(rounded_value) > largest ? std::copysign(infinity, value) : rounded_value;
  };
  switch (dtype) {
    case DType::f16: return limit(round_binary(value, 10, -14), 65504);
    case DType::bf16: return limit(round_binary(value, 7, -126), 0x1.fep127);
    case DType::f8e5m2: return limit(round_binary(value, 2, -14), 57344);
    case DType::f8e4m3: return std::isnan(value) ? value : std::clamp(round_binary(value, 3, -6), -448.0, 448.0);
    default: return static_cast<double>(static_cast<float>(value));
  }
}

/// Whether an integer is one of the type.
bool fits(DType dtype, double value) {
  if (std::trunc(value) != value) return false;
  switch (dtype) {
    case DType::i8: return value >= -128 && value <= 127;
    case DType::u8: return value >= 0 && value <= 255;
    case DType::i32: return value >= -0x1p31 && value < 0x1p31;
    default: return value >= -0x1p63 && value < 0x1p63;
  }
}

using Number = std::variant<std::int64_t, double, bool>;
double as_real(const Number& number) {
  return std::visit([](auto value) { return static_cast<double>(value); }, number);
}

std::int64_t wrap(std::uint64_t value) { return static_cast<std::int64_t>(value); }

/// The value of a default of literals in f64 and 64-bit integers; nothing where it is absent.
std::optional<Number> value_of(const Expr& expr);

std::optional<Number> unary_value(const Unary& node, const Number& x) {
  if (node.op == UnaryOp::logical_not) return Number(!std::get<bool>(x));
  if (const auto* integer = std::get_if<std::int64_t>(&x)) {
    if (node.op == UnaryOp::abs && *integer >= 0) return x;
    return Number(wrap(0 - static_cast<std::uint64_t>(*integer)));
  }
  const double v = as_real(x);
  switch (node.op) {
    case UnaryOp::negate: return Number(-v);
    case UnaryOp::abs: return Number(std::fabs(v));
    case UnaryOp::exp: return Number(std::exp(v));
    case UnaryOp::exp2: return Number(std::exp2(v));
    case UnaryOp::log: return Number(std::log(v));
    case UnaryOp::log2: return Number(std::log2(v));
    case UnaryOp::sqrt: return Number(std::sqrt(v));
    case UnaryOp::rsqrt: return Number(1 / std::sqrt(v));
    case UnaryOp::sin: return Number(std::sin(v));
    case UnaryOp::cos: return Number(std::cos(v));
    case UnaryOp::tanh: return Number(std::tanh(v));
    case UnaryOp::sigmoid: return Number(1 / (1 + std::exp(-v)));
    case UnaryOp::silu: return Number(v / (1 + std::exp(-v)));
    case UnaryOp::relu: return Number(v < 0 ? 0.0 : v);
    case UnaryOp::gelu: return Number(0.5 * v * (1 + std::erf(v / std::sqrt(2.0))));
    case UnaryOp::erf: return Number(std::erf(v));
    case UnaryOp::softplus: return Number(std::max(v, 0.0) + std::log1p(std::exp(-std::fabs(v))));
    case UnaryOp::floor: return Number(std::floor(v));
    case UnaryOp::ceil: return Number(std::ceil(v));
    case UnaryOp::round: return Number(std::nearbyint(v));
    case UnaryOp::logical_not: break;
  }
  return std::nullopt;
}

std::optional<Number> link_value(LinkOp op, const Number& a, const Number& b) {
  if (op == LinkOp::both || op == LinkOp::either) {
    const bool x = std::get<bool>(a), y = std::get<bool>(b);
    return Number(op == LinkOp::both ? x && y : x || y);
  }
  if (const auto* i = std::get_if<std::int64_t>(&a), *j = std::get_if<std::int64_t>(&b); i && j) {
    const auto x = static_cast<std::uint64_t>(*i), y = static_cast<std::uint64_t>(*j);
    switch (op) {
      case LinkOp::add: return Number(wrap(x + y));
      case LinkOp::sub: return Number(wrap(x - y));
      case LinkOp::mul: return Number(wrap(x * y));
      case LinkOp::min: return Number(std::min(*i, *j));
      case LinkOp::max: return Number(std::max(*i, *j));
      default: break;
    }
    if (*j == 0) return std::nullopt;
    if (*j == -1) return Number(op == LinkOp::mod ? std::int64_t{0} : wrap(0 - x));
    const std::int64_t down = *i / *j - (*i % *j != 0 && (*i < 0) != (*j < 0) ? 1 : 0);
    return Number(op == LinkOp::mod ? *i - down * *j : down);
  }
  const double x = as_real(a), y = as_real(b);
  switch (op) {
    case LinkOp::add: return Number(x + y);
    case LinkOp::sub: return Number(x - y);
    case LinkOp::mul: return Number(x * y);
    case LinkOp::div: return Number(x / y);
    case LinkOp::min: return Number(std::isnan(x) || y > x ? x : y);
    case LinkOp::max: return Number(std::isnan(x) || y < x ? x : y);
    default: return std::nullopt;
  }
}

std::optional<Number> compare_value(const Compare& node) {
  for (std::size_t k = 0; k < node.relations.size(); ++k) {
    const auto a = value_of(node.args[k]), b = value_of(node.args[k + 1]);
    if (!a || !b) return std::nullopt;
    const auto *i = std::get_if<std::int64_t>(&*a), *j = std::get_if<std::int64_t>(&*b);
    auto holds = [&](auto x, auto y) {
      switch (node.relations[k]) {
        case Relation::less: return x < y;
        case Relation::less_equal: return x <= y;
        case Relation::greater: return x > y;
        case Relation::greater_equal: return x >= y;
        case Relation::equal: return x == y;
        case Relation::not_equal: return x != y;
      }
      return false;
    };
    if (!(i && j ? holds(*i, *j) : holds(as_real(*a), as_real(*b)))) return Number(false);
  }
  return Number(true);
}

std::optional<Number> cast_value(const Type& type, const Number& x) {
  const double v = as_real(x);
  if (type.is_bool()) return x;
  if (type.is_float()) return Number(type == type_f32 ? v : rounded(type.dtype, v));
  std::int64_t whole = 0;
  if (const auto* integer = std::get_if<std::int64_t>(&x)) {
    whole = *integer;
  } else {
    const double down = std::trunc(v);
    if (std::isnan(v) || !fits(type.dtype, down)) return std::nullopt;
    whole = static_cast<std::int64_t>(down);
  }
  switch (type.dtype) {
    case DType::i8: return Number(std::int64_t{static_cast<std::int8_t>(whole)});
    case DType::u8: return Number(std::int64_t{static_cast<std::uint8_t>(whole)});
    case DType::i32: return Number(std::int64_t{static_cast<std::int32_t>(whole)});
    default: return Number(whole);
  }
}

std::optional<Number> power_value(const Expr& expr, const Power& node) {
  const auto base = value_of(node.base), exponent = value_of(node.exponent);
  if (!base || !exponent) return std::nullopt;
  if (!expr->type.is_integer()) return Number(std::pow(as_real(*base), as_real(*exponent)));
  auto factor = static_cast<std::uint64_t>(std::get<std::int64_t>(*base));
  std::uint64_t result = 1;
  for (auto count = static_cast<std::uint64_t>(std::get<std::int64_t>(*exponent)); count; count >>= 1, factor *= factor)
    if (count & 1) result *= factor;
  return Number(wrap(result));
}

std::optional<Number> value_of(const Expr& expr) {
  if (const auto* node = get_if<Literal>(expr)) return node->value;
  if (const auto* node = get_if<Unary>(expr)) {
    const auto x = value_of(node->operand);
    return x ? unary_value(*node, *x) : std::nullopt;
  }
  if (const auto* node = get_if<Chain>(expr)) {
    std::optional<Number> so_far = value_of(node->args[0]);
    for (std::size_t k = 0; k < node->links.size() && so_far; ++k) {
      const auto next = value_of(node->args[k + 1]);
      so_far = next ? link_value(node->links[k], *so_far, *next) : std::nullopt;
    }
    return so_far;
  }
  if (const auto* node = get_if<Power>(expr)) return power_value(expr, *node);
  if (const auto* node = get_if<Compare>(expr)) return compare_value(*node);
  if (const auto* node = get_if<Select>(expr)) {
    const auto decision = value_of(node->condition);
    return decision ? value_of(std::get<bool>(*decision) ? node->then : node->otherwise) : std::nullopt;
  }
  if (const auto* node = get_if<Cast>(expr)) {
    const auto x = value_of(node->operand);
    return x ? cast_value(expr->type, *x) : std::nullopt;
  }
  return std::nullopt;
}

// ---- the pass -----------------------------------------------------------------------------------------
class Binder {
 public:
  Binder(const Program& program, const std::map<std::string, DType>& types, const std::map<std::string, double>& consts)
      : program_(program), given_types_(types), given_consts_(consts) {}

  Result<Program> run() {
    bind_variables();
    if (!diagnostics_.empty()) return diagnostics_;
    bind_consts();
    if (!diagnostics_.empty()) return diagnostics_;

    Program out = program_;
    out.type_variables.clear();
    std::erase_if(out.scalars, [](const ScalarParam& scalar) { return scalar.is_const; });
    for (ScalarParam& scalar : out.scalars) {
      scalar.type = bound(scalar.type);
      scalar.default_value = rewrite(scalar.default_value);
    }
    auto tensor = [&](Tensor& each) {
      each.type = bound(each.type);
      for (Expr& extent : each.extents) extent = rewrite(extent);
    };
    for (Tensor& each : out.tensors) tensor(each);
    for (Tensor& each : out.results) tensor(each);
    for (Definition& definition : out.definitions) {
      for (IndexRange& range : definition.indices) {
        range.lo = rewrite(range.lo);
        range.hi = rewrite(range.hi);
      }
      definition.body = rewrite(definition.body);
    }
    for (RangeCheck& check : out.range_checks) {
      check.lo = rewrite(check.lo);
      check.hi = rewrite(check.hi);
      check.extent = rewrite(check.extent);
    }
    if (!diagnostics_.empty()) return diagnostics_;
    return out;
  }

 private:
  Diagnostic& error(const char* code, Span span, std::string message, std::string help) {
    Diagnostic& d = diagnostics_.emplace_back();
    d.code = code;
    d.message = std::move(message);
    d.source = program_.source;
    d.span = span;
    d.help = std::move(help);
    return d;
  }

  void bind_variables() {
    std::vector<std::string> known;
    for (const Sym& var : program_.type_variables) {
      known.push_back(var.text());
      const auto given = given_types_.find(var.text());
      if (given == given_types_.end())
        error("A0233", {}, "type variable `" + var.text() + "` of kernel `" + program_.name + "` is not bound",
              "give it a float type");
      else if (!is_float(given->second))
        error("A0233", {}, "type variable `" + var.text() + "` cannot be " + std::string(name(given->second)),
              "type variables stand for float types");
      else
        types_[var] = given->second;
    }
    for (const auto& [name, unused] : given_types_)
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        const std::string near = did_you_mean(name, known);
        error("A0233", {}, "kernel `" + program_.name + "` has no type variable `" + name + "`",
              near.empty() ? "" : "did you mean `" + near + "`?");
      }
  }

  void bind_consts() {
    std::vector<std::string> known;
    for (const ScalarParam& scalar : program_.scalars) {
      if (!scalar.is_const) continue;
      const std::string& name = scalar.sym.text();
      known.push_back(name);
      const Type type = bound(scalar.type);
      const std::string wanted(attune::name(type.dtype));
      const auto given = given_consts_.find(name);
      std::optional<Number> value;
      if (given != given_consts_.end()) {
        value = given->second;
      } else if (scalar.default_value) {
        value = value_of(rewrite(scalar.default_value));
        if (!value) {
          error("A0234", scalar.span, "the default of const `" + name + "` has no value", "give it a value");
          continue;
        }
      } else {
        error("A0234", scalar.span, "const `" + name + "` needs a value", "it has no default and is baked in");
        continue;
      }
      Literal literal;
      const bool from_caller = given != given_consts_.end();
      if (type.is_float()) {
        literal.value = rounded(type.dtype, as_real(*value));
      } else if (type.is_bool()) {
        const double number = as_real(*value);
        if (number != 0 && number != 1) {
          error("A0234", scalar.span, "const `" + name + "` is bool and takes 0 or 1", "");
          continue;
        }
        literal.value = number != 0;
      } else if (const auto* whole = std::get_if<std::int64_t>(&*value)) {
        literal.value = std::get<std::int64_t>(*cast_value(type, Number(*whole)));
      } else if (const double number = as_real(*value); !from_caller || !fits(type.dtype, number)) {
        error("A0234", scalar.span, "the value of const `" + name + "` is not one of " + wanted,
              "the type cannot hold it: give another value, or declare a wider type");
        continue;
      } else {
        literal.value = static_cast<std::int64_t>(number);
      }
      values_[scalar.sym] = Expr(literal, type, scalar.span);
    }
    for (const auto& [name, unused] : given_consts_)
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        const std::string near = did_you_mean(name, known);
        error("A0234", {}, "kernel `" + program_.name + "` has no const scalar `" + name + "`",
              near.empty() ? "" : "did you mean `" + near + "`?");
      }
  }

  Type bound(const Type& type) const {
    if (!type.var) return type;
    const auto found = types_.find(type.var);
    return found == types_.end() ? type : Type{found->second, {}};
  }

  Expr rewrite(const Expr& expr) {
    if (!expr) return expr;
    if (const auto* scalar = get_if<Scalar>(expr))
      if (const auto found = values_.find(scalar->scalar); found != values_.end()) return found->second;
    const Expr next = map_children(expr, [&](const Expr& child) { return rewrite(child); });
    if (const auto* chain = get_if<Chain>(next))
      for (std::size_t k = 0; k < chain->links.size(); ++k) {
        const auto* divisor = get_if<Literal>(chain->args[k + 1]);
        const bool divides = chain->links[k] == LinkOp::floordiv || chain->links[k] == LinkOp::mod;
        if (divides && divisor && *divisor == Literal{std::int64_t{0}})
          error("A0217", next->span, "a const divisor is 0", "give the const another value");
      }
    const Type type = bound(next->type);
    // A cast to a variable, or of one, that turns out to be no conversion vanishes.
    if (const auto* cast = get_if<Cast>(next); cast && cast->operand->type == type) return cast->operand;
    if (type == next->type) return next;
    return std::visit([&](const auto& kind) { return Expr(kind, type, next->span); }, next->kind);
  }

  const Program& program_;
  const std::map<std::string, DType>& given_types_;
  const std::map<std::string, double>& given_consts_;
  std::map<Sym, DType> types_;
  std::map<Sym, Expr> values_;
  Diagnostics diagnostics_;
};

}  // namespace

Result<Program> bind_types(const Program& program, const std::map<std::string, DType>& types,
                           const std::map<std::string, double>& consts) {
  return Binder(program, types, consts).run();
}

}  // namespace attune::tensor
