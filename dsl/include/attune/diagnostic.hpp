// SPDX-License-Identifier: Apache-2.0
// Diagnostics as data, Result<T>, and the one exception type. Rendering is late (render()).
#pragma once
#include <attune/source.hpp>
#include <cassert>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace attune {

enum class Severity : std::uint8_t { error, warning };

/// A second place with a short text, shown under its own caret.
struct Label {
  Span span;
  std::string text;
};

/// One finding: what, where, why, and what to do. Codes are "A0203"; `attune explain` prints their long text.
/// Program findings have a source and a span; call-time findings name the tensor and axis instead.
struct Diagnostic {
  Severity severity = Severity::error;
  std::string code;
  std::string message;
  Source source;              ///< empty name: no program position
  Span span;                  ///< primary place
  std::string span_text;      ///< text beside the primary caret
  std::vector<Label> labels;  ///< further places
  std::vector<std::string> notes;
  std::string help;
  // Call-time findings (all optional):
  std::string tensor;    ///< parameter name
  std::string axis;      ///< axis number or dim name, "" where none
  std::string expected;  ///< what the program asks for
  std::string found;     ///< what was given
};

using Diagnostics = std::vector<Diagnostic>;

/// People's text of one finding: `error[A0203]: ...`, place, line, carets, notes, help. No trailing blank line.
std::string render(const Diagnostic& diagnostic, bool color = false);
/// All of them, separated by blank lines.
std::string render(const Diagnostics& diagnostics, bool color = false);
/// The candidate nearest to `word` (edit distance at most a third of its length, at least 1), or "".
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);
/// Long text of a code for `attune explain`, or "" for an unknown code; title() is its one-line name.
std::string_view explain(std::string_view code);
std::string_view title(std::string_view code);
/// All known codes in order.
std::vector<std::string_view> diagnostic_codes();

/// The one exception type: what() is the rendered text, diagnostics() the data.
class Error : public std::exception {
 public:
  explicit Error(Diagnostics diagnostics);
  const char* what() const noexcept override { return text_.c_str(); }
  const Diagnostics& diagnostics() const noexcept { return diagnostics_; }

 private:
  Diagnostics diagnostics_;
  std::string text_;
};

/// A value, or at least one error. Warnings may accompany a value.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit on purpose
  Result(T value, Diagnostics warnings) : value_(std::move(value)), diagnostics_(std::move(warnings)) {}
  Result(Diagnostic error) { diagnostics_.push_back(std::move(error)); }                           // NOLINT
  Result(Diagnostics errors) : diagnostics_(std::move(errors)) { assert(!diagnostics_.empty()); }  // NOLINT

  explicit operator bool() const { return value_.has_value(); }
  bool ok() const { return value_.has_value(); }
  /// The errors of a failure; the warnings beside a value.
  const Diagnostics& diagnostics() const { return diagnostics_; }

  /// The value; throws Error with the diagnostics where there is none.
  T& value() & {
    if (!value_) throw Error(diagnostics_);
    return *value_;
  }
  const T& value() const& {
    if (!value_) throw Error(diagnostics_);
    return *value_;
  }
  T&& value() && {
    if (!value_) throw Error(diagnostics_);
    return *std::move(value_);
  }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Diagnostics diagnostics_;
};

}  // namespace attune
