// SPDX-License-Identifier: Apache-2.0
// A driver and a compiler that do nothing but remember: launches with their words, memory, and failures on demand.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace fake {

/// A GPU that the fake driver lists.
struct Model {
  std::string name = "Fake H200";
  int major = 9, minor = 0, processors = 132;
  int shared_per_block = 232448, shared_per_sm = 233472, registers = 65536, l2_bytes = 50 << 20;
  std::uint64_t memory = std::uint64_t{140} << 30;
};

struct Launched {
  std::string function;
  int device = -1;  ///< of the context that was current
  unsigned blocks = 0, threads = 0, shared_bytes = 0;
  void* stream = nullptr;
  std::vector<std::uint64_t> words;
};

struct Driver {
  std::vector<Model> devices{Model{}};
  std::size_t words = 0;   ///< how many are read of each launch's parameter
  std::int32_t raise = 0;  ///< a launch writes it to the address in its last word, where it is not 0
  std::set<void*> capturing;
  std::uint64_t memory_limit = std::uint64_t{1} << 32;

  struct Failure {
    int after;  ///< calls that still succeed
    int result;
    bool sticky;  ///< every later call fails too
  };
  std::map<std::string, Failure> failures;  ///< by the function's name
  /// Does what a launch says: the machine code, its function, blocks, threads and the parameter; null: nothing.
  std::function<void(const std::string& image, const std::string& function, unsigned blocks, unsigned threads,
                     const void* words)>
      execute;

  // What happened:
  std::map<std::string, int> calls;
  std::vector<std::string> order;
  std::vector<Launched> launches;
  std::map<std::string, int> shared_asked;  ///< function -> dynamic shared memory
  std::uint64_t allocated = 0;
  int modules = 0;  ///< loaded now
  int count(const std::string& name) const {
    const auto found = calls.find(name);
    return found == calls.end() ? 0 : found->second;
  }
};
Driver& driver();

struct Compiler {
  std::vector<int> archs{80, 86, 89, 90, 120};
  std::string log;
  int result = 0;
  std::vector<std::string> sources;
  std::vector<std::vector<std::string>> options;
};
Compiler& compiler();

/// Both afresh, and in the place of the real ones for this process.
void install();
/// The same, with the library's own generator of code.
void install_with_generator();
/// The same without a driver, or without a compiler.
void install_without_driver();
void install_without_compiler();

}  // namespace fake
