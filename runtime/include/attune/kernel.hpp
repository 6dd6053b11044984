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

/// What a run reports.
struct RunReport {
  double run_ms = 0;
  double compile_ms = 0;  ///< 0 where no variant had to be compiled during this call
  double load_ms = 0;
  std::string cache = "memory";  ///< "memory", "disk" or "miss"
  bool out_of_range = false;     ///< an evaluated gather left its tensor
};

/// One intermediate that is stored, and why.
struct Materialised {
  std::string name;
  std::string reason;
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
  /// Runs on the calling thread's stream of work; results are written through the TensorRefs named after them.
  /// Nothing is written where an error is returned. Missing or surplus arguments, wrong dtype or extent: errors.
  Result<RunReport> run(const Arguments& arguments) const;

  /// What was derived: fused or not, and the intermediates that are stored with the reason.
  bool fused() const;
  const std::vector<Materialised>& materialised() const;
  /// The schedule's choices, each as key -> "value  (why)".
  std::map<std::string, std::string> schedule() const;
  /// Facts baked into the code: types, consts, layout facts.
  std::vector<std::string> specialisations() const;
  /// How many variants of code calls of this kernel have needed since it was made, each compiled, loaded from disk or
  /// found in memory once (a new length or scalar value must not add to it). 0 for the reference.
  int compile_count() const;
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace attune
