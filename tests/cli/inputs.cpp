// SPDX-License-Identifier: Apache-2.0
// Files and values that nobody should have to pass: each is refused with a reason, in bounded time, and leaves nothing.
#include <random>

#include "support.hpp"

using namespace cli;

namespace {

const std::string scaled = "kernel scaled(X: f32[N], s: f32 = 2) -> O: f32[N] { O[i] = s * X[i] }\n";

struct Bad {
  int code;
  std::string arguments, says;
};

void check(const std::vector<Bad>& list) {
  for (const Bad& bad : list) {
    INFO(bad.arguments);
    const auto outcome = shell("timeout 60 env ATTUNE_CACHE=off " ATTUNE_COMMAND " " + bad.arguments + " </dev/null");
    INFO(outcome.text.substr(0, 2000));
    CHECK(outcome.code == bad.code);
    CHECK(outcome.text.find(bad.says) != std::string::npos);
    CHECK(outcome.text.find("error[A") != std::string::npos);
    // What to do about it: a help, what is expected, or (of texts) the place that is pointed at.
    CHECK((outcome.text.find("= help: ") != std::string::npos ||
           outcome.text.find("= expected: ") != std::string::npos || outcome.text.find("^") != std::string::npos));
    CHECK(outcome.text.find('\x1b') == std::string::npos);
    CHECK(outcome.text.size() < 60'000);
  }
}

std::string noise(std::size_t bytes) {
  std::mt19937 random(1);
  std::string out(bytes, '\0');
  for (char& c : out) c = static_cast<char>(random());
  return out;
}

/// Forty functions, each twice the one before.
std::string doubling() {
  std::string text = "fn g0(x) = x + x\n";
  for (int k = 1; k < 40; ++k) {
    const std::string before = "g" + std::to_string(k - 1) + "(x)";
    text += "fn g" + std::to_string(k) + "(x) = " + before + " * " + before + "\n";
  }
  return text + "kernel k(X: f32[N]) -> O: f32[N] { O[i] = g39(X[i]) }\n";
}

}  // namespace

TEST_CASE("texts that are none") {
  check({
      {1, "check " + file("empty.attn", ""), "the text has no kernel"},
      {1, "check " + file("noise.attn", noise(1 << 20)), "does not look like a text"},
      {1, "check " + file("zeros.attn", std::string(1 << 20, '\0')), "NUL byte"},
      {1, "check " + file("utf16.attn", std::string("\xff\xfek\0e\0", 6)), "UTF-16"},
      {1, "check " + file("brackets.attn", std::string(1 << 20, '(')), "deeper than 256"},
      {1,
       "check " + file("lines.attn",
                       [] {
                         std::string text;
                         for (int k = 0; k < 1 << 18; ++k) text += "a\n";
                         return text;
                       }()),
       "further errors of this text are not shown"},
      {1, "check " + file("long.attn", std::string(3 << 20, 'x')), "more than 1048576 bytes"},
      {2, "check " + scratch().string(), "Is a directory"},
      {2, "check causal", "`std:causal`"},
      {2, "check nowhere.attn", "No such file"},
      {1, "check " + file("letters.attn", "kernel k(Ä: f32[N]) -> O: f32[N] { O[i] = Ä[i] }\n"), "is not a name"},
      {1, "check " + file("utf8.attn", "kernel k(X: f32[N]) -> O: f32[N] { O[i] = X[i] }  # \xff\n"),
       "malformed UTF-8"},
      {1,
       "check " +
           file("minus.attn", "kernel k(X: f32[N]) -> O: f32[N] { O[i] = " + std::string(50'000, '-') + "X[i] }\n"),
       "deeper than 256"},
      {1,
       "check " +
           file("circle.attn", "fn f(x) = g(x)\nfn g(x) = f(x)\nkernel k(X: f32[N]) -> O: f32[N] { O[i] = f(X[i]) }\n"),
       "in a circle"},
      {1, "check " + file("doubling.attn", doubling()), "nodes"},
      {1, "check - ", "the text has no kernel"},
      {2, "run std: --random 1", "no standard program"},
      {2, "run std:casual --random 1", "did you mean `causal`?"},
      {1, "run -e kernel --random 1", "expected a name"},
  });
}

TEST_CASE("tensors that are malformed") {
  const std::string program = file("scaled.attn", scaled), out = (scratch() / "never.safetensors").string();
  auto given = [&](const std::string& name, const std::string& header, std::size_t bytes) {
    return "run " + program + " --outputs " + out + " --inputs " + file(name, safetensors(header, bytes));
  };
  auto one = [](const std::string& rest) { return R"({"X":{"dtype":"F32",)" + rest + "}}"; };
  check({
      {3, given("list", "[1, 2]", 0), "not a JSON object"},
      {3, given("nothing", "", 0), "not a JSON object"},
      {3, given("utf8", "{\"\xff\":{}}", 0), "not a JSON object"},
      {3, given("outside", one(R"("shape":[2],"data_offsets":[8,16])"), 8), "truncated"},
      {3, given("backwards", one(R"("shape":[2],"data_offsets":[8,0])"), 8), "8..0"},
      {3, given("negative", one(R"("shape":[2],"data_offsets":[-8,0])"), 8), "wrong form"},
      {3, given("gap", R"({"X":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8),
       "bytes 0..4 belong to no tensor"},
      {3, given("tail", one(R"("shape":[2],"data_offsets":[0,8])"), 80), "last 72 bytes"},
      {3, given("enormous", one(R"("shape":[4294967296,4294967296],"data_offsets":[0,8])"), 8), "too many elements"},
      {3, given("overflow", one(R"("shape":[99999999999999999999],"data_offsets":[0,8])"), 8), "natural number"},
      {3, given("below", one(R"("shape":[-2],"data_offsets":[0,8])"), 8), "natural number"},
      {3, given("real", one(R"("shape":[2.5],"data_offsets":[0,8])"), 8), "natural number"},
      {3, given("size", one(R"("shape":[3],"data_offsets":[0,8])"), 8), "needs 12 bytes"},
      {3, given("untyped", R"({"X":{"shape":[2],"data_offsets":[0,8]}})", 8), "is missing"},
      {3, given("f99", R"({"X":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}})", 8), "F99"},
      {3, given("f64", R"({"X":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})", 8), "does not read"},
      {3, given("metadata", R"({"__metadata__":{"a":1},"X":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8),
       "__metadata__"},
      {3, given("escape", R"({"\u001b[31mY":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4), "does not use"},
      {3,
       given("name", "{\"" + std::string(100'000, 'y') + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4),
       "yyy..."},
      {3, given("scalar", one(R"("shape":[],"data_offsets":[0,4])"), 4), "declared with 1 axis"},
      {3, "run " + program + " --inputs " + file("noise", noise(1 << 20)), "the header says"},
      {3, "run " + program + " --inputs " + file("blank", ""), "fewer than 8 bytes"},
      {3, "run " + program + " --inputs " + scratch().string(), "not a regular file"},
  });
  CHECK_FALSE(fs::exists(out));
}

TEST_CASE("values and places that cannot be") {
  const std::string program = file("scaled.attn", scaled);
  const std::string outer =
      file("outer.attn",
           "kernel outer(X: f32[M], Y: f32[N], Z: f32[P]) -> O: f32[M, N, P] { O[i, j, k] = X[i] * Y[j] * Z[k] }\n");
  const std::string run = "run " + program + " --random 1 --shape N=3 ";
  check({
      {2, "run " + program + " --random 1 --shape N=2147483648", "not a size"},
      {2, "run " + program + " --random 1 --shape N=99999999999999999999", "not a size"},
      {2, "run " + program + " --random 1 --shape N=3,N=4", "two sizes"},
      {2, "run " + program + " --random 1 --shape n=3", "did you mean `N`?"},
      {2, "run " + program + " --random 1 --shape Q=3", "there is only `N`"},
      {2, "run " + program + " --random 1 --shape ''", "NAME=VALUE"},
      {2, "run " + program + " --random -1 --shape N=3", "`-1` is no seed"},
      {2, "run " + program + " --random 18446744073709551616 --shape N=3", "is no seed"},
      {2, "run " + program + " --random 1.5 --shape N=3", "is no seed"},
      {2, "run " + program + " --random '' --shape N=3", "is no seed"},
      {4, "run " + outer + " --random 1 --shape M=2097152,N=2097152,P=2097152", "memory"},
      {4, "run " + outer + " --random 1 --shape M=2097152,N=2097152,P=1048576", "memory"},
      {2, run + "--set X=1", "is a tensor"},
      {2, run + "--set s=", "NAME=VALUE"},
      {2, run + "--set s=0x10", "no f32 value"},
      {2, run + "--set s=1 --set s=2", "twice"},
      {3, run + "--set s=1e50", "beyond the range"},
      {2, run + "--outputs ''", "empty"},
      {2, run + "--outputs " + scratch().string(), "Is a directory"},
      {2, run + "--outputs " + scratch().string() + "/o/", "Is a directory"},
      {2, run + "--outputs /dev/null/o", "not a folder"},
      {2, run + "--outputs /dev/full", "No space left"},
      {2, run + "--dump " + program, "cannot write"},
      {2, run + "--trace " + scratch().string(), "Is a directory"},
      {2, run + "--map a=X", "no input file has a tensor `a`"},
      {2, run + "--map a=Y", "no parameter `Y`"},
      {2, run + "--map a=X --map a=s", "two names"},
      {2, run + "--map a", "NAME=VALUE"},
      {2, run + "--dtype T=f99", "is no dtype"},
      {2, "run std:causal --random 1 --shape B=1,H=1,G=1,M=4,N=4,D=4,E=4 --dtype T=i32", "is no float dtype"},
      {2, "run std:causal --random 1 --shape B=1,H=1,G=1,M=4,N=4,D=4,E=4 --dtype U=f16", "there is only `T`"},
      {3, "run std:window --random 1 --shape B=1,H=1,G=1,M=4,N=4,D=4,E=4", "give it with --set W=VALUE"},
      {2, "run std:window --random 1 --shape B=1,H=1,G=1,M=4,N=4,D=4,E=4 --set W=nan",
       "from -2147483648 to 2147483647"},
      {3, "run std:causal --random 1 --shape B=1,H=3,G=2,M=4,N=4,D=4,E=4", "not a multiple"},
      {3, "run std:causal --random 1 --shape B=1,H=3,G=0,M=4,N=4,D=4,E=4", "divisor"},
      {2, run + "--target gpu", "is unknown"},
      {2, run + "--target ''", "is unknown"},
      {2, run + "--target cuda:-1", "did you mean"},
      {2, run + "--arch z80", "is unknown"},
      {2, run + "--kernel other", "there is only `scaled`"},
      {2, run + "--schedule tile.m=0", "at least 1"},
      {2, run + "--schedule tile.m=99999999999999999999", "at least 1"},
      {2, run + "--schedule lanes=64000000", "at most"},
      {2, run + "--schedule colour=red", "no schedule key"},
      {2, run + "--schedule tile.m", "NAME=VALUE"},
      {2, "show " + program + " --stage ''", "there is no stage"},
      {2, "show " + program + " --stage loop:none", "there is no pass"},
      {2, "explain A9999", "there is no code"},
      {2, "emit " + program + " --output " + program, "cannot make the folder"},
      {3, "run " + program + " --inputs ''", "No such file"},
      {3, "run " + program + " --inputs nowhere.safetensors", "No such file"},
      {2, run + "--threads 0", "--threads"},
      {2, "bench " + program + " --shape N=3 --rounds 0", "--rounds"},
      {2, "cache list all", "too many"},
      {2, "explain A01", "cannot read"},
      {3, "run -e 'kernel k(X: f32[N], c: const f32) -> O: f32[N] { O[i] = c * X[i] }' --random 1 --shape N=3",
       "--set c="},
      {3, "show -e 'kernel k(X: f32[N], c: const f32) -> O: f32[N] { O[i] = c * X[i] }' --stage loop", "--set c="},
  });
  // What is no regular file is written as it stands, and stays what it is.
  CHECK(shell(ATTUNE_COMMAND " " + run + "--outputs /dev/null").code == 0);
  CHECK(fs::is_character_file("/dev/null"));
  // A link keeps its place.
  const fs::path link = scratch() / "link.safetensors", behind = scratch() / "behind.safetensors";
  file("behind.safetensors", "old");
  fs::create_symlink(behind, link);
  CHECK(shell(ATTUNE_COMMAND " " + run + "--outputs " + link.string()).code == 0);
  CHECK(fs::is_symlink(link));
  CHECK(fs::file_size(behind) > 8);
  for (const auto& entry : fs::directory_iterator(scratch()))
    CHECK(entry.path().string().find(".tmp") == std::string::npos);
}

TEST_CASE("what is written away holds no progress") {
  // Lines that a terminal overwrites stay in a file for ever.
  const auto outcome = shell(ATTUNE_COMMAND " run " + file("scaled.attn", scaled) + " --random 1 --shape N=3 --verify");
  CHECK(outcome.code == 0);
  CHECK(outcome.text.find('\r') == std::string::npos);
  CHECK(outcome.text.find("verifying") == std::string::npos);
}
