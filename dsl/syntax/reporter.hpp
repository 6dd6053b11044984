// SPDX-License-Identifier: Apache-2.0
// Collects the findings of one text, bounded in number; every step of the front end before inference adds to it.
#pragma once
#include <algorithm>
#include <attune/diagnostic.hpp>
#include <string>
#include <utility>

namespace attune::syntax {

class Reporter {
 public:
  explicit Reporter(Source source) : source_(std::move(source)) {}

  const Source& source() const { return source_; }
  std::string_view text(Span span) const { return source_.text().substr(span.begin, span.end - span.begin); }

  /// Adds an error and gives it for further labels. Beyond the bound it is dropped: nobody reads that many.
  Diagnostic& error(const char* code, Span span, std::string message, std::string span_text = "",
                    std::string help = "") {
    Diagnostic& d = full() ? surplus_ : diagnostics_.emplace_back();
    d = Diagnostic{};
    d.code = code;
    d.message = std::move(message);
    d.source = source_;
    d.span = span;
    d.span_text = std::move(span_text);
    d.help = std::move(help);
    return d;
  }
  /// Adds a note to the last finding.
  void note_last(std::string note) {
    if (!diagnostics_.empty()) diagnostics_.back().notes.push_back(std::move(note));
  }
  bool full() const { return diagnostics_.size() >= max_errors; }
  bool failed() const { return !diagnostics_.empty(); }

  /// All findings in the order of the text.
  Diagnostics take() {
    // An insertion sort: few, nearly sorted, and equal places keep their order.
    for (auto it = diagnostics_.begin(); it != diagnostics_.end(); ++it) {
      auto later = [](const Diagnostic& a, const Diagnostic& b) { return a.span.begin < b.span.begin; };
      std::rotate(std::upper_bound(diagnostics_.begin(), it, *it, later), it, it + 1);
    }
    if (full()) diagnostics_.back().notes.push_back("further errors of this text are not shown");
    return std::move(diagnostics_);
  }

 private:
  static constexpr std::size_t max_errors = 100;
  Source source_;
  Diagnostics diagnostics_;
  Diagnostic surplus_;
};

}  // namespace attune::syntax
