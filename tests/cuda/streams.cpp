// SPDX-License-Identifier: Apache-2.0
// Memory of calls by stream: temporaries, the out-of-range flag, workspaces of the caller, captured graphs.
#include <algorithm>
#include <set>
#include <thread>

#include "tests/cuda/calls_on_gpu.hpp"

using namespace calls;

namespace {

/// A stored intermediate (the running sum), so that a call has two nests and temporaries.
const char* stored_text = R"(
kernel stored(X: f32[M, N], I: i64[M]) -> O: f32[M, N] {
  C[i, j] = cumsum[j](X[i, j])
  O[i, j] = C[i, j] * C[I[i], j]
}
)";

/// Words: M N; address and strides of X, I, C (temporary), O in the order of buffers; the flag.
struct StoredCall {
  std::vector<DeviceBuffer> buffers;
  Arguments arguments;
  StoredCall(std::int64_t m, std::int64_t n) {
    const auto add = [&](const char* name, DType type, std::vector<std::int64_t> shape) {
      TensorRef view(static_cast<void*>(nullptr), type, std::move(shape));
      buffers.push_back(
          DeviceBuffer::allocate(static_cast<std::uint64_t>(view.element_count()) * size_of(type)).value());
      arguments.emplace_back(name, buffers.back().view(view));
    };
    add("X", DType::f32, {m, n});
    add("I", DType::i64, {m});
    add("O", DType::f32, {m, n});
  }
};

/// A fresh driver, an engine of its own and the compiled program.
struct Stored {
  Engine engine;
  Kernel kernel;
  Stored() : engine(fresh()), kernel(engine.compile(parse(stored_text), on_gpu()).value()) {}

 private:
  static EngineOptions fresh() {
    fake::install();
    fake::driver().words = 2 + 3 + 2 + 3 + 3 + 1;
    return private_engine();
  }
};

/// The addresses of a launch that belong to none of the call's tensors, the flag's last.
std::set<std::uint64_t> own_addresses(const fake::Launched& launched, const StoredCall& call) {
  std::set<std::uint64_t> out;
  for (const std::uint64_t word : launched.words)
    if (word > 1 << 20) out.insert(word);
  for (const DeviceBuffer& buffer : call.buffers) out.erase(reinterpret_cast<std::uintptr_t>(buffer.data()));
  return out;
}

void* handle(std::uintptr_t number) { return reinterpret_cast<void*>(number); }

}  // namespace

TEST_CASE("calls on one stream share their memory, calls on several do not meet") {
  const Stored stored;
  const Kernel& kernel = stored.kernel;
  REQUIRE_FALSE(kernel.fused());
  StoredCall call(8, 64);
  const auto addresses = [&](void* stream) {
    fake::driver().launches.clear();
    RunOptions options;
    options.stream = stream;
    const auto report = kernel.run(call.arguments, options);
    if (!report) FAIL(render(report.diagnostics()));
    REQUIRE(fake::driver().launches.size() >= 2);
    const auto first = own_addresses(fake::driver().launches[0], call);
    for (const fake::Launched& launched : fake::driver().launches) CHECK(own_addresses(launched, call) == first);
    CHECK(first.size() == 2);  // the temporary and the flag
    for (const std::uint64_t address : first) CHECK(address % 256 == 0);
    return first;
  };
  const auto none = addresses(nullptr), one = addresses(handle(0x1000)), two = addresses(handle(0x2000));
  for (const std::uint64_t address : one) {
    CHECK_FALSE(two.contains(address));
    CHECK_FALSE(none.contains(address));
  }
  CHECK(addresses(handle(0x1000)) == one);
  CHECK(addresses(nullptr) == none);
  // The handle that means another stream in each thread.
  const auto mine = addresses(handle(2));
  std::set<std::uint64_t> others;
  std::thread([&] { others = addresses(handle(2)); }).join();
  for (const std::uint64_t address : mine) CHECK_FALSE(others.contains(address));
  CHECK(addresses(handle(2)) == mine);
}

TEST_CASE("a block that becomes too small is kept for what still uses it") {
  {
    const Stored stored;
    const Kernel& kernel = stored.kernel;
    StoredCall small(8, 64), large(8, 6400);
    REQUIRE(kernel.run(small.arguments));
    const auto before = own_addresses(fake::driver().launches.back(), small);
    REQUIRE(kernel.run(large.arguments));
    CHECK(fake::driver().count("cuMemFree") == 0);
    REQUIRE(kernel.run(small.arguments));
    CHECK(own_addresses(fake::driver().launches.back(), small) != before);  // the larger block serves both now
    CHECK(fake::driver().count("cuStreamSynchronize") == 0);
  }
  CHECK(fake::driver().allocated == 0);  // all goes with the engine
  CHECK(fake::driver().modules == 0);
}

TEST_CASE("the out-of-range flag is known to who waits") {
  const Stored stored;
  const Kernel& kernel = stored.kernel;
  StoredCall call(8, 64);
  RunOptions waiting;
  waiting.wait = true;
  CHECK_FALSE(kernel.run(call.arguments, waiting).value().out_of_range);
  CHECK(fake::driver().count("cuStreamSynchronize") == 1);
  fake::driver().raise = 1;
  CHECK(kernel.run(call.arguments, waiting).value().out_of_range);
  CHECK_FALSE(kernel.run(call.arguments).value().out_of_range);  // not known
  fake::driver().raise = 0;
  CHECK_FALSE(kernel.run(call.arguments, waiting).value().out_of_range);  // cleared for each call
}

TEST_CASE("a workspace of the caller serves in place of the engine's") {
  const Stored stored;
  const Kernel& kernel = stored.kernel;
  StoredCall call(8, 64);
  const std::uint64_t needed = kernel.workspace_bytes(call.arguments).value();
  CHECK(needed >= 8 * 64 * 4 + 4);
  CHECK(kernel.compile_count() == 1);
  CHECK(fake::driver().launches.empty());
  DeviceBuffer workspace = DeviceBuffer::allocate(needed + 256).value();
  const int allocations = fake::driver().count("cuMemAlloc");
  RunOptions options;
  options.workspace = workspace.data();
  options.workspace_bytes = needed;
  fake::driver().raise = 1;
  REQUIRE(kernel.run(call.arguments, options));
  CHECK(fake::driver().count("cuMemAlloc") == allocations);
  const auto begin = reinterpret_cast<std::uintptr_t>(workspace.data());
  for (const std::uint64_t address : own_addresses(fake::driver().launches.back(), call)) {
    CHECK(address >= begin);
    CHECK(address < begin + needed);
  }
  // The flag is where the workspace begins.
  std::int32_t flag = 0;
  REQUIRE(workspace.copy_to(&flag, sizeof flag));
  CHECK(flag == 1);

  const auto launched = fake::driver().launches.size();
  options.workspace_bytes = needed - 1;
  CHECK(code_of(kernel.run(call.arguments, options)) == "A0610");
  options.workspace_bytes = needed;
  options.workspace = static_cast<char*>(workspace.data()) + 128;
  CHECK(code_of(kernel.run(call.arguments, options)) == "A0610");
  CHECK(fake::driver().launches.size() == launched);
}

TEST_CASE("a call that ran before can be captured, a new kind cannot") {
  const Stored stored;
  const Kernel& kernel = stored.kernel;
  StoredCall call(8, 64), large(8, 64000);
  RunOptions options;
  options.stream = handle(0x1000);
  fake::driver().capturing = {options.stream};
  const auto refused = kernel.run(call.arguments, options);
  CHECK(code_of(refused) == "A0610");
  CHECK(refused.diagnostics()[0].help.find("before the capture") != std::string::npos);
  CHECK(fake::driver().count("cuModuleLoadData") == 0);

  fake::driver().capturing.clear();
  REQUIRE(kernel.run(call.arguments, options));
  fake::driver().capturing = {options.stream};
  fake::driver().order.clear();
  REQUIRE(kernel.run(call.arguments, options));
  for (const std::string& name : fake::driver().order) CHECK((name == "cuLaunchKernel" || name == "cuMemsetD32Async"));
  // The code serves this size too, the memory does not.
  const auto launched = fake::driver().launches.size();
  CHECK(code_of(kernel.run(large.arguments, options)) == "A0610");
  options.wait = true;
  CHECK(code_of(kernel.run(call.arguments, options)) == "A0610");
  CHECK(fake::driver().launches.size() == launched);
  // Another stream is not concerned.
  options.stream = nullptr;
  CHECK(kernel.run(large.arguments, options));
}
