// SPDX-License-Identifier: Apache-2.0
// Reading and writing safetensors files: 8-byte little-endian header length, JSON header, raw data.
#pragma once
#include <attune/diagnostic.hpp>
#include <attune/tensor_ref.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace attune::tool {

struct StoredTensor {
  std::string name;
  std::string dtype_word;      ///< as the file says: "F32", "I64", ...
  std::optional<DType> dtype;  ///< nothing for types that attune does not have (F64, I16, ...)
  std::vector<std::int64_t> shape;
  const std::uint8_t* data = nullptr;  ///< points into the file's bytes
};

/// A whole file in memory, checked: offsets within the data, in order, without overlap or gap, sizes that fit.
struct SafetensorsFile {
  std::string path;
  std::shared_ptr<const std::vector<std::uint8_t>> bytes;
  std::vector<StoredTensor> tensors;  ///< in the header's order
};

/// A name of somebody else's as it can be shown: no control characters, not too long.
std::string printable(std::string_view text);
/// Errors A0611 (cannot be read), A0612 (malformed, with what and where).
Result<SafetensorsFile> read_safetensors(const std::string& path);
/// The same from bytes.
Result<SafetensorsFile> parse_safetensors(std::shared_ptr<const std::vector<std::uint8_t>> bytes,
                                          const std::string& path);

/// Why a file cannot be made at `path` (no such folder, a folder itself, no permission), or "". Writes nothing.
std::string why_unwritable(const std::string& path);
/// Writes a text under a temporary name and renames it. Error A0613; nothing is left behind.
Result<bool> write_text(const std::string& path, const std::string& text);
/// Writes contiguous tensors to a temporary file and renames it. Error A0613 where that fails; nothing is left behind.
Result<bool> write_safetensors(const std::string& path, const std::vector<std::pair<std::string, TensorRef>>& tensors);

}  // namespace attune::tool
