// SPDX-License-Identifier: Apache-2.0
// The real compiler, where it is: machine code without a GPU, its log, its complaints.
#include "backend/cuda/nvrtc.hpp"
#include "backend/cuda/target.hpp"
#include "tests/catch.hpp"

using namespace attune;

namespace {

bool has_nvrtc() {
  if (cuda::nvrtc::api() != nullptr) return true;
  WARN("left out: NVRTC was not found (" << cuda::nvrtc_report().tried.size() << " paths tried)");
  return false;
}

cuda::Source source(const std::string& body) {
  cuda::Source out;
  out.text = std::string(cuda::prelude()) + std::string(cuda::prelude_end) +
             "struct Params { u64 words[4]; };\nATTUNE_KERNEL(128, 1) f(const Params p) {\n" + body + "\n}\n";
  out.launches.push_back({"f", 128, 0, 1});
  out.words = 4;
  return out;
}

}  // namespace

TEST_CASE("the prelude compiles for every architecture that the compiler knows") {
  if (!has_nvrtc()) return;
  CHECK_FALSE(cuda::nvrtc_identity().empty());
  CHECK_FALSE(cuda::nvrtc_report().path.empty());
  int compiled = 0;
  for (const std::string& arch : cuda::target_names()) {
    INFO(arch);
    const auto binary = cuda::compile(source("((float*)p.words[0])[thread_index()] = exp2_fast((float)p.words[1]);"),
                                      *cuda::named_target(arch));
    if (!binary && binary.diagnostics()[0].code == "A0602") continue;  // an older or newer compiler
    if (!binary) FAIL(render(binary.diagnostics()));
    ++compiled;
    CHECK(std::string(binary->cubin.begin() + 1, binary->cubin.begin() + 4) == "ELF");
    const cuda::CompileLog log = cuda::parse_log(binary->log);
    REQUIRE(log.find("f"));
    CHECK(log.find("f")->registers > 0);
    CHECK(log.find("f")->spill_stores == 0);
    CHECK(log.find("f")->losses.empty());
  }
  CHECK(compiled >= 4);
}

TEST_CASE("spills and stack are read from a real log") {
  if (!has_nvrtc()) return;
  cuda::Source crowded = source(
      "float a[64]; float* x = (float*)p.words[0]; for (int i = 0; i < 64; ++i) a[i] = x[i * thread_index()];\n"
      "block_sync(); float s = 0; for (int i = 0; i < 64; ++i) s += a[i] * a[63 - i] * x[i]; block_sync();\n"
      "for (int i = 0; i < 64; ++i) x[thread_index() + i] = s * a[i];");
  const std::string bounds = "ATTUNE_KERNEL(128, 1) f";
  crowded.text.replace(crowded.text.find(bounds), bounds.size(), "ATTUNE_KERNEL(1024, 2) f");
  const auto binary = cuda::compile(crowded, *cuda::named_target("sm_80"));
  if (!binary) FAIL(render(binary.diagnostics()));
  const cuda::CompileLog log = cuda::parse_log(binary->log);
  REQUIRE(log.find("f"));
  CHECK(log.find("f")->registers == 32);
  CHECK(log.find("f")->spill_stores > 0);
  CHECK(log.find("f")->spill_loads > 0);
  CHECK(log.find("f")->stack_bytes > 0);  // a slot may be used several times
}

TEST_CASE("a refused text is told with the place that its #line says") {
  if (!has_nvrtc()) return;
  const auto refused =
      cuda::compile(source("#line 12 \"mine.attn\"\nint x = nothing_of_the_kind;"), *cuda::named_target("sm_80"));
  REQUIRE_FALSE(refused);
  CHECK(refused.diagnostics()[0].code == "A0901");
  CHECK(refused.diagnostics()[0].message.find("mine.attn(12): error") != std::string::npos);
  REQUIRE_FALSE(refused.diagnostics()[0].notes.empty());
}

TEST_CASE("PTX is text for the architecture") {
  if (!has_nvrtc()) return;
  const auto text = cuda::ptx(source("((int*)p.words[0])[0] = 1;"), *cuda::named_target("sm_90a"));
  if (!text) FAIL(render(text.diagnostics()));
  CHECK(text->find(".target sm_90a") != std::string::npos);
  CHECK(text->find('\0') == std::string::npos);
}
