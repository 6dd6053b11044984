// SPDX-License-Identifier: Apache-2.0
// A text builder for one LLVM function: fresh SSA names, labels, indentation. No optimisation, no hidden state.
#pragma once
#include <string>
#include <string_view>

namespace attune::cpu {

class Writer {
 public:
  /// A new SSA name such as "%v17".
  std::string fresh() { return "%v" + std::to_string(next_++); }
  /// A new label such as "loop.4" (without % or colon).
  std::string label(std::string_view stem) { return std::string(stem) + "." + std::to_string(next_++); }
  /// One instruction line, indented.
  void line(std::string_view text) { text_.append("  ").append(text).push_back('\n'); }
  /// `%name = text`; returns the name.
  std::string def(std::string_view text) {
    std::string name = fresh();
    text_.append("  ").append(name).append(" = ").append(text).push_back('\n');
    return name;
  }
  /// Starts a basic block.
  void block(std::string_view label_name) {
    text_.append(label_name).append(":\n");
    current_ = label_name;
  }
  /// The block that instructions go to now (for phi).
  const std::string& current() const { return current_; }
  const std::string& text() const { return text_; }
  std::string& text() { return text_; }

 private:
  std::string text_;
  std::string current_ = "entry";
  long next_ = 0;
};

/// "float" or "<8 x float>" of an element type; width 1 is the scalar.
inline std::string vector_type(std::string_view element, int width) {
  return width == 1 ? std::string(element) : "<" + std::to_string(width) + " x " + std::string(element) + ">";
}

}  // namespace attune::cpu
