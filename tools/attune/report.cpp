// SPDX-License-Identifier: Apache-2.0
// Failures, exit codes and diagnostics as JSON.
#include <iostream>

#include "command.hpp"

namespace attune::tool {

void fail(Exit code, Diagnostics diagnostics) { throw Failure{code, std::move(diagnostics)}; }
void fail(Exit code, Diagnostic diagnostic) { fail(code, Diagnostics{std::move(diagnostic)}); }

void usage(std::string message, std::string help) {
  Diagnostic d;
  d.code = "A0620";
  d.message = std::move(message);
  d.help = std::move(help);
  fail(usage_error, std::move(d));
}

Exit exit_of(const Diagnostics& diagnostics) {
  for (const Diagnostic& d : diagnostics) {
    if (d.severity != Severity::error || d.code.size() < 3) continue;
    const std::string group = d.code.substr(1, 2);
    if (d.code == "A0603" || d.code == "A0604" || d.code == "A0607" || d.code == "A0522") return target_error;
    if (d.code == "A0611" || d.code == "A0612") return data_error;
    if (group == "04" || group == "06") return usage_error;
    if (group == "05") return data_error;
    if (group == "09") return internal_error;
    return program_error;
  }
  return program_error;
}

void warn(const Options&, const Diagnostics& warnings) {
  for (const Diagnostic& d : warnings)
    if (d.severity == Severity::warning) std::cerr << render(d) << "\n";
}

Json to_json(const Diagnostics& diagnostics) {
  Json out = Json::array();
  for (const Diagnostic& d : diagnostics) {
    if (d.severity != Severity::error) continue;
    Json item{{"code", d.code}, {"message", d.message}};
    if (!d.source.name().empty()) {
      auto at = d.source.position(d.span.begin);
      item["file"] = d.source.name();
      item["line"] = at.line;
      item["column"] = at.column;
    }
    if (!d.help.empty()) item["help"] = d.help;
    if (!d.notes.empty()) item["notes"] = d.notes;
    if (!d.tensor.empty()) item["tensor"] = d.tensor;
    if (!d.axis.empty()) item["axis"] = d.axis;
    if (!d.expected.empty()) item["expected"] = d.expected;
    if (!d.found.empty()) item["found"] = d.found;
    out.push_back(std::move(item));
  }
  return out;
}

}  // namespace attune::tool
