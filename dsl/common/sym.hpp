// SPDX-License-Identifier: Apache-2.0
// Unique names: two Syms are equal only if they are the same name made once, whatever they are called.
#pragma once
#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace attune {

/// A name with identity. fresh() makes a new one; copies are the same name. The empty Sym is false.
class Sym {
 public:
  Sym() = default;
  static Sym fresh(std::string text) {
    Sym sym;
    sym.text_ = std::make_shared<const std::string>(std::move(text));
    return sym;
  }
  const std::string& text() const {
    static const std::string none;
    return text_ ? *text_ : none;
  }
  explicit operator bool() const { return text_ != nullptr; }
  friend bool operator==(const Sym& a, const Sym& b) { return a.text_ == b.text_; }
  /// An order for maps. It follows addresses: never let it reach printed text.
  friend std::strong_ordering operator<=>(const Sym& a, const Sym& b) {
    return std::compare_three_way{}(a.text_.get(), b.text_.get());
  }
  std::size_t hash() const { return std::hash<const void*>{}(text_.get()); }

 private:
  std::shared_ptr<const std::string> text_;
};

}  // namespace attune

template <>
struct std::hash<attune::Sym> {
  std::size_t operator()(const attune::Sym& sym) const { return sym.hash(); }
};
