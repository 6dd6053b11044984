// SPDX-License-Identifier: Apache-2.0
// Statements as closures, exactly as the comments of the loop IR give their meaning.
#include "backend/interpreter/statement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/binding.hpp"
#include "backend/interpreter/arithmetic.hpp"
#include "backend/interpreter/contract.hpp"
#include "loop/print.hpp"

namespace attune::interpreter {

void fail(const Site& site, const std::string& problem) {
  std::string text = fmt::format("nest `{}`", site.nest->name);
  if (site.stmt)
    text += fmt::format(", statement `{}`", print(*site.stmt, loop::Names(*site.kernel, *site.nest)));
  else
    text += std::string(", ") + site.what;
  throw Fault{text + ": " + problem};
}

namespace {

std::string list(const std::vector<std::int64_t>& subscripts) {
  std::string out;
  for (const std::int64_t subscript : subscripts) out += fmt::format("{}{}", out.empty() ? "" : ", ", subscript);
  return out;
}

}  // namespace

void check(Frame& frame, const Site& site) {
  if (!frame.marks.misread) return;
  const Misread& misread = frame.misread;
  const bool tile = site.kernel->find_buffer(misread.target) == nullptr;
  const std::string element = fmt::format("element [{}] of {} `{}`", list(misread.subscripts), tile ? "tile" : "buffer",
                                          loop::Names(*site.kernel, *site.nest).of(misread.target));
  switch (misread.misuse) {
    case Misuse::unwritten: fail(site, "reads " + element + ", which nothing wrote");
    case Misuse::outside: fail(site, "reads " + element + ", which lies outside");
    case Misuse::other_task: fail(site, "reads " + element + ", which another task of the nest stores");
  }
}

std::int64_t whole(Frame& frame, const Code& code, const Site& site) {
  const Value value = code(frame);
  check(frame, site);
  if (!value.present) fail(site, "a bound is absent");
  return value.word.whole;
}

Destination::Destination(const Sym& sym, const loop::Nest& nest, Compiler& compiler)
    : tile(static_cast<std::size_t>(compiler.tile(sym))) {
  for (const loop::TileAxis& axis : nest.tiles[tile].axes)
    slots.push_back(static_cast<std::size_t>(compiler.slot(axis.index)));
}

std::size_t Destination::element(Frame& frame, const Site& site) const {
  const TileMemory& memory = frame.tiles[tile];
  std::int64_t offset = 0;
  for (std::size_t k = 0; k < slots.size(); ++k) {
    const std::int64_t at = wrap_sub(frame.slots[slots[k]].word.whole, memory.bases[k](frame).word.whole);
    if (at < 0 || at >= memory.extents[k]) {
      std::vector<std::int64_t> subscripts;
      for (const std::size_t slot : slots) subscripts.push_back(frame.slots[slot].word.whole);
      fail(site, fmt::format("writes element [{}] of tile `{}`, which lies outside", list(subscripts),
                             loop::Names(*site.kernel, *site.nest).of(memory.tile->sym)));
    }
    offset = offset * memory.extents[k] + at;
  }
  return static_cast<std::size_t>(offset);
}

Value Destination::read(Frame& frame, std::size_t element) const {
  const TileMemory& memory = frame.tiles[tile];
  if (!memory.written[element] && !frame.padding) {
    std::vector<std::int64_t> subscripts;
    for (const std::size_t slot : slots) subscripts.push_back(frame.slots[slot].word.whole);
    note(frame, Misuse::unwritten, memory.tile->sym, std::move(subscripts));
  }
  Value value;
  value.word = memory.elements[element];
  value.present = true;
  return value;
}

void Destination::write(Frame& frame, std::size_t element, const Value& value) const {
  TileMemory& memory = frame.tiles[tile];
  memory.elements[element] = value.word;
  memory.written[element] = 1;
}

namespace {

Value combine(loop::Op op, bool is_whole, const Value& old, const Value& value) {
  using loop::Op;
  const float x = old.word.real, y = value.word.real;
  const std::int64_t i = old.word.whole, j = value.word.whole;
  switch (op) {
    case Op::sum: return is_whole ? of(wrap_add(i, j)) : of(x + y);
    case Op::prod: return is_whole ? of(wrap_mul(i, j)) : of(x * y);
    case Op::max: return is_whole ? of(std::max(i, j)) : of(larger(x, y));
    case Op::min: return is_whole ? of(std::min(i, j)) : of(smaller(x, y));
    case Op::max_any: return of(y > x ? y : x);
    case Op::any: return of(old.word.truth || value.word.truth);
    case Op::all: return of(old.word.truth && value.word.truth);
    case Op::argmax: break;
  }
  return old;
}

/// Whether a candidate of argmax replaces the old best. An old best at index -1 with the smallest value is nobody's.
bool better(bool is_whole, const Value& value, const Value& old, const Value& old_index) {
  const bool fresh = old_index.word.whole == -1;
  if (is_whole)
    return value.word.whole > old.word.whole || (fresh && old.word.whole == std::numeric_limits<std::int64_t>::min());
  const float x = value.word.real, y = old.word.real;
  if (std::isnan(y)) return false;
  return std::isnan(x) || x > y || (fresh && y == -std::numeric_limits<float>::infinity());
}

class BlockCompiler {
 public:
  BlockCompiler(const loop::Kernel& kernel, const loop::Nest& nest, Compiler& compiler)
      : kernel_(kernel), nest_(nest), compiler_(compiler) {}

  std::vector<Action> compile(const loop::Block& block) {
    std::vector<Action> actions;
    for (const loop::Stmt& stmt : block) {
      const Site site{&kernel_, &nest_, &stmt, ""};
      actions.push_back(std::visit([&](const auto& kind) { return action(kind, site); }, stmt.kind));
    }
    return actions;
  }

 private:
  Code code(const loop::Expr& expr) { return expr ? compiler_.compile(expr) : Code{}; }
  Domain domain(const std::vector<loop::Range>& ranges) { return interpreter::compile(ranges, nest_, compiler_); }
  Destination destination(const Sym& sym) { return {sym, nest_, compiler_}; }

  Action action(const loop::Map& map, const Site& site) {
    return [site, dst = destination(map.dst), domain = domain(map.domain), value = code(map.value),
            guard = code(map.guard), fill = code(map.fill)](Frame& frame) {
      for_each_element(frame, domain, evaluate(frame, domain, site), [&] {
        Value result = absent();
        bool kept = true;
        if (guard) {
          const Value choice = guard(frame);
          kept = choice.present && choice.word.truth;
        }
        if (kept) result = value(frame);
        if (!result.present && fill) {
          result = fill(frame);
          if (!result.present && !frame.padding) {
            check(frame, site);
            fail(site, "the fill is absent");
          }
        }
        check(frame, site);
        const std::size_t element = dst.element(frame, site);
        if (result.present) dst.write(frame, element, result);
      });
    };
  }

  Action action(const loop::Accumulate& accumulate, const Site& site) {
    const bool is_whole = accumulate.value->type.is_integer();
    const bool best = accumulate.op == loop::Op::argmax;
    bool crosses = false;  // a reduction over the rows themselves must leave padding out
    for (const loop::Range& range : accumulate.over) crosses = crosses || range.index == padded_index(nest_);
    const std::size_t place = best ? static_cast<std::size_t>(compiler_.slot(accumulate.over[0].index)) : 0;
    return
        [=, op = accumulate.op, dst = destination(accumulate.dst),
         dst_index = best ? destination(accumulate.dst_index) : Destination{}, domain = domain(accumulate.domain),
         over = domain(accumulate.over), value = code(accumulate.value), guard = code(accumulate.guard)](Frame& frame) {
          const std::vector<Bounds> bounds = evaluate(frame, domain, site);
          const std::vector<Bounds> inner = evaluate(frame, over, site);
          for_each_element(frame, domain, bounds, [&] {
            const std::size_t element = dst.element(frame, site);
            const std::size_t index_element = best ? dst_index.element(frame, site) : 0;
            Value total = dst.read(frame, element);
            Value index = best ? dst_index.read(frame, index_element) : absent();
            check(frame, site);
            for_each_element(frame, over, inner, [&] {
              if (crosses && frame.padding) fail(site, "reduces over rows at or beyond the lane limit");
              if (guard) {
                const Value choice = guard(frame);
                check(frame, site);
                if (!choice.present || !choice.word.truth) return;
              }
              const Value next = value(frame);
              check(frame, site);
              if (!next.present) return;
              if (!best) {
                total = combine(op, is_whole, total, next);
              } else if (better(is_whole, next, total, index)) {
                total = next;
                index = frame.slots[place];
              }
            });
            dst.write(frame, element, total);
            if (best) dst_index.write(frame, index_element, index);
          });
        };
  }

  Action action(const loop::Contract& contract, const Site& site) {
    return interpreter::compile(contract, destination(contract.dst), site, compiler_);
  }

  Action action(const loop::Store& store, const Site& site) {
    std::vector<Code> subscripts;
    for (const loop::Expr& subscript : store.subscripts) subscripts.push_back(code(subscript));
    return [site, id = static_cast<std::size_t>(compiler_.buffer(store.target)), domain = domain(store.domain),
            subscripts = std::move(subscripts), value = code(store.value)](Frame& frame) {
      for_each_element(frame, domain, evaluate(frame, domain, site), [&] {
        if (!frame.padding) put(frame, id, subscripts, value, site);
      });
    };
  }

  static void put(Frame& frame, std::size_t id, const std::vector<Code>& subscripts, const Code& code,
                  const Site& site) {
    BufferMemory& buffer = frame.buffers[id];
    std::int64_t offset = 0, element = 0;
    std::vector<std::int64_t> place;
    for (std::size_t k = 0; k < subscripts.size(); ++k) {
      const Value subscript = subscripts[k](frame);
      check(frame, site);
      if (!subscript.present) fail(site, fmt::format("subscript {} is absent", k));
      place.push_back(subscript.word.whole);
    }
    for (std::size_t k = 0; k < place.size(); ++k) {
      if (place[k] < 0 || place[k] >= buffer.extents[k])
        fail(site, fmt::format("stores element [{}], where axis {} has extent {}", list(place), k, buffer.extents[k]));
      offset += place[k] * buffer.strides[k];
      element = element * buffer.extents[k] + place[k];
    }
    const Value value = code(frame);
    check(frame, site);
    const auto claim = [&](BufferMemory& memory) {
      std::uint32_t& writer = memory.writers[static_cast<std::size_t>(element)];
      if (writer >= frame.first_task && writer != frame.task)
        fail(site, fmt::format("stores element [{}], which another task of the nest stores too", list(place)));
      writer = frame.task;
    };
    claim(buffer);
    const DType dtype = buffer.buffer->dtype;
    const Word word = value.present ? value.word : Word{};
    if (is_float(dtype))
      store_element(buffer.data, dtype, offset, value.present ? word.real : 0.0f);
    else
      store_integer(buffer.data, dtype, offset,
                    !value.present   ? 0
                    : is_bool(dtype) ? static_cast<std::int64_t>(word.truth)
                                     : word.whole);
    if (buffer.presence < 0) return;
    BufferMemory& presence = frame.buffers[static_cast<std::size_t>(buffer.presence)];
    claim(presence);
    presence.storage[static_cast<std::size_t>(element)] = std::byte{value.present};
  }

  Action action(const loop::Let& let, const Site& site) {
    return [site, slot = static_cast<std::size_t>(compiler_.slot(let.sym)), value = code(let.value)](Frame& frame) {
      const Value result = value(frame);
      check(frame, site);
      frame.slots[slot] = result;
    };
  }

  Action action(const loop::For& loop, const Site& site) {
    return [site, slot = static_cast<std::size_t>(compiler_.slot(loop.index)), lo = code(loop.lo), hi = code(loop.hi),
            step = code(loop.step), body = compile(loop.body)](Frame& frame) {
      const std::int64_t first = whole(frame, lo, site), end = whole(frame, hi, site),
                         stride = whole(frame, step, site);
      if (stride < 1) fail(site, fmt::format("the step is {}", stride));
      for (std::int64_t index = first; index < end;) {
        frame.slots[slot] = of(index);
        for (const Action& action : body) action(frame);
        if (__builtin_add_overflow(index, stride, &index)) break;
      }
    };
  }

  Action action(const loop::If& branch, const Site& site) {
    return [site, condition = code(branch.condition), then = compile(branch.then),
            otherwise = compile(branch.otherwise)](Frame& frame) {
      const Value choice = condition(frame);
      check(frame, site);
      for (const Action& action : choice.present&& choice.word.truth ? then : otherwise) action(frame);
    };
  }

  const loop::Kernel& kernel_;
  const loop::Nest& nest_;
  Compiler& compiler_;
};

}  // namespace

std::vector<Action> compile(const loop::Kernel& kernel, const loop::Nest& nest, const loop::Block& block,
                            Compiler& compiler) {
  return BlockCompiler(kernel, nest, compiler).compile(block);
}

}  // namespace attune::interpreter
