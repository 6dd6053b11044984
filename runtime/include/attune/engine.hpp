// SPDX-License-Identifier: Apache-2.0
// Engine: owns caches, threads and the loaded compilers. The only object with identity; safe to share.
#pragma once
#include <attune/kernel.hpp>
#include <attune/options.hpp>
#include <attune/program.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace attune {

class Engine {
 public:
  struct State;
  explicit Engine(EngineOptions options = {});
  /// The process-wide engine with default options, made at first use.
  static Engine& shared();

  /// Program to kernel. Type variables that the options leave open are bound at the first call from the inputs'
  /// dtypes. Equal programs and options give the same compiled code (memory cache, then disk cache).
  Result<Kernel> compile(const Program& program, const CompileOptions& options = {});
  /// compile() and run() in one: for scripts.
  Result<RunReport> run(const Program& program, const Arguments& arguments, const CompileOptions& options = {});

  /// One line per library, device or CPU feature: what was found, where, and why not.
  struct Finding {
    std::string what;
    bool found = false;
    std::string detail;
  };
  std::vector<Finding> environment() const;

  /// One compiled kernel of the disk cache.
  struct CacheEntry {
    std::string file;         ///< name within cache_directory()
    std::string description;  ///< kernel, target and compiler
    std::uint64_t bytes = 0;
    std::int64_t last_used = 0;  ///< seconds since 1970
  };
  /// Where compiled kernels are kept; "" where the disk cache is off.
  std::string cache_directory() const;
  /// The valid entries, most recently used first.
  std::vector<CacheEntry> cache_entries() const;
  /// Removes all entries; the number of those removed.
  std::size_t clear_cache() const;
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace attune
