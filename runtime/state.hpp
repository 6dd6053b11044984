// SPDX-License-Identifier: Apache-2.0
// What Engine and Kernel handles point to: an engine's resources, a program's derived forms, a kernel's plans.
#pragma once
#include <atomic>
#include <attune/engine.hpp>
#include <mutex>

#include "backend/cpu/cpu.hpp"
#include "backend/cuda/device.hpp"
#include "loop/passes.hpp"
#include "runtime/disk_cache.hpp"
#include "runtime/dispatch.hpp"
#include "runtime/gpu_scratch.hpp"
#include "runtime/memory.hpp"
#include "runtime/options.hpp"
#include "runtime/single_flight.hpp"

namespace attune {

using Types = std::map<std::string, DType>;

/// Sizes of dims by name.
using Sizes = std::map<std::string, std::int64_t>;

/// Code for one choice of types, layout facts, integer width and, on a GPU, sizes of some dims. Immutable.
struct Variant {
  Types types;
  Sizes fixed;  ///< of cuda::dims_to_fix(), cuda only
  loop::LayoutFacts layout;
  int index_bits = 64;
  std::shared_ptr<const tensor::Program> program;  ///< types bound; its Syms are those of the loop kernel
  loop::Lowered lowered;
  std::shared_ptr<cpu::Loaded> code;        ///< cpu only
  std::shared_ptr<const cuda::Loaded> gpu;  ///< cuda only
};

/// What a kernel says of itself: the same for all of its variants but the schedule.
struct Account {
  std::vector<Materialised> materialised;
  std::map<std::string, std::string> schedule;  ///< key -> "value  (why)"
};

/// One kernel of one program under one set of options: shared by every Kernel handle that was compiled alike, so that
/// all of them speak of the same Syms and the same variants.
struct Unit {
  Unit(CompileOptions chosen, Target resolved, std::size_t most_variants)
      : options(std::move(chosen)), target(resolved), flights(most_variants), limit(most_variants) {}

  const CompileOptions options;
  const Target target;             ///< never automatic
  std::optional<Program> program;  ///< what was compiled
  tensor::Program open;            ///< types not bound yet
  Diagnostics warnings;

  std::mutex mutex;                        ///< guards the four below
  std::unique_ptr<const Account> account;  ///< made once, then never changed: references to it stay valid
  std::map<Types, std::shared_ptr<const tensor::Program>> typed;
  std::map<Types, std::vector<Sym>> fixed;               ///< dims that variants are made for; cuda only
  std::vector<std::shared_ptr<const Variant>> variants;  ///< in order of making
  SingleFlight<std::shared_ptr<const Variant>> flights;
  const std::size_t limit;
};

struct Engine::State {
  explicit State(EngineOptions chosen);

  const EngineOptions options;
  const Settings settings;
  const std::shared_ptr<Executor> executor;
  const std::unique_ptr<DiskCache> disk;  ///< null where off
  SingleFlight<std::shared_ptr<Unit>> units;
  SingleFlight<std::shared_ptr<cpu::Loaded>> codes;
  SingleFlight<std::shared_ptr<const cuda::Loaded>> gpu_codes;
  WorkspacePool workspaces;
  GpuScratchPool gpu_scratch;

  bool observed() const { return static_cast<bool>(options.observer); }
  /// One event at a time, whatever thread compiles.
  void observe(std::string_view stage, double milliseconds, std::function<std::string()> text = {});

 private:
  std::mutex observer_mutex_;
};

struct Kernel::State {
  State(std::shared_ptr<Engine::State> its_engine, std::shared_ptr<Unit> its_unit, bool follows)
      : engine(std::move(its_engine)), unit(std::move(its_unit)), follows_tensors(follows) {}

  const std::shared_ptr<Engine::State> engine;
  const std::shared_ptr<Unit> unit;
  /// Compiled for the target `auto`. Not the unit's to say: an explicit choice of what `auto` means shares the unit.
  const bool follows_tensors;

  mutable std::mutex mutex;                          ///< guards the three below
  std::vector<std::shared_ptr<const Variant>> used;  ///< variants that calls of this kernel needed, in that order
  std::vector<std::shared_ptr<const Plan>> plans;    ///< of the last few kinds of calls, most recent first
  /// An automatic kernel's counterparts for calls whose tensors lie on a GPU, by the GPU's ordinal.
  std::map<int, std::shared_ptr<Kernel::State>> on_gpus;
};

}  // namespace attune
