// SPDX-License-Identifier: Apache-2.0
// The standard programs by name: embedded texts, parsed when asked for.
#include <algorithm>
#include <attune/stdlib.hpp>

#include "stdlib/embedded.hpp"

namespace attune::stdlib {

std::string_view text(std::string_view name) {
  for (const auto* entry = stdlib_detail::embedded_programs; entry->name; ++entry)
    if (name == entry->name) return entry->text;
  return {};
}

std::vector<std::string> names() {
  std::vector<std::string> result;
  for (const auto* entry = stdlib_detail::embedded_programs; entry->name; ++entry) result.emplace_back(entry->name);
  std::sort(result.begin(), result.end());
  return result;
}

Result<Program> program(std::string_view name) {
  const std::string_view found = text(name);
  if (!found.empty()) return Program::parse(found, "std:" + std::string(name));
  Diagnostic diagnostic;
  diagnostic.code = "A0712";
  diagnostic.message = "there is no standard program `" + std::string(name) + "`";
  std::string all;
  for (const std::string& known : names()) all += (all.empty() ? "" : ", ") + known;
  diagnostic.notes.push_back("there are " + all);
  constexpr std::string_view prefix = "std:";
  const std::string_view bare = name.substr(name.starts_with(prefix) ? prefix.size() : 0);
  if (bare.size() < name.size() && !text(bare).empty())
    diagnostic.help = "leave `std:` out: it is how files and the command name it";
  else if (const std::string near = did_you_mean(bare, names()); !near.empty())
    diagnostic.help = "did you mean `" + near + "`?";
  else
    diagnostic.help = "take one of these, or write your own: Program::parse, Program::load";
  return diagnostic;
}

}  // namespace attune::stdlib
