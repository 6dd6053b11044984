// SPDX-License-Identifier: Apache-2.0
// Calls on a GPU: what is launched, where and with which words; what a second call does not do again.
#include <algorithm>
#include <bit>
#include <thread>

#include "tests/cuda/calls_on_gpu.hpp"
#include "tests/runtime/scratch_directory.hpp"

using namespace calls;

TEST_CASE("a call launches on the caller's stream with its sizes, strides and addresses") {
  fake::install();
  fake::driver().words = attention_words;
  Engine engine(private_engine());
  const auto kernel = engine.compile(parse(attention_text), on_gpu()).value();
  CHECK(kernel.target() == Target{TargetKind::cuda});
  GpuCall call(2, 3, 40, 50, 64);
  // Rows of K lie further apart than they are long, and of batch there is only a view of one.
  call.tensor(1).strides = {3 * 50 * 64, 50 * 64, 64, 1};
  RunOptions options;
  int stream = 0;
  options.stream = &stream;
  const auto report = kernel.run(call.arguments, options);
  if (!report) FAIL(render(report.diagnostics()));
  CHECK(report->cache == "miss");
  CHECK(report->compile_ms > 0);
  CHECK_FALSE(report->out_of_range);
  const auto& launches = fake::driver().launches;
  REQUIRE(launches.size() >= 1);
  for (const fake::Launched& launched : launches) {
    CHECK(launched.stream == &stream);
    CHECK(launched.device == 0);
    CHECK(launched.blocks > 0);
    CHECK(launched.threads > 0);
    REQUIRE(launched.words.size() == attention_words);
    const auto word = [&](std::size_t k) { return static_cast<std::int64_t>(launched.words[k]); };
    // The dims in the program's order: B, H, M, D, N.
    CHECK(std::vector<std::int64_t>{word(0), word(1), word(2), word(3), word(4)} ==
          std::vector<std::int64_t>{2, 3, 40, 64, 50});
    CHECK(std::bit_cast<float>(static_cast<std::uint32_t>(word(5))) == 0.125f);
    for (std::size_t tensor = 0; tensor < 4; ++tensor) {
      const TensorRef& view = call.tensor(tensor);
      const std::size_t at = 6 + tensor * 5;
      CHECK(launched.words[at] == reinterpret_cast<std::uintptr_t>(view.data));
      for (std::size_t axis = 0; axis < 4; ++axis) CHECK(word(at + 1 + axis) == view.strides[axis]);
    }
    CHECK(launched.words.back() != 0);
  }
  // Nothing waited.
  CHECK(fake::driver().count("cuStreamSynchronize") == 0);
  CHECK(fake::driver().count("cuMemcpyDtoH") == 0);
}

TEST_CASE("axes of size 1 pass a stride that code can trust") {
  fake::install();
  fake::driver().words = attention_words;
  Engine engine(private_engine());
  const auto kernel = engine.compile(parse(attention_text), on_gpu()).value();
  GpuCall call(1, 1, 40, 50, 64);
  call.tensor(0).strides = {-5, 12345, 64, 1};
  REQUIRE(kernel.run(call.arguments));
  const auto& words = fake::driver().launches.at(0).words;
  CHECK(words[7] == 0);
  CHECK(words[8] == 0);
  CHECK(words[9] == 64);
  CHECK(words[10] == 1);
}

TEST_CASE("after the first call of a kind a launch neither allocates, copies, loads nor waits") {
  fake::install();
  Engine engine(private_engine());
  const auto kernel = engine.compile(parse(attention_text), on_gpu()).value();
  GpuCall call(2, 3, 40, 50, 64), other(2, 3, 40, 50, 64);
  REQUIRE(kernel.run(call.arguments));
  const auto launched = fake::driver().launches.size();
  fake::driver().order.clear();
  REQUIRE(kernel.run(call.arguments));
  REQUIRE(kernel.run(other.arguments));  // other pointers, the same kind
  CHECK(fake::driver().launches.size() == 3 * launched);
  for (const std::string& name : fake::driver().order) {
    INFO(name);
    CHECK((name == "cuLaunchKernel" || name == "cuMemsetD32Async"));
  }
  // The flag is cleared before the launches of its call.
  REQUIRE(fake::driver().order.size() >= 2);
  if (fake::driver().order.size() > 2 * launched) CHECK(fake::driver().order[0] == "cuMemsetD32Async");
}

TEST_CASE("new lengths add no code, new widths do") {
  fake::install();
  Engine engine(private_engine());
  const auto kernel = engine.compile(parse(attention_text), on_gpu()).value();
  for (auto [b, h, m, n] : {std::tuple{1, 2, 33, 40}, {3, 2, 1, 70}, {1, 1, 65, 65}, {1, 2, 1, 1}, {2, 2, 7, 130}}) {
    GpuCall call(b, h, m, n, 64);
    Arguments arguments = call.arguments;
    arguments.emplace_back("scale", 0.5 / m);
    const auto report = kernel.run(arguments);
    if (!report) FAIL(render(report.diagnostics()));
    CHECK(kernel.compile_count() == 1);
    CHECK(fake::compiler().sources.size() == 1);
  }
  GpuCall wide(1, 1, 33, 40, 128);
  CHECK(kernel.run(wide.arguments)->cache == "miss");
  CHECK(kernel.compile_count() == 2);
  CHECK(fake::compiler().sources.size() == 2);
  const auto facts = kernel.specialisations();
  CHECK(std::find(facts.begin(), facts.end(), "dim D = 128") != facts.end());
  GpuCall again(4, 1, 33, 40, 64);
  CHECK(kernel.run(again.arguments)->cache == "memory");
  CHECK(kernel.compile_count() == 2);
}

TEST_CASE("the compiler gets the device's architecture and header-free text") {
  fake::install();
  Engine engine(private_engine());
  GpuCall call(1, 1, 33, 40, 64);
  REQUIRE(engine.run(parse(attention_text), call.arguments, on_gpu()));
  REQUIRE(fake::compiler().sources.size() == 1);
  const auto& options = fake::compiler().options[0];
  CHECK(std::find(options.begin(), options.end(), "--gpu-architecture=sm_90a") != options.end());
  CHECK(std::find(options.begin(), options.end(), "-std=c++17") != options.end());
  CHECK(fake::compiler().sources[0].find("#include") == std::string::npos);
}

TEST_CASE("an empty call launches nothing") {
  fake::install();
  Engine engine(private_engine());
  const auto kernel = engine.compile(parse(attention_text), on_gpu()).value();
  for (auto [b, m, n] : {std::tuple{0, 9, 9}, {2, 0, 9}}) {
    GpuCall call(b, 2, m, n, 64);
    const auto report = kernel.run(call.arguments);
    if (!report) FAIL(render(report.diagnostics()));
    CHECK(fake::driver().launches.empty());
  }
  // No keys: the rows are written all the same.
  GpuCall call(1, 2, 9, 0, 64);
  REQUIRE(kernel.run(call.arguments));
  CHECK_FALSE(fake::driver().launches.empty());
}

TEST_CASE("code is loaded once for each device and compiled once for all of one kind") {
  fake::install();
  fake::driver().devices.resize(2, fake::Model{});
  ScratchDirectory folder;
  EngineOptions options = private_engine();
  options.disk_cache = true;
  options.cache_directory = folder.path();
  Engine engine(options);
  for (int device : {0, 1, 0, 1}) {
    GpuCall call(1, 1, 33, 40, 64, DType::f16, device);
    const auto report = engine.run(parse(attention_text), call.arguments, on_gpu(device));
    if (!report) FAIL(render(report.diagnostics()));
    CHECK(fake::driver().launches.back().device == device);
  }
  CHECK(fake::driver().count("cuModuleLoadData") == 2);
  CHECK(fake::compiler().sources.size() == 1);
  CHECK(fake::driver().count("cuDevicePrimaryCtxRetain") == 2);

  // Another process: from disk.
  Engine later(options);
  GpuCall call(1, 1, 33, 40, 64);
  auto report = later.run(parse(attention_text), call.arguments, on_gpu()).value();
  CHECK(report.cache == "disk");
  CHECK(report.compile_ms == 0);
  CHECK(fake::compiler().sources.size() == 1);
  CHECK(later.cache_entries().at(0).description.find("cuda sm_90a  NVRTC 13.0") != std::string::npos);

  // An entry whose code the driver does not take is a miss, and replaced.
  fake::driver().failures["cuModuleLoadData"] = {0, 200, false};
  Engine refused(options);
  CHECK(code_of(refused.run(parse(attention_text), call.arguments, on_gpu())) == "A0606");
  fake::driver().failures.clear();
  CHECK(refused.run(parse(attention_text), call.arguments, on_gpu()).value().cache == "disk");
}

TEST_CASE("threads share one compilation") {
  fake::install();
  Engine engine(private_engine());
  const auto kernel = engine.compile(parse(attention_text), on_gpu()).value();
  std::vector<GpuCall> own;
  for (int k = 0; k < 4; ++k) own.emplace_back(1, 1, 33 + k, 40, 64);
  std::vector<std::thread> threads;
  std::atomic<int> bad{0};
  for (int k = 0; k < 4; ++k)
    threads.emplace_back([&, k] {
      for (int round = 0; round < 20; ++round)
        if (!kernel.run(own[static_cast<std::size_t>(k)].arguments)) ++bad;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(bad == 0);
  CHECK(fake::compiler().sources.size() == 1);
  CHECK(fake::driver().count("cuModuleLoadData") == 1);
  CHECK(fake::driver().launches.size() % 80 == 0);
}

TEST_CASE("resources of the launches come from the log, or else from the driver") {
  fake::install();
  Engine engine(private_engine());
  const auto kernel = engine.compile(parse(attention_text), on_gpu()).value();
  CHECK(kernel.usage().empty());
  GpuCall call(1, 1, 33, 40, 64);
  REQUIRE(kernel.run(call.arguments));
  REQUIRE_FALSE(kernel.usage().empty());
  CHECK(kernel.usage()[0].registers == 168);
  CHECK(kernel.usage()[0].stack_bytes == 24);
  CHECK(kernel.usage()[0].spill_bytes == 0);
  CHECK(kernel.usage()[0].threads > 0);

  fake::compiler().log = "ptxas info    : Function properties for " + kernel.usage()[0].function +
                         "\n    8 bytes stack frame, 16 bytes spill stores, 4 bytes spill loads\n"
                         "ptxas info    : Used 240 registers, used 1 barriers\n";
  GpuCall wide(1, 1, 33, 40, 128);
  REQUIRE(kernel.run(wide.arguments));
  CHECK(kernel.usage()[0].registers == 240);
  CHECK(kernel.usage()[0].spill_bytes == 20);
  CHECK(kernel.usage()[0].stack_bytes == 8);
}
