// SPDX-License-Identifier: Apache-2.0
// Collects the codes of all stages (codes_*.inc) into one sorted table.
#include "common/codes.hpp"

#include <algorithm>
#include <attune/diagnostic.hpp>

namespace attune {

const std::vector<DiagnosticCode>& diagnostic_code_table() {
  static const std::vector<DiagnosticCode> table = [] {
    std::vector<DiagnosticCode> codes;
#define ATTUNE_CODE(code, title, text) codes.push_back({code, title, text});
#include "common/codes_builder.inc"
#include "common/codes_call.inc"
#include "common/codes_infer.inc"
#include "common/codes_runtime.inc"
#include "common/codes_schedule.inc"
#include "common/codes_stream.inc"
#include "common/codes_syntax.inc"
#include "common/codes_tool.inc"
#undef ATTUNE_CODE
    std::sort(codes.begin(), codes.end(), [](const auto& a, const auto& b) { return a.code < b.code; });
    return codes;
  }();
  return table;
}

static const DiagnosticCode* find_code(std::string_view code) {
  const auto& table = diagnostic_code_table();
  auto found = std::lower_bound(table.begin(), table.end(), code,
                                [](const DiagnosticCode& entry, std::string_view key) { return entry.code < key; });
  return found != table.end() && found->code == code ? &*found : nullptr;
}

std::string_view explain(std::string_view code) {
  const DiagnosticCode* found = find_code(code);
  return found ? found->text : std::string_view();
}

std::string_view title(std::string_view code) {
  const DiagnosticCode* found = find_code(code);
  return found ? found->title : std::string_view();
}

std::vector<std::string_view> diagnostic_codes() {
  std::vector<std::string_view> codes;
  for (const DiagnosticCode& entry : diagnostic_code_table()) codes.push_back(entry.code);
  return codes;
}

}  // namespace attune
