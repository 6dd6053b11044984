// SPDX-License-Identifier: Apache-2.0
// Every standard program as generated CUDA, executed on the host, against the reference: values, what is not finite,
// and the out-of-range flag, on odd sizes, with hostile data, into poisoned results.
#include "tests/catch.hpp"
#include "tests/cuda_emulated/host.hpp"
#include "tests/numerics/standard.hpp"

using namespace attune;
using namespace attune::test;

namespace {

/// Head sizes are literals of the code, so all cases of one program share theirs.
const std::vector<Case>& cases() {
  static const std::vector<Case> list = {
      shape(1, 2, 1, 13, 17, 5, 6), shape(1, 4, 2, 5, 2, 5, 6),    shape(1, 2, 2, 3, 0, 5, 6),
      shape(2, 2, 2, 0, 5, 5, 6),   shape(1, 1, 1, 131, 70, 5, 6),
  };
  return list;
}

constexpr const char* targets[] = {"reference", "cuda"};

}  // namespace

TEST_CASE("generated CUDA of standard programs, executed on the host, agrees with the reference") {
  if (!emulated::install()) return;
  EngineOptions options;
  options.disk_cache = false;
  Engine engine(options);
  for (const std::string& name : stdlib::names()) {
    DYNAMIC_SECTION(name) {
      for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
        CHECK(agree(engine, name, dtype, cases(), targets) >= static_cast<int>(cases().size()));
    }
  }
}
