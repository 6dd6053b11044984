// SPDX-License-Identifier: Apache-2.0
// The choice of a CPU schedule from a machine's registers and caches, and overrides of it.
#include "schedule/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

namespace attune {
namespace {

constexpr std::int64_t tile_limit = 8192;  ///< of every size: the scratch of a task grows with them
constexpr std::int64_t float_bytes = 4;
constexpr std::int64_t packed_rows = 128;    ///< rows that share one packed block of the streamed operands
constexpr std::int64_t streamed_step = 128;  ///< 96 to 192 measure the same; more leaves L2

std::string_view name(Packing packing) {
  return packing == Packing::in_place ? "in_place" : packing == Packing::packed ? "packed" : "direct";
}
std::string_view order(bool heavy_first) { return heavy_first ? "heavy_first" : "in_order"; }

/// Registers of a register tile: accumulators, one vector operand per column, one broadcast.
std::int64_t registers(std::int64_t vectors, std::int64_t rows) { return vectors * rows + vectors + 1; }

/// The multiple of `unit` nearest to `value`, at least one.
std::int64_t nearest_multiple(std::int64_t value, std::int64_t unit) {
  return std::max<std::int64_t>(1, (value + unit / 2) / unit) * unit;
}

void choose_rows(Schedule& schedule) {
  if (schedule.operands == Packing::in_place) {
    schedule.tile_m = schedule.lanes;
    schedule.why["tile.m"] = fmt::format(
        "one register tile of {} rows per task: operands are read in place, so there is "
        "no packed block for more rows to share",
        schedule.lanes);
  } else {
    schedule.tile_m = nearest_multiple(packed_rows, schedule.lanes);
    schedule.why["tile.m"] = fmt::format(
        "{} register tiles of {} rows share each packed block: the multiple of {} "
        "nearest to {}",
        schedule.tile_m / schedule.lanes, schedule.lanes, schedule.lanes, packed_rows);
  }
}

void choose_step(Schedule& schedule, const Machine& machine, const ScheduleInputs& inputs) {
  const std::int64_t rows = schedule.unit_rows, depth = std::max<std::int64_t>(1, inputs.depth);
  // Two packed blocks (both contractions) of tile.n rows must stay in L2.
  const auto blocks = [&](std::int64_t step) { return 2 * step * depth * float_bytes; };
  std::int64_t step = nearest_multiple(streamed_step, rows);
  bool shrunk = false;
  while (blocks(step) > machine.l2_bytes && step / 2 >= 32) {
    step = nearest_multiple(step / 2, rows);
    shrunk = true;
  }
  schedule.tile_n = step;
  schedule.why["tile.n"] =
      shrunk ? fmt::format("two blocks of {} rows of depth {} take {} of {} bytes of L2; {} rows would take {}", step,
                           depth, blocks(step), machine.l2_bytes, 2 * step, blocks(2 * step))
             : fmt::format("a multiple of {} unit rows near {}: two blocks of depth {} take {} of {} bytes of L2", rows,
                           streamed_step, depth, blocks(step), machine.l2_bytes);
}

void choose_operands(Schedule& schedule, const ScheduleInputs& inputs) {
  schedule.operands = Packing::packed;
  std::string& why = schedule.why["operands"];
  if (!inputs.streams) {
    schedule.operands = Packing::in_place;
    why = "nothing is contracted along a streamed index";
  } else if (inputs.converts) {
    why = "a streamed operand is not plain f32 memory: each block is converted once";
  } else if (inputs.strided) {
    why = "the rows of a streamed operand lie far apart and fall into the same sets of L1";
  } else {
    // A block is read once per register tile and comes from L2 at a few bytes a cycle, well below what L2 gives:
    // copying it first measured the same or slower for depths of 64 and 128, and small tasks fit guards better.
    schedule.operands = Packing::in_place;
    why = "plain f32 rows: a register tile takes long enough for L2 to bring the next ones";
  }
}

}  // namespace

std::map<std::string, std::string> Schedule::values() const {
  return {{"tile.m", std::to_string(tile_m)},        {"tile.n", std::to_string(tile_n)},
          {"lanes", std::to_string(lanes)},          {"unit.rows", std::to_string(unit_rows)},
          {"operands", std::string(name(operands))}, {"order", std::string(order(heavy_first))}};
}

namespace {

/// One row for each thread of a GPU, everything in its own registers and local memory.
Schedule choose_threads() {
  constexpr std::int64_t step = 32;
  Schedule schedule;
  schedule.tile_m = schedule.lanes = schedule.unit_rows = 1;
  schedule.tile_n = step;
  schedule.operands = Packing::direct;
  schedule.heavy_first = true;
  schedule.why["tile.m"] = "one row for each thread";
  schedule.why["lanes"] = "a thread works on one row at a time";
  schedule.why["unit.rows"] = "a thread works on one element at a time";
  schedule.why["tile.n"] = fmt::format("{} scores of a row are held between the maximum and the sum", step);
  schedule.why["operands"] = "the threads of a warp read the same element at the same time, and the caches keep it";
  schedule.why["order"] = "the longest tasks start first, so that the last ones are short";
  return schedule;
}

}  // namespace

Schedule choose(const Machine& machine, const ScheduleInputs& inputs) {
  Schedule schedule;
  schedule.why.clear();
  if (machine.gpu) return choose_threads();
  // The largest tile with four broadcast rows that leaves no load per multiply-add beyond what the ports sustain.
  const std::int64_t vector = std::max(1, machine.vector_lanes);
  std::int64_t vectors = 4;
  schedule.unit_rows = 4;
  while (vectors > 1 && registers(vectors, schedule.unit_rows) > machine.vector_registers) --vectors;
  while (schedule.unit_rows > 1 && registers(vectors, schedule.unit_rows) > machine.vector_registers)
    --schedule.unit_rows;
  schedule.lanes = vectors * vector;
  schedule.why["lanes"] = fmt::format("{} vectors of {} lanes", vectors, vector);
  schedule.why["unit.rows"] =
      fmt::format("{} rows of {} vectors use {} of {} registers, {} loads for {} multiply-adds", schedule.unit_rows,
                  vectors, registers(vectors, schedule.unit_rows), machine.vector_registers,
                  schedule.unit_rows + vectors, schedule.unit_rows * vectors);
  choose_step(schedule, machine, inputs);
  choose_operands(schedule, inputs);
  choose_rows(schedule);
  schedule.heavy_first = true;
  schedule.why["order"] = "the longest tasks start first, so that the last ones are short";
  return schedule;
}

namespace {

class Overrides {
 public:
  Overrides(Schedule schedule, const std::map<std::string, std::string>& overrides, const Machine& machine)
      : schedule_(std::move(schedule)), overrides_(overrides), machine_(machine) {}

  Result<Schedule> apply() {
    for (const auto& [key, value] : overrides_) read(key, value);
    if (errors_.empty()) sizes();
    if (!errors_.empty()) return errors_;
    follow();
    limits();
    if (!errors_.empty()) return errors_;
    return schedule_;
  }

 private:
  bool given(const std::string& key) const { return overrides_.count(key) != 0; }

  void error(const char* code, std::string message, std::string expected, std::string found, std::string help = {}) {
    Diagnostic diagnostic;
    diagnostic.code = code;
    diagnostic.message = std::move(message);
    diagnostic.expected = std::move(expected);
    diagnostic.found = std::move(found);
    diagnostic.help = std::move(help);
    errors_.push_back(std::move(diagnostic));
  }

  void malformed(const std::string& key, const std::string& value, const std::string& wanted) {
    error("A0402", fmt::format("schedule value `{}` of `{}` is not {}", value, key, wanted), wanted, value);
  }

  void number(const std::string& key, const std::string& value, std::int64_t& target) {
    std::int64_t parsed = 0;
    const char* end = value.data() + value.size();
    const auto [stop, problem] = std::from_chars(value.data(), end, parsed);
    if (problem != std::errc() || stop != end || parsed < 1)
      malformed(key, value, "a whole number of at least 1");
    else
      target = parsed;
  }

  void read(const std::string& key, const std::string& value) {
    if (key == "tile.m") {
      number(key, value, schedule_.tile_m);
    } else if (key == "tile.n") {
      number(key, value, schedule_.tile_n);
    } else if (key == "lanes") {
      number(key, value, schedule_.lanes);
    } else if (key == "unit.rows") {
      number(key, value, schedule_.unit_rows);
    } else if (key == "operands") {
      if (value == "packed")
        schedule_.operands = Packing::packed;
      else if (value == "in_place")
        schedule_.operands = Packing::in_place;
      else if (value == "direct" && machine_.gpu)
        schedule_.operands = Packing::direct;
      else
        return malformed(key, value, machine_.gpu ? "direct, in_place or packed" : "in_place or packed");
    } else if (key == "order") {
      if (value != "heavy_first" && value != "in_order") return malformed(key, value, "heavy_first or in_order");
      schedule_.heavy_first = value == "heavy_first";
    } else {
      std::vector<std::string> keys;
      for (const auto& entry : schedule_.values()) keys.push_back(entry.first);
      const std::string near = did_you_mean(key, keys);
      error("A0401", fmt::format("no schedule key `{}`", key), fmt::format("one of {}", fmt::join(keys, ", ")), key,
            near.empty() ? "" : "did you mean `" + near + "`?");
      return;
    }
    schedule_.why[key] = "as asked for";
  }

  /// What was not asked for follows what was, so that one key alone is never impossible for the sake of another choice.
  void follow() {
    if (!given("unit.rows") && given("lanes") && machine_.vector_lanes > 0) {
      const std::int64_t vectors = std::max<std::int64_t>(1, schedule_.lanes / machine_.vector_lanes);
      const std::int64_t before = schedule_.unit_rows;
      while (schedule_.unit_rows > 1 && vectors < machine_.vector_registers &&
             registers(vectors, schedule_.unit_rows) > machine_.vector_registers)
        --schedule_.unit_rows;
      if (schedule_.unit_rows != before)
        schedule_.why["unit.rows"] =
            fmt::format("what {} registers hold beside {} vectors", machine_.vector_registers, vectors);
    }
    if (!given("tile.m") && machine_.gpu)
      schedule_.tile_m = schedule_.lanes;
    else if (!given("tile.m") && (given("lanes") || given("operands")))
      choose_rows(schedule_);
    if (!given("tile.n") && schedule_.tile_n % schedule_.unit_rows != 0) {
      schedule_.tile_n = nearest_multiple(schedule_.tile_n, schedule_.unit_rows);
      schedule_.why["tile.n"] = fmt::format("a multiple of {} unit rows", schedule_.unit_rows);
    }
  }

  void impossible(const std::string& key, std::int64_t value, const std::string& limit) {
    error("A0403", fmt::format("schedule `{} = {}` is impossible: it must be {}", key, value, limit), limit,
          std::to_string(value));
  }

  void sizes() {
    const std::pair<const char*, std::int64_t> all[] = {{"tile.m", schedule_.tile_m},
                                                        {"tile.n", schedule_.tile_n},
                                                        {"lanes", schedule_.lanes},
                                                        {"unit.rows", schedule_.unit_rows}};
    for (const auto& [key, value] : all)
      if (value > tile_limit) impossible(key, value, fmt::format("at most {}", tile_limit));
  }

  void limits() {
    const std::int64_t vector = std::max(1, machine_.vector_lanes);
    const Schedule& s = schedule_;
    if (s.lanes % vector != 0)
      return impossible("lanes", s.lanes,
                        fmt::format("a multiple of the {} vector lanes of {}", vector, machine_.name));
    const std::int64_t vectors = s.lanes / vector, needed = registers(vectors, s.unit_rows);
    if (needed > machine_.vector_registers) {
      const bool rows_asked = given("unit.rows");
      error("A0403",
            fmt::format("schedule `{} = {}` is impossible: a register tile of {} rows by {} vectors needs {} vector "
                        "registers, {} has {}",
                        rows_asked ? "unit.rows" : "lanes", rows_asked ? s.unit_rows : s.lanes, s.unit_rows, vectors,
                        needed, machine_.name, machine_.vector_registers),
            fmt::format("at most {} registers", machine_.vector_registers), std::to_string(needed));
    }
    if (s.tile_m % s.lanes != 0) impossible("tile.m", s.tile_m, fmt::format("a multiple of {} lanes", s.lanes));
    if (s.tile_n % s.unit_rows != 0)
      impossible("tile.n", s.tile_n, fmt::format("a multiple of {} unit rows", s.unit_rows));
  }

  Schedule schedule_;
  const std::map<std::string, std::string>& overrides_;
  const Machine& machine_;
  Diagnostics errors_;
};

}  // namespace

Result<Schedule> apply_overrides(Schedule schedule, const std::map<std::string, std::string>& overrides,
                                 const Machine& machine) {
  return Overrides(std::move(schedule), overrides, machine).apply();
}

}  // namespace attune
