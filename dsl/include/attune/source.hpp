// SPDX-License-Identifier: Apache-2.0
// A program text and places in it. Every token, node and diagnostic carries a Span.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace attune {

/// A half-open byte range of the text of one Source; {0, 0} where a node comes from the builder.
struct Span {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  friend bool operator==(const Span&, const Span&) = default;
  /// The smallest range that covers both.
  static Span join(Span a, Span b) {
    if (a.end == 0) return b;
    if (b.end == 0) return a;
    return {a.begin < b.begin ? a.begin : b.begin, a.end > b.end ? a.end : b.end};
  }
};

/// A named text (file name or "<string>"), immutable and shared.
class Source {
 public:
  Source() = default;
  Source(std::string name, std::string text);

  const std::string& name() const;
  std::string_view text() const;

  /// 1-based line and column (in characters, UTF-8 aware) of a byte offset; offsets past the end give the end.
  struct Position {
    std::uint32_t line = 1;
    std::uint32_t column = 1;
  };
  Position position(std::uint32_t offset) const;
  /// The text of a 1-based line, without its line end.
  std::string_view line(std::uint32_t number) const;

 private:
  struct Data;
  std::shared_ptr<const Data> data_;
};

}  // namespace attune
