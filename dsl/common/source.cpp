// SPDX-License-Identifier: Apache-2.0
// Source: a text with its line table; byte offsets to lines and columns.
#include <algorithm>
#include <attune/source.hpp>
#include <limits>

#include "common/utf8.hpp"

namespace attune {

struct Source::Data {
  std::string name;
  std::string text;
  std::vector<std::uint32_t> line_starts;
};

Source::Source(std::string name, std::string text) {
  auto data = std::make_shared<Data>();
  data->name = std::move(name);
  data->text = std::move(text);
  // A byte-order mark belongs to no line, so that columns count what people see.
  data->line_starts.push_back(data->text.starts_with(utf8::byte_order_mark) ? 3 : 0);
  // Offsets have 32 bits; a text beyond that is refused by the parser long before.
  const std::size_t end = std::min<std::size_t>(data->text.size(), std::numeric_limits<std::uint32_t>::max() - 1);
  for (std::size_t i = 0; i < end; ++i)
    if (data->text[i] == '\n') data->line_starts.push_back(static_cast<std::uint32_t>(i + 1));
  data_ = std::move(data);
}

const std::string& Source::name() const {
  static const std::string none;
  return data_ ? data_->name : none;
}

std::string_view Source::text() const { return data_ ? std::string_view(data_->text) : std::string_view(); }

Source::Position Source::position(std::uint32_t offset) const {
  if (!data_) return {};
  offset = static_cast<std::uint32_t>(std::min<std::size_t>(offset, data_->text.size()));
  const auto& starts = data_->line_starts;
  auto next = std::upper_bound(starts.begin(), starts.end(), offset);
  if (next == starts.begin()) ++next;  // inside the byte-order mark
  Position position;
  position.line = static_cast<std::uint32_t>(next - starts.begin());
  const std::string_view content = line(position.line);
  const std::uint32_t start = *std::prev(next);
  // An offset within the line end is the place after the last character, one within a character is that character.
  const std::size_t bytes = offset < start ? 0 : std::min<std::size_t>(offset - start, content.size());
  for (std::size_t at = 0; at < bytes;) {
    at += utf8::decode(content, at).length;
    if (at <= bytes) ++position.column;
  }
  return position;
}

std::string_view Source::line(std::uint32_t number) const {
  if (!data_ || number == 0 || number > data_->line_starts.size()) return {};
  const std::string_view text = data_->text;
  const std::size_t begin = data_->line_starts[number - 1];
  std::string_view content = text.substr(begin, text.find('\n', begin) - begin);
  if (content.ends_with('\r')) content.remove_suffix(1);
  return content;
}

}  // namespace attune
