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
#include <filesystem>
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

bool put(std::FILE* out, const void* data, std::size_t bytes) {
  return bytes == 0 || std::fwrite(data, 1, bytes, out) == bytes;
}

/// Writes through a temporary file beside the target, so that nobody sees a part of it. A symbolic link keeps its
/// place, and what is no regular file (a pipe, /dev/stdout) is written as it stands.
template <class Write>
Result<bool> write_file(const std::string& path, Write&& write) {
  const char* const help = "results go to a file in a folder that exists, can be written, and has room";
  if (std::string reason = why_unwritable(path); !reason.empty())
    return failure("A0613", "cannot write `" + path + "`: " + reason, help);
  struct stat info {};
  const bool exists = stat(path.c_str(), &info) == 0, direct = exists && !S_ISREG(info.st_mode);
  std::error_code ignored;
  const std::string target = exists && !direct ? std::filesystem::canonical(path, ignored).string() : path;
  const std::string name = direct ? path : target + ".tmp" + std::to_string(getpid());
  auto fail = [&](int error) {
    if (!direct) std::remove(name.c_str());
    return failure("A0613", "cannot write `" + path + "`: " + std::strerror(error), help);
  };
  std::FILE* out = std::fopen(name.c_str(), "wb");
  if (!out) return fail(errno);
  bool good = write(out);
  int error = good ? 0 : errno;
  if (std::fclose(out) != 0 && good) good = false, error = errno;
  if (!good) return fail(error);
  if (!direct && std::rename(name.c_str(), target.c_str()) != 0) return fail(errno);
  return true;
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr std::size_t most = 80;
  std::string out;
  for (char c : text.substr(0, most)) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return text.size() > most ? out + "..." : out;
}

Result<SafetensorsFile> read_safetensors(const std::string& path) {
  auto unreadable = [&](const std::string& reason) {
    return failure("A0611", "cannot read `" + printable(path) + "`: " + reason,
                   "tensors come in a safetensors file that this user may read: check the path and the permissions");
  };
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return unreadable(std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return unreadable("it is not a regular file");
  std::ifstream in(path, std::ios::binary);
  if (!in) return unreadable(std::strerror(errno));
  auto bytes = std::make_shared<std::vector<std::uint8_t>>(static_cast<std::size_t>(info.st_size));
  in.read(reinterpret_cast<char*>(bytes->data()), static_cast<std::streamsize>(bytes->size()));
  if (in.gcount() != static_cast<std::streamsize>(bytes->size())) return unreadable("it ended early");
  return parse_safetensors(bytes, path);
}

Result<SafetensorsFile> parse_safetensors(std::shared_ptr<const std::vector<std::uint8_t>> bytes,
                                          const std::string& path) {
  auto malformed = [&](const std::string& what) {
    return failure("A0612", "`" + printable(path) + "` is not a valid safetensors file: " + what,
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
    return malformed("the name `" + printable(twice) + "` occurs twice");
  const std::uint64_t size = bytes->size() - 8 - header;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> taken;
  for (const auto& [name, entry] : json.items()) {
    if (name == "__metadata__") {
      bool texts = entry.is_object();
      for (const auto& value : entry) texts = texts && value.is_string();
      if (!texts) return malformed("its __metadata__ holds something else than texts");
      continue;
    }
    auto wrong = [&, &name = name](const std::string& what) {
      return malformed("tensor `" + printable(name) + "`: " + what);
    };
    if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") || !entry.contains("data_offsets"))
      return wrong("dtype, shape or data_offsets is missing");
    const auto &dtype = entry["dtype"], &shape = entry["shape"], &offsets = entry["data_offsets"];
    if (!dtype.is_string() || !element_bytes(dtype.get<std::string>()))
      return wrong("unknown dtype " + printable(dtype.dump()));
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
  std::uint64_t end = 0;
  for (const auto& [from, to] : taken) {
    if (from < end) return malformed("the data of two tensors overlap");
    if (from > end)
      return malformed("bytes " + std::to_string(end) + ".." + std::to_string(from) + " belong to no tensor");
    end = to;
  }
  if (end != size) return malformed("its last " + std::to_string(size - end) + " bytes belong to no tensor");
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
  std::string start(8, '\0');
  for (int k = 0; k < 8; ++k) start[static_cast<std::size_t>(k)] = static_cast<char>(text.size() >> (8 * k));
  return write_file(path, [&](std::FILE* out) {
    bool good = put(out, start.data(), start.size()) && put(out, text.data(), text.size());
    for (const auto& [name, tensor] : tensors)
      good = good && put(out, tensor.data, static_cast<std::size_t>(tensor.element_count()) * size_of(tensor.dtype));
    return good;
  });
}

Result<bool> write_text(const std::string& path, const std::string& text) {
  return write_file(path, [&](std::FILE* out) { return put(out, text.data(), text.size()); });
}

std::string why_unwritable(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return std::strerror(EISDIR);
    if (!S_ISREG(info.st_mode)) return access(path.c_str(), W_OK) == 0 ? "" : std::strerror(errno);
  }
  const auto slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  if (slash + 1 == path.size()) return std::strerror(EISDIR);
  if (stat(folder.c_str(), &info) != 0) return "folder `" + folder + "`: " + std::strerror(errno);
  if (!S_ISDIR(info.st_mode)) return "`" + folder + "` is not a folder";
  return access(folder.c_str(), W_OK | X_OK) == 0 ? "" : "folder `" + folder + "`: " + std::strerror(errno);
}

}  // namespace attune::tool
