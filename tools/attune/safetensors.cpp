// SPDX-License-Identifier: Apache-2.0
// Reading and writing safetensors files. Every size and offset of the header is checked before it is used.
#include "safetensors.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

namespace attune::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t max_header = std::uint64_t{100} << 20;

Diagnostic failure(const char* code, std::string message, std::string help = {}) {
  Diagnostic d;
  d.code = code;
  d.message = std::move(message);
  d.help = std::move(help);
  return d;
}

std::optional<DType> dtype_of(const std::string& word) {
  static const std::map<std::string, DType> words = {
      {"F32", DType::f32},        {"F16", DType::f16},     {"BF16", DType::bf16}, {"F8_E4M3", DType::f8e4m3},
      {"F8_E5M2", DType::f8e5m2}, {"I64", DType::i64},     {"I32", DType::i32},   {"I8", DType::i8},
      {"U8", DType::u8},          {"BOOL", DType::boolean}};
  auto at = words.find(word);
  return at == words.end() ? std::nullopt : std::optional(at->second);
}

const char* word_of(DType type) {
  switch (type) {
    case DType::f32: return "F32";
    case DType::f16: return "F16";
    case DType::bf16: return "BF16";
    case DType::f8e4m3: return "F8_E4M3";
    case DType::f8e5m2: return "F8_E5M2";
    case DType::i64: return "I64";
    case DType::i32: return "I32";
    case DType::i8: return "I8";
    case DType::u8: return "U8";
    case DType::boolean: return "BOOL";
  }
  return "?";
}

/// Bytes of one element of any safetensors type; 0 for a word that is none.
std::uint64_t element_bytes(const std::string& word) {
  static const std::map<std::string, std::uint64_t> sizes = {
      {"F64", 8}, {"I64", 8}, {"U64", 8}, {"F32", 4}, {"I32", 4},  {"U32", 4},     {"F16", 2},     {"BF16", 2},
      {"I16", 2}, {"U16", 2}, {"I8", 1},  {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"C64", 8}};
  auto at = sizes.find(word);
  return at == sizes.end() ? 0 : at->second;
}

/// Finds duplicate keys of the top-level object, which the JSON library would merge silently.
std::string duplicate_key(std::string_view text) {
  std::set<std::string> seen;
  std::string duplicate;
  Json::parser_callback_t watch = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth == 1 && event == Json::parse_event_t::key && !seen.insert(value.get<std::string>()).second)
      duplicate = value.get<std::string>();
    return true;
  };
  const Json ignored = Json::parse(text, watch, false);
  return duplicate;
}

}  // namespace

Result<SafetensorsFile> read_safetensors(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return failure("A0611", "cannot read `" + path + "`: " + std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return failure("A0611", "cannot read `" + path + "`: it is not a regular file");
  std::ifstream in(path, std::ios::binary);
  if (!in) return failure("A0611", "cannot read `" + path + "`: " + std::strerror(errno));
  auto bytes = std::make_shared<std::vector<std::uint8_t>>(static_cast<std::size_t>(info.st_size));
  in.read(reinterpret_cast<char*>(bytes->data()), static_cast<std::streamsize>(bytes->size()));
  if (in.gcount() != static_cast<std::streamsize>(bytes->size()))
    return failure("A0611", "cannot read `" + path + "`: it ended early");
  return parse_safetensors(bytes, path);
}

Result<SafetensorsFile> parse_safetensors(std::shared_ptr<const std::vector<std::uint8_t>> bytes,
                                          const std::string& path) {
  auto malformed = [&](const std::string& what) {
    return failure("A0612", "`" + path + "` is not a valid safetensors file: " + what,
                   "write it again with the safetensors library of your framework");
  };
  SafetensorsFile file{path, bytes, {}};
  if (bytes->size() < 8) return malformed("it has fewer than 8 bytes");
  std::uint64_t header = 0;
  for (int k = 7; k >= 0; --k) header = header << 8 | (*bytes)[static_cast<std::size_t>(k)];
  if (header > max_header || header > bytes->size() - 8)
    return malformed("the header says it has " + std::to_string(header) + " bytes, the file has " +
                     std::to_string(bytes->size() - 8) + " after its first 8");
  std::string_view text(reinterpret_cast<const char*>(bytes->data()) + 8, static_cast<std::size_t>(header));
  // The JSON parser recurses along nesting; a valid header nests three deep.
  int depth = 0, deepest = 0;
  bool quoted = false;
  for (std::size_t k = 0; k < text.size(); ++k) {
    if (quoted && text[k] == '\\')
      ++k;
    else if (text[k] == '"')
      quoted = !quoted;
    else if (!quoted && (text[k] == '{' || text[k] == '['))
      deepest = std::max(deepest, ++depth);
    else if (!quoted && (text[k] == '}' || text[k] == ']'))
      --depth;
  }
  if (deepest > 16) return malformed("its header nests " + std::to_string(deepest) + " deep");
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) return malformed("its header is not a JSON object");
  if (std::string twice = duplicate_key(text); !twice.empty())
    return malformed("the name `" + twice + "` occurs twice");
  const std::uint64_t size = bytes->size() - 8 - header;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> taken;
  for (const auto& [name, entry] : json.items()) {
    if (name == "__metadata__") continue;
    auto wrong = [&](const std::string& what) { return malformed("tensor `" + name + "`: " + what); };
    if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") || !entry.contains("data_offsets"))
      return wrong("dtype, shape or data_offsets is missing");
    const auto &dtype = entry["dtype"], &shape = entry["shape"], &offsets = entry["data_offsets"];
    if (!dtype.is_string() || !element_bytes(dtype.get<std::string>())) return wrong("unknown dtype " + dtype.dump());
    if (!shape.is_array() || !offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
        !offsets[1].is_number_unsigned())
      return wrong("shape or data_offsets has the wrong form");
    StoredTensor tensor{name, dtype.get<std::string>(), dtype_of(dtype.get<std::string>()), {}, nullptr};
    std::uint64_t count = 1;
    bool empty = false;
    for (const auto& extent : shape) {
      if (!extent.is_number_unsigned()) return wrong("an extent is not a natural number");
      auto value = extent.get<std::uint64_t>();
      if (value > std::uint64_t{1} << 40) return wrong("extent " + std::to_string(value) + " is too large");
      tensor.shape.push_back(static_cast<std::int64_t>(value));
      empty = empty || value == 0;
      if (value != 0 && count > (std::uint64_t{1} << 60) / value) return wrong("it has too many elements");
      if (value != 0) count *= value;
    }
    if (empty) count = 0;
    auto begin = offsets[0].get<std::uint64_t>(), end = offsets[1].get<std::uint64_t>();
    if (begin > end || end > size)
      return wrong("its data lie at " + std::to_string(begin) + ".." + std::to_string(end) + ", the file has " +
                   std::to_string(size) + " bytes of data (truncated?)");
    std::uint64_t need = count * element_bytes(tensor.dtype_word);
    if (end - begin != need)
      return wrong("its shape needs " + std::to_string(need) + " bytes, its data have " + std::to_string(end - begin));
    tensor.data = bytes->data() + 8 + header + begin;
    if (begin != end) taken.emplace_back(begin, end);
    file.tensors.push_back(std::move(tensor));
  }
  std::sort(taken.begin(), taken.end());
  for (std::size_t k = 1; k < taken.size(); ++k)
    if (taken[k].first < taken[k - 1].second) return malformed("the data of two tensors overlap");
  return file;
}

Result<bool> write_safetensors(const std::string& path, const std::vector<std::pair<std::string, TensorRef>>& tensors) {
  Json header = Json::object();
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    std::uint64_t bytes = static_cast<std::uint64_t>(tensor.element_count()) * size_of(tensor.dtype);
    header[name] = {
        {"dtype", word_of(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = header.dump();
  while (text.size() % 8 != 0) text.push_back(' ');
  std::string temporary = path + ".tmp" + std::to_string(getpid());
  auto fail = [&](int error) {
    std::remove(temporary.c_str());
    return failure("A0613", "cannot write `" + path + "`: " + std::strerror(error));
  };
  std::FILE* out = std::fopen(temporary.c_str(), "wb");
  if (!out) return fail(errno);
  std::uint8_t length[8];
  for (int k = 0; k < 8; ++k) length[k] = static_cast<std::uint8_t>(text.size() >> (8 * k));
  bool good = std::fwrite(length, 1, 8, out) == 8 && std::fwrite(text.data(), 1, text.size(), out) == text.size();
  for (const auto& [name, tensor] : tensors) {
    std::size_t bytes = static_cast<std::size_t>(tensor.element_count()) * size_of(tensor.dtype);
    good = good && (bytes == 0 || std::fwrite(tensor.data, 1, bytes, out) == bytes);
  }
  int error = good ? 0 : errno;
  if (std::fclose(out) != 0 && good) good = false, error = errno;
  if (!good) return fail(error);
  struct stat info {};
  if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return fail(EISDIR);
  if (std::rename(temporary.c_str(), path.c_str()) != 0) return fail(errno);
  return true;
}

}  // namespace attune::tool
