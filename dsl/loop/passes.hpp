// SPDX-License-Identifier: Apache-2.0
// The way from streams to a scheduled loop nest, in order: lower, tile, partition, place, map. Each pass is a pure
// function driven by the Schedule; every intermediate kernel prints, and from `tile` on the interpreter can run it.
#pragma once
#include <attune/diagnostic.hpp>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loop/ir.hpp"
#include "tensor/stream.hpp"

namespace attune::loop {

/// What a call's layouts allow a kernel to assume (checked at dispatch; part of the cache key).
struct LayoutFacts {
  std::map<std::string, std::int64_t> unit_axes;  ///< tensor name -> axis whose stride is 1
  std::map<std::string, bool> strided;            ///< tensor name -> rows lie far apart
  std::int64_t depth_hint = 64;                   ///< size of the innermost axis of the inputs, for the choice only
};

struct LowerOptions {
  Machine machine;
  LayoutFacts layout;
  std::map<std::string, std::string> overrides;  ///< schedule keys
  bool require_fused = false;
  bool trusted = false;
  int index_bits = 64;
  /// Called after every step that succeeds ("stream", "schedule", "lower", "tile", ...), so that what the earlier
  /// ones made is known where a later one fails.
  std::function<void(std::string_view step, double milliseconds, std::function<std::string()> text)> observer;
};

struct Lowered {
  Kernel kernel;
  std::vector<std::pair<std::string, std::string>> materialised;  ///< name, reason
};

/// Streams to statements over symbolic tile sizes: nothing chosen yet.
Kernel lower(const tensor::Streams& streams);
/// Binds tile.m and tile.n.
Kernel tile(Kernel kernel, const Schedule& schedule);
/// Guards to loop bounds and empty/full/partial classes of tiles; full tiles lose their predicate.
Kernel partition(Kernel kernel, const Schedule& schedule);
/// Contraction operands to packed tiles (the row side always, the streamed side by the schedule).
Kernel place(Kernel kernel, const Schedule& schedule);
/// Rows to vector lanes: register tiles of schedule.lanes rows inside each task.
Kernel map(Kernel kernel, const Schedule& schedule);
/// The end of map: bounds and classes of guards again, for the rows of one register tile.
void refine(Nest& nest);

/// The streams of a program: desugar, simplify, stream.
tensor::Streams derive(const tensor::Program& program);
/// All of it: derive, choose, lower and the passes. `program` has its types bound.
Result<Lowered> build(const tensor::Program& program, const LowerOptions& options);

}  // namespace attune::loop
