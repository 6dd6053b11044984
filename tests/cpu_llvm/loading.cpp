// SPDX-License-Identifier: Apache-2.0
// The library, compiling, loading, unloading: what works, what is refused, and from several threads.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/catch.hpp"
#include "tests/cpu_llvm/harness.hpp"

using namespace attune;
using namespace attune::cpu;
using namespace attune::cpu::test;

namespace {

/// Nests whose tasks() give base + k, so that mixed-up code is noticed.
std::string counting_module(std::size_t nests, std::int64_t base) {
  std::string text;
  for (std::size_t k = 0; k < nests; ++k)
    text += fmt::format(
        "define i64 @nest{0}_tasks(ptr %frame) #0 {{\n  ret i64 {1}\n}}\n"
        "define i64 @nest{0}_scratch(ptr %frame) #0 {{\n  ret i64 64\n}}\n"
        "define void @nest{0}_run(ptr %frame, i64 %task, ptr %scratch) #0 {{\n"
        "  store i64 %task, ptr %scratch\n  ret void\n}}\n",
        k, base + static_cast<std::int64_t>(k));
  return text + "attributes #0 = { " + function_attributes(host()) + " }\n";
}

std::string tail(std::string body) {
  return "define i64 @nest0_tasks(ptr %frame) {\n" + std::move(body) +
         "}\ndefine i64 @nest0_scratch(ptr %frame) {\n  ret i64 0\n}\n"
         "define void @nest0_run(ptr %frame, i64 %task, ptr %scratch) {\n  ret void\n}\n";
}

}  // namespace

TEST_CASE("the host is described", "[llvm]") {
  const CpuTarget& target = host();
  CHECK_FALSE(target.name.empty());
  CHECK(target.features.find("+sse2") != std::string::npos);
  CHECK(target.l1_bytes > 0);
  CHECK(target.l2_bytes > 0);
  CHECK(target.vector_lanes == (target.isa == Isa::avx512 ? 16 : target.isa == Isa::avx2 ? 8 : 4));
  CHECK(target.machine().vector_lanes == target.vector_lanes);
  CHECK((target.features.find("+avx512f") != std::string::npos) == (target.isa == Isa::avx512));
  CHECK(measure_fma_peak(target) > 1);
  CHECK(function_attributes(target).find("\"target-cpu\"") != std::string::npos);
}

TEST_CASE("libLLVM is found and named", "[llvm]") {
  INFO(fmt::format("{}", fmt::join(llvm_report().tried, "\n")));
  REQUIRE(llvm_report().found());
  REQUIRE(std::stoi(llvm_report().version) >= 17);
  CHECK_FALSE(llvm_report().path.empty());
  const std::string identity = llvm_identity();  // major.minor.patch
  CHECK(std::count(identity.begin(), identity.end(), '.') == 2);
}

TEST_CASE("objects are loaded, called and unloaded", "[llvm]") {
  for (std::int64_t base = 0; base < 200; base += 10) {
    std::vector<std::uint8_t> object = compile(counting_module(3, base), host()).value();
    std::shared_ptr<Loaded> first = load(object, 3).value();
    std::shared_ptr<Loaded> second = load(object, 3).value();
    for (std::size_t k = 0; k < 3; ++k) {
      CHECK(first->nests[k].tasks(nullptr) == base + static_cast<std::int64_t>(k));
      CHECK(first->nests[k].scratch(nullptr) == 64);
    }
    first.reset();
    std::int64_t written = 0;
    second->nests[2].run(nullptr, 77, &written);
    CHECK(written == 77);
  }
}

TEST_CASE("equal text gives equal objects", "[llvm]") {
  std::string ir = counting_module(2, 5);
  CHECK(compile(ir, host()).value() == compile(ir, host()).value());
}

TEST_CASE("bad IR is a diagnostic", "[llvm]") {
  auto message = [](const std::string& ir) {
    auto result = compile(ir, host());
    REQUIRE_FALSE(result.ok());
    CHECK(result.diagnostics()[0].code == "A0901");
    std::string text = result.diagnostics()[0].message;
    for (const std::string& note : result.diagnostics()[0].notes) text += "\n" + note;
    return text;
  };
  CHECK_THAT(message("define i64 @nest0_tasks(ptr %f) {\n  ret i64 %nothing\n}\n"),
             Catch::Matchers::Contains("line 2 of the IR:   ret i64 %nothing"));
  CHECK_THAT(message("garbage"), Catch::Matchers::Contains("line 1 of the IR: garbage"));
  CHECK_THAT(message(tail("  %a = add i64 %b, 1\n  %b = add i64 %a, 1\n  ret i64 %b\n")),
             Catch::Matchers::Contains("dominate"));
  CHECK_THAT(message(std::string("ret\0void", 8)), Catch::Matchers::Contains("LLVM"));
}

TEST_CASE("objects that must not run are refused", "[llvm]") {
  auto message = [](const std::vector<std::uint8_t>& object, std::size_t nests) {
    auto result = load(object, nests);
    REQUIRE_FALSE(result.ok());
    CHECK(result.diagnostics()[0].code == "A0901");
    return result.diagnostics()[0].message;
  };
  std::vector<std::uint8_t> object = compile(counting_module(1, 0), host()).value();
  CHECK_THAT(message(object, 2), Catch::Matchers::Contains("nest1_tasks"));
  // getpid is there in every process; generated code must not reach it.
  std::string foreign = tail("  %r = call i64 @getpid()\n  ret i64 %r\n") + "declare i64 @getpid()\n";
  CHECK_THAT(message(compile(foreign, host()).value(), 1), Catch::Matchers::Contains("getpid"));
  message({}, 1);
  message({1, 2, 3}, 1);
  for (std::size_t keep : {16U, 64U, 200U})
    message(std::vector<std::uint8_t>(object.begin(), object.begin() + static_cast<std::ptrdiff_t>(keep)), 1);
  // And a good one still loads.
  CHECK(load(object, 1).value()->nests[0].tasks(nullptr) == 0);
}

TEST_CASE("modules compile side by side and call each other; cut code is refused", "[llvm]") {
  const std::string outer =
      "declare hidden i64 @other(ptr)\ndefine i64 @nest0_tasks(ptr %f) {\n  %x = call i64 @other(ptr %f)\n  ret i64 "
      "%x\n}\n"
      "define i64 @nest0_scratch(ptr %f) {\n  ret i64 0\n}\ndefine void @nest0_run(ptr %f, i64 %t, ptr %s) {\n  ret "
      "void\n}\n";
  const std::string inner = "define hidden i64 @other(ptr %f) {\n  ret i64 42\n}\n";
  const auto parallel = [](std::int64_t count, void (*job)(void*, std::int64_t), void* context) {
    std::vector<std::thread> threads;
    for (std::int64_t k = 0; k < count; ++k) threads.emplace_back(job, context, k);
    for (std::thread& thread : threads) thread.join();
  };
  const std::vector<std::uint8_t> code = compile({outer, inner}, host(), parallel).value();
  CHECK(load(code, 1).value()->nests[0].tasks(nullptr) == 42);
  for (std::size_t keep = 8; keep < code.size(); keep += 97)
    CHECK(!load(std::vector<std::uint8_t>(code.begin(), code.begin() + static_cast<std::ptrdiff_t>(keep)), 1));
  // What one module has wrong is an error of the whole.
  CHECK(!compile({outer, "define i64 @other(ptr %f) { ret i32 1 }"}, host(), parallel));
  CHECK(!load(compile({outer}, host(), parallel).value(), 1));
}

TEST_CASE("threads compile and load at the same time", "[llvm]") {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t, &wrong] {
      for (int k = 0; k < 10; ++k) {
        std::int64_t base = t * 1000 + k;
        auto object = compile(counting_module(1, base), host());
        auto code = object ? load(*object, 1) : Result<std::shared_ptr<Loaded>>(object.diagnostics());
        if (!code || (*code)->nests[0].tasks(nullptr) != base) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("a cached object loads quickly", "[llvm]") {
  // tanh, gelu and pow in one function: some 300 lines.
  std::string ir = array_module(
      [](Writer& w, const std::string& x, const std::string& y, int width, const CpuTarget& target) {
        std::string a = emit_unary(w, tensor::UnaryOp::gelu, x, width, target);
        a = emit_unary(w, tensor::UnaryOp::tanh, a, width, target);
        a = emit_unary(w, tensor::UnaryOp::softplus, a, width, target);
        return emit_pow(w, a, y, width, target);
      },
      "float", "float", host().vector_lanes, host());
  using Clock = std::chrono::steady_clock;
  auto ms = [](Clock::time_point from) {
    return std::chrono::duration<double, std::milli>(Clock::now() - from).count();
  };
  std::vector<std::uint8_t> object;
  double compiled = 1e9, loaded = 1e9;
  for (int k = 0; k < 5; ++k) {
    auto begin = Clock::now();
    object = compile(ir, host()).value();
    compiled = std::min(compiled, ms(begin));
    begin = Clock::now();
    std::shared_ptr<Loaded> code = load(object, 1).value();
    loaded = std::min(loaded, ms(begin));
  }
  WARN(fmt::format("{} lines of IR: compiled in {:.2f} ms, loaded in {:.2f} ms, {} bytes",
                   std::count(ir.begin(), ir.end(), '\n'), compiled, loaded, object.size()));
  CHECK(loaded < 20);  // an order of magnitude above what an idle machine takes
}
