// SPDX-License-Identifier: Apache-2.0
// How long the reference takes for attention; hidden, run with "[.speed]".
#include <ctime>
#include <iostream>

#include "tests/reference/build.hpp"

using namespace attune;
using namespace attune::test;

namespace {

double seconds(std::int64_t heads, std::int64_t length, std::int64_t depth, bool causal) {
  Build b;
  for (const char* name : {"Q", "K", "V"}) b.tensor(name, DType::f32, "H N D");
  const Expr score = b.reduce(ReduceOp::sum, b.ranges("d D"), b.at("Q", "h i d") * b.at("K", "h j d"));
  b.define("S", b.ranges("h H i N j N"), score * real(0.125));
  b.define("P", b.ranges("h H i N j N"),
           b.softmax(b.ranges("j N"), b.at("S", "h i j"), causal ? le(b.i("j"), b.i("i")) : Expr()));
  b.define("O", b.ranges("h H i N e D"),
           b.reduce(ReduceOp::sum, b.ranges("j N"), b.at("P", "h i j") * b.at("V", "h j e")));
  b.result("O", DType::f32);
  Data<float> q = noise({heads, length, depth}, 1), k = noise({heads, length, depth}, 2),
              v = noise({heads, length, depth}, 3), o = filled({heads, length, depth}, NaN);
  const std::clock_t start = std::clock();
  call(b.program,
       {{"Q", q.ref(DType::f32)}, {"K", k.ref(DType::f32)}, {"V", v.ref(DType::f32)}, {"O", o.ref(DType::f32)}});
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

}  // namespace

TEST_CASE("time of the reference", "[.speed]") {
  std::cout << "12 heads of 320x32: " << seconds(12, 320, 32, false) << " s, causal " << seconds(12, 320, 32, true)
            << " s\n";
  std::cout << "4 heads of 2048x64: " << seconds(4, 2048, 64, false) << " s, causal " << seconds(4, 2048, 64, true)
            << " s\n";
}
