// SPDX-License-Identifier: Apache-2.0
// The straight line from a program to loaded code, with its caches. Nothing else knows the order.
#pragma once
#include <chrono>

#include "backend/binding.hpp"
#include "runtime/state.hpp"

namespace attune {

/// What an automatic target stands for: never a GPU while its code is a task for each thread, which a CPU overtakes.
Target resolve(const Target& target);

/// Program and options to a unit: inferred and checked. Where the options could be impossible (require_fused, schedule)
/// or somebody observes, it is also lowered once for contiguous inputs, so that it fails here and not at its first
/// call. Found again for equal programs and options.
Result<std::shared_ptr<Unit>> prepare(Engine::State& engine, const Program& program, const CompileOptions& options);

/// What was derived: from a variant where there is one, else lowered now for contiguous inputs. Empty for the
/// reference.
const Account& account_of(Engine::State& engine, Unit& unit);
/// The schedule's choices, each with its reason.
std::map<std::string, std::string> describe(const Schedule& schedule);

/// The unit's program for a choice of types.
Result<std::shared_ptr<const tensor::Program>> typed_program(Engine::State& engine, Unit& unit, const Types& types);

struct VariantFound {
  std::shared_ptr<const Variant> variant;
  std::string_view cache = "memory";  ///< "memory", "disk" or "miss"
  double compile_ms = 0;              ///< lowering, emission and compilation, where code was compiled
  double load_ms = 0;                 ///< everything where it came from disk, else loading
};
/// The variant for a call, made where there is none that fits, or A0610 where that must not be. `binding` is of
/// typed_program(unit, types).
Result<VariantFound> variant_for(Engine::State& engine, Unit& unit, const Types& types,
                                 const std::shared_ptr<const tensor::Program>& program, const Binding& binding,
                                 bool may_make = true);

/// Milliseconds since a start.
class Stopwatch {
 public:
  double milliseconds() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace attune
