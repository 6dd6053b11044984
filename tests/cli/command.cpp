// SPDX-License-Identifier: Apache-2.0
// The command as scripts see it: exit codes, JSON, real inputs with exact results, and bad input that leaves nothing
// behind.
#include <attune/tensor_ref.hpp>
#include <cmath>

#include "backend/binding.hpp"
#include "support.hpp"
#include "tools/attune/safetensors.hpp"

using namespace attune;
using namespace cli;

TEST_CASE("real inputs agree with their exact results on every target") {
  struct Real {
    const char *program, *input;
  };
  for (const char* target : {"cpu", "interpreter", "reference"})
    for (Real real :
         {Real{"softmax", "minilm_passage"}, Real{"lengths", "minilm_batch"}, Real{"packed", "minilm_packed"}}) {
      INFO(target << " " << real.program);
      std::string out = (scratch() / "real.safetensors").string();
      auto outcome = run("run std:" + std::string(real.program) + " --inputs " +
                         data(std::string(real.input) + ".safetensors") + " --outputs " + out + " --target " + target);
      INFO(outcome.text);
      if (outcome.code == 4) continue;  // no libLLVM here: the message says what to install
      REQUIRE(outcome.code == 0);
      auto got = tool::read_safetensors(out).value(),
           wanted = tool::read_safetensors(data(std::string(real.input) + ".expected.safetensors")).value();
      int compared = 0;
      for (const auto& g : got.tensors)
        for (const auto& w : wanted.tensors)
          if (g.name == w.name) {
            REQUIRE(g.shape == w.shape);
            std::int64_t count = 1;
            for (auto extent : g.shape) count *= extent;
            double error = 0;
            bool finite = true;
            for (std::int64_t k = 0; k < count; ++k) {
              double a = load_element(g.data, *g.dtype, k);
              double b = w.dtype ? load_element(w.data, *w.dtype, k) : reinterpret_cast<const double*>(w.data)[k];
              finite = finite && std::isfinite(a) == std::isfinite(b);
              if (std::isfinite(b)) error = std::max(error, std::abs(a - b));
            }
            CHECK(finite);
            CHECK(error < 2e-6);
            ++compared;
          }
      CHECK(compared >= 1);
    }
}

TEST_CASE("good calls end with 0") {
  CHECK(run("check std:causal").code == 0);
  CHECK(run("env").code == 0);
  CHECK(run("--help").code == 0);
  CHECK(run("explain A0203").code == 0);
  CHECK(run("show std:window --stage mask --set W=3" + small).code == 0);
  // Statistics of a row along a range of its own are no stored intermediate.
  CHECK(run("run std:ragged --require-fused --verify --random 1 --shape H=2,G=1,M=9,N=11,D=4,E=3,C=3").code == 0);
  for (const char* stage : {"tokens", "ast", "tensor", "stream", "schedule", "loop", "loop:lower", "loop:partition"}) {
    INFO(stage);
    CHECK(run("show std:alibi --stage " + std::string(stage)).code == 0);
  }
  auto json = run("run std:causal --verify --json" + small);
  CHECK(json.code == 0);
  CHECK(json.text.find("\"max_abs_error\"") != std::string::npos);
  CHECK(json.text[0] == '{');
}

TEST_CASE("bad input has its exit code, a message and leaves nothing behind") {
  std::string out = (scratch() / "never.safetensors").string();
  struct Bad {
    int code;
    std::string arguments, says;
  };
  std::string bad_header = file("short.safetensors", "abc");
  std::string truncated = file("truncated.safetensors",
                               safetensors(R"({"Q":{"dtype":"F32","shape":[1,2,5,4],"data_offsets":[0,160]}})", 100));
  std::string overlap = file(
      "overlap.safetensors",
      safetensors(
          R"({"Q":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"K":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
          12));
  std::string twice = file(
      "twice.safetensors",
      safetensors(
          R"({"Q":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"Q":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
          8));
  std::string huge = file("huge.safetensors", std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10));
  std::string deep = file("deep.safetensors", safetensors(std::string(5000, '['), 0));
  std::string ints =
      file("ints.safetensors", safetensors(R"({"Q":{"dtype":"I64","shape":[1,2,1,1],"data_offsets":[0,16]}})", 16));
  std::string syntax = file("syntax.attn", "kernel k(Q: f32[M]) -> O: f32[M] {\n  O[i] = Q[i\n}\n");
  std::string meaning = file("meaning.attn", "kernel k(Q: f32[M], W: f32[M]) -> O: f32[M] {\n  O[i] = Q[k]\n}\n");
  std::string several =
      file("several.attn",
           "kernel a(Q: f32[M]) -> O: f32[M] { O[i] = Q[i] }\nkernel b(Q: f32[M]) -> O: f32[M] { O[i] = Q[i] }\n");
  const std::vector<Bad> list = {
      {1, "run " + syntax + " --random 1 --shape M=3", "error[A01"},
      {1, "check " + meaning, "error[A02"},
      {1, "check -e 'fn f(x) = x'", "kernel"},
      {1, "run -e 'kernel k(X: f32[N]) -> O: f32[N] { O[j] = cumsum[j](X[j]) }' --require-fused --random 1 --shape N=4",
       "A0301"},
      {1, "run std:rope --require-fused --random 1 --shape B=1,H=2,G=1,M=5,N=7,D=4,E=3,C=2",
       "`Kr` cannot be fused: it is read at computed subscripts"},
      {1, "run std:forgetting --require-fused" + small, "`C` cannot be fused: a running sum along `j`"},
      {1, "run std:qk_norm --require-fused" + small, "--> std:qk_norm:"},
      {2, "run std:cusal" + small, "did you mean"},
      {2, "run nowhere.attn" + small, "nowhere.attn"},
      {2, "run std:causal --target gpu" + small, "gpu"},
      {2, "run std:causal --nonsense" + small, "nonsense"},
      {2, "run std:causal --shape Z=3 --random 1", "Z"},
      {2, "run std:causal --shape M=-3 --random 1", "M=-3"},
      {2, "run std:causal --set skale=1" + small, "did you mean"},
      {2, "run std:causal --set Q=1" + small, "tensor"},
      {2, "run std:causal --set scale=fast" + small, "fast"},
      {2, "run std:causal --dtype T=f31" + small, "f31"},
      {2, "run std:causal --dtype U=f16" + small, "U"},
      {2, "run std:causal --schedule tile.m=0" + small, "tile.m"},
      {2, "run std:causal --schedule tiles=4" + small, "tiles"},
      {2, "run " + several + " --random 1 --shape M=3", "--kernel"},
      {2, "run " + several + " --kernel c --random 1 --shape M=3", "`c`"},
      {2, "explain A9999", "A9999"},
      {2, "show std:causal --stage lop", "lop"},
      {2, "run std:causal --outputs /nonexistent/folder/o.safetensors" + small, "cannot write"},
      {3, "run std:causal --inputs nowhere.safetensors", "nowhere.safetensors"},
      {3, "run std:causal --inputs " + bad_header, "8 bytes"},
      {3, "run std:causal --inputs " + truncated, "truncated"},
      {3, "run std:causal --inputs " + overlap, "overlap"},
      {3, "run std:causal --inputs " + twice, "twice"},
      {3, "run std:causal --inputs " + huge, "header"},
      {3, "run std:causal --inputs " + deep, "deep"},
      {3, "run std:causal --inputs " + ints, "Q"},
      {3, "run std:causal --random 1 --shape B=1,H=2,G=1,M=5,N=7,D=4", "E"},
      {3, "run std:causal --random 1 --shape B=1,H=3,G=2,M=5,N=7,D=4,E=3", "multiple"},
      {3, "run std:window --random 1 --shape B=1,H=2,G=1,M=5,N=7,D=4,E=3", "W"},
      {3, "run std:causal --inputs " + data("minilm_passage.safetensors") + " --shape M=7", "M"},
  };
  for (const Bad& bad : list) {
    INFO(bad.arguments);
    std::string with =
        bad.arguments + (bad.arguments.rfind("run", 0) == 0 && bad.arguments.find("--outputs") == std::string::npos
                             ? " --outputs " + out
                             : "");
    auto outcome = run(with);
    INFO(outcome.text);
    CHECK(outcome.code == bad.code);
    CHECK(outcome.text.find(bad.says) != std::string::npos);
    CHECK_FALSE(fs::exists(out));
  }
  int left = 0;
  for (const auto& entry : fs::directory_iterator(scratch()))
    left += entry.path().string().find(".tmp") != std::string::npos;
  CHECK(left == 0);
}
