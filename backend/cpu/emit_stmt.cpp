// SPDX-License-Identifier: Apache-2.0
// Blocks of statements: uniform control flow, names, and the grouping of element-wise statements into sweeps.
#include <algorithm>

#include "backend/cpu/emit.hpp"

namespace attune::cpu {

void Emitter::emit(const loop::Block& block) {
  for (std::size_t k = 0; k < block.size();) {
    const loop::Stmt& stmt = block[k++];
    enter_uniform();
    try {
      if (std::holds_alternative<loop::Map>(stmt.kind) || std::holds_alternative<loop::Accumulate>(stmt.kind)) {
        Sweep sweep = sweep_of(stmt);
        while (k < block.size() && join(sweep, block[k])) ++k;
        emit(sweep);
      } else {
        std::visit(
            [&](const auto& kind) {
              using K = std::decay_t<decltype(kind)>;
              if constexpr (!std::is_same_v<K, loop::Map> && !std::is_same_v<K, loop::Accumulate>) emit(kind);
            },
            stmt.kind);
      }
    } catch (Malformed& malformed) {
      if (malformed.span == Span{}) malformed.span = stmt.span;
      throw;
    }
  }
}

void Emitter::emit(const loop::Let& let) {
  raise(Expr{}, let.value);
  const Value result = value(let.value);
  if (result.v.width != 1) throw Malformed{"a let that varies along the vector", let.value->span};
  lets_[let.sym] = result;
  let_exprs_[let.sym] = let.value;
}

void Emitter::emit(const loop::For& loop) {
  std::vector<V> none;
  const V lo = uniform(loop.lo), hi = uniform(loop.hi), step = uniform(loop.step);
  const V index = open_loop(lo, hi, step, none, written(loop.body));
  const loop::Range range{loop.index, loop.lo, loop.hi};
  bind(range, index);
  emit(loop.body);
  unbind(range);
  close_loop({});
}

void Emitter::emit(const loop::If& branch) {
  raise(Expr{}, branch.condition);
  const V condition = value(branch.condition).v;
  if (condition.width != 1) throw Malformed{"a condition that varies along the vector", branch.condition->span};
  const std::string then = fresh_label("then"), otherwise = fresh_label("else"), end = fresh_label("end");
  std::string texts;
  // A condition on what the task computed is the way out of an exception, not a class of tiles.
  const bool was_rare = rare_;
  tensor::walk(branch.condition, [&](const Expr& e) {
    if (const auto* access = tensor::get_if<tensor::Access>(e)) rare_ = rare_ || tiles_.count(access->target) != 0;
    return !rare_;
  });
  for (const loop::Block* block : {&branch.then, &branch.otherwise}) {
    sections_.push_back({});
    section().conditional = true;
    section().current = block == &branch.then ? then : otherwise;
    texts += section().current + ":\n";
    emit(*block);
    texts += section().text + "  br label %" + end + "\n";
    pop_section();
  }
  rare_ = was_rare;
  for (const loop::Block* block : {&branch.then, &branch.otherwise})
    for (const Sym& memory : written(*block)) wrote(memory);
  effect("br i1 " + condition.s + ", label %" + then + ", label %" + otherwise);
  section().text += texts + end + ":\n";
  section().current = end;
}

std::vector<Sym> Emitter::written(const loop::Block& block) const {
  std::vector<Sym> found;
  const auto nested = [&](const loop::Block& inner) {
    const std::vector<Sym> more = written(inner);
    found.insert(found.end(), more.begin(), more.end());
  };
  for (const loop::Stmt& stmt : block)
    match(
        stmt.kind, [&](const loop::Map& map) { found.push_back(map.dst); },
        [&](const loop::Accumulate& accumulate) {
          found.push_back(accumulate.dst);
          if (accumulate.dst_index) found.push_back(accumulate.dst_index);
        },
        [&](const loop::Contract& contract) { found.push_back(contract.dst); },
        [&](const loop::Store& store) {
          found.push_back(store.target);
          const loop::Buffer* buffer = kernel_.find_buffer(store.target);
          if (buffer && buffer->presence) found.push_back(buffer->presence);
        },
        [](const loop::Let&) {}, [&](const loop::For& loop) { nested(loop.body); },
        [&](const loop::If& branch) {
          nested(branch.then);
          nested(branch.otherwise);
        });
  return found;
}

void Emitter::bind(const loop::Range& range, const V& value) {
  indices_[range.index] = value;
  ranges_[range.index] = range;
}

void Emitter::unbind(const loop::Range& range) {
  indices_.erase(range.index);
  ranges_.erase(range.index);
}

V Emitter::open_range(const loop::Range& range, std::vector<V>& carried, const std::vector<Sym>& writes) {
  const V index = open_loop(uniform(range.lo), uniform(range.hi), integer(1), carried, writes);
  bind(range, index);
  return index;
}

V Emitter::blocked_end(const V& lo, const V& hi, int count) {
  const V length = maximum(sub(hi, lo), integer(0));
  if (length.whole) return add(lo, integer(*length.whole - *length.whole % count));
  if ((count & (count - 1)) == 0) return add(lo, binary("and", length, integer(-count)));
  return add(lo, mul(binary("udiv", length, integer(count)), integer(count)));
}

const loop::Range* Emitter::lane_range(const std::vector<loop::Range>& domain) const {
  if (!nest_.lane) return nullptr;
  for (const loop::Range& range : domain)
    if (range.index == nest_.lane) return &range;
  return nullptr;
}

}  // namespace attune::cpu
