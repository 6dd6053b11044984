// SPDX-License-Identifier: Apache-2.0
// The command with GPUs: what it says where there is none, and with a driver that executes nothing.
#include <nlohmann/json.hpp>

#include "backend/cuda/nvrtc.hpp"
#include "tests/cli/support.hpp"

namespace {

using Json = nlohmann::json;

const std::string sizes = " --shape B=1,H=2,G=1,M=40,N=50,D=64,E=64 --dtype T=f16 --random 1 ";
const std::string none = "ATTUNE_CUDA_PATH=/nowhere/libcuda.so.1";
const std::string fake = "ATTUNE_FAKE_ANY=1 ATTUNE_CUDA_PATH=" ATTUNE_FAKE_CUDA;

bool says(const cli::Outcome& outcome, const std::string& part) { return outcome.text.find(part) != std::string::npos; }

/// Whether NVRTC is here: what needs it is left out elsewhere.
bool has_nvrtc() {
  static const bool found = [] {
    const bool here = cli::run("env").text.find("✓ NVRTC") != std::string::npos;
    if (!here) WARN("left out: NVRTC was not found");
    return here;
  }();
  return found;
}

}  // namespace

TEST_CASE("without a GPU the target is refused with exit code 4, and `auto` is the CPU") {
  for (const char* command : {"run", "bench"}) {
    const auto refused = cli::run(command + std::string(" std:causal --target cuda") + sizes, none);
    CHECK(refused.code == 4);
    CHECK(says(refused, "A0602"));
    CHECK(says(refused, "/nowhere/libcuda.so.1"));
    CHECK(says(refused, "ATTUNE_CUDA_PATH"));
  }
  const auto json = Json::parse(cli::output("run std:causal --json --target cuda:1" + sizes, none));
  CHECK(json["errors"][0]["code"] == "A0602");
  const auto automatic = Json::parse(cli::output("run std:causal --json" + sizes, none));
  CHECK(automatic["target"] != "cuda");
  CHECK(cli::run("show std:causal --target cuda --stage loop" + sizes, none).code == 4);
  CHECK(cli::run("run std:causal --target cuda:x" + sizes, none).code == 2);
  // Nothing is said of it where nobody asked.
  CHECK_FALSE(says(cli::run("run std:causal" + sizes, none), "cuda"));
}

TEST_CASE("a library that is no driver is refused with the reason") {
  const auto outcome = cli::run("env", "ATTUNE_CUDA_PATH=libm.so.6 ATTUNE_NVRTC_PATH=libm.so.6");
  CHECK(outcome.code == 0);
  CHECK(says(outcome, "libm.so.6: lacks cuInit"));
  CHECK(says(outcome, "libm.so.6: lacks nvrtcVersion"));
  CHECK(says(outcome, "✗ CUDA driver"));
  CHECK(says(outcome, "✗ NVRTC"));
}

TEST_CASE("env lists the driver, its devices with their limits, and the compiler") {
  const auto here = cli::run("env", fake);
  INFO(here.text);
  CHECK(here.code == 0);
  CHECK(says(here, "✓ CUDA driver            13.0 at "));
  CHECK(says(here,
             "✓ GPU 0                  Fake H200 (sm_90a), 140.0 GiB memory, 132 processors, shared memory 227 KiB"));
  CHECK(says(here, "L2 50.0 MiB"));
  CHECK_FALSE(says(here, "means cuda"));  // its code is slower than a CPU's as yet
  const auto blind = cli::run("env", fake + " ATTUNE_NVRTC_PATH=/nowhere/libnvrtc.so");
  CHECK(says(blind, "✗ NVRTC                  not found"));
  const auto nothing = cli::run("env", none);
  CHECK(says(nothing, "✗ CUDA driver            not found"));
  CHECK_FALSE(says(nothing, "GPU 0"));
  const auto json = Json::parse(cli::output("env --json", fake));
  CHECK(json["findings"].dump().find("Fake H200") != std::string::npos);
}

TEST_CASE("with a GPU and a compiler the command runs and times on the GPU") {
  if (!has_nvrtc()) return;
  const auto ran = cli::run("run std:causal --target cuda" + sizes, fake);
  INFO(ran.text);
  CHECK(ran.code == 0);
  const auto timed = cli::run("bench std:causal --target cuda --rounds 3" + sizes, fake);
  INFO(timed.text);
  CHECK(timed.code == 0);
  CHECK(says(timed, "Fake H200 (burst)"));
  CHECK(says(timed, "registers"));
  const auto automatic = Json::parse(cli::output("run std:causal --json" + sizes, fake));
  CHECK(automatic["target"] != "cuda");
  CHECK(cli::run("bench std:causal --target cuda --against eigen" + sizes, fake).code == 2);
  CHECK(cli::run("bench std:causal --target cpu --protocol burst --rounds 1" + sizes).code == 2);
  CHECK(cli::run("bench std:causal --target cuda --protocol slow" + sizes, fake).code == 2);
}

TEST_CASE("a GPU that is not here can be asked about and not run") {
  const auto source = cli::run("show std:causal --stage source --arch sm_90a --dtype T=f16", none);
  CHECK(source.code == 0);
  CHECK(says(source, "ATTUNE_KERNEL(128, 1) attune_causal_0(const Params p)"));
  CHECK(cli::run("show std:causal --stage schedule --arch sm_80 --target cuda --dtype T=f16", none).code == 0);
  CHECK(cli::run("check std:causal --arch sm_120", none).code == 0);
  CHECK(says(cli::run("check std:causal --arch sm_91", none), "did you mean `sm_9"));
  for (const char* command : {"run", "bench"}) {
    const auto refused = cli::run(command + std::string(" std:causal --arch sm_90a") + sizes, none);
    CHECK(refused.code == 4);
    CHECK(says(refused, "A0605"));
  }
  CHECK(cli::run("show std:causal --stage source --arch sm_90a --target cpu", none).code == 2);
  CHECK(cli::run("show std:causal --stage source --arch znver4 --target cuda", none).code == 2);
}
