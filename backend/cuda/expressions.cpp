// SPDX-License-Identifier: Apache-2.0
// Values of expressions (language.md, rules 11 to 14): names and scopes of the text, reads, sums and products with
// their algebra of absent, conditions after Kleene.
#include "backend/cuda/expressions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace attune::cuda {

using tensor::get_if;
using tensor::LinkOp;
using tensor::Relation;

std::string_view type_name(Number number) {
  switch (number) {
    case Number::real: return "float";
    case Number::whole: return "i64";
    case Number::element: return "Int";
    case Number::truth: return "bool";
  }
  return "";
}

// ---- parameter words -------------------------------------------------------------------------------------

ParameterWords::ParameterWords(const loop::Kernel& kernel) : kernel_(kernel) {
  count = kernel.dims.size() + kernel.scalars.size();
  for (const loop::Buffer& buffer : kernel.buffers) {
    first_.push_back(count);
    count += 1 + buffer.extents.size();
  }
  flag = count++;
}

std::size_t ParameterWords::dim(const Sym& sym) const {
  const auto found = std::find(kernel_.dims.begin(), kernel_.dims.end(), sym);
  return found == kernel_.dims.end() ? npos : static_cast<std::size_t>(found - kernel_.dims.begin());
}

std::size_t ParameterWords::scalar(const Sym& sym) const {
  const auto found = std::find(kernel_.scalars.begin(), kernel_.scalars.end(), sym);
  return found == kernel_.scalars.end()
             ? npos
             : kernel_.dims.size() + static_cast<std::size_t>(found - kernel_.scalars.begin());
}

std::size_t ParameterWords::buffer(const Sym& sym) const {
  for (std::size_t k = 0; k < kernel_.buffers.size(); ++k)
    if (kernel_.buffers[k].sym == sym) return k;
  return npos;
}

// ---- text ------------------------------------------------------------------------------------------------

Expressions::Expressions(const loop::Kernel& kernel, const loop::Nest& nest, const ParameterWords& words)
    : kernel_(kernel), nest_(nest), words_(words) {
  proofs_.lane = nest.lane;
  proofs_.lane_limit = nest.lane_limit;
  for (const loop::Tile& tile : nest.tiles) tiles_.emplace(tile.sym, &tile);
  scopes_.emplace_back();
}

void Expressions::line(std::string_view what) {
  text_.append(static_cast<std::size_t>(depth_) * 2, ' ').append(what).push_back('\n');
}

void Expressions::insert(std::size_t at, std::string_view what) {
  text_.insert(at, std::string(static_cast<std::size_t>(depth_) * 2, ' ').append(what) + '\n');
}

void Expressions::open(std::string_view head) {
  line(head.empty() ? "{" : fmt::format("{} {{", head));
  ++depth_;
  scopes_.emplace_back();
}

void Expressions::close(std::string_view tail) {
  --depth_;
  scopes_.pop_back();
  line(tail);
}

std::string Expressions::fresh(std::string_view stem) {
  std::string name;
  for (const char c : stem)
    name += (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ? c : '_';
  return fmt::format("{}_{}", name.empty() ? "x" : name, ++names_);
}

std::string Expressions::define(Number number, const std::string& text) {
  for (const Scope& scope : scopes_)
    if (const auto found = scope.texts.find(text); found != scope.texts.end()) return found->second;
  std::string name = fresh("t");
  line(fmt::format("const {} {} = {};", type_name(number), name, text));
  scopes_.back().texts.emplace(text, name);
  return name;
}

std::string Expressions::both(const std::string& a, const std::string& b) {
  if (a.empty() || a == b) return b;
  if (b.empty()) return a;
  return define(Number::truth, a + " && " + b);
}
std::string Expressions::either(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return {};
  return a == b ? a : define(Number::truth, a + " || " + b);
}
std::string Expressions::negation(const std::string& a) { return define(Number::truth, "!" + a); }

// ---- values ----------------------------------------------------------------------------------------------

Value Expressions::value(const Expr& expr) {
  if (!expr) throw Malformed{"an expression is missing"};
  for (const Scope& scope : scopes_)
    if (const auto found = scope.values.find(expr.get()); found != scope.values.end()) return found->second;
  Value result = evaluate(expr);
  scopes_.back().values.emplace(expr.get(), result);
  return result;
}

std::string Expressions::as(const Value& value, Number number) {
  if (value.number == number) return value.text;
  if (value.known) return number == Number::element ? fmt::format("(Int){}", value.text) : value.text;
  return fmt::format("({}){}", type_name(number), value.text);
}

std::string Expressions::uniform(const Expr& expr) {
  const Value result = value(expr);
  if (!expr->type.is_integer()) throw Malformed{"a bound is no integer"};
  return as(result, Number::whole);
}

std::string Expressions::condition(const Expr& expr) {
  if (!expr->type.is_bool()) throw Malformed{"a condition is no boolean"};
  return value(expr).text;
}

/// An absent condition is false.
Value Expressions::settled(Value value) {
  if (value.number == Number::truth && !value.present.empty()) value.text = both(value.text, value.present);
  return value;
}

namespace {

std::string literal_text(const tensor::Literal& literal, Number number) {
  if (const auto* truth = std::get_if<bool>(&literal.value)) return *truth ? "true" : "false";
  if (const auto* whole = std::get_if<std::int64_t>(&literal.value)) {
    if (number == Number::real) return fmt::format("{:#}f", static_cast<float>(*whole));
    if (*whole == INT64_MIN) return "(-9223372036854775807LL - 1)";
    return *whole < 0 ? fmt::format("({}LL)", *whole) : fmt::format("{}LL", *whole);
  }
  const auto real = static_cast<float>(std::get<double>(literal.value));
  if (std::isnan(real)) return "nan_f32()";
  if (std::isinf(real)) return real < 0 ? "(-infinity_f32())" : "infinity_f32()";
  // The shortest text that reads back as this number.
  const std::string text = fmt::format("{:#}f", real);
  return real < 0 || (real == 0 && std::signbit(real)) ? "(" + text + ")" : text;
}

Number number_of(const tensor::Type& type) {
  return type.is_float() ? Number::real : type.is_bool() ? Number::truth : Number::whole;
}

std::string_view storage_name(DType dtype) {
  switch (dtype) {
    case DType::f32: return "float";
    case DType::f16:
    case DType::bf16: return "u16";
    case DType::i64: return "i64";
    case DType::i32: return "int";
    case DType::i8: return "i8";
    default: return "u8";
  }
}

/// What a stored element is as a number.
std::string loaded(DType dtype, const std::string& bits) {
  switch (dtype) {
    case DType::f32:
    case DType::i64:
    case DType::i32:
    case DType::i8:
    case DType::u8: return bits;
    case DType::boolean: return bits + " != 0";
    default: return fmt::format("{}_to_f32({})", name(dtype), bits);
  }
}

}  // namespace

std::string Expressions::stored(DType dtype, const std::string& value) {
  switch (dtype) {
    case DType::f32:
    case DType::i64: return value;
    case DType::boolean: return fmt::format("(u8)({} ? 1 : 0)", value);
    case DType::i32:
    case DType::i8:
    case DType::u8: return fmt::format("({}){}", storage_name(dtype), value);
    default: return fmt::format("f32_to_{}({})", name(dtype), value);
  }
}

Value Expressions::scalar(const Sym& sym) {
  if (const auto let = lets_.find(sym); let != lets_.end()) return let->second;
  const std::size_t word = words_.scalar(sym);
  if (word == ParameterWords::npos) throw Malformed{"scalar `" + sym.text() + "` is not bound"};
  const DType dtype = kernel_.scalar_types[word - kernel_.dims.size()].dtype;
  if (is_float(dtype)) return {fmt::format("bits_to_float((u32)p.w[{}])", word), Number::real, {}, {}};
  if (is_bool(dtype)) return {fmt::format("(p.w[{}] != 0)", word), Number::truth, {}, {}};
  return {fmt::format("p.w[{}]", word), Number::whole, {}, {}};
}

Value Expressions::evaluate(const Expr& expr) {
  const auto inside = [&](const char* what) -> Value {
    throw Malformed{std::string(what) + " inside an expression of a loop nest"};
  };
  return match(
      expr->kind,
      [&](const tensor::Literal& literal) -> Value {
        const Number number = number_of(expr->type);
        Value out{literal_text(literal, number), number, {}, {}};
        if (number == Number::whole) out.known = std::get<std::int64_t>(literal.value);
        return out;
      },
      [&](const tensor::Index& index) -> Value {
        const auto bound = indices_.find(index.index);
        if (bound == indices_.end()) throw Malformed{"index `" + index.index.text() + "` is not bound"};
        return bound->second;
      },
      [&](const tensor::Dim& dim) -> Value {
        const std::size_t word = words_.dim(dim.dim);
        if (word == ParameterWords::npos) throw Malformed{"dim `" + dim.dim.text() + "` is not bound"};
        return {fmt::format("p.w[{}]", word), Number::whole, {}, {}};
      },
      [&](const tensor::Scalar& node) -> Value { return scalar(node.scalar); },
      [&](const tensor::Access& access) -> Value {
        if (const auto tile = tiles_.find(access.target); tile != tiles_.end())
          return settled(read_tile(access, *tile->second));
        const std::size_t buffer = words_.buffer(access.target);
        if (buffer == ParameterWords::npos) throw Malformed{"`" + access.target.text() + "` is not bound"};
        return settled(read_buffer(access, buffer));
      },
      [&](const tensor::Unary& node) -> Value { return unary(node, expr); },
      [&](const tensor::Chain& chain) -> Value {
        switch (chain.links[0]) {
          case LinkOp::add:
          case LinkOp::sub: return sum(chain, expr);
          case LinkOp::min:
          case LinkOp::max: return extremum(chain, expr);
          case LinkOp::both:
          case LinkOp::either: {
            std::vector<Value> args;
            for (const Expr& arg : chain.args) args.push_back(value(arg));
            return logical(args, chain.links[0] == LinkOp::both);
          }
          default: return product(chain, expr);
        }
      },
      [&](const tensor::Power& node) -> Value { return power(node, expr); },
      [&](const tensor::Compare& node) -> Value { return compare(node); },
      [&](const tensor::Select& node) -> Value {
        const Value choice = value(node.condition), then = value(node.then), otherwise = value(node.otherwise);
        const Number number = common({then, otherwise});
        Value out = defined(number, fmt::format("{} ? {} : {}", choice.text, as(then, number), as(otherwise, number)));
        if (!then.present.empty() || !otherwise.present.empty())
          out.present = define(Number::truth,
                               fmt::format("{} ? {} : {}", choice.text, then.present.empty() ? "true" : then.present,
                                           otherwise.present.empty() ? "true" : otherwise.present));
        out.present = both(choice.present, out.present);
        return settled(out);
      },
      [&](const tensor::Cast& node) -> Value { return cast(node, expr); },
      [&](const tensor::Random& node) -> Value { return random(node); },
      [&](const tensor::Reduce&) -> Value { return inside("a reduction"); },
      [&](const tensor::Softmax&) -> Value { return inside("a softmax"); },
      [&](const tensor::Cumsum&) -> Value { return inside("a cumsum"); },
      [&](const tensor::Where& node) -> Value {
        const Value choice = value(node.condition);
        Value body = value(node.body);
        body.present = both(choice.text, body.present);
        body.known.reset();
        return settled(body);
      });
}

/// The type in which integers of these operands meet: those of an element, where any is one.
Number Expressions::common(const std::vector<Value>& values) const {
  Number number = values[0].number;
  for (const Value& value : values)
    if (value.number == Number::element) number = Number::element;
  return number;
}

/// absent + x = x; the sum is absent where all of its terms are.
Value Expressions::sum(const tensor::Chain& chain, const Expr& expr) {
  const bool whole = expr->type.is_integer();
  std::vector<Value> args;
  for (const Expr& arg : chain.args) args.push_back(value(arg));
  const Number number = common(args);
  std::string text, present;
  for (std::size_t k = 0; k < args.size(); ++k) {
    present = k == 0 ? args[k].present : either(present, args[k].present);
    std::string term = as(args[k], number);
    if (!args[k].present.empty())
      term = define(number, fmt::format("{} ? {} : {}", args[k].present, term, whole ? "0" : "0.0f"));
    const bool minus = k > 0 && chain.links[k - 1] == LinkOp::sub;
    if (k == 0) {
      text = term;
    } else if (whole) {
      text = define(number, fmt::format("{}({}, {})", minus ? "wrap_sub" : "wrap_add", text, term));
    } else {
      text = define(number, fmt::format("{} {} {}", text, minus ? "-" : "+", term));
    }
  }
  return {text, number, present, {}};
}

bool Expressions::launch_constant(const Expr& expr) const {
  bool constant = true;
  tensor::walk(expr, [&](const Expr& e) {
    if (get_if<tensor::Index>(e) || get_if<tensor::Access>(e)) constant = false;
    if (const auto* node = get_if<tensor::Scalar>(e)) {
      const auto let = proofs_.lets.find(node->scalar);
      if (let != proofs_.lets.end() && !launch_constant(let->second)) constant = false;
    }
    return constant;
  });
  return constant;
}

/// Absent where any factor is, and where a divisor that depends on an index or on data is 0.
Value Expressions::product(const tensor::Chain& chain, const Expr& expr) {
  const bool whole = expr->type.is_integer();
  std::vector<Value> args;
  for (const Expr& arg : chain.args) args.push_back(value(arg));
  const Number number = common(args);
  Value total = args[0];
  total.text = as(total, number);
  total.number = number;
  total.known.reset();
  for (std::size_t k = 1; k < args.size(); ++k) total.present = both(total.present, args[k].present);
  for (std::size_t k = 0; k < chain.links.size(); ++k) {
    const Value& next = args[k + 1];
    const std::string factor = as(next, number);
    switch (chain.links[k]) {
      case LinkOp::mul:
        total.text = define(number, whole ? fmt::format("wrap_mul({}, {})", total.text, factor)
                                          : fmt::format("{} * {}", total.text, factor));
        break;
      case LinkOp::div: total.text = define(number, fmt::format("{} / {}", total.text, factor)); break;
      default:
        if (next.known ? *next.known == 0 : !launch_constant(chain.args[k + 1]))
          total.present = both(total.present, define(Number::truth, factor + " != 0"));
        total.text = define(number, fmt::format("{}({}, {})", chain.links[k] == LinkOp::mod ? "floor_mod" : "floor_div",
                                                total.text, factor));
    }
  }
  return total;
}

Value Expressions::extremum(const tensor::Chain& chain, const Expr& expr) {
  std::vector<Value> args;
  for (const Expr& arg : chain.args) args.push_back(value(arg));
  const Number number = common(args);
  const bool most = chain.links[0] == LinkOp::max, whole = expr->type.is_integer();
  Value total{as(args[0], number), number, args[0].present, {}};
  for (std::size_t k = 1; k < args.size(); ++k) {
    total.present = both(total.present, args[k].present);
    const std::string next = as(args[k], number);
    total.text = define(number, whole ? fmt::format("{0} {2} {1} ? {0} : {1}", total.text, next, most ? ">" : "<")
                                      : fmt::format("{}({}, {})", most ? "larger" : "smaller", total.text, next));
  }
  return total;
}

/// Absent operands are false, so a conjunction is decided where a present operand is false.
Value Expressions::logical(const std::vector<Value>& args, bool conjunction) {
  Value total = args[0];
  for (std::size_t k = 1; k < args.size(); ++k) {
    const Value& next = args[k];
    Value result = defined(Number::truth, fmt::format("{} {} {}", total.text, conjunction ? "&&" : "||", next.text));
    if (!total.present.empty() || !next.present.empty()) {
      const std::string a = total.present.empty() ? "true" : total.present,
                        b = next.present.empty() ? "true" : next.present;
      result.present = define(Number::truth, conjunction ? fmt::format("({0} && {1}) || ({0} && !{2}) || ({1} && !{3})",
                                                                       a, b, total.text, next.text)
                                                         : fmt::format("({} && {}) || {}", a, b, result.text));
    }
    total = settled(result);
  }
  return total;
}

Value Expressions::relation(Relation relation, const Value& a, const Value& b) {
  static const char* const signs[] = {"<", "<=", ">", ">=", "==", "!="};
  const Number number = common({a, b});
  return settled(defined(Number::truth,
                         fmt::format("{} {} {}", as(a, number), signs[static_cast<int>(relation)], as(b, number)),
                         both(a.present, b.present)));
}

Value Expressions::compare(const tensor::Compare& node) {
  std::vector<Value> relations;
  for (std::size_t k = 0; k < node.relations.size(); ++k)
    relations.push_back(relation(node.relations[k], value(node.args[k]), value(node.args[k + 1])));
  return logical(relations, true);
}

// ---- memory ----------------------------------------------------------------------------------------------

std::string Expressions::pointer(std::size_t buffer, bool writes) {
  const DType dtype = kernel_.buffers[buffer].dtype;
  return fmt::format("(({}{}*)p.w[{}])", writes ? "" : "const ", storage_name(dtype), words_.address(buffer));
}

std::string Expressions::offset(std::size_t buffer, const std::vector<Expr>& subscripts) {
  const loop::Buffer& of = kernel_.buffers[buffer];
  std::string total;
  for (std::size_t k = 0; k < subscripts.size(); ++k) {
    const Value subscript = value(subscripts[k]);
    if (subscript.known == 0) continue;
    std::string term = as(subscript, Number::whole);
    if (of.unit_axis != static_cast<std::int64_t>(k)) term += fmt::format(" * p.w[{}]", words_.stride(buffer, k));
    total += (total.empty() ? "" : " + ") + term;
  }
  return total.empty() ? "0" : total;
}

/// A condition that holds where the subscripts lie inside of the tensor; empty: everywhere.
std::string Expressions::inside(std::size_t buffer, const tensor::Access& access) {
  const loop::Buffer& of = kernel_.buffers[buffer];
  std::string valid;
  for (std::size_t k = 0; k < access.subscripts.size(); ++k) {
    const Value subscript = value(access.subscripts[k]);
    if (subscript.present.empty() && (kernel_.trusted || proofs_.in_range(access.subscripts[k], of.extents[k])))
      continue;
    // The extent as a size of the launch: what varies inside of it could not be a tensor's.
    valid = both(valid, define(Number::truth, fmt::format("(u64){} < (u64){}", as(subscript, Number::whole),
                                                          as(value(of.extents[k]), Number::whole))));
  }
  return valid;
}

Value Expressions::read_buffer(const tensor::Access& access, std::size_t buffer) {
  const loop::Buffer& of = kernel_.buffers[buffer];
  std::string valid = inside(buffer, access);
  for (const Expr& subscript : access.subscripts) valid = both(valid, value(subscript).present);
  const auto load = [&](std::size_t from, const std::string& where) {
    const std::string at = fmt::format("{}[{}]", pointer(from, false), offset(from, access.subscripts));
    if (where.empty()) return at;
    return fmt::format("{} ? {} : ({})0", where, at, storage_name(kernel_.buffers[from].dtype));
  };
  std::string present = valid;
  if (of.presence) {
    const std::size_t marks = words_.buffer(of.presence);
    if (marks == ParameterWords::npos) throw Malformed{"presence of `" + access.target.text() + "` is not stored"};
    const std::string there = define(Number::truth, "(" + load(marks, valid) + ") != 0");
    present = valid.empty() ? there : both(valid, there);
  }
  const Number number = is_float(of.dtype)       ? Number::real
                        : is_bool(of.dtype)      ? Number::truth
                        : of.dtype == DType::i64 ? Number::whole
                                                 : Number::element;
  return defined(number, loaded(of.dtype, "(" + load(buffer, valid) + ")"), present);
}

}  // namespace attune::cuda
