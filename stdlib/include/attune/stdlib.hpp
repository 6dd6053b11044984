// SPDX-License-Identifier: Apache-2.0
// The standard library: attention variants written in the notation, embedded in the library.
#pragma once
#include <attune/program.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace attune::stdlib {

/// The program of `std:NAME`, e.g. program("causal"). An unknown name is an error with a did-you-mean.
Result<Program> program(std::string_view name);
/// Its text as shipped, with the header comment; "" for an unknown name.
std::string_view text(std::string_view name);
/// All names in alphabetical order.
std::vector<std::string> names();

}  // namespace attune::stdlib
