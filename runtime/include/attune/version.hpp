// SPDX-License-Identifier: Apache-2.0
// The version of the library, as text.
#pragma once
#include <string_view>

namespace attune {

inline constexpr std::string_view version = "0.1.0";

}  // namespace attune
