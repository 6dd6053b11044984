// SPDX-License-Identifier: Apache-2.0
// Code compiled ahead of time: C programs are linked against what `attune emit` writes, and their results are compared
// with the reference's.
#include <cmath>
#include <random>
#include <vector>

#include "backend/binding.hpp"
#include "support.hpp"
#include "tools/attune/safetensors.hpp"

using namespace attune;
using namespace cli;

namespace {

struct Named {
  std::string name;  ///< in the program; a word of C gets a `_` in the header
  DType dtype;
  std::vector<std::int64_t> shape;
  std::int64_t limit = 0;  ///< integers lie in 0..limit

  std::int64_t count() const {
    std::int64_t out = 1;
    for (auto extent : shape) out *= extent;
    return out;
  }
  std::string bytes() const { return std::to_string(count() * static_cast<std::int64_t>(size_of(dtype))); }
  std::string member() const { return name == "long" || name == "int" ? name + "_" : name; }
};

struct Ahead {
  std::string name, program, shape;
  std::string types;  ///< options of emit
  std::string set;    ///< options of run
  std::string fill;   ///< C: sizes and scalars
  std::vector<Named> inputs, results;
};

std::string driver(const Ahead& a, const fs::path& folder) {
  const std::string prefix = "attune_" + a.name;
  std::string s = "#include \"" + prefix +
                  ".h\"\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
                  "static void *get(const char *path, size_t bytes) {\n  FILE *f = fopen(path, \"rb\");\n"
                  "  void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);\n"
                  "  if (!f || fread(p, 1, bytes, f) != bytes) exit(90);\n  fclose(f);\n  return p;\n}\n"
                  "static void put(const char *path, const void *p, size_t bytes) {\n  FILE *f = fopen(path, \"wb\");\n"
                  "  if (!f || fwrite(p, 1, bytes, f) != bytes) exit(91);\n  fclose(f);\n}\n"
                  "int main(void) {\n  struct " +
                  prefix +
                  " c;\n  int64_t bytes;\n  void *work;\n  int code;\n"
                  "  memset(&c, 0, sizeof c);\n" +
                  a.fill + "  " + prefix + "_defaults(&c);\n";
  for (const Named& t : a.inputs)
    s += "  c." + t.member() + ".data = get(\"" + (folder / (t.name + ".raw")).string() + "\", " + t.bytes() + ");\n";
  for (const Named& t : a.results) {
    s += "  c." + t.member() + ".data = aligned_alloc(64, (" + t.bytes() + " + 127) / 64 * 64);\n";
    s += "  memset(c." + t.member() + ".data, 0xff, " + t.bytes() + ");\n";
  }
  s += "  bytes = " + prefix + "_workspace(&c, 2);\n  if (bytes < 0) { puts(" + prefix +
       "_error((int)bytes)); return 92; }\n"
       "  work = aligned_alloc(64, (size_t)bytes + 64);\n  memset(work, 0xff, (size_t)bytes + 64);\n  code = " +
       prefix + "_run(&c, work, 2);\n  if (code < 0) { puts(" + prefix + "_error(code)); return 93; }\n";
  for (const Named& t : a.results)
    s += "  put(\"" + (folder / (t.name + ".out")).string() + "\", c." + t.member() + ".data, " + t.bytes() + ");\n";
  return s + "  return code;\n}\n";
}

std::string compiler() { return std::getenv("CC") ? std::getenv("CC") : "cc"; }

void check(const Ahead& a, const std::string& flags) {
  INFO(a.name << " " << flags);
  const fs::path folder = scratch() / ("emit-" + a.name);
  fs::create_directories(folder);
  const std::string program = a.program.starts_with("std:") ? a.program : file(a.name + ".attn", a.program);
  const auto emitted = run("emit " + program + " " + a.types + " --shape " + a.shape + " --output " + folder.string());
  INFO(emitted.text);
  REQUIRE(emitted.code == 0);
  for (const char* end : {".h", ".c", ".o", ".ll", ".s"}) CHECK(fs::exists(folder / ("attune_" + a.name + end)));
  // The same inputs as raw bytes for C and as safetensors for the reference.
  std::mt19937 random(7);
  std::vector<std::vector<std::uint8_t>> memory;
  std::vector<std::pair<std::string, TensorRef>> inputs;
  for (const Named& t : a.inputs) {
    memory.emplace_back(static_cast<std::size_t>(t.count()) * size_of(t.dtype));
    for (std::int64_t k = 0; k < t.count(); ++k)
      if (is_float(t.dtype))
        store_element(memory.back().data(), t.dtype, k, std::normal_distribution<double>()(random));
      else
        store_integer(memory.back().data(), t.dtype, k,
                      std::uniform_int_distribution<std::int64_t>(0, t.limit)(random));
    std::ofstream(folder / (t.name + ".raw"), std::ios::binary)
        .write(reinterpret_cast<const char*>(memory.back().data()), static_cast<std::streamsize>(memory.back().size()));
    inputs.emplace_back(t.name, TensorRef(memory.back().data(), t.dtype, t.shape));
  }
  const std::string given = (folder / "in.safetensors").string(), wanted = (folder / "wanted.safetensors").string();
  REQUIRE(tool::write_safetensors(given, inputs).ok());
  const auto reference =
      run("run " + program + " " + a.set + " --target reference --inputs " + given + " --outputs " + wanted);
  INFO(reference.text);
  REQUIRE(reference.code == 0);
  std::ofstream(folder / "main.c") << driver(a, folder);
  const std::string stem = (folder / ("attune_" + a.name)).string();
  const auto built =
      shell(compiler() + " -std=c11 -Wall -Wextra -Werror " + flags + " -I" + folder.string() + " " +
            (folder / "main.c").string() + " " + stem + ".c " + stem + ".o -lm -o " + (folder / "main").string());
  INFO(built.text);
  REQUIRE(built.code == 0);
  const auto ran = shell((folder / "main").string());
  INFO(ran.text);
  REQUIRE(ran.code == 0);
  const auto reference_results = tool::read_safetensors(wanted).value();
  for (const auto& t : reference_results.tensors) {
    const std::string got = read(folder / (t.name + ".out"));
    std::int64_t count = 1;
    for (auto extent : t.shape) count *= extent;
    REQUIRE(got.size() == static_cast<std::size_t>(count) * size_of(*t.dtype));
    double error = 0, largest = 0;
    for (std::int64_t k = 0; k < count; ++k) {
      const double x = load_element(got.data(), *t.dtype, k), y = load_element(t.data, *t.dtype, k);
      error = std::isfinite(y) ? std::max(error, std::abs(x - y))
                               : (x == y || (std::isnan(x) && std::isnan(y)) ? error : 1e30);
      if (std::isfinite(y)) largest = std::max(largest, std::abs(y));
    }
    INFO(t.name);
    CHECK(error <= largest * (*t.dtype == DType::bf16 ? 3e-2 : 2e-5));
  }
}

}  // namespace

TEST_CASE("what emit writes compiles as C and computes what the reference does") {
  if (!has_cpu_target()) return;
  constexpr DType f32 = DType::f32, bf16 = DType::bf16;
  const std::string sizes = "  c.B = 2; c.H = 4; c.G = 2; c.M = 37; c.N = 53; c.D = 24; c.E = 19;\n";
  const std::string dims = "B=2,H=4,G=2,M=37,N=53,D=24,E=19";
  const std::vector<Named> qkv = {{"Q", f32, {2, 4, 37, 24}}, {"K", f32, {2, 2, 53, 24}}, {"V", f32, {2, 2, 53, 19}}};
  for (const char* flags : {"", "-fopenmp"}) {
    check({"causal", "std:causal", dims, "", "", sizes, qkv, {{"O", f32, {2, 4, 37, 19}}}}, flags);
    check({"window", "std:window", dims, "", "--set W=9", sizes + "  c.W = 9;\n", qkv, {{"O", f32, {2, 4, 37, 19}}}},
          flags);
  }
  // A stored running sum, integers, a default, and names that are words of C.
  check(
      {"decay",
       "kernel decay(X: f32[M, N], f: f32[N], long: i32[M], rate: f32 = 1.0 / sqrt(N)) -> (O: f32[M], int: i64[M]) {\n"
       "  C[j] = cumsum[j](rate * f[j])\n"
       "  O[i] = sum[j where j < long[i]](exp(C[j] / 8) * X[i, j])\n"
       "  int[i] = sum[j in 0..N where j < long[i]](j)\n}\n",
       "M=11,N=70",
       "",
       "",
       "  c.M = 11; c.N = 70;\n",
       {{"X", f32, {11, 70}}, {"f", f32, {70}}, {"long", DType::i32, {11}, 70}},
       {{"O", f32, {11}}, {"int", DType::i64, {11}}}},
      "");
  check({"softmax",
         "std:softmax",
         "B=1,H=2,G=2,M=5,N=9,D=8,E=8",
         "--dtype T=bf16",
         "",
         "  c.B = 1; c.H = 2; c.G = 2; c.M = 5; c.N = 9; c.D = 8; c.E = 8;\n",
         {{"Q", bf16, {1, 2, 5, 8}}, {"K", bf16, {1, 2, 9, 8}}, {"V", bf16, {1, 2, 9, 8}}},
         {{"O", bf16, {1, 2, 5, 8}}, {"L", f32, {1, 2, 5}}}},
        "");
}

TEST_CASE("the launcher checks its call") {
  if (!has_cpu_target()) return;
  const fs::path folder = scratch() / "launcher";
  REQUIRE(run("emit std:causal --output " + folder.string()).code == 0);
  std::ofstream(folder / "main.c") << R"(#include "attune_causal.h"
#include <stdio.h>
#include <string.h>
static float memory[4096];
static struct attune_causal good(void) {
  struct attune_causal c;
  memset(&c, 0, sizeof c);
  c.B = 1, c.H = 2, c.G = 1, c.M = 3, c.N = 4, c.D = 2, c.E = 2;
  attune_causal_defaults(&c);
  c.Q.data = memory, c.K.data = memory + 64, c.V.data = memory + 128, c.O.data = memory + 192;
  return c;
}
static void say(struct attune_causal c) {
  int64_t bytes = attune_causal_workspace(&c, 1);
  static _Alignas(64) char work[1 << 20];
  int code = bytes < 0 ? (int)bytes : bytes > (int64_t)sizeof work ? 99 : attune_causal_run(&c, work, 1);
  puts(attune_causal_error(code));
}
int main(void) {
  static const int64_t rows_apart[] = {16, 8, 4, 2};
  struct attune_causal c = good();
  say(c);
  c = good(), c.H = 3, c.G = 2, say(c);
  c = good(), c.G = 0, say(c);
  c = good(), c.M = -1, say(c);
  c = good(), c.N = INT64_C(1) << 40, say(c);
  c = good(), c.V.data = NULL, say(c);
  c = good(), c.K.strides = rows_apart, say(c);
  c = good(), c.M = 0, c.Q.data = NULL, c.O.data = NULL, say(c);
  c = good(), printf("%d\n", attune_causal_run(&c, NULL, 1) < 0);
  c = good(), printf("%d\n", attune_causal_workspace(&c, 0) < 0);
  return 0;
}
)";
  const std::string stem = (folder / "attune_causal").string();
  const auto built = shell(compiler() + " -std=c11 -Wall -Wextra -Werror -I" + folder.string() + " " +
                           (folder / "main.c").string() + " " + stem + ".c " + stem + ".o -lm -o " + stem);
  INFO(built.text);
  REQUIRE(built.code == 0);
  CHECK(shell(stem).text ==
        "done\nH is not a multiple of G\nthe divisor G is 0\nM does not lie in 0..2^31 - 1\nN does not lie in 0..2^31 "
        "- 1\n"
        "V has no memory, or it is not aligned\naxis 3 of K must have stride 1 in this code\ndone\n1\n1\n");
}

TEST_CASE("emit refuses what it cannot write") {
  CHECK(run("emit std:causal").code == 2);
  CHECK(run("emit std:causal --target interpreter --output " + (scratch() / "no").string()).code == 2);
  CHECK(run("emit std:causal --output /dev/null/x").code == (has_cpu_target() ? 2 : 4));
  CHECK(run("emit std:cusal --output " + (scratch() / "no").string()).code == 2);
  CHECK_FALSE(fs::exists(scratch() / "no"));
}
