// SPDX-License-Identifier: Apache-2.0
// Instructions, sections and loops of the emitter: every instruction stands once, in the outermost section that has its
// operands, because no optimiser runs after this.
#include <algorithm>
#include <cctype>
#include <limits>

#include "backend/cpu/emit.hpp"

namespace attune::cpu {

int bits_of(Kind kind) {
  switch (kind) {
    case Kind::f32:
    case Kind::i32: return 32;
    case Kind::i64:
    case Kind::pointer: return 64;
    case Kind::i16: return 16;
    case Kind::i8: return 8;
    case Kind::i1: return 1;
  }
  return 0;
}

std::string_view element_type(Kind kind) {
  switch (kind) {
    case Kind::f32: return "float";
    case Kind::i64: return "i64";
    case Kind::i32: return "i32";
    case Kind::i16: return "i16";
    case Kind::i8: return "i8";
    case Kind::i1: return "i1";
    case Kind::pointer: return "ptr";
  }
  return "";
}

// ---- constants -------------------------------------------------------------------------------------

V Emitter::integer(std::int64_t value) const { return {std::to_string(value), Kind::i64, 1, 0, value, {}}; }
V Emitter::real(float value) const { return {constant(value, 1), Kind::f32, 1, 0, {}, value}; }
V Emitter::truth(bool value) const { return {value ? "true" : "false", Kind::i1, 1, 0, value ? 1 : 0, {}}; }

V Emitter::iota(int width) {
  std::string text = "<";
  for (int k = 0; k < width; ++k)
    text += (k ? ", " : "") + std::string(element_type(vector_integer_)) + " " + std::to_string(k);
  return {text + ">", vector_integer_, width, 0, {}, {}};
}

// ---- instructions ------------------------------------------------------------------------------------

V Emitter::define(const std::string& text, Kind kind, int width, int level) {
  // Without mask registers a vector of bits costs a conversion wherever it crosses a block: make it where it is used.
  if (kind == Kind::i1 && width > 1 && !mask_registers_) level = top();
  Section& place = sections_[static_cast<std::size_t>(level)];
  auto [found, is_new] = place.known.try_emplace(text);
  if (is_new) {
    found->second = writer_.fresh();
    place.text.append("  ").append(found->second).append(" = ").append(text).push_back('\n');
  }
  return {found->second, kind, width, level, {}, {}};
}

V Emitter::define_block(const std::string& key, Kind kind, int width, int level,
                        const std::function<std::string(Writer&)>& write) {
  Section& place = sections_[static_cast<std::size_t>(level)];
  if (const auto found = place.known.find(key); found != place.known.end())
    return {found->second, kind, width, level, {}, {}};
  writer_.text().clear();
  const std::string name = write(writer_);
  place.text += writer_.text();
  writer_.text().clear();
  place.known.emplace(key, name);
  return {name, kind, width, level, {}, {}};
}

V Emitter::splat(const V& scalar, int width) {
  if (scalar.width == width) return scalar;
  if (scalar.real) return {constant(*scalar.real, width), Kind::f32, width, 0, {}, {}};
  if (scalar.kind == Kind::i1) {
    if (scalar.whole) {
      std::string text = "<";
      for (int k = 0; k < width; ++k) text += std::string(k ? ", " : "") + "i1 " + scalar.s;
      return {text + ">", Kind::i1, width, 0, {}, {}};
    }
    V wide = define("sext i1 " + scalar.s + " to i32", Kind::i32, 1, scalar.level);
    return compare("icmp slt", splat(wide, width), {"zeroinitializer", Kind::i32, width, 0, {}, {}});
  }
  if (scalar.whole) return {constant(*scalar.whole, bits_of(scalar.kind), width), scalar.kind, width, 0, {}, {}};
  const std::string type = type_text(scalar.kind, width);
  V first = define("insertelement " + type + " poison, " + scalar.type() + " " + scalar.s + ", i64 0", scalar.kind,
                   width, scalar.level);
  return define("shufflevector " + type + " " + first.s + ", " + type + " poison, <" + std::to_string(width) +
                    " x i32> zeroinitializer",
                scalar.kind, width, scalar.level);
}

V Emitter::spread(const V& value, int width) {
  if (value.width == width) return value;
  if (value.kind == Kind::i64 && vector_integer_ == Kind::i32) {
    if (value.whole) return {constant(*value.whole, 32, width), Kind::i32, width, 0, {}, {}};
    return splat(define("trunc i64 " + value.s + " to i32", Kind::i32, 1, value.level), width);
  }
  return splat(value, width);
}

void Emitter::unify(V& a, V& b) {
  const int width = std::max(a.width, b.width);
  a = spread(a, width);
  b = spread(b, width);
}

V Emitter::binary(std::string_view op, V a, V b) {
  unify(a, b);
  return define(std::string(op) + " " + a.type() + " " + a.s + ", " + b.s, a.kind, a.width, std::max(a.level, b.level));
}

V Emitter::call(const std::string& function, Kind kind, int width, const std::vector<V>& args) {
  std::string text = "call " + type_text(kind, width) + " @" + function + "(", types;
  int level = 0;
  for (std::size_t k = 0; k < args.size(); ++k) {
    text += (k ? ", " : "") + args[k].type() + " " + args[k].s;
    types += (k ? ", " : "") + args[k].type();
    level = std::max(level, args[k].level);
  }
  module_.declare("declare " + type_text(kind, width) + " @" + function + "(" + types + ")");
  return define(text + ")", kind, width, level);
}

namespace {
std::int64_t wrap(std::uint64_t value) { return static_cast<std::int64_t>(value); }
std::uint64_t bits(std::int64_t value) { return static_cast<std::uint64_t>(value); }
}  // namespace

V Emitter::add(const V& a, const V& b) {
  if (a.whole && b.whole) return integer(wrap(bits(*a.whole) + bits(*b.whole)));
  if (a.whole == 0 && b.width >= a.width) return b;
  if (b.whole == 0 && a.width >= b.width) return a;
  return binary("add", a, b);
}

V Emitter::sub(const V& a, const V& b) {
  if (a.whole && b.whole) return integer(wrap(bits(*a.whole) - bits(*b.whole)));
  if (b.whole == 0 && a.width >= b.width) return a;
  if (a.s == b.s && a.width == 1 && b.width == 1) return integer(0);
  return binary("sub", a, b);
}

V Emitter::mul(const V& a, const V& b) {
  if (a.whole && b.whole) return integer(wrap(bits(*a.whole) * bits(*b.whole)));
  if (a.whole == 0 && b.width == 1) return a;
  if (b.whole == 0 && a.width == 1) return b;
  if (a.whole == 1 && b.width >= a.width) return b;
  if (b.whole == 1 && a.width >= b.width) return a;
  if (const std::optional<V> moving = multiple(a, b)) return *moving;
  if (const std::optional<V> moving = multiple(b, a)) return *moving;
  return binary("mul", a, b);
}

/// A literal multiple of the counter of an open loop: it moves along with the counter instead of being computed.
std::optional<V> Emitter::multiple(const V& counter, const V& factor) {
  if (!factor.whole || counter.width != 1 || counter.whole) return std::nullopt;
  for (Loop& loop : loops_) {
    if (loop.iv != counter.s) continue;
    for (const auto& [known, name] : loop.multiples)
      if (known == *factor.whole) return V{name, Kind::i64, 1, loop.level, {}, {}};
    loop.multiples.emplace_back(*factor.whole, writer_.fresh());
    return V{loop.multiples.back().second, Kind::i64, 1, loop.level, {}, {}};
  }
  return std::nullopt;
}

V Emitter::sum(std::vector<V> terms) {
  std::stable_sort(terms.begin(), terms.end(), [](const V& a, const V& b) {
    if ((a.width > 1) != (b.width > 1)) return b.width > 1;
    return a.level < b.level;
  });
  // Literals last: they become displacements, and everything before them is shared.
  V total = integer(0), literals = integer(0);
  for (const V& term : terms) {
    V& to = term.whole ? literals : total;
    to = add(to, term);
  }
  return add(total, literals);
}

V Emitter::minimum(const V& a, const V& b) {
  if (a.whole && b.whole) return integer(std::min(*a.whole, *b.whole));
  return select(compare("icmp slt", a, b), a, b);
}
V Emitter::maximum(const V& a, const V& b) {
  if (a.whole && b.whole) return integer(std::max(*a.whole, *b.whole));
  return select(compare("icmp sgt", a, b), a, b);
}

V Emitter::compare(std::string_view predicate, V a, V b) {
  unify(a, b);
  return define(std::string(predicate) + " " + a.type() + " " + a.s + ", " + b.s, Kind::i1, a.width,
                std::max(a.level, b.level));
}

V Emitter::select(const V& condition, V a, V b) {
  if (condition.whole && condition.width == 1) return *condition.whole ? a : b;
  unify(a, b);
  if (a.s == b.s) return a;
  V mask = condition;
  if (mask.width > a.width) {
    a = spread(a, mask.width);
    b = spread(b, mask.width);
  }
  mask = splat(mask, a.width);
  return define("select " + mask.type() + " " + mask.s + ", " + a.type() + " " + a.s + ", " + b.type() + " " + b.s,
                a.kind, a.width, std::max({mask.level, a.level, b.level}));
}

V Emitter::lnot(const V& a) {
  if (a.whole && a.width == 1) return truth(!*a.whole);
  return binary("xor", a, splat(truth(true), a.width));
}
V Emitter::land(const V& a, const V& b) {
  if (a.whole && a.width == 1) return *a.whole ? b : a;
  if (b.whole && b.width == 1) return *b.whole ? a : b;
  return a.s == b.s ? a : binary("and", a, b);
}
V Emitter::lor(const V& a, const V& b) {
  if (a.whole && a.width == 1) return *a.whole ? a : b;
  if (b.whole && b.width == 1) return *b.whole ? b : a;
  return a.s == b.s ? a : binary("or", a, b);
}

Mask Emitter::both(const Mask& a, const Mask& b) {
  if (!a || !b) return a ? a : b;
  return land(*a, *b);
}
Mask Emitter::either(const Mask& a, const Mask& b) {
  if (!a || !b) return std::nullopt;
  return lor(*a, *b);
}
Flag Emitter::any(const Flag& a, const Flag& b) {
  if (!a || !b) return a ? a : b;
  return lor(*a, *b);
}
Flag Emitter::within(const Flag& flag, const Mask& mask) {
  if (!flag || !mask) return flag;
  return land(*flag, *mask);
}

V Emitter::lane(const V& vector, int k) {
  if (vector.width == 1) return vector;
  return define("extractelement " + vector.type() + " " + vector.s + ", i64 " + std::to_string(k), vector.kind, 1,
                vector.level);
}

V Emitter::gather_lanes(const std::vector<V>& scalars) {
  const int width = static_cast<int>(scalars.size());
  V vector{"poison", scalars[0].kind, width, 0, {}, {}};
  for (int k = 0; k < width; ++k) {
    const V& element = scalars[static_cast<std::size_t>(k)];
    vector = define("insertelement " + vector.type() + " " + vector.s + ", " + element.type() + " " + element.s +
                        ", i64 " + std::to_string(k),
                    vector.kind, width, std::max(vector.level, element.level));
  }
  return vector;
}

// ---- memory --------------------------------------------------------------------------------------------

V Emitter::element_pointer(const V& base, Kind kind, const V& offset) {
  if (offset.whole == 0) return base;
  return define("getelementptr " + std::string(element_type(kind)) + ", ptr " + base.s + ", i64 " + offset.s,
                Kind::pointer, 1, std::max(base.level, offset.level));
}

V Emitter::opaque(const V& value) {
  return define("call " + value.type() + " asm \"\", \"=r,0\"(" + value.type() + " " + value.s + ")", value.kind, 1,
                value.level);
}

V Emitter::load(const V& pointer, Kind kind, int width, std::int64_t align, const Sym& memory) {
  int level = pointer.level;
  std::string text = "load " + type_text(kind, width) + ", ptr " + pointer.s + ", align " + std::to_string(align);
  const bool constant_memory = kernel_.find_buffer(memory) && !stored_.count(memory);
  if (constant_memory) {
    text += ", !invariant.load !0";
  } else {
    const auto& [version, since] = versions_[memory];
    level = std::max(level, since);
    text += " ; " + std::to_string(version);
  }
  for (int k = top(); k > level; --k)
    if (sections_[static_cast<std::size_t>(k)].conditional) level = k;
  return define(text, kind, width, level);
}

void Emitter::store(const V& value, const V& pointer, std::int64_t align) {
  effect("store " + value.type() + " " + value.s + ", ptr " + pointer.s + ", align " + std::to_string(align));
}

void Emitter::wrote(const Sym& memory) {
  if (memory) versions_[memory] = {++version_, top()};
}

// ---- sections and loops ----------------------------------------------------------------------------------

void Emitter::begin() {
  sections_.clear();
  loops_.clear();
  memo_.clear();
  flag_memo_.clear();
  versions_.clear();
  indices_.clear();
  proofs_.ranges.clear();
  lets_.clear();
  proofs_.lets.clear();
  proofs_.lane = nest_.lane;
  proofs_.lane_limit = nest_.lane_limit;
  lane_block_ = lanes_bounded_ = false;
  sections_.push_back({});
  sections_.back().current = "entry";
  enter_uniform();
}

std::string Emitter::finish(const std::string& header, const std::string& tail) {
  std::string text = header + section().text + tail;
  sections_.clear();
  return text;
}

void Emitter::pop_section() {
  sections_.pop_back();
  for (auto& [memory, version] : versions_) version.second = std::min(version.second, top());
}

void Emitter::open_scope() {
  sections_.push_back({});
  sections_.back().current = sections_[sections_.size() - 2].current;
}

void Emitter::close_scope() {
  Section inner = std::move(section());
  pop_section();
  section().text += inner.text;
  section().current = inner.current;
}

V Emitter::open_loop(const V& lo, const V& hi, const V& step, std::vector<V>& carried, const std::vector<Sym>& writes) {
  Loop loop{lo, hi, step, writer_.fresh(), fresh_label("loop"), carried, {}, writes, 0, {}};
  sections_.push_back({});
  loop.level = top();
  sections_.back().current = loop.label;
  for (V& value : carried) {
    value = {writer_.fresh(), value.kind, value.width, top(), {}, {}};
    loop.phis.push_back(value);
  }
  for (const Sym& memory : writes) wrote(memory);
  const V iv{loop.iv, Kind::i64, 1, top(), {}, {}};
  loops_.push_back(std::move(loop));
  return iv;
}

std::size_t find_name(const std::string& text, const std::string& name) {
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if (end == text.size() || !std::isdigit(static_cast<unsigned char>(text[end]))) return at;
  }
  return std::string::npos;
}

std::vector<V> Emitter::close_loop(const std::vector<V>& next) {
  const Loop loop = std::move(loops_.back());
  loops_.pop_back();
  const Section body = std::move(section());
  pop_section();
  Section& outer = section();
  const std::string step_of_counter = writer_.fresh();
  const bool runs = loop.lo.whole && loop.hi.whole && *loop.lo.whole < *loop.hi.whole;
  // What moves with the counter, first the counter itself: name in the body, first value, step.
  struct Moving {
    std::string name, phi, next;
    V first, step;
  };
  std::vector<Moving> moving{{loop.iv, writer_.fresh(), step_of_counter, loop.lo, loop.step}};
  for (const auto& [factor, name] : loop.multiples)
    moving.push_back(
        {name, writer_.fresh(), writer_.fresh(), mul(loop.lo, integer(factor)), mul(loop.step, integer(factor))});
  const std::string entry = outer.current, exit = fresh_label("exit"), more = writer_.fresh();
  const auto phi = [&](const V& name, const V& first, const std::string& a, const V& second, const std::string& b) {
    outer.text += "  " + name.s + " = phi " + name.type() + " [ " + first.s + ", %" + a + " ], [ " + second.s + ", %" +
                  b + " ]\n";
  };
  const auto whole = [](const std::string& name) { return V{name, Kind::i64, 1, 0, {}, {}}; };
  if (runs) {
    outer.text += "  br label %" + loop.label + "\n";
  } else {
    const std::string some = writer_.fresh();
    outer.text += "  " + some + " = icmp slt i64 " + loop.lo.s + ", " + loop.hi.s + "\n  br i1 " + some + ", label %" +
                  loop.label + ", label %" + exit + "\n";
  }
  outer.text += loop.label + ":\n";
  for (const Moving& m : moving) phi(whole(m.phi), m.first, entry, whole(m.next), body.current);
  for (std::size_t k = 0; k < loop.phis.size(); ++k) phi(loop.phis[k], loop.init[k], entry, next[k], body.current);
  // The body sees them through opaque copies: strength is reduced here, and LLVM's pass for it would spend a third of
  // the compile time on finding nothing better.
  for (const Moving& m : moving)
    if (find_name(body.text, m.name) != std::string::npos)
      outer.text += "  " + m.name + " = call i64 asm \"\", \"=r,0\"(i64 " + m.phi + ")\n";
  outer.text += body.text;
  for (const Moving& m : moving) outer.text += "  " + m.next + " = add nsw i64 " + m.phi + ", " + m.step.s + "\n";
  outer.text += "  " + more + " = icmp slt i64 " + step_of_counter + ", " + loop.hi.s + "\n  br i1 " + more +
                ", label %" + loop.label + ", label %" + exit + "\n" + exit + ":\n";
  outer.current = exit;
  std::vector<V> results;
  for (std::size_t k = 0; k < loop.phis.size(); ++k) {
    V result = next[k];
    if (!runs) {
      result = {writer_.fresh(), loop.phis[k].kind, loop.phis[k].width, top(), {}, {}};
      phi(result, loop.init[k], entry, next[k], body.current);
    }
    result.level = top();
    results.push_back(std::move(result));
  }
  for (const Sym& memory : loop.writes) wrote(memory);
  return results;
}

// ---- frame -------------------------------------------------------------------------------------------------

V Emitter::frame_array(int slot) {
  const V place = define("getelementptr i8, ptr %frame, i64 " + std::to_string(8 * slot), Kind::pointer, 1, 0);
  return define("load ptr, ptr " + place.s + ", align 8, !invariant.load !0", Kind::pointer, 1, 0);
}

V Emitter::frame_word(int slot, std::size_t index) {
  const V place = element_pointer(frame_array(slot), Kind::i64, integer(static_cast<std::int64_t>(index)));
  return define("load i64, ptr " + place.s + ", align 8, !invariant.load !0", Kind::i64, 1, 0);
}

V Emitter::buffer_base(std::size_t buffer) {
  const V place = element_pointer(frame_array(0), Kind::i64, integer(static_cast<std::int64_t>(buffer)));
  return define("load ptr, ptr " + place.s + ", align 8, !invariant.load !0", Kind::pointer, 1, 0);
}

V Emitter::buffer_stride(std::size_t buffer, std::size_t axis) {
  if (kernel_.buffers[buffer].unit_axis == static_cast<std::int64_t>(axis)) return integer(1);
  return frame_word(1, module_.first_axis[buffer] + axis);
}

V Emitter::buffer_extent(std::size_t buffer, std::size_t axis) {
  return frame_word(2, module_.first_axis[buffer] + axis);
}

}  // namespace attune::cpu
