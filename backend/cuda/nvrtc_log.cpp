// SPDX-License-Identifier: Apache-2.0
// The program log of NVRTC with `--ptxas-options=-v`: registers, stack, spills and losses of each function.
#include <algorithm>
#include <charconv>
#include <optional>

#include "backend/cuda/nvrtc.hpp"

namespace attune::cuda {
namespace {

/// The number in front of `unit`, as in "712 bytes stack frame"; 0 where there is none.
std::int64_t number_before(std::string_view line, std::string_view unit) {
  const std::size_t at = line.find(unit);
  if (at == std::string_view::npos || at == 0) return 0;
  std::size_t begin = at;
  while (begin > 0 && line[begin - 1] == ' ') --begin;
  const std::size_t end = begin;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  std::int64_t value = 0;
  std::from_chars(line.data() + begin, line.data() + end, value);
  return value;
}

/// The word in quotes after `marker`.
std::optional<std::string> quoted_after(std::string_view line, std::string_view marker) {
  const std::size_t at = line.find(marker);
  if (at == std::string_view::npos) return std::nullopt;
  const std::size_t begin = line.find('\'', at + marker.size());
  if (begin == std::string_view::npos) return std::nullopt;
  const std::size_t end = line.find('\'', begin + 1);
  if (end == std::string_view::npos) return std::nullopt;
  return std::string(line.substr(begin + 1, end - begin - 1));
}

/// Whether the line carries a note C75xx.
bool is_loss(std::string_view line) {
  for (std::size_t at = line.find("C75"); at != std::string_view::npos; at = line.find("C75", at + 1)) {
    const auto digit = [&](std::size_t k) { return k < line.size() && line[k] >= '0' && line[k] <= '9'; };
    if (digit(at + 3) && digit(at + 4)) return true;
  }
  return false;
}

/// Without the "ptxas info    :" in front.
std::string note_of(std::string_view line) {
  if (line.starts_with("ptxas"))
    if (const std::size_t colon = line.find(':'); colon != std::string_view::npos) line.remove_prefix(colon + 1);
  while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
  return std::string(line);
}

}  // namespace

const FunctionUsage* CompileLog::find(std::string_view function) const {
  const auto found = std::find_if(functions.begin(), functions.end(),
                                  [&](const FunctionUsage& usage) { return usage.name == function; });
  return found == functions.end() ? nullptr : &*found;
}

CompileLog parse_log(std::string_view log) {
  CompileLog out;
  std::size_t current = 0;  // index + 1 of the function that lines speak of
  const auto index_of = [&](const std::string& name) {
    for (std::size_t k = 0; k < out.functions.size(); ++k)
      if (out.functions[k].name == name) return k + 1;
    out.functions.push_back({name});
    return out.functions.size();
  };
  while (!log.empty()) {
    const std::size_t end = std::min(log.find('\n'), log.size());
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    if (is_loss(line)) {
      // The note may come before, within or after the function's other lines: it names the function itself.
      const auto name = quoted_after(line, "function");
      (name ? out.functions[index_of(*name) - 1].losses : out.losses).push_back(note_of(line));
      continue;
    }
    if (const auto name = quoted_after(line, "Compiling entry function")) {
      current = index_of(*name);
      continue;
    }
    if (const std::size_t at = line.find("Function properties for "); at != std::string_view::npos) {
      std::string_view name = line.substr(at + std::string_view("Function properties for ").size());
      while (!name.empty() && (name.back() == ' ' || name.back() == '\r')) name.remove_suffix(1);
      current = index_of(std::string(name));
      continue;
    }
    if (current == 0) continue;
    FunctionUsage& usage = out.functions[current - 1];
    if (line.find("bytes stack frame") != std::string_view::npos) {
      usage.stack_bytes = number_before(line, "bytes stack frame");
      usage.spill_stores = number_before(line, "bytes spill stores");
      usage.spill_loads = number_before(line, "bytes spill loads");
    } else if (line.find("registers") != std::string_view::npos && line.find("Used") != std::string_view::npos) {
      usage.registers = static_cast<int>(number_before(line, "registers"));
      usage.shared_bytes = number_before(line, "bytes smem");
    }
  }
  return out;
}

}  // namespace attune::cuda
