// SPDX-License-Identifier: Apache-2.0
// What a driver or a compiler that fails leads to: the right code, the kernel's name, and a host that goes on.
#include "backend/cuda/device.hpp"
#include "tests/cuda/calls_on_gpu.hpp"
#include "tests/runtime/scratch_directory.hpp"

using namespace calls;

TEST_CASE("each step that the driver refuses is told with its name and the kernel's") {
  struct Step {
    const char* function;
    int result;
    const char* code;
    const char* says;
  };
  for (const Step& step :
       {Step{"cuModuleLoadData", 200, "A0606", "loading"}, Step{"cuModuleLoadData", 2, "A0607", "loading"},
        Step{"cuModuleGetFunction", 500, "A0606", "function"}, Step{"cuMemsetD32Async", 400, "A0606", "flag"},
        Step{"cuLaunchKernel", 1, "A0606", "launching"}, Step{"cuStreamSynchronize", 719, "A0606", "running"}}) {
    INFO(step.function);
    fake::install();
    Engine engine(private_engine());
    const auto kernel = engine.compile(parse(attention_text), on_gpu()).value();
    GpuCall call(1, 1, 9, 9, 64);
    fake::driver().failures[step.function] = {0, step.result, false};
    RunOptions waiting;
    waiting.wait = true;
    const auto report = kernel.run(call.arguments, waiting);
    if (report && std::string(step.function) == "cuMemsetD32Async") continue;  // code that cannot raise the flag
    REQUIRE_FALSE(report);
    const Diagnostic& found = report.diagnostics().at(0);
    CHECK(found.code == step.code);
    CHECK(found.message.find(step.says) != std::string::npos);
    CHECK(found.message.find("`attention`") != std::string::npos);
    // A failure is not remembered.
    fake::driver().failures.clear();
    CHECK(kernel.run(call.arguments, waiting));
  }
}

TEST_CASE("no memory for a stored intermediate launches nothing") {
  fake::install();
  Engine engine(private_engine());
  const auto kernel = engine
                          .compile(parse("kernel k(X: f32[M, N]) -> O: f32[M, N] { C[i, j] = cumsum[j](X[i, j])\n"
                                         "O[i, j] = C[i, j] * C[M - 1 - i, j] }"),
                                   on_gpu())
                          .value();
  REQUIRE_FALSE(kernel.fused());
  std::vector<DeviceBuffer> memory;
  memory.push_back(DeviceBuffer::allocate(1 << 20).value());
  memory.push_back(DeviceBuffer::allocate(1 << 20).value());
  const TensorRef view(static_cast<void*>(nullptr), DType::f32, {1024, 256});
  const Arguments arguments{{"X", memory[0].view(view)}, {"O", memory[1].view(view)}};
  fake::driver().memory_limit = (2 << 20) + 1000;
  const auto report = kernel.run(arguments);
  CHECK(code_of(report) == "A0607");
  CHECK(fake::driver().launches.empty());
  fake::driver().memory_limit = std::uint64_t{1} << 30;
  CHECK(kernel.run(arguments));
}

TEST_CASE("an error that spoils the GPU leaves the host's targets working") {
  fake::install();
  {
    Engine engine(private_engine());
    const auto kernel = engine.compile(parse(attention_text), on_gpu()).value();
    const auto automatic = engine.compile(parse(attention_text)).value();
    GpuCall call(1, 1, 9, 9, 64);
    REQUIRE(kernel.run(call.arguments));
    fake::driver().failures["cuLaunchKernel"] = {0, 700, true};
    const auto report = kernel.run(call.arguments);
    CHECK(code_of(report) == "A0606");
    CHECK(report.diagnostics()[0].message.find("CUDA_ERROR_ILLEGAL_ADDRESS") != std::string::npos);
    CHECK(report.diagnostics()[0].help.find("`cpu`") != std::string::npos);
    fake::driver().failures.clear();
    CHECK(code_of(kernel.run(call.arguments)) == "A0606");
    CHECK(code_of(DeviceBuffer::allocate(64)) == "A0606");
    AttentionCall host(1, 2, 9, 9, 16);
    REQUIRE(automatic.run(host.arguments()));
    CHECK(host.largest_error() < 1e-5);
  }  // nothing throws where memory and modules cannot be given back
}

TEST_CASE("text that the compiler refuses is a bug of ours, told with its log") {
  fake::install();
  Engine engine(private_engine());
  fake::compiler().result = 6;
  fake::compiler().log = "mine.attn(3): error: identifier \"x\" is undefined\n\n1 error detected in the compilation\n";
  GpuCall call(1, 1, 9, 9, 64);
  const auto report = engine.run(parse(attention_text), call.arguments, on_gpu());
  REQUIRE_FALSE(report);
  const Diagnostic& found = report.diagnostics().at(0);
  CHECK(found.code == "A0901");
  CHECK(found.message.find("mine.attn(3): error") != std::string::npos);
  CHECK(found.notes.at(0) == fake::compiler().log);
  fake::compiler().log.clear();
  const auto silent = engine.run(parse(attention_text), call.arguments, on_gpu());
  CHECK(silent.diagnostics().at(0).message.find("NVRTC_ERROR_COMPILATION") != std::string::npos);
}

TEST_CASE("without a driver, a device or a compiler nothing is compiled") {
  for (int what = 0; what < 4; ++what) {
    INFO(what);
    if (what == 0) fake::install_without_driver();
    if (what == 1) fake::install_without_compiler();
    if (what >= 2) fake::install();
    if (what == 2) fake::driver().devices.clear();
    Engine engine(private_engine());
    const auto kernel = engine.compile(parse(attention_text), on_gpu(what == 3 ? 1 : 0));
    CHECK(code_of(kernel) == "A0602");
    CHECK(engine.compile(parse(attention_text)));
  }
}

TEST_CASE("a compiler that is older than the GPU says so") {
  fake::install();
  fake::driver().devices = {{"Fake B200", 10, 0, 148, 232448, 233472, 65536, 126 << 20, std::uint64_t{180} << 30}};
  Engine engine(private_engine());
  GpuCall call(1, 1, 9, 9, 64);
  const auto report = engine.run(parse(attention_text), call.arguments, on_gpu());
  REQUIRE_FALSE(report);
  CHECK(report.diagnostics()[0].code == "A0602");
  CHECK(report.diagnostics()[0].message.find("sm_100") != std::string::npos);
}

TEST_CASE("a truncated entry of the disk cache is a miss") {
  fake::install();
  ScratchDirectory folder;
  EngineOptions options = private_engine();
  options.disk_cache = true;
  options.cache_directory = folder.path();
  GpuCall call(1, 1, 9, 9, 64);
  REQUIRE(Engine(options).run(parse(attention_text), call.arguments, on_gpu()));
  for (const std::string& name : files_of(folder.path())) {
    const std::string path = folder.path() + "/" + name;
    write_bytes(path, read_bytes(path).substr(0, read_bytes(path).size() - 40));
  }
  CHECK(Engine(options).run(parse(attention_text), call.arguments, on_gpu()).value().cache == "miss");
  CHECK(Engine(options).run(parse(attention_text), call.arguments, on_gpu()).value().cache == "disk");
}

TEST_CASE("memory of a GPU: copies, bounds, and what is given back") {
  fake::install();
  {
    std::vector<int> numbers{1, 2, 3, 4};
    DeviceBuffer buffer = DeviceBuffer::copy_of(numbers.data(), 16).value();
    CHECK(buffer.size() == 16);
    CHECK(buffer.device() == Device{DeviceKind::cuda, 0});
    std::vector<int> back(4);
    REQUIRE(buffer.copy_to(back.data(), 16));
    CHECK(back == numbers);
    CHECK(code_of(buffer.copy_to(back.data(), 17)) == "A0609");
    CHECK(code_of(buffer.fill_from(numbers.data(), 17)) == "A0609");
    DeviceBuffer moved = std::move(buffer);
    CHECK(moved.size() == 16);
    CHECK(buffer.data() == nullptr);  // NOLINT: moved from
    moved = DeviceBuffer::allocate(0).value();
    CHECK(moved.data() == nullptr);
    CHECK(fake::driver().allocated == 0);
    CHECK(code_of(DeviceBuffer::allocate(std::uint64_t{1} << 40)) == "A0607");
    const TensorRef view =
        DeviceBuffer::allocate(24).value().view(TensorRef(numbers.data(), DType::f32, {2, 3}, {1, 2}));
    CHECK(view.strides == std::vector<std::int64_t>{1, 2});
    CHECK(view.device.kind == DeviceKind::cuda);
  }
  CHECK(fake::driver().allocated == 0);
}
