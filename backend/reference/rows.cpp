// SPDX-License-Identifier: Apache-2.0
// softmax and cumsum: computed once per row, read at the indices in scope.
#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "backend/reference/arithmetic.hpp"
#include "backend/reference/evaluator.hpp"
#include "common/node.hpp"

namespace attune::reference {

using namespace tensor;

namespace {

struct Row {
  std::vector<Word> values;
  std::vector<std::uint8_t> states;
};

struct KeyHash {
  std::size_t operator()(const std::vector<std::int64_t>& key) const {
    std::size_t seed = 0;
    for (const std::int64_t part : key) hash_mix(seed, static_cast<std::size_t>(part));
    return seed;
  }
};

/// Rows by the values of the indices that they depend on.
class Rows {
 public:
  explicit Rows(std::vector<int> key_slots) : key_slots_(std::move(key_slots)), key_(key_slots_.size(), 0) {}

  template <class F>
  const Row& at(Frame& frame, F&& compute) {
    bool same = last_ != nullptr;
    for (std::size_t k = 0; k < key_slots_.size(); ++k) {
      const std::int64_t value = frame.slots[static_cast<std::size_t>(key_slots_[k])];
      same = same && key_[k] == value;
      key_[k] = value;
    }
    if (same) return *last_;
    const auto found = rows_.find(key_);
    if (found != rows_.end()) return *(last_ = &found->second);
    const std::vector<std::int64_t> key = key_;
    Row row;
    compute(row);
    elements_ += row.values.size();
    if (elements_ > most_elements) {
      rows_.clear();
      elements_ = row.values.size();
    }
    return *(last_ = &rows_.emplace(key, std::move(row)).first->second);
  }

 private:
  static constexpr std::size_t most_elements = std::size_t{1} << 24;
  std::vector<int> key_slots_;
  std::vector<std::int64_t> key_;
  std::unordered_map<std::vector<std::int64_t>, Row, KeyHash> rows_;
  const Row* last_ = nullptr;
  std::size_t elements_ = 0;
};

/// Where in the row the indices in scope stand.
struct Place {
  std::vector<int> slots;
  std::vector<std::int64_t> lo, extents;
  std::size_t operator()(const Frame& frame) const {
    std::int64_t at = 0;
    for (std::size_t k = 0; k < slots.size(); ++k)
      at = at * extents[k] + (frame.slots[static_cast<std::size_t>(slots[k])] - lo[k]);
    return static_cast<std::size_t>(at);
  }
};

Value read(Frame& frame, const Row& row, std::size_t at) {
  Value value;
  value.word = row.values[at];
  value.present = (row.states[at] & state::present) != 0;
  if (row.states[at] & state::flagged) frame.out_of_range = true;
  return value;
}

/// exp(s - max) / (sum of exp(s - max) + exp(extra - max)) over the scores that are there and not -inf.
struct SoftmaxRow {
  Box box;
  Code guard, body, extra;
  Type body_type, extra_type;

  void operator()(Frame& frame, Row& row) const {
    const auto size = static_cast<std::size_t>(box.count());
    row.values.assign(size, Word{});
    row.states.assign(size, state::evaluated);
    const bool before = frame.out_of_range;
    bool raised = false, any = false;
    double largest = -infinity;
    std::size_t at = 0;
    box.walk(frame, [&] {
      frame.out_of_range = false;
      Value score;
      if (!guard || holds(guard(frame))) score = body(frame);
      if (frame.out_of_range) {
        row.states[at] |= state::flagged;
        raised = true;
      }
      if (score.present) {
        const double value = to_real(score, body_type);
        if (value != -infinity) {
          row.values[at].real = value;
          row.states[at] |= state::present;
          largest = any ? maximum(largest, value) : value;
          any = true;
        }
      }
      ++at;
    });
    frame.out_of_range = false;
    if (any) normalise(frame, row, largest, raised);
    frame.out_of_range = before;
  }

 private:
  void normalise(Frame& frame, Row& row, double largest, bool raised) const {
    // A score of NaN or +inf makes the row NaN; an extra term of +inf alone makes its weights 0.
    const bool broken = !std::isfinite(largest);
    Value term;
    if (extra) term = extra(frame);
    raised = raised || frame.out_of_range;
    const double t = term.present ? to_real(term, extra_type) : -infinity;
    const double top = maximum(largest, t);
    double total = 0;
    if (!broken && std::isfinite(top)) {
      for (std::size_t k = 0; k < row.values.size(); ++k)
        if (row.states[k] & state::present) total += std::exp(row.values[k].real - top);
      total += std::exp(t - top);
    }
    for (std::size_t k = 0; k < row.values.size(); ++k) {
      if (!(row.states[k] & state::present)) continue;
      if (broken || std::isnan(top))
        row.values[k].real = std::numeric_limits<double>::quiet_NaN();
      else
        row.values[k].real = std::isinf(top) ? 0.0 : std::exp(row.values[k].real - top) / total;
      if (raised) row.states[k] |= state::flagged;
    }
  }
};

}  // namespace

Code Evaluator::softmax(const Softmax& node) {
  SoftmaxRow make;
  Place place;
  std::vector<Expr> parts{node.body};
  if (node.guard) parts.push_back(node.guard);
  if (node.extra) {
    parts.push_back(node.extra);
    make.extra = compile(node.extra);
    make.extra_type = node.extra->type;
  }
  for (const IndexRange& range : node.along) place.slots.push_back(slot(range.index));
  std::vector<int> key;
  for (const int used : free_slots(parts))
    if (std::find(place.slots.begin(), place.slots.end(), used) == place.slots.end()) key.push_back(used);
  Outer outer;
  make.box = bind_box(node.along, outer);
  if (node.guard) make.guard = compile(node.guard);
  make.body = compile(node.body);
  make.body_type = node.body->type;
  unbind(outer);
  place.lo = make.box.lo;
  for (std::size_t k = 0; k < make.box.lo.size(); ++k) place.extents.push_back(make.box.hi[k] - make.box.lo[k]);
  return [rows = Rows(std::move(key)), make = std::move(make), place = std::move(place)](Frame& frame) mutable {
    const std::size_t at = place(frame);
    return read(frame, rows.at(frame, [&](Row& row) { make(frame, row); }), at);
  };
}

Code Evaluator::cumsum(const Cumsum& node, const Type& type) {
  std::vector<Expr> parts{node.body};
  if (node.guard) parts.push_back(node.guard);
  Place place;
  place.slots.push_back(slot(node.along.index));
  std::vector<int> key;
  for (const int used : free_slots(parts))
    if (used != place.slots[0]) key.push_back(used);
  Outer outer;
  const Box box = bind_box({node.along}, outer);
  Code guard = node.guard ? compile(node.guard) : nullptr;
  Code body = compile(node.body);
  unbind(outer);
  place.lo = box.lo;
  place.extents.push_back(box.hi[0] - box.lo[0]);
  const auto fill = [box, guard, body, integers = type.is_integer(), body_type = node.body->type](Frame& frame,
                                                                                                  Row& row) {
    const bool before = frame.out_of_range;
    bool raised = false;
    Value total = integers ? whole(0) : real(0);
    box.walk(frame, [&] {
      frame.out_of_range = false;
      if (!guard || holds(guard(frame)))
        if (const Value value = body(frame); value.present) {
          if (integers)
            total.word.whole = add(total.word.whole, value.word.whole);
          else
            total.word.real += to_real(value, body_type);
        }
      raised = raised || frame.out_of_range;  // of everything that the running sum asked for
      row.values.push_back(total.word);
      row.states.push_back(
          static_cast<std::uint8_t>(state::evaluated | state::present | (raised ? state::flagged : 0)));
    });
    frame.out_of_range = before;
  };
  return [rows = Rows(std::move(key)), fill, place = std::move(place)](Frame& frame) mutable {
    const std::size_t at = place(frame);
    return read(frame, rows.at(frame, [&](Row& row) { fill(frame, row); }), at);
  };
}

}  // namespace attune::reference
