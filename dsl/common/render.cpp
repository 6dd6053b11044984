// SPDX-License-Identifier: Apache-2.0
// Diagnostics as people read them: place, source lines with carets, notes and help. Also the exception's text.
#include <algorithm>
#include <attune/diagnostic.hpp>
#include <map>
#include <tuple>

#include "common/utf8.hpp"

namespace attune {
namespace {

constexpr std::size_t tab_width = 4;
constexpr std::size_t widest_line = 200;  ///< longer lines are shown in part
constexpr std::size_t lead_columns = 60;  ///< what such a line shows before its first mark

enum class Style : std::uint8_t { plain, bold, error, warning, secondary, help };

std::string_view escape(Style style) {
  switch (style) {
    case Style::plain: return "";
    case Style::bold: return "\x1b[1m";
    case Style::error: return "\x1b[1;31m";
    case Style::warning: return "\x1b[1;33m";
    case Style::secondary: return "\x1b[1;34m";
    case Style::help: return "\x1b[1;36m";
  }
  return "";
}

// ---- characters and columns ---------------------------------------------------------------------
struct Interval {
  std::uint32_t first, last;
};
constexpr Interval zero_width[] = {{0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},   {0x610, 0x61a},
                                   {0x64b, 0x65f},   {0x200b, 0x200d}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f},
                                   {0xfe20, 0xfe2f}, {0xfeff, 0xfeff}};
constexpr Interval double_width[] = {{0x1100, 0x115f}, {0x2e80, 0x303e},   {0x3041, 0x4dbf},   {0x4e00, 0xa4cf},
                                     {0xac00, 0xd7a3}, {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},
                                     {0xffe0, 0xffe6}, {0x1f300, 0x1f64f}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};
/// Direction controls make a line read differently from what it says; they are shown as replacement characters.
constexpr Interval hidden[] = {{0x0, 0x1f}, {0x7f, 0x9f}, {0x200e, 0x200f}, {0x202a, 0x202e}, {0x2066, 0x2069}};

template <std::size_t n>
bool within(const Interval (&intervals)[n], std::uint32_t code) {
  return std::any_of(std::begin(intervals), std::end(intervals),
                     [&](const Interval& interval) { return interval.first <= code && code <= interval.last; });
}

/// A source line as shown, and the display column of each of its bytes (one more for its end).
struct Shown {
  std::string text;
  std::vector<std::size_t> column;          ///< by byte of the source line
  std::vector<std::size_t> byte_of_column;  ///< into `text`, one more for the end
};

Shown expand(std::string_view line) {
  Shown shown;
  shown.column.resize(line.size() + 1);
  auto put = [&](std::string_view glyph, std::size_t width) {
    for (std::size_t i = 0; i < width; ++i) shown.byte_of_column.push_back(shown.text.size());
    shown.text += glyph;
  };
  for (std::size_t at = 0; at < line.size();) {
    const auto [code, length] = utf8::decode(line, at);
    for (std::size_t i = 0; i < length; ++i) shown.column[at + i] = shown.byte_of_column.size();
    if (code == '\t')
      for (std::size_t i = 0; i < tab_width; ++i) put(" ", 1);
    else if (code == utf8::malformed || within(hidden, code))
      put("\xef\xbf\xbd", 1);
    else
      put(line.substr(at, length), within(zero_width, code) ? 0 : within(double_width, code) ? 2 : 1);
    at += length;
  }
  shown.column[line.size()] = shown.byte_of_column.size();
  shown.byte_of_column.push_back(shown.text.size());
  return shown;
}

// ---- marks under lines --------------------------------------------------------------------------
struct Mark {
  std::size_t begin = 0, end = 0;  ///< display columns, begin < end
  std::string text;
  bool primary = false;
  std::size_t order = 0;  ///< as given; among equals
};

/// One row of marks: glyphs at columns, from left to right. A text may only stand to the right of all others.
class Row {
 public:
  void put(std::size_t column, std::string glyph, Style style) {
    if (column >= cells_.size()) cells_.resize(column + 1);
    cells_[column] = {std::move(glyph), style};
  }
  std::string text(bool color) const {
    std::string result;
    Style current = Style::plain;
    for (const auto& [glyph, style] : cells_) {
      if (color && style != current) {
        if (current != Style::plain) result += "\x1b[0m";
        result += escape(style);
        current = style;
      }
      result += glyph.empty() ? " " : glyph;
    }
    if (current != Style::plain) result += "\x1b[0m";
    return result;
  }

 private:
  std::vector<std::pair<std::string, Style>> cells_;
};

class Renderer {
 public:
  Renderer(const Diagnostic& diagnostic, bool color) : d_(diagnostic), color_(color) {}

  std::string run() {
    const bool is_error = d_.severity == Severity::error;
    severity_ = is_error ? Style::error : Style::warning;
    std::string head = is_error ? "error" : "warning";
    if (!d_.code.empty()) head += "[" + d_.code + "]";
    out_ = styled(head, severity_) + styled(": " + d_.message, Style::bold);

    const bool has_source = !d_.source.name().empty();
    if (has_source) snippet();
    facts(has_source);
    return std::move(out_);
  }

 private:
  std::string styled(std::string_view text, Style style) const {
    if (!color_ || style == Style::plain) return std::string(text);
    return std::string(escape(style)) + std::string(text) + "\x1b[0m";
  }
  /// A new output line that starts with `left`, right-aligned before the bar.
  void gutter(std::string_view left, std::string_view rest) {
    std::string pad(gutter_ > left.size() ? gutter_ - left.size() : 0, ' ');
    out_ += "\n" + styled(pad + std::string(left) + " |", Style::secondary);
    if (!rest.empty()) out_ += " " + std::string(rest);
  }

  // ---- the source part --------------------------------------------------------------------------
  void snippet() {
    add_marks(d_.span, d_.span_text, true);
    for (const Label& label : d_.labels) add_marks(label.span, label.text, false);

    gutter_ = std::to_string(marks_.rbegin()->first).size() + 1;
    const auto start = d_.source.position(d_.span.begin);
    out_ += "\n" + std::string(gutter_, ' ') + styled("-->", Style::secondary) + " " + d_.source.name() + ":" +
            std::to_string(start.line) + ":" + std::to_string(start.column);
    gutter("", "");
    std::uint32_t last = 0;
    for (auto& [line, marks] : marks_) {
      if (last != 0 && line == last + 2)
        source_line(last + 1, {});
      else if (last != 0 && line > last + 1)
        out_ += "\n" + styled("...", Style::secondary);
      source_line(line, std::move(marks));
      last = line;
    }
  }

  /// Splits a span into what lies on its first and on its last line.
  void add_marks(Span span, const std::string& text, bool primary) {
    const auto size = static_cast<std::uint32_t>(d_.source.text().size());
    span.begin = std::min(span.begin, size);
    span.end = std::clamp(span.end, span.begin, size);
    const std::uint32_t first = d_.source.position(span.begin).line;
    // The last byte that belongs to it: a span up to a line's start ends on the line before.
    std::uint32_t last = span.end > span.begin ? d_.source.position(span.end - 1).line : first;
    const std::size_t first_at = byte_in_line(first, span.begin);
    if (last == first) {
      marks_[first].push_back(
          {first_at, std::max(first_at, byte_in_line(first, span.end)), text, primary, marks_[first].size()});
      return;
    }
    marks_[first].push_back({first_at, d_.source.line(first).size(), "", primary, marks_[first].size()});
    const std::string_view content = d_.source.line(last);
    const std::size_t nonblank = std::min(content.find_first_not_of(" \t"), content.size());
    const std::size_t last_at = std::max(byte_in_line(last, span.end), nonblank);
    marks_[last].push_back({nonblank, last_at, text, primary, marks_[last].size()});
  }

  std::size_t byte_in_line(std::uint32_t line, std::uint32_t offset) const {
    const std::string_view content = d_.source.line(line);
    const char* at = d_.source.text().data() + offset;
    if (content.data() == nullptr || at <= content.data()) return 0;
    return std::min<std::size_t>(static_cast<std::size_t>(at - content.data()), content.size());
  }

  void source_line(std::uint32_t number, std::vector<Mark> marks) {
    Shown shown = expand(d_.source.line(number));
    for (Mark& mark : marks) {
      mark.begin = shown.column[mark.begin];
      mark.end = std::max(mark.begin + 1, shown.column[mark.end]);
    }
    gutter(std::to_string(number), crop(shown, marks));
    if (!marks.empty()) mark_rows(std::move(marks));
  }

  /// The text of a line; of a very long one the part around its marks, which move along.
  static std::string crop(const Shown& shown, std::vector<Mark>& marks) {
    const std::size_t width = shown.byte_of_column.size() - 1;
    if (width <= widest_line) return shown.text;
    std::size_t first_mark = marks.empty() ? 0 : width;
    for (const Mark& mark : marks) first_mark = std::min(first_mark, mark.begin);
    const std::size_t from = first_mark > lead_columns ? first_mark - lead_columns : 0;
    const std::size_t to = std::min(width, from + widest_line - 6);
    const std::string_view before = from > 0 ? "..." : "";
    for (Mark& mark : marks) {
      mark.begin = std::min(mark.begin, to) - from + before.size();
      mark.end = std::max(mark.begin + 1, std::min(mark.end, to) - from + before.size());
    }
    const std::size_t first_byte = shown.byte_of_column[from], last_byte = shown.byte_of_column[to];
    return std::string(before) + shown.text.substr(first_byte, last_byte - first_byte) + (to < width ? "..." : "");
  }

  void mark_rows(std::vector<Mark> marks) {
    auto style = [&](const Mark& mark) { return mark.primary ? severity_ : Style::secondary; };
    // From right to left; the primary one first among equals.
    std::sort(marks.begin(), marks.end(), [](const Mark& a, const Mark& b) {
      return std::tuple(b.begin, b.primary, a.order) < std::tuple(a.begin, a.primary, b.order);
    });
    Row row;
    for (bool primary : {false, true})
      for (const Mark& mark : marks)
        if (mark.primary == primary)
          for (std::size_t i = mark.begin; i < mark.end; ++i) row.put(i, primary ? "^" : "-", style(mark));

    // The rightmost text stands beside its marks where no other mark reaches under it.
    std::vector<Mark> hanging = std::move(marks);
    const bool alone = std::all_of(hanging.begin() + 1, hanging.end(),
                                   [&](const Mark& mark) { return mark.end <= hanging.front().begin; });
    if (alone && !hanging.front().text.empty()) {
      row.put(hanging.front().end + 1, hanging.front().text, style(hanging.front()));
      hanging.erase(hanging.begin());
    }
    gutter("", row.text(color_));
    std::erase_if(hanging, [](const Mark& mark) { return mark.text.empty(); });
    if (hanging.empty()) return;
    // The others hang below on bars, again from right to left.
    auto bars = [&](std::size_t from) {
      Row result;
      for (std::size_t k = hanging.size(); k-- > from;) result.put(hanging[k].begin, "|", style(hanging[k]));
      return result;
    };
    gutter("", bars(0).text(color_));
    for (std::size_t k = 0; k < hanging.size(); ++k) {
      std::size_t next = k + 1;
      while (next < hanging.size() && hanging[next].begin == hanging[k].begin) ++next;
      Row text = bars(next);
      text.put(hanging[k].begin, hanging[k].text, style(hanging[k]));
      gutter("", text.text(color_));
    }
  }

  // ---- what follows -----------------------------------------------------------------------------
  void facts(bool has_source) {
    std::string place;
    if (!d_.tensor.empty()) place = "`" + d_.tensor + "`";
    if (!d_.axis.empty()) place += (place.empty() ? "axis " : ", axis ") + d_.axis;
    std::vector<std::pair<std::string, const std::string*>> lines;
    if (has_source && !place.empty()) lines.emplace_back("argument", &place);
    if (!d_.expected.empty()) lines.emplace_back("expected", &d_.expected);
    if (!d_.found.empty()) lines.emplace_back("found", &d_.found);
    for (const std::string& note : d_.notes) lines.emplace_back("note", &note);
    if (!d_.help.empty()) lines.emplace_back("help", &d_.help);

    if (!has_source && !place.empty())
      out_ += "\n" + std::string(gutter_, ' ') + styled("-->", Style::secondary) + " " + place;
    if (!lines.empty() && (has_source || !place.empty())) gutter("", "");
    for (const auto& [label, text] : lines) {
      out_ += "\n" + std::string(gutter_ + 1, ' ') + styled("=", Style::secondary) + " " +
              styled(label, label == "help" ? Style::help : Style::bold) + ": ";
      // Further lines of one text stand under its first.
      const std::string indent(gutter_ + 1 + 2 + label.size() + 2, ' ');
      for (char c : *text) {
        out_ += c;
        if (c == '\n') out_ += indent;
      }
    }
  }

  const Diagnostic& d_;
  bool color_;
  Style severity_ = Style::error;
  std::size_t gutter_ = 2;  ///< columns before the bar, without the blank that precedes it
  std::string out_;
  std::map<std::uint32_t, std::vector<Mark>> marks_;  ///< by line; byte columns until the line is shown
};

}  // namespace

std::string render(const Diagnostic& diagnostic, bool color) { return Renderer(diagnostic, color).run(); }

std::string render(const Diagnostics& diagnostics, bool color) {
  std::string result;
  for (const Diagnostic& diagnostic : diagnostics) {
    if (!result.empty()) result += "\n\n";
    result += render(diagnostic, color);
  }
  return result;
}

Error::Error(Diagnostics diagnostics) : diagnostics_(std::move(diagnostics)), text_(render(diagnostics_)) {}

}  // namespace attune
