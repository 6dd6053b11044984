// SPDX-License-Identifier: Apache-2.0
// What a caller can choose: target, types, schedule, hooks. Plain structs with working defaults.
#pragma once
#include <attune/dtype.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attune {

enum class TargetKind : std::uint8_t { automatic, cpu, reference, interpreter, cuda };

/// Where a kernel runs. parse("auto" | "cpu" | "reference" | "interpreter" | "cuda" | "cuda:N").
/// An automatic kernel follows its call's tensors: those of a GPU run there, those of the host on the CPU.
struct Target {
  TargetKind kind = TargetKind::automatic;
  int device = 0;  ///< cuda: the driver's ordinal of the GPU
  static std::optional<Target> parse(std::string_view text);
  std::string text() const;
  friend bool operator==(const Target&, const Target&) = default;
};

/// Runs `count` tasks, each index once, on any threads; returns when all are done. Lets a host plug in its own pool.
/// `task(context, index)` does not throw.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual void parallel_for(std::int64_t count, void (*task)(void* context, std::int64_t index), void* context) = 0;
  /// Upper bound of threads that run tasks at the same time (scratch is sized by it); >= 1.
  virtual int concurrency() const = 0;
};

/// Choices for one compile. Everything has a default.
struct CompileOptions {
  Target target;
  std::string kernel;                    ///< which kernel of the program; may be empty where it has one
  std::map<std::string, DType> types;    ///< type variables; those of inputs are taken from the call where missing
  std::map<std::string, double> consts;  ///< values of const scalars (by name)
  std::map<std::string, std::string> schedule;  ///< overrides by key: {"tile.m", "64"}; an impossible one is an error
  bool require_fused = false;                   ///< a materialised intermediate is an error
  bool trusted = false;                         ///< drops the range checks of gathers
};

/// What one stage of the straight line made: for dumps, timings and traces.
struct StageEvent {
  std::string_view stage;  ///< "parse", "infer", "desugar", "stream", "lower", "tile", ..., "emit", "compile", "load"
  double milliseconds = 0;
  std::function<std::string()> text;  ///< prints what the stage made; empty for binaries
};

struct EngineOptions {
  int threads = 0;  ///< CPU threads; 0: physical cores the process may use
  bool disk_cache = true;
  std::string cache_directory;  ///< "": $ATTUNE_CACHE_DIR, else $XDG_CACHE_HOME/attune, else ~/.cache/attune
  std::uint64_t cache_limit_bytes = std::uint64_t{256} << 20;
  std::size_t memory_cache_entries = 256;
  std::shared_ptr<Executor> executor;               ///< null: attune's own pool
  std::function<void(const StageEvent&)> observer;  ///< called one event at a time, on the thread that compiles
};

/// An environment variable that attune reads: a default for what the program leaves open, or a debugging aid.
struct EnvironmentVariable {
  std::string_view name;
  std::string_view default_value;
  std::string_view help;
};
/// All of them, for `attune env` and the manual.
const std::vector<EnvironmentVariable>& environment_variables();

}  // namespace attune
