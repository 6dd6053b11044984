// SPDX-License-Identifier: Apache-2.0
// What the checks of a call report: a finding about a parameter, with no place in a text. Private to backend.
#pragma once
#include <attune/diagnostic.hpp>
#include <string>

#include "common/sym.hpp"

namespace attune {

/// With the help that the code usually has; who knows better replaces it.
Diagnostic problem(std::string code, std::string message, const Sym& tensor = {});

}  // namespace attune
