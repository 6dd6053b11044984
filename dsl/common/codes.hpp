// SPDX-License-Identifier: Apache-2.0
// The table of diagnostic codes: what `attune explain` prints and what tests check.
#pragma once
#include <string_view>
#include <vector>

namespace attune {

struct DiagnosticCode {
  std::string_view code;   ///< "A0203"
  std::string_view title;  ///< one line
  std::string_view text;   ///< a few sentences with an example
};

/// All codes, sorted.
const std::vector<DiagnosticCode>& diagnostic_code_table();

}  // namespace attune
