// SPDX-License-Identifier: Apache-2.0
// What a command did, as far as it came: stages for --dump, spans for --trace, and the facts that a report of a bug
// needs to be reproduced.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "command.hpp"

namespace attune::tool {

class Recorder {
 public:
  std::string command;  ///< the command line
  std::string program;  ///< canonical text of the program, once it is parsed
  std::string kernel;
  std::string call;  ///< options that make a call like the one at hand, once its shapes are known

  /// Takes the folder and the file of the options; checks that both can be written (usage error A0613).
  void start(const Options& options);
  /// Sizes, types and scalars of the call.
  void note(const Session& session);

  /// A stage that took some time until now. Its text goes into the dump, where there is one.
  void stage(std::string_view name, double milliseconds, const std::function<std::string()>& text);
  /// A span of the trace from a start until now.
  using Clock = std::chrono::steady_clock;
  void span(std::string_view name, Clock::time_point start);
  bool tracing() const { return !trace_.empty(); }
  bool dumping() const { return !dump_.empty(); }
  /// One text of the dump; a later one of the same name replaces it.
  void dump(std::string_view name, const std::string& text);
  /// The pool of threads, watched where there is a trace.
  std::shared_ptr<Executor> executor(int threads);

  /// Writes the trace. Error A0613.
  Result<bool> finish();
  /// Writes what a bug needs to be reproduced, into the dump's folder or else the system's temporary one: a program
  /// that says in comments what happened. The path, or "" where nothing can be written.
  std::string reproducer(const std::string& what) const;

 private:
  friend class TracedExecutor;
  struct Event {
    std::string name;
    double begin_us = 0, length_us = 0;
    std::uint64_t thread = 0;
  };
  double since_start(Clock::time_point at) const {
    return std::chrono::duration<double, std::micro>(at - began_).count();
  }

  std::string dump_, trace_, fault_;
  std::map<std::string, std::string, std::less<>> files_;  ///< stage -> file name of the dump
  std::vector<Event> events_;
  Clock::time_point began_ = Clock::now();
};

/// The one of this process.
Recorder& recorder();

}  // namespace attune::tool
