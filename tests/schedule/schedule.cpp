// SPDX-License-Identifier: Apache-2.0
// The cold choice on machines of each kind, and overrides with their limits.
#include "schedule/schedule.hpp"

#include "tests/catch.hpp"

using namespace attune;

namespace {

Machine avx512() { return {"avx512", 16, 32, 48 << 10, 1 << 20}; }
Machine avx2() { return {"avx2", 8, 16, 32 << 10, 512 << 10}; }
Machine generic() { return {"generic", 4, 16, 32 << 10, 512 << 10}; }

Diagnostics errors(const Machine& machine, const std::map<std::string, std::string>& overrides) {
  return apply_overrides(choose(machine, {}), overrides, machine).diagnostics();
}

bool mentions(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("choose: the register tile follows the registers", "[schedule]") {
  CHECK(choose(avx512(), {}).lanes == 64);
  CHECK(choose(avx512(), {}).unit_rows == 4);
  CHECK(choose(avx2(), {}).lanes == 24);
  CHECK(choose(avx2(), {}).unit_rows == 4);
  CHECK(choose(generic(), {}).lanes == 12);
}

TEST_CASE("choose: plain rows are read in place, others are copied to panels", "[schedule]") {
  ScheduleInputs inputs;
  for (const std::int64_t depth : {16, 64, 128, 576}) {
    inputs.depth = depth;
    const Schedule plain = choose(avx512(), inputs);
    CHECK(plain.operands == Packing::in_place);
    CHECK(plain.tile_m == plain.lanes);
  }
  inputs.converts = true;
  const Schedule converted = choose(avx512(), inputs);
  CHECK(converted.operands == Packing::packed);
  CHECK(converted.tile_m == 128);
  CHECK(choose(avx2(), inputs).tile_m == 120);
  inputs.converts = false;
  inputs.strided = true;
  CHECK(choose(avx512(), inputs).operands == Packing::packed);
}

TEST_CASE("choose: every value has a reason and every combination is legal", "[schedule]") {
  for (const Machine& machine : {avx512(), avx2(), generic(), Machine{"interpreter", 1, 1, 1, 1}})
    for (const bool streams : {false, true})
      for (const bool converts : {false, true})
        for (const std::int64_t depth : {0, 1, 3, 64, 80, 128, 256, 576, 4096}) {
          const Schedule schedule = choose(machine, {streams, converts, false, depth});
          CHECK(schedule.tile_m % schedule.lanes == 0);
          CHECK(schedule.lanes % machine.vector_lanes == 0);
          CHECK(schedule.tile_n % schedule.unit_rows == 0);
          CHECK(schedule.tile_n >= 1);
          for (const auto& [key, value] : schedule.values()) CHECK(!schedule.why.at(key).empty());
        }
}

TEST_CASE("choose: deep blocks leave room in L2", "[schedule]") {
  ScheduleInputs inputs;
  inputs.depth = 576;
  CHECK(choose(avx2(), inputs).tile_n == 64);
  inputs.depth = 128;
  CHECK(choose(avx2(), inputs).tile_n == 128);
}

TEST_CASE("overrides: values and what follows them", "[schedule]") {
  const Machine machine = avx512();
  const auto apply = [&](const std::map<std::string, std::string>& overrides) {
    return apply_overrides(choose(machine, {}), overrides, machine).value();
  };
  CHECK(apply({}) == choose(machine, {}));
  const Schedule all = apply({{"tile.m", "96"},
                              {"tile.n", "30"},
                              {"lanes", "48"},
                              {"unit.rows", "3"},
                              {"operands", "in_place"},
                              {"order", "in_order"}});
  CHECK(all.values() == std::map<std::string, std::string>{{"tile.m", "96"},
                                                           {"tile.n", "30"},
                                                           {"lanes", "48"},
                                                           {"unit.rows", "3"},
                                                           {"operands", "in_place"},
                                                           {"order", "in_order"}});
  CHECK(all.why.at("tile.n") == "as asked for");
  CHECK(apply({{"lanes", "48"}}).tile_m % 48 == 0);
  CHECK(apply({{"unit.rows", "3"}}).tile_n % 3 == 0);
  CHECK(apply({{"operands", "in_place"}}).tile_m == 64);
  CHECK(apply({{"lanes", "128"}}).unit_rows == 2);  // 8 vectors * 2 rows + 8 + 1 registers
  CHECK_FALSE(apply({{"tile.n", "64"}}) == choose(machine, {}));
}

TEST_CASE("overrides: what cannot be honoured is an error", "[schedule]") {
  const auto one = [](const Diagnostics& found, const std::string& code, const std::string& part) {
    REQUIRE(found.size() == 1);
    CHECK(found[0].severity == Severity::error);
    CHECK(found[0].code == code);
    INFO(found[0].message);
    CHECK(mentions(found[0].message, part));
  };
  one(errors(avx512(), {{"tile.x", "4"}}), "A0401", "`tile.x`");
  CHECK(mentions(errors(avx512(), {{"tile.x", "4"}})[0].help, "tile.m"));
  for (const char* value : {"", "0", "-4", "64k", "6.5", " 8", "99999999999999999999", "0x40"})
    one(errors(avx512(), {{"tile.m", value}}), "A0402", std::string("`") + value + "`");
  one(errors(avx512(), {{"operands", "shared"}}), "A0402", "in_place or packed");
  one(errors(avx512(), {{"order", "random"}}), "A0402", "heavy_first or in_order");
  one(errors(avx512(), {{"tile.m", "100"}}), "A0403", "a multiple of 64 lanes");
  one(errors(avx512(), {{"lanes", "40"}}), "A0403", "16 vector lanes");
  one(errors(avx512(), {{"unit.rows", "8"}}), "A0403", "37 vector registers");
  one(errors(avx512(), {{"unit.rows", "3"}, {"tile.n", "128"}}), "A0403", "a multiple of 3 unit rows");
  one(errors(avx512(), {{"lanes", "1024"}}), "A0403", "32");
  one(errors(avx512(), {{"tile.n", "100000"}}), "A0403", "at most 8192");
  one(errors(avx512(), {{"lanes", "9223372036854775807"}}), "A0403", "at most 8192");
  one(errors(avx512(), {{"unit.rows", "9223372036854775807"}}), "A0403", "at most 8192");
  CHECK(errors(avx512(), {{"tile.x", "1"}, {"tile.m", "a"}}).size() == 2);
}
