// SPDX-License-Identifier: Apache-2.0
// One character of UTF-8 at a time; a malformed byte counts as one character. For positions and rendering.
#pragma once
#include <cstdint>
#include <string_view>

namespace attune::utf8 {

struct Character {
  std::uint32_t code = 0;  ///< code point, or `malformed`
  std::uint32_t length = 1;
};
inline constexpr std::uint32_t malformed = 0xffffffff;
inline constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

/// The character that starts at `offset` (which must lie within the text).
inline Character decode(std::string_view text, std::size_t offset) {
  auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[offset + i]); };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::uint32_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || offset + length > text.size()) return {malformed, 1};
  std::uint32_t code = first & (0x7fu >> length);
  for (std::uint32_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {malformed, 1};
    code = code << 6 | (byte(i) & 0x3fu);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  if (overlong || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return {malformed, 1};
  return {code, length};
}

}  // namespace attune::utf8
