// SPDX-License-Identifier: Apache-2.0
// Blocks of statements: uniform control flow, names, and the grouping of element-wise statements into sweeps.
#include <algorithm>
#include <span>

#include "backend/cpu/emit.hpp"

namespace attune::cpu {

namespace {

/// Roughly how much code a statement becomes: one for a pass over a domain, two for what is more.
int weight(const loop::Stmt& stmt) {
  const bool large = std::holds_alternative<loop::Contract>(stmt.kind) ||
                     std::holds_alternative<loop::Store>(stmt.kind) || std::holds_alternative<loop::If>(stmt.kind);
  return large ? 2 : std::holds_alternative<loop::Let>(stmt.kind) ? 0 : 1;
}

int weight(const loop::Block& block) {
  int total = 0;
  for (const loop::Stmt& stmt : block) total += weight(stmt);
  return total;
}

/// Where the part that begins at statement `first` ends: with a contraction, or before one where there is enough
/// without it. The control flow around parts stays outside.
std::size_t part_end(const loop::Block& block, std::size_t first) {
  int total = 0;
  std::size_t k = first;
  for (; k < block.size(); ++k) {
    const loop::Stmt& stmt = block[k];
    const auto* branch = std::get_if<loop::If>(&stmt.kind);
    if (std::holds_alternative<loop::Let>(stmt.kind) || std::holds_alternative<loop::For>(stmt.kind) ||
        (branch && branch->otherwise.empty()))
      break;
    const bool contracts = std::holds_alternative<loop::Contract>(stmt.kind);
    if (contracts && total >= 3) break;
    total += weight(stmt);
    if (contracts) return k + 1;
  }
  return total >= 2 ? k : first;
}

}  // namespace

void Emitter::emit(const loop::Block& block) {
  if (inside_part_ || rare_) return emit(std::span<const loop::Stmt>(block));
  for (std::size_t k = 0; k < block.size();) {
    const std::size_t end = part_end(block, k);
    const std::span<const loop::Stmt> some(block.data() + k, std::max(end, k + 1) - k);
    if (end > k) {
      call_part([&](Emitter& part) { part.emit(some); });
      for (const Sym& memory : written(some)) wrote(memory);
    } else {
      emit(some);
    }
    k += some.size();
  }
}

void Emitter::emit(std::span<const loop::Stmt> block) {
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
  proofs_.lets[let.sym] = let.value;
}

void Emitter::emit(const loop::For& loop) {
  // A loop around one part goes into its function, which saves calls.
  const bool calls = !rare_ && !inside_part_ && weight(loop.body) >= 2;
  if (calls && part_end(loop.body, 0) == loop.body.size()) {
    call_part([&](Emitter& part) { part.emit_loop(loop); });
    for (const Sym& memory : written(loop.body)) wrote(memory);
    return;
  }
  emit_loop(loop);
}

void Emitter::emit_loop(const loop::For& loop) {
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
  const bool was_guarded = guarded_;
  for (const loop::Block* block : {&branch.then, &branch.otherwise}) {
    guarded_ = was_guarded || block == &branch.otherwise;
    sections_.push_back({});
    section().conditional = true;
    section().current = block == &branch.then ? then : otherwise;
    texts += section().current + ":\n";
    if (rare_ && !was_rare && !block->empty())
      call_part([&](Emitter& part) { part.emit(*block); });
    else
      emit(*block);
    texts += section().text + "  br label %" + end + "\n";
    pop_section();
  }
  rare_ = was_rare;
  guarded_ = was_guarded;
  for (const loop::Block* block : {&branch.then, &branch.otherwise})
    for (const Sym& memory : written(*block)) wrote(memory);
  effect("br i1 " + condition.s + ", label %" + then + ", label %" + otherwise);
  section().text += texts + end + ":\n";
  section().current = end;
}

/// Some statements as a function of their own, called here, so that modules can share the work. For rare ones LLVM
/// optimises nothing: that is most of its compile time.
void Emitter::call_part(const std::function<void(Emitter&)>& body_of) {
  std::string function = "nest" + std::to_string(number_);
  function += (rare_ ? "_rare" : "_part") + std::to_string(parts_.size());
  Emitter part(module_, nest_);
  part.begin();
  part.rare_ = rare_;
  part.inside_part_ = true;
  std::vector<std::pair<V, V>> passed;  // the parameter, and the value here
  const auto pass = [&](const V& v) {
    if (v.whole || v.real) return v;
    std::string name = "%a";
    name += std::to_string(passed.size());
    passed.push_back({{name, v.kind, v.width, 0, {}, {}}, v});
    return passed.back().first;
  };
  // In the order of their names here: the text must not depend on where symbols lie in memory.
  std::map<std::string, Sym> order;
  for (const auto& [sym, v] : indices_) order.emplace(v.s + ' ' + sym.text(), sym);
  for (const auto& [key, sym] : order) part.indices_[sym] = pass(indices_.at(sym));
  order.clear();
  for (const auto& [sym, value] : lets_) order.emplace(value.v.s + ' ' + sym.text(), sym);
  for (const auto& [key, sym] : order) {
    const Value& value = lets_.at(sym);
    Value inside{pass(value.v), {}};
    if (value.present) inside.present = pass(*value.present);
    part.lets_[sym] = inside;
  }
  part.proofs_.ranges = proofs_.ranges;
  part.proofs_.lets = proofs_.lets;
  body_of(part);
  const std::string body = part.finish("", "");
  std::string parameters, arguments;
  for (const auto& [inside, here] : passed) {
    if (find_name(body, inside.s) == std::string::npos) continue;  // names of closed scopes are among these
    parameters += ", " + inside.type() + " " + inside.s;
    arguments += ", " + here.type() + " " + here.s;
  }
  parts_.push_back({function, "(ptr noalias %frame, ptr noalias align 64 %scratch" + parameters + ")",
                    (rare_ ? " #1 {\nentry:\n" : " #0 {\nentry:\n") + std::string(locals) + body + "  ret void\n}\n"});
  for (Part& inner : part.parts_) parts_.push_back(std::move(inner));
  effect("call void @" + function + "(ptr %frame, ptr %scratch" + arguments + ")");
}

std::vector<Sym> Emitter::written(std::span<const loop::Stmt> block) const {
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
  proofs_.ranges[range.index] = range;
}

void Emitter::unbind(const loop::Range& range) {
  indices_.erase(range.index);
  proofs_.ranges.erase(range.index);
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
