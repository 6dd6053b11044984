// SPDX-License-Identifier: Apache-2.0
// Kernel: a compiled program, ready to be called with tensors. Cheap to copy, safe to call from many threads.
#pragma once
#include <attune/diagnostic.hpp>
#include <attune/options.hpp>
#include <attune/tensor_ref.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace attune {

/// One named value of a call: a tensor, a scalar, or the size of a dim that no tensor fixes.
struct Argument {
  std::string name;
  std::variant<TensorRef, double, std::int64_t, bool> value;

  Argument(std::string its_name, TensorRef tensor) : name(std::move(its_name)), value(std::move(tensor)) {}
  Argument(std::string its_name, double scalar) : name(std::move(its_name)), value(scalar) {}
  Argument(std::string its_name, std::int64_t scalar) : name(std::move(its_name)), value(scalar) {}
  Argument(std::string its_name, int scalar) : name(std::move(its_name)), value(std::int64_t{scalar}) {}
  Argument(std::string its_name, bool scalar) : name(std::move(its_name)), value(scalar) {}
};
using Arguments = std::vector<Argument>;

/// Shapes that follow from the inputs of a call.
struct CallShapes {
  std::map<std::string, std::int64_t> dims;
  struct ResultShape {
    std::string name;
    DType dtype;
    std::vector<std::int64_t> shape;
  };
  std::vector<ResultShape> results;
};

/// How a call on the target `cuda` is launched; the other targets have finished when they return and ignore it.
struct RunOptions {
  /// A CUstream (cudaStream_t) of the tensors' GPU, of its primary context (that of the CUDA runtime and of
  /// frameworks); null: its default stream. Work is only queued there: tensors, and for a graph that was captured the
  /// Kernel too, must stay until it is done, and results are there for work queued behind it.
  void* stream = nullptr;
  /// Wait for the stream; only then RunReport::out_of_range is known.
  bool wait = false;
  /// Device memory of at least Kernel::workspace_bytes(), aligned to 256 bytes; null: the engine's own, one block for
  /// each stream that is made at the first call which needs it and then kept, so that calls on one stream follow
  /// each other and calls on several do not meet. A call in a CUDA graph keeps using the block of the stream that was
  /// captured: give graphs that run beside that stream a workspace of their own. The call sets the i32 at the
  /// workspace's start to 0, and then to 1 where an evaluated gather leaves its tensor.
  void* workspace = nullptr;
  std::uint64_t workspace_bytes = 0;
};

/// What a run reports.
struct RunReport {
  double run_ms = 0;      ///< on the target `cuda` without RunOptions::wait: of queueing alone
  double compile_ms = 0;  ///< 0 where no variant had to be compiled during this call
  double load_ms = 0;
  std::string cache = "memory";  ///< "memory", "disk" or "miss"
  bool out_of_range = false;     ///< an evaluated gather left its tensor (cuda: only with RunOptions::wait)
};

/// One intermediate that is stored, and why.
struct Materialised {
  std::string name;
  std::string reason;
};

/// Resources of one launch on a GPU.
struct LaunchUsage {
  std::string function;
  int threads = 0;                  ///< of a block
  int registers = 0;                ///< of a thread
  std::int64_t spill_bytes = 0;     ///< stored and loaded again
  std::int64_t stack_bytes = 0;     ///< local memory of a thread
  std::int64_t shared_bytes = 0;    ///< of a block, static and dynamic
  std::vector<std::string> losses;  ///< notes of the compiler on serialised instructions (C75xx)
};

class Kernel {
 public:
  struct State;
  explicit Kernel(std::shared_ptr<State> state) : state_(std::move(state)) {}

  /// The kernel's name in the program.
  const std::string& name() const;
  Target target() const;
  /// Checks the inputs (results may be left out) and solves the dims. Every mismatch is reported, each with tensor,
  /// axis, expected and found.
  Result<CallShapes> shapes(const Arguments& arguments) const;
  /// Results are written through the TensorRefs named after them. Nothing is written where an error is returned.
  /// Missing or surplus arguments, wrong dtype or extent, a tensor that the target cannot reach: errors. On `cuda` the
  /// first call of a kind compiles, loads and allocates; later ones only queue launches, and may be captured in a
  /// graph.
  Result<RunReport> run(const Arguments& arguments, const RunOptions& options = {}) const;
  /// Bytes of RunOptions::workspace for such a call on `cuda` (makes what its first run would make); 0 elsewhere.
  Result<std::uint64_t> workspace_bytes(const Arguments& arguments) const;

  /// What was derived: fused or not, and the intermediates that are stored with the reason.
  bool fused() const;
  const std::vector<Materialised>& materialised() const;
  /// The schedule's choices, each as key -> "value  (why)".
  std::map<std::string, std::string> schedule() const;
  /// Facts baked into the code: types, consts, layout facts.
  std::vector<std::string> specialisations() const;
  /// What the compiler says of the code that the last call used, one entry a launch; empty but for `cuda`.
  std::vector<LaunchUsage> usage() const;
  /// How many variants of code calls of this kernel have needed since it was made, each compiled, loaded from disk or
  /// found in memory once (a new length or scalar value must not add to it). 0 for the reference.
  int compile_count() const;
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace attune
