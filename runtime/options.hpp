// SPDX-License-Identifier: Apache-2.0
// EngineOptions and environment variables together: what an engine really uses.
#pragma once
#include <attune/options.hpp>

namespace attune {

/// The options of an engine with every default and environment variable applied.
struct Settings {
  int threads = 1;
  bool disk_cache = true;
  std::string cache_directory;  ///< "" where none can be named (no home)
  std::uint64_t cache_limit_bytes = 0;
  std::size_t memory_cache_entries = 1;
  bool poison = false;  ///< temporaries and scratch start as NaN bytes
  bool verify = false;  ///< run verify() after every stage
};

Settings resolve(const EngineOptions& options);

/// The value of a variable of environment_variables(), or "" where it is unset.
std::string environment_value(std::string_view name);

}  // namespace attune
