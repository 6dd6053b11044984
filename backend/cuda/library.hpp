// SPDX-License-Identifier: Apache-2.0
// Opening one of several paths of a shared library, with an account of what was tried. Private to this folder.
#pragma once
#include <functional>

#include "backend/cuda/driver.hpp"

namespace attune::cuda {

/// Opens the first path that `accept` takes: it gets the handle and says "" or why the library cannot be used. True
/// where one was; the report gets its path and what was tried. A library that is used is never closed.
bool open_library(const std::vector<std::string>& paths, const std::function<std::string(void* handle)>& accept,
                  LibraryReport& report);

/// The environment variable, or "" where it is unset.
std::string variable(const char* name);

}  // namespace attune::cuda
