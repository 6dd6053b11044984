// SPDX-License-Identifier: Apache-2.0
// What the command says about programs and about itself: stages, explanations, dumps, traces, bugs.
#include <nlohmann/json.hpp>

#include "support.hpp"

using namespace cli;
using Json = nlohmann::json;

namespace {

bool says(const Outcome& outcome, const std::string& text) { return outcome.text.find(text) != std::string::npos; }

}  // namespace

TEST_CASE("an earlier stage is shown where a later pass fails") {
  for (const char* fault : {"schedule", "lower", "tile", "partition", "place", "map"}) {
    const std::string before = "ATTUNE_FAULT=" + std::string(fault);
    INFO(fault);
    for (const char* good :
         {"show std:causal --stage tensor", "show std:causal --stage stream", "explain std:causal"}) {
      INFO(good);
      const auto with = run(good, before), without = run(good);
      CHECK(with.code == 0);
      CHECK(with.text == without.text);
    }
  }
  CHECK(run("show std:causal --stage loop:lower", "ATTUNE_FAULT=tile").code == 0);
  CHECK(run("show std:causal --stage loop:map", "ATTUNE_FAULT=tile TMPDIR=" + scratch().string()).code == 70);
}

TEST_CASE("a bug ends with 70 and leaves a reproducer that runs") {
  const fs::path folder = scratch() / "bug";
  const auto outcome = run("run std:window --set W=3 --dump " + folder.string() + small, "ATTUNE_FAULT=partition");
  INFO(outcome.text);
  CHECK(outcome.code == 70);
  CHECK(says(outcome, "error[A0905]"));
  const fs::path reproducer = folder / "reproducer.attn";
  CHECK(says(outcome, reproducer.string()));
  REQUIRE(fs::exists(reproducer));
  const std::string text = read(reproducer);
  for (const char* part : {"A0905", "ATTUNE_FAULT", "--set W=3", "kernel window", "M=5", "libLLVM", "CPU"}) {
    INFO(part);
    CHECK(text.find(part) != std::string::npos);
  }
  // The stages that were reached are in the dump, later ones are not.
  bool lower = false, place = false;
  for (const auto& entry : fs::directory_iterator(folder)) {
    lower = lower || entry.path().string().find("-lower.txt") != std::string::npos;
    place = place || entry.path().string().find("-place.txt") != std::string::npos;
  }
  CHECK(lower);
  CHECK_FALSE(place);
  // The command that it names runs.
  const std::string mark = "attune run reproducer.attn";
  const auto at = text.find(mark);
  REQUIRE(at != std::string::npos);
  const std::string rest = text.substr(at + mark.size(), text.find('\n', at) - at - mark.size());
  CHECK(run("run " + reproducer.string() + rest).code == 0);

  const fs::path temporary = scratch() / "temporary";
  fs::create_directories(temporary);
  const auto plain = run("run std:causal" + small, "TMPDIR=" + temporary.string() + " ATTUNE_FAULT=tile");
  CHECK(plain.code == 70);
  int found = 0;
  for (const auto& entry : fs::directory_iterator(temporary)) found += says(plain, entry.path().string());
  CHECK(found == 1);
  const auto json =
      Json::parse(output("run std:causal --json" + small, "TMPDIR=" + temporary.string() + " ATTUNE_FAULT=tile"));
  CHECK(json["errors"][0]["code"] == "A0905");
}

TEST_CASE("show honours the target, or says why it cannot") {
  const std::string sizes = " --shape B=1,H=1,G=1,M=64,N=64,D=16,E=16 ";
  const auto interpreter = run("show std:causal --stage schedule --target interpreter" + sizes);
  CHECK(interpreter.code == 0);
  CHECK(says(interpreter, "tile.m"));
  // The interpreter's machine is the same everywhere.
  CHECK(run("show std:causal --stage loop --target interpreter" + sizes).text ==
        run("show std:causal --stage loop --target interpreter" + sizes, "ATTUNE_CPU=generic").text);
  CHECK(run("show std:causal --stage loop --target cpu" + sizes).text !=
        run("show std:causal --stage loop --target cpu" + sizes, "ATTUNE_CPU=generic").text);
  for (const char* stage : {"schedule", "loop", "loop:tile", "source", "asm"}) {
    const auto refused = run("show std:causal --target reference --stage " + std::string(stage));
    INFO(stage << refused.text);
    CHECK(refused.code == 2);
    CHECK(says(refused, "`reference` has no stage"));
  }
  CHECK(run("show std:causal --target interpreter --stage source").code == 2);
  CHECK(run("show std:causal --target reference --stage stream").code == 0);
  CHECK(says(run("show std:causal --target vulkan --stage loop"), "one of `auto`"));
  CHECK(says(run("show std:causal --target interpreted --stage loop"), "did you mean `interpreter`?"));
}

TEST_CASE("a machine that is not here is compiled for, and not run on") {
  const std::string sizes = " --shape B=1,H=1,G=1,M=64,N=64,D=16,E=16 ";
  const auto wide = run("show std:causal --stage source --arch x86-64-v4" + sizes);
  CHECK(wide.code == 0);
  CHECK(says(wide, "<16 x float>"));
  CHECK(says(wide, "+avx512f"));
  const auto narrow = run("show std:causal --stage source --arch x86-64" + sizes);
  CHECK(narrow.code == 0);
  CHECK_FALSE(says(narrow, "<8 x float>"));
  CHECK(says(narrow, "-avx,"));
  if (has_cpu_target()) {
    CHECK(says(run("show std:causal --stage asm --arch znver4" + sizes), "%zmm"));
    const fs::path folder = scratch() / "arch";
    CHECK(run("emit std:causal --arch znver4 --output " + folder.string()).code == 0);
    CHECK(read(folder / "attune_causal.h").find("for znver4 (avx512)") != std::string::npos);
  }
  CHECK(run("check std:causal --arch znver5").code == 0);
  CHECK(says(run("check std:causal --arch znver9"), "did you mean `znver"));
  CHECK(run("check std:causal --arch sm_35").code == 2);
  CHECK(run("run std:causal --arch znver4" + small).code == 4);
  CHECK(run("bench std:causal --arch znver4" + sizes).code == 4);
  CHECK(run("show std:causal --stage loop --target interpreter --arch znver4").code == 2);
}

TEST_CASE("a command that does not exist is named, with the nearest one") {
  const auto near = run("rnu std:causal");
  CHECK(near.code == 2);
  CHECK(says(near, "there is no command `rnu`"));
  CHECK(says(near, "did you mean `run`?"));
  CHECK(says(run("causal.attn"), "attune run causal.attn"));
  CHECK(says(run("frobnicate"), "one of `run`"));
  CHECK(run("").code == 2);
  CHECK(says(run(""), "no command is given"));
  CHECK(says(run("run std:causal --verfy" + small), "did you mean `--verify`?"));
  CHECK(says(run("run std:causal std:window" + small), "an argument too many"));
  const auto json = Json::parse(output("rnu --json"));
  CHECK(json["errors"][0]["code"] == "A0620");
  CHECK(json["errors"][0]["help"] == "did you mean `run`?");
}

TEST_CASE("JSON names the device and what code is compiled for") {
  for (const char* target : {"interpreter", "reference", "cpu"}) {
    if (std::string(target) == "cpu" && !has_cpu_target()) continue;
    const auto json = Json::parse(output("run std:causal --json --target " + std::string(target) + small));
    CHECK(json["target"] == target);
    CHECK(json["device"].get<std::string>().size() > 2);
    CHECK(json["device"] != target);
    CHECK(json["arch"] != target);
    if (std::string(target) == "cpu") {
      const auto lowered = Json::parse(output("run std:causal --json --target cpu" + small, "ATTUNE_CPU=generic"));
      CHECK(lowered["arch"] == "x86-64");
      CHECK(lowered["device"] == json["device"]);
    }
  }
}

TEST_CASE("a second sweep stores nothing") {
  const std::string two =
      "kernel k(X: f32[M, N]) -> O: f32[M] { Mean[i] = mean[j](X[i, j])\n"
      "O[i] = sum[j]((X[i, j] - Mean[i]) ^ 2 * abs(X[i, j] - Mean[i])) }";
  const auto outcome = run("run -e '" + two + "' --shape M=5,N=9 --random 1 --require-fused --verify");
  INFO(outcome.text);
  CHECK(outcome.code == 0);
  CHECK_FALSE(says(outcome, "stored"));
  const auto prose = run("explain -e '" + two + "'");
  CHECK(says(prose, "Sweep 2"));
  CHECK(says(prose, "Nothing is stored between the inputs and the results."));
}

TEST_CASE("explain says what was derived, and why") {
  const auto causal = run("explain std:causal");
  CHECK(causal.code == 0);
  for (const char* part : {"One sweep over j in 0..N", "repair: when s0 moves", "affine", "ends before `i + N - M + 1`",
                           "freed of its test", "are skipped", "behind the sweep", "How often",
                           "once for each b, h, i and block of j", "Nothing is stored"}) {
    INFO(part << "\n" << causal.text);
    CHECK(says(causal, part));
  }
  CHECK(says(run("explain std:lengths"), "interval (len[b] is read once"));
  CHECK(says(run("explain std:packed"), "are measured for each block"));
  const auto mask =
      run("explain -e 'kernel k(S: f32[M, N], m: bool[M, N]) -> O: f32[M] "
          "{ O[i] = sum[j where m[i, j]](S[i, j]) }'");
  CHECK(says(mask, "data-dependent"));
  CHECK(says(mask, "Tested for each element"));
  const auto stored = run("explain -e 'kernel k(X: f32[N]) -> O: f32[N] { C[j] = cumsum[j](X[j])\nO[i] = C[i] * 2 }'");
  CHECK(says(stored, "Stored in memory"));
  CHECK(says(stored, "because a running sum"));
  for (const char* code : {"A0203", "a0203"}) CHECK(says(run("explain " + std::string(code)), "Reports it:"));
  CHECK(says(run("explain A0230"), "Corrected:"));
  CHECK(says(run("explain A0295"), "there is no code"));
  CHECK(Json::parse(output("explain A0203 --json"))["code"] == "A0203");
}

TEST_CASE("a dump holds every stage, and a trace the time of each") {
  const fs::path folder = scratch() / "dump";
  const std::string trace = (scratch() / "trace.json").string();
  const auto outcome = run("run std:causal --verify --dump " + folder.string() + " --trace " + trace +
                           " --threads 2 --shape B=1,H=4,G=1,M=300,N=300,D=8,E=8 --random 1");
  INFO(outcome.text);
  REQUIRE(outcome.code == 0);
  std::string names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names += entry.path().filename().string() + " ";
    CHECK(fs::file_size(entry.path()) > 0);
  }
  INFO(names);
  for (const char* stage :
       {"tokens", "ast", "tensor", "stream", "schedule", "lower", "tile", "partition", "place", "map", "loop", "mask"})
    CHECK(names.find("-" + std::string(stage) + ".txt ") != std::string::npos);
  const auto json = Json::parse(read(trace));
  bool stream = false, ran = false, reference = false;
  int tasks = 0;
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] != "X") continue;
    CHECK(event["dur"].get<double>() >= 0);
    stream = stream || event["name"] == "stream";
    ran = ran || event["name"] == "run";
    reference = reference || event["name"] == "reference";
    tasks += event["name"].get<std::string>().find(" task ") != std::string::npos;
  }
  CHECK(stream);
  CHECK(ran);
  CHECK(reference);
  if (has_cpu_target()) {
    CHECK(tasks >= 4);
    CHECK(names.find("-source.ll ") != std::string::npos);
    CHECK(names.find("-asm.s ") != std::string::npos);
  }
  CHECK(run("run std:causal --trace /nonexistent/t.json" + small).code == 2);
  CHECK(run("run std:causal --dump /dev/null/x" + small).code == 2);
}

TEST_CASE("the cache can be listed, cleared and found") {
  if (!has_cpu_target()) return;
  const std::string folder = (scratch() / "cache").string();
  auto with = [&](const std::string& arguments) {
    return shell("env ATTUNE_CACHE_DIR=" + folder + " " ATTUNE_COMMAND " " + arguments);
  };
  CHECK(with("cache path").text == folder + "\n");
  CHECK(with("run std:causal" + small).code == 0);
  const auto listed = with("cache list");
  CHECK(listed.code == 0);
  CHECK(says(listed, "causal"));
  CHECK(says(listed, "1 compiled kernel,"));
  const auto json = Json::parse(with("cache --json").text);
  CHECK(json["entries"].size() == 1);
  CHECK(json["path"] == folder);
  CHECK(says(with("run std:causal" + small), "(disk)"));
  CHECK(says(with("cache clear"), "removed 1 compiled kernel\n"));
  CHECK(says(with("cache"), "0 compiled kernels"));
  CHECK(with("cache lst").code == 2);
  CHECK(says(with("cache lst"), "did you mean `list`?"));
  CHECK(says(run("cache path"), "the disk cache is off"));
}
