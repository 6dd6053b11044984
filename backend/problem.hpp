// SPDX-License-Identifier: Apache-2.0
// What the checks of a call report: a finding about a parameter, with no place in a text. Private to backend.
#pragma once
#include <attune/diagnostic.hpp>
#include <string>
#include <utility>

#include "common/sym.hpp"

namespace attune {

inline Diagnostic problem(std::string code, std::string message, const Sym& tensor = {}) {
  Diagnostic diagnostic;
  diagnostic.code = std::move(code);
  diagnostic.message = std::move(message);
  diagnostic.tensor = tensor.text();
  return diagnostic;
}

}  // namespace attune
