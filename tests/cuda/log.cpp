// SPDX-License-Identifier: Apache-2.0
// The compiler's log taken apart: registers, spills, stack, shared memory, and what costs speed.
#include "backend/cuda/nvrtc.hpp"
#include "tests/catch.hpp"

using namespace attune::cuda;

TEST_CASE("a log gives each function its own numbers") {
  const CompileLog log = parse_log(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'nest1' for 'sm_90a'\n"
      "ptxas info    : Function properties for nest1\n"
      "ptxas         .     712 bytes stack frame, 852 bytes spill stores, 1068 bytes spill loads\n"
      "ptxas info    : Used 32 registers, used 1 barriers, 712 bytes cumulative stack size, 1024 bytes smem\n"
      "ptxas info    : Compile time = 51.052 ms\n"
      "ptxas info    : Compiling entry function 'nest0' for 'sm_90a'\n"
      "ptxas info    : Function properties for nest0\n"
      "    256 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 144 registers, used 0 barriers, 256 bytes cumulative stack size, 416 bytes cmem[0]\n");
  REQUIRE(log.functions.size() == 2);
  const FunctionUsage* one = log.find("nest1");
  REQUIRE(one);
  CHECK(one->registers == 32);
  CHECK(one->stack_bytes == 712);
  CHECK(one->spill_stores == 852);
  CHECK(one->spill_loads == 1068);
  CHECK(one->shared_bytes == 1024);
  CHECK(one->losses.empty());
  const FunctionUsage* zero = log.find("nest0");
  REQUIRE(zero);
  CHECK(zero->registers == 144);
  CHECK(zero->stack_bytes == 256);
  CHECK(zero->spill_stores == 0);
  CHECK(zero->shared_bytes == 0);
  CHECK_FALSE(log.find("nest2"));
  CHECK(log.losses.empty());
}

TEST_CASE("notes on losses go to the function that they name, wherever they stand") {
  const CompileLog log = parse_log(
      "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to the "
      "presence "
      "of a function call in the function 'nest1'\n"
      "ptxas info    : Compiling entry function 'nest0' for 'sm_90a'\n"
      "ptxas info    : (C7508) setmaxnreg ignored; unable to determine register count at entry.\n"
      "ptxas info    : Used 168 registers\n"
      "ptxas info    : Compiling entry function 'nest1' for 'sm_90a'\n"
      "ptxas info    : Used 90 registers\n"
      "ptxas info    : (C7512) Potential Performance Loss: wgmma serialized in function 'nest1'");
  REQUIRE(log.find("nest1"));
  REQUIRE(log.find("nest1")->losses.size() == 2);
  CHECK(log.find("nest1")->losses[0].starts_with("(C7510) Potential"));
  CHECK(log.find("nest1")->losses[1].starts_with("(C7512)"));
  CHECK(log.find("nest1")->registers == 90);
  CHECK(log.find("nest0")->losses.empty());
  CHECK(log.find("nest0")->registers == 168);
  REQUIRE(log.losses.size() == 1);
  CHECK(log.losses[0] == "(C7508) setmaxnreg ignored; unable to determine register count at entry.");
}

TEST_CASE("text that is no such log gives nothing") {
  for (const char* text : {"", "\n\n", "registers", "C75", "C75x1 function 'f",
                           "Function properties for \nUsed registers", "attune.cu(3): error: Used 7 registers\n"}) {
    const CompileLog log = parse_log(text);
    for (const FunctionUsage& usage : log.functions) CHECK(usage.registers == 0);
    CHECK(log.losses.empty());
  }
  // A number too large for its place, and one cut short.
  const CompileLog log = parse_log(
      "Function properties for f\n99999999999999999999 bytes stack frame, bytes spill stores\nUsed 12 registers");
  REQUIRE(log.functions.size() == 1);
  CHECK(log.functions[0].registers == 12);
  CHECK(log.functions[0].spill_stores == 0);
}
