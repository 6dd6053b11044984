// SPDX-License-Identifier: Apache-2.0
// Storage types of tensors and scalars: names, sizes, kinds. Used by every stage.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace attune {

/// How one element is stored. Arithmetic is f32 for every float and 64-bit for every integer.
enum class DType : std::uint8_t { f32, f16, bf16, f8e4m3, f8e5m2, i64, i32, i8, u8, boolean };

inline constexpr DType all_dtypes[] = {DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2,
                                       DType::i64, DType::i32, DType::i8,   DType::u8,     DType::boolean};

/// Bytes of one element.
constexpr std::size_t size_of(DType type) {
  switch (type) {
    case DType::i64: return 8;
    case DType::f32:
    case DType::i32: return 4;
    case DType::f16:
    case DType::bf16: return 2;
    default: return 1;
  }
}

/// The word the notation uses: "f32", "bf16", "bool", ...
constexpr std::string_view name(DType type) {
  switch (type) {
    case DType::f32: return "f32";
    case DType::f16: return "f16";
    case DType::bf16: return "bf16";
    case DType::f8e4m3: return "f8e4m3";
    case DType::f8e5m2: return "f8e5m2";
    case DType::i64: return "i64";
    case DType::i32: return "i32";
    case DType::i8: return "i8";
    case DType::u8: return "u8";
    case DType::boolean: return "bool";
  }
  return "?";
}

/// The inverse of name(); nothing for an unknown word.
constexpr std::optional<DType> parse_dtype(std::string_view word) {
  for (DType type : all_dtypes)
    if (name(type) == word) return type;
  return std::nullopt;
}

constexpr bool is_float(DType type) { return type <= DType::f8e5m2; }
constexpr bool is_integer(DType type) { return type >= DType::i64 && type <= DType::u8; }
constexpr bool is_bool(DType type) { return type == DType::boolean; }

}  // namespace attune
