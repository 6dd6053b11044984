// SPDX-License-Identifier: Apache-2.0
// What the reference computes with: a value or absent, in f64 or i64, and the closures that give one.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

namespace attune::reference {

/// A float is an f64, an integer an i64, a bool 0 or 1 in `whole`. Which one it is, the expression's type says.
union Word {
  double real;
  std::int64_t whole;
};

struct Value {
  Word word{};
  bool present = false;
};

inline Value real(double x) {
  Value value;
  value.word.real = x;
  value.present = true;
  return value;
}
inline Value whole(std::int64_t x) {
  Value value;
  value.word.whole = x;
  value.present = true;
  return value;
}
inline Value truth(bool x) { return whole(x ? 1 : 0); }
inline Value absent() { return {}; }
/// Whether a condition decides as true.
inline bool holds(const Value& condition) { return condition.present && condition.word.whole != 0; }

/// The state of an evaluation. Every bound index has a slot of its own, so that nothing needs saving.
struct Frame {
  std::vector<std::int64_t> slots;
  bool out_of_range = false;  ///< raised by what was evaluated; the product rule takes it back where nothing asked
};

using Code = std::function<Value(Frame&)>;

}  // namespace attune::reference
