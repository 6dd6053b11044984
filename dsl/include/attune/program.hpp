// SPDX-License-Identifier: Apache-2.0
// A program: one or more kernels in the notation, from a string, a file or the builder. Immutable, cheap to copy.
#pragma once
#include <attune/diagnostic.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace attune {
namespace ast {
struct Module;
}

/// A parsed program. Equal programs (==) have the same AST, whatever their source and layout. A default-constructed one
/// is the empty text: it has no kernels, and compiling it reports so (A0229).
class Program {
 public:
  /// Parses text in the notation. Errors: every independent syntax error, with positions in `name`.
  static Result<Program> parse(std::string_view text, std::string name = "<string>");
  /// Reads and parses a `.attn` file. A file that cannot be read is an error A0601.
  static Result<Program> load(const std::string& path);
  /// Wraps an AST (the builder's way in).
  static Program from_module(ast::Module module);

  /// Canonical text; parse(text()) == *this.
  std::string text() const;
  /// Names of the kernels in written order.
  std::vector<std::string> kernels() const;
  const ast::Module& module() const;
  /// Identity for caches: a 128-bit hash of text() in hexadecimal, made once.
  const std::string& hash() const;
  friend bool operator==(const Program& a, const Program& b);

 private:
  std::shared_ptr<const ast::Module> module_;  ///< null: the empty text
  std::shared_ptr<const std::string> hash_;
};

}  // namespace attune
