// SPDX-License-Identifier: Apache-2.0
// What an interpretation holds while it runs: values, tiles and buffers that remember who wrote them.
#pragma once
#include <attune/dtype.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "loop/ir.hpp"

namespace attune::interpreter {

union Word {
  float real;
  std::int64_t whole;
  bool truth;
};

/// A value or absent.
struct Value {
  Word word{};
  bool present = false;
};
inline Value of(float real) {
  Value value;
  value.word.real = real;
  value.present = true;
  return value;
}
inline Value of(std::int64_t whole) {
  Value value;
  value.word.whole = whole;
  value.present = true;
  return value;
}
inline Value of(bool truth) {
  Value value;
  value.word.truth = truth;
  value.present = true;
  return value;
}
Value of(double) = delete;
Value of(int) = delete;
inline Value absent() { return {}; }

struct Frame;
/// A compiled expression.
using Code = std::function<Value(Frame&)>;

/// A tile of the running task, row-major: how the lane axis is blocked cannot be seen from inside the IR.
struct TileMemory {
  const loop::Tile* tile = nullptr;
  std::vector<Code> bases;
  std::vector<std::int64_t> extents;
  int lane_axis = -1;
  std::vector<Word> elements;
  std::vector<std::uint8_t> written;
};

struct BufferMemory {
  const loop::Buffer* buffer = nullptr;
  void* data = nullptr;
  std::vector<std::int64_t> extents;
  std::vector<std::int64_t> strides;
  int presence = -1;                   ///< number of the buffer that says which elements are present
  std::vector<std::byte> storage;      ///< temporaries
  std::vector<std::uint32_t> writers;  ///< per element the task that stored it, 0: nobody; inputs have none
};

/// Why a read is wrong.
enum class Misuse : std::uint8_t { unwritten, outside, other_task };

/// What evaluating an expression did besides giving a value. Dropped with the value that is not asked for.
struct Marks {
  bool out_of_range = false;
  bool misread = false;
};

/// The last misread, for the message.
struct Misread {
  Misuse misuse = Misuse::unwritten;
  Sym target;
  std::vector<std::int64_t> subscripts;
};

struct Frame {
  std::vector<Value> slots;  ///< dims, scalars, Lets, indices
  std::vector<TileMemory> tiles;
  std::vector<BufferMemory> buffers;
  std::int64_t lane_limit = INT64_MAX;
  bool padding = false;  ///< the element lies at or beyond the lane limit: it loads nothing and is not checked
  bool trusted = false;
  std::uint32_t task = 0;        ///< tasks of the whole call are numbered from 1
  std::uint32_t first_task = 0;  ///< of the running nest
  Marks marks;
  Misread misread;
};

/// An execution that cannot go on; caught by run().
struct Fault {
  std::string text;
};

}  // namespace attune::interpreter
