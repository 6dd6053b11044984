// SPDX-License-Identifier: Apache-2.0
// Shared libraries that are opened at run time: one of several paths, its entry points into a table, and an account of
// what was tried. For libLLVM, the CUDA driver and NVRTC.
#pragma once
#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace attune {

/// What was found of a library: its version ("" if none is used), path, and the paths tried.
struct LibraryReport {
  std::string version;
  std::string path;
  std::vector<std::string> tried;
  bool found() const { return !version.empty(); }
};

/// Opens the first path that `accept` takes: it gets the handle and says "" or why the library cannot be used. True
/// where one was; the report gets its path and what was tried. A library that is used is never closed.
bool open_library(const std::vector<std::string>& paths, const std::function<std::string(void* handle)>& accept,
                  LibraryReport& report);

/// The environment variable, or "" where it is unset.
std::string variable(const char* name);
/// The path that the environment variable names, if it does; else these.
std::vector<std::string> paths_from(const char* name, std::vector<std::string> otherwise);

/// An entry point, or null.
void* symbol_of(void* handle, const char* name);
/// An entry point into a table's slot; false where the library lacks it.
template <class Function>
bool resolve_symbol(void* handle, const char* name, Function& slot) {
  void* symbol = symbol_of(handle, name);
  // Lookup gives an object pointer; copying its bytes is the form of the conversion that POSIX guarantees.
  if (symbol != nullptr) std::memcpy(&slot, &symbol, sizeof symbol);
  return symbol != nullptr;
}

/// A library and its table `Api`. Derived by each user with what else it knows of the library, and with
///   static Derived* open()   looks for the library and fills what it makes
///   std::string start()      makes a filled table usable: sets the version; "" or why it cannot be used
template <class Api>
struct Library {
  Api api;
  LibraryReport report;
  bool usable() const { return report.found(); }
};

/// The one of a process: opened at the first use, on any thread, or a table that a test gave in its place. Never
/// closed and never destroyed: loaded code lives until the process ends, and references to what was before may be held.
template <class Its>
class Opened {
 public:
  const Its& get() {
    if (const Its* known = current_.load(std::memory_order_acquire)) return *known;
    const std::lock_guard lock(mutex_);
    if (const Its* known = current_.load(std::memory_order_acquire)) return *known;
    const Its* made = Its::open();
    current_.store(made, std::memory_order_release);
    return *made;
  }
  /// Null: none is found.
  template <class Api>
  void replace(const Api* table) {
    auto* made = new Its;
    if (table != nullptr) {
      made->api = *table;
      const std::string reason = made->start();
      made->report.tried.push_back("a table of functions: " + (reason.empty() ? "used" : reason));
      made->report.path = "a table of functions";
    } else {
      made->report.tried.push_back("none, as told");
    }
    const std::lock_guard lock(mutex_);
    all_.push_back(made);
    current_.store(made, std::memory_order_release);
    replacements_.fetch_add(1);
  }
  unsigned replacements() const { return replacements_.load(); }

 private:
  std::mutex mutex_;
  std::atomic<const Its*> current_{nullptr};
  std::atomic<unsigned> replacements_{0};
  std::vector<const Its*> all_;  ///< so that a leak checker sees them
};

}  // namespace attune
