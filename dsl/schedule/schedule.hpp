// SPDX-License-Identifier: Apache-2.0
// Schedule: every choice of how a program runs, as plain comparable data with a reason each. choose() makes it.
#pragma once
#include <attune/diagnostic.hpp>
#include <cstdint>
#include <map>
#include <string>

namespace attune {

/// What choose() and the passes need to know of a machine; filled by the backend that found it.
struct Machine {
  std::string name;      ///< "avx512", "avx2", "generic", "interpreter"
  int vector_lanes = 8;  ///< f32 elements of one vector register
  int vector_registers = 16;
  std::int64_t l1_bytes = 32 << 10;   ///< never 0
  std::int64_t l2_bytes = 512 << 10;  ///< never 0
  bool gpu = false;                   ///< tasks run on threads of a GPU
};

/// in_place: plain f32 memory is read where it lies. packed: every operand is copied to an f32 panel. direct (GPUs):
/// memory of any float type is read and converted where it lies.
enum class Packing : std::uint8_t { in_place, packed, direct };

struct Schedule {
  std::int64_t tile_m = 64;                ///< rows (of the lane index) per task
  std::int64_t tile_n = 128;               ///< elements of the streamed index per step
  std::int64_t lanes = 64;                 ///< rows per register tile: a multiple of the vector lanes; divides tile_m
  std::int64_t unit_rows = 4;              ///< broadcast rows of the register tile
  Packing operands = Packing::packed;      ///< how streamed contraction operands are read
  bool heavy_first = true;                 ///< tasks in order of falling work
  std::map<std::string, std::string> why;  ///< key ("tile.m", ...) -> reason

  /// key -> value as text; the keys that --schedule accepts: tile.m tile.n lanes unit.rows operands order.
  std::map<std::string, std::string> values() const;
  friend bool operator==(const Schedule& a, const Schedule& b) { return a.values() == b.values(); }
};

/// Facts about a program's fused nests and a call's layouts that steer the choice.
struct ScheduleInputs {
  bool streams = true;      ///< whether any nest has a streamed contraction
  bool converts = false;    ///< a streamed operand is not plain f32 memory
  bool strided = false;     ///< a streamed operand's rows are far apart (stride larger than the row)
  std::int64_t depth = 64;  ///< contraction depth (D), as hinted by the first call
};

/// The cold choice for a machine, a reason for each value.
Schedule choose(const Machine& machine, const ScheduleInputs& inputs);
/// Applies `key=value` overrides. Unknown key, malformed value or an impossible combination: error A04xx that names
/// the limit and the value.
Result<Schedule> apply_overrides(Schedule schedule, const std::map<std::string, std::string>& overrides,
                                 const Machine& machine);

}  // namespace attune
