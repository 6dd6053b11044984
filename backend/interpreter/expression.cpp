// SPDX-License-Identifier: Apache-2.0
// Expressions as closures. Absence, by-demand evaluation and the out-of-range flag follow language.md, rules 11 to 13.
#include "backend/interpreter/expression.hpp"

#include <array>
#include <limits>

#include "backend/binding.hpp"
#include "backend/interpreter/arithmetic.hpp"

namespace attune::interpreter {

using tensor::get_if;
using tensor::LinkOp;
using tensor::Relation;
using tensor::UnaryOp;

Compiler::Compiler(const loop::Kernel& kernel) {
  for (std::size_t k = 0; k < kernel.buffers.size(); ++k) buffers_.emplace(kernel.buffers[k].sym, static_cast<int>(k));
}

void Compiler::enter(const loop::Nest& nest) {
  tiles_.clear();
  for (std::size_t k = 0; k < nest.tiles.size(); ++k) tiles_.emplace(nest.tiles[k].sym, static_cast<int>(k));
}

int Compiler::slot(const Sym& sym) { return slots_.emplace(sym, static_cast<int>(slots_.size())).first->second; }

std::vector<Code> Compiler::compile(const std::vector<loop::Expr>& exprs) {
  std::vector<Code> codes;
  codes.reserve(exprs.size());
  for (const loop::Expr& expr : exprs) codes.push_back(compile(expr));
  return codes;
}

void note(Frame& frame, Misuse misuse, const Sym& target, std::vector<std::int64_t> subscripts) {
  frame.marks.misread = true;
  frame.misread = {misuse, target, std::move(subscripts)};
}

namespace {

Value poison(DType dtype) {
  if (is_float(dtype)) return of(std::numeric_limits<float>::quiet_NaN());
  if (is_integer(dtype)) return of(std::numeric_limits<std::int64_t>::max());
  return of(true);
}

/// What a read gives that loads nothing: an element beyond the lane limit may hold anything.
Value nothing(DType dtype) {
  if (is_float(dtype)) return of(0.0f);
  if (is_integer(dtype)) return of(std::int64_t{0});
  return of(false);
}

std::vector<std::int64_t> values(Frame& frame, const std::vector<Code>& subscripts) {
  std::vector<std::int64_t> list;
  for (const Code& subscript : subscripts) list.push_back(subscript(frame).word.whole);
  return list;
}

Code read_tile(int id, Sym sym, std::vector<Code> subscripts) {
  return [=, subscripts = std::move(subscripts)](Frame& frame) {
    TileMemory& tile = frame.tiles[static_cast<std::size_t>(id)];
    std::int64_t offset = 0;
    bool known = true, outside = false, unchecked = frame.padding;
    for (std::size_t k = 0; k < subscripts.size(); ++k) {
      const Value subscript = subscripts[k](frame);
      if (!subscript.present) {
        known = false;
        continue;
      }
      const std::int64_t at = wrap_sub(subscript.word.whole, tile.bases[k](frame).word.whole);
      outside = outside || at < 0 || at >= tile.extents[k];
      unchecked = unchecked || (static_cast<int>(k) == tile.lane_axis && subscript.word.whole >= frame.lane_limit);
      offset = wrap_add(wrap_mul(offset, tile.extents[k]), at);
    }
    if (!known) return absent();
    const DType dtype = tile.tile->dtype;
    if (outside) {
      if (unchecked) return nothing(dtype);
      note(frame, Misuse::outside, sym, values(frame, subscripts));
      return poison(dtype);
    }
    if (!tile.written[static_cast<std::size_t>(offset)] && !unchecked) {
      note(frame, Misuse::unwritten, sym, values(frame, subscripts));
      return poison(dtype);
    }
    Value value;
    value.word = tile.elements[static_cast<std::size_t>(offset)];
    value.present = true;
    return value;
  };
}

Value load(const BufferMemory& buffer, std::int64_t offset) {
  const DType dtype = buffer.buffer->dtype;
  if (is_float(dtype)) return of(static_cast<float>(load_element(buffer.data, dtype, offset)));
  const std::int64_t whole = load_integer(buffer.data, dtype, offset);
  return is_bool(dtype) ? of(whole != 0) : of(whole);
}

Code read_buffer(int id, Sym sym, std::vector<Code> subscripts) {
  return [=, subscripts = std::move(subscripts)](Frame& frame) {
    const BufferMemory& buffer = frame.buffers[static_cast<std::size_t>(id)];
    const DType dtype = buffer.buffer->dtype;
    if (frame.padding) return nothing(dtype);
    std::int64_t offset = 0, element = 0;
    bool known = true, outside = false;
    for (std::size_t k = 0; k < subscripts.size(); ++k) {
      const Value subscript = subscripts[k](frame);
      if (!subscript.present) {
        known = false;
        continue;
      }
      const std::int64_t at = subscript.word.whole, extent = buffer.extents[k];
      if (at < 0 || at >= extent) {
        outside = true;
        continue;
      }
      offset += at * buffer.strides[k];
      element = element * extent + at;
    }
    if (!known) return absent();
    if (outside) {
      if (frame.trusted) note(frame, Misuse::outside, sym, values(frame, subscripts));
      frame.marks.out_of_range = true;
      return absent();
    }
    if (!buffer.writers.empty()) {
      const std::uint32_t writer = buffer.writers[static_cast<std::size_t>(element)];
      const bool racing = writer >= frame.first_task && writer != frame.task;
      if (writer == 0 || racing) {
        note(frame, racing ? Misuse::other_task : Misuse::unwritten, sym, values(frame, subscripts));
        return poison(dtype);
      }
    }
    if (buffer.presence >= 0) {
      const BufferMemory& presence = frame.buffers[static_cast<std::size_t>(buffer.presence)];
      if (presence.storage[static_cast<std::size_t>(element)] == std::byte{0}) return absent();
    }
    return load(buffer, offset);
  };
}

Code unary(const tensor::Unary& node, Code operand, bool whole) {
  const UnaryOp op = node.op;
  if (op == UnaryOp::logical_not)
    return [operand = std::move(operand)](Frame& frame) {
      const Value x = operand(frame);
      return x.present ? of(!x.word.truth) : absent();
    };
  if (whole) {
    const bool negate = op == UnaryOp::negate;
    return [operand = std::move(operand), negate](Frame& frame) {
      const Value x = operand(frame);
      if (!x.present) return absent();
      return negate || x.word.whole < 0 ? of(wrap_sub(0, x.word.whole)) : x;
    };
  }
  return [operand = std::move(operand), op](Frame& frame) {
    const Value x = operand(frame);
    return x.present ? of(apply(op, x.word.real)) : absent();
  };
}

/// absent + x = x, absent - x = -x.
template <class Number>
Code sum(std::vector<LinkOp> links, std::vector<Code> args) {
  constexpr bool whole = std::is_same_v<Number, std::int64_t>;
  return [links = std::move(links), args = std::move(args)](Frame& frame) {
    Value total = args[0](frame);
    for (std::size_t k = 0; k < links.size(); ++k) {
      const Value next = args[k + 1](frame);
      if (!next.present) continue;
      const bool minus = links[k] == LinkOp::sub;
      if constexpr (whole) {
        const std::int64_t old = total.present ? total.word.whole : 0;
        total = of(minus ? wrap_sub(old, next.word.whole) : wrap_add(old, next.word.whole));
      } else if (!total.present) {
        total = of(minus ? -next.word.real : next.word.real);
      } else {
        total = of(minus ? total.word.real - next.word.real : total.word.real + next.word.real);
      }
    }
    return total;
  };
}

/// Evaluates the factors of a product. No factor counts beside an absent one, in either order: marks of present factors
/// vanish then, and marks of several absent ones stay only where each would make them alone.
bool evaluate_factors(Frame& frame, const std::vector<Code>& args, Value* out) {
  const Marks before = frame.marks;
  Marks any, all_absent{true, true};
  bool present = true;
  for (std::size_t k = 0; k < args.size(); ++k) {
    frame.marks = {};
    out[k] = args[k](frame);
    any.out_of_range |= frame.marks.out_of_range;
    any.misread |= frame.marks.misread;
    if (out[k].present) continue;
    present = false;
    all_absent.out_of_range &= frame.marks.out_of_range;
    all_absent.misread &= frame.marks.misread;
  }
  const Marks& made = present ? any : all_absent;
  frame.marks = {before.out_of_range || made.out_of_range, before.misread || made.misread};
  return present;
}

template <class Number>
Value combine(Frame& frame, LinkOp link, const Value& a, const Value& b) {
  if constexpr (std::is_same_v<Number, float>) {
    return of(link == LinkOp::mul ? a.word.real * b.word.real : a.word.real / b.word.real);
  } else {
    const std::int64_t x = a.word.whole, y = b.word.whole;
    if (link == LinkOp::mul) return of(wrap_mul(x, y));
    if (y == 0) {
      frame.marks.out_of_range |= !frame.padding;
      return absent();
    }
    return of(link == LinkOp::floordiv ? floor_div(x, y) : floor_mod(x, y));
  }
}

template <class Number>
Code product(std::vector<LinkOp> links, std::vector<Code> args) {
  return [links = std::move(links), args = std::move(args)](Frame& frame) {
    std::array<Value, 4> few;
    std::vector<Value> many(args.size() > few.size() ? args.size() : 0);
    Value* factors = many.empty() ? few.data() : many.data();
    if (!evaluate_factors(frame, args, factors)) return absent();
    Value result = factors[0];
    for (std::size_t k = 0; k < links.size() && result.present; ++k)
      result = combine<Number>(frame, links[k], result, factors[k + 1]);
    return result;
  };
}

Code extremum(bool whole, bool most, std::vector<Code> args) {
  return [=, args = std::move(args)](Frame& frame) {
    Value best = args[0](frame);
    bool present = best.present;
    for (std::size_t k = 1; k < args.size(); ++k) {
      const Value next = args[k](frame);
      present = present && next.present;
      if (!present) continue;
      if (whole)
        best = of(most ? std::max(best.word.whole, next.word.whole) : std::min(best.word.whole, next.word.whole));
      else
        best = of(most ? larger(best.word.real, next.word.real) : smaller(best.word.real, next.word.real));
    }
    return present ? best : absent();
  };
}

/// Kleene's and/or, from left to right as far as they decide.
Code logical(bool deciding, std::vector<Code> args) {
  return [=, args = std::move(args)](Frame& frame) {
    bool known = true;
    for (const Code& arg : args) {
      const Value value = arg(frame);
      if (!value.present)
        known = false;
      else if (value.word.truth == deciding)
        return of(deciding);
    }
    return known ? of(!deciding) : absent();
  };
}

template <class T>
bool holds(Relation relation, T a, T b) {
  switch (relation) {
    case Relation::less: return a < b;
    case Relation::less_equal: return a <= b;
    case Relation::greater: return a > b;
    case Relation::greater_equal: return a >= b;
    case Relation::equal: return a == b;
    case Relation::not_equal: return a != b;
  }
  return false;
}

bool holds(Relation relation, DType kind, const Value& a, const Value& b) {
  if (is_float(kind)) return holds(relation, a.word.real, b.word.real);
  if (is_integer(kind)) return holds(relation, a.word.whole, b.word.whole);
  return holds(relation, static_cast<int>(a.word.truth), static_cast<int>(b.word.truth));
}

float widen(const Value& value, DType from) {
  if (is_float(from)) return value.word.real;
  if (is_bool(from)) return value.word.truth ? 1.0f : 0.0f;
  return static_cast<float>(value.word.whole);
}

}  // namespace

Code Compiler::access(const tensor::Access& access) {
  std::vector<Code> subscripts = compile(access.subscripts);
  if (const auto found = tiles_.find(access.target); found != tiles_.end())
    return read_tile(found->second, access.target, std::move(subscripts));
  return read_buffer(buffers_.at(access.target), access.target, std::move(subscripts));
}

Code Compiler::chain(const tensor::Chain& chain, bool whole) {
  std::vector<Code> args = compile(chain.args);
  switch (chain.links[0]) {
    case LinkOp::add:
    case LinkOp::sub:
      return whole ? sum<std::int64_t>(chain.links, std::move(args)) : sum<float>(chain.links, std::move(args));
    case LinkOp::mul:
    case LinkOp::div:
    case LinkOp::floordiv:
    case LinkOp::mod:
      return whole ? product<std::int64_t>(chain.links, std::move(args)) : product<float>(chain.links, std::move(args));
    case LinkOp::min:
    case LinkOp::max: return extremum(whole, chain.links[0] == LinkOp::max, std::move(args));
    case LinkOp::both: return logical(false, std::move(args));
    case LinkOp::either: return logical(true, std::move(args));
  }
  return {};
}

Code Compiler::compare(const tensor::Compare& compare) {
  const DType kind = compare.args[0]->type.dtype;
  return [kind, relations = compare.relations, args = compile(compare.args)](Frame& frame) {
    bool known = true;
    Value left = args[0](frame);
    for (std::size_t k = 0; k < relations.size(); ++k) {
      const Value right = args[k + 1](frame);
      if (!left.present || !right.present)
        known = false;
      else if (!holds(relations[k], kind, left, right))
        return of(false);
      left = right;
    }
    return known ? of(true) : absent();
  };
}

Code Compiler::cast(const loop::Expr& expr, const tensor::Cast& cast) {
  const DType from = cast.operand->type.dtype, to = expr->type.dtype;
  Code operand = compile(cast.operand);
  if (is_bool(to)) return operand;
  return [=, operand = std::move(operand)](Frame& frame) {
    const Value x = operand(frame);
    if (!x.present) return absent();
    if (is_float(to)) {
      const float wide = widen(x, from);
      return of(to == DType::f32 ? wide : static_cast<float>(round_to(to, wide)));
    }
    if (is_bool(from)) return of(static_cast<std::int64_t>(x.word.truth));
    if (is_integer(from)) return of(narrow(to, x.word.whole));
    const auto whole = truncate(to, x.word.real);
    return whole ? of(*whole) : absent();
  };
}

Code Compiler::compile(const loop::Expr& expr) {
  const bool whole = expr->type.is_integer();
  return match(
      expr->kind,
      [&](const tensor::Literal& literal) -> Code {
        Value value = absent();
        if (const auto* integer = std::get_if<std::int64_t>(&literal.value)) value = of(*integer);
        if (const auto* real = std::get_if<double>(&literal.value)) value = of(static_cast<float>(*real));
        if (const auto* truth = std::get_if<bool>(&literal.value)) value = of(*truth);
        return [value](Frame&) { return value; };
      },
      [&](const tensor::Index& index) -> Code {
        return [at = static_cast<std::size_t>(slot(index.index))](Frame& frame) { return frame.slots[at]; };
      },
      [&](const tensor::Dim& dim) -> Code {
        return [at = static_cast<std::size_t>(slot(dim.dim))](Frame& frame) { return frame.slots[at]; };
      },
      [&](const tensor::Scalar& scalar) -> Code {
        return [at = static_cast<std::size_t>(slot(scalar.scalar))](Frame& frame) { return frame.slots[at]; };
      },
      [&](const tensor::Access& node) -> Code { return access(node); },
      [&](const tensor::Unary& node) -> Code { return unary(node, compile(node.operand), whole); },
      [&](const tensor::Chain& node) -> Code { return chain(node, whole); },
      [&](const tensor::Power& node) -> Code {
        const bool exponent_whole = node.exponent->type.is_integer();
        return [=, base = compile(node.base), exponent = compile(node.exponent)](Frame& frame) {
          const Value x = base(frame), y = exponent(frame);
          if (!x.present || !y.present) return absent();
          if (whole) return of(wrap_power(x.word.whole, y.word.whole));
          return of(power(x.word.real, exponent_whole ? static_cast<float>(y.word.whole) : y.word.real));
        };
      },
      [&](const tensor::Compare& node) -> Code { return compare(node); },
      [&](const tensor::Select& node) -> Code {
        return [condition = compile(node.condition), then = compile(node.then),
                otherwise = compile(node.otherwise)](Frame& frame) {
          const Value choice = condition(frame);
          if (!choice.present) return absent();
          return choice.word.truth ? then(frame) : otherwise(frame);
        };
      },
      [&](const tensor::Cast& node) -> Code { return cast(expr, node); },
      [&](const tensor::Random& node) -> Code {
        return [seed = compile(node.seed), coordinates = compile(node.coordinates)](Frame& frame) {
          const Value key = seed(frame);
          bool present = key.present;
          std::array<std::int64_t, 4> at{};
          for (std::size_t k = 0; k < coordinates.size(); ++k) {
            const Value value = coordinates[k](frame);
            present = present && value.present;
            at[k] = value.word.whole;
          }
          return present ? of(random(key.word.whole, at.data(), coordinates.size())) : absent();
        };
      },
      [&](const tensor::Where& node) -> Code {
        return [condition = compile(node.condition), body = compile(node.body)](Frame& frame) {
          const Value choice = condition(frame);
          return choice.present && choice.word.truth ? body(frame) : absent();
        };
      },
      // verify() has ruled these out.
      [&](const tensor::Reduce&) -> Code { throw Fault{"a reduction inside an expression"}; },
      [&](const tensor::Softmax&) -> Code { throw Fault{"a softmax inside an expression"}; },
      [&](const tensor::Cumsum&) -> Code { throw Fault{"a cumsum inside an expression"}; });
}

}  // namespace attune::interpreter
