// SPDX-License-Identifier: Apache-2.0
// Every standard program on odd sizes, in f32, f16 and bf16, on every target that is here, against the reference.
#include "tests/catch.hpp"
#include "tests/numerics/standard.hpp"

using namespace attune;
using namespace attune::test;

namespace {

const std::vector<Case>& cases() {
  static const std::vector<Case> list = {
      shape(1, 2, 1, 13, 17, 5, 6),   shape(2, 4, 2, 5, 2, 64, 64),      shape(1, 2, 2, 3, 0, 8, 8),
      shape(1, 3, 1, 1, 37, 40, 40),  shape(1, 1, 1, 130, 70, 1, 3),     shape(1, 6, 2, 33, 150, 96, 40),
      shape(1, 1, 1, 1, 1, 1, 1),     shape(1, 2, 1, 129, 257, 128, 64), shape(2, 2, 2, 0, 5, 4, 4),
      shape(1, 2, 2, 25, 24, 3, 128),
  };
  return list;
}

constexpr const char* every_target[] = {"reference", "interpreter", "cpu", "cuda"};

}  // namespace

TEST_CASE("standard programs agree with the reference") {
  EngineOptions options;
  options.disk_cache = false;
  options.threads = 2;
  static Engine engine(options);
  for (const std::string& name : stdlib::names()) {
    DYNAMIC_SECTION(name) {
      for (DType dtype : {DType::f32, DType::f16, DType::bf16})
        CHECK(agree(engine, name, dtype, cases(), every_target) >= static_cast<int>(cases().size()) - 1);
    }
  }
}
