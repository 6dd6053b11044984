// SPDX-License-Identifier: Apache-2.0
// Tensors that a target does not reach are refused before anything is launched; automatic kernels follow the tensors.
#include <optional>
#include <string>

#include "runtime/place.hpp"
#include "tests/cuda/calls_on_gpu.hpp"

using namespace calls;

namespace {

Diagnostic refusal(const Kernel& kernel, const Arguments& arguments) {
  const auto launches = fake::driver().launches.size();
  const auto report = kernel.run(arguments);
  REQUIRE_FALSE(report);
  CHECK(fake::driver().launches.size() == launches);
  return report.diagnostics().at(0);
}

}  // namespace

TEST_CASE("tensors elsewhere are refused, each by name") {
  fake::install();
  fake::driver().devices.resize(2, fake::Model{});
  Engine engine(private_engine());
  const auto kernel = engine.compile(parse(attention_text), on_gpu()).value();
  AttentionCall on_host(1, 1, 9, 9, 64);
  const auto report = kernel.run(on_host.arguments());
  REQUIRE_FALSE(report);
  CHECK(report.diagnostics().size() == 4);
  for (const Diagnostic& diagnostic : report.diagnostics()) {
    CHECK(diagnostic.code == "A0523");
    CHECK(diagnostic.expected == "GPU 0");
    CHECK(diagnostic.found == "the host");
    CHECK_FALSE(diagnostic.tensor.empty());
    CHECK_FALSE(diagnostic.help.empty());
  }
  GpuCall call(1, 1, 9, 9, 64), elsewhere(1, 1, 9, 9, 64, DType::f16, 1);
  Arguments mixed = call.arguments;
  mixed[1] = elsewhere.arguments[1];
  const Diagnostic found = refusal(kernel, mixed);
  CHECK(found.code == "A0523");
  CHECK(found.tensor == "K");
  CHECK(found.found == "GPU 1");
  // The same after a call of the same kind was kept.
  REQUIRE(kernel.run(call.arguments));
  CHECK(refusal(kernel, mixed).code == "A0523");
  CHECK(code_of(kernel.shapes(mixed)) == "A0523");
  CHECK(code_of(kernel.workspace_bytes(mixed)) == "A0523");
}

TEST_CASE("memory that a GPU reads through the driver is taken") {
  fake::install();
  Engine engine(private_engine());
  const auto kernel = engine.compile(parse(attention_text), on_gpu()).value();
  for (DeviceKind kind : {DeviceKind::cuda_host, DeviceKind::cuda_managed}) {
    GpuCall call(1, 1, 9, 9, 64);
    call.tensor(0).device = {kind, 0};
    const auto report = kernel.run(call.arguments);
    if (!report) FAIL(render(report.diagnostics()));
  }
}

TEST_CASE("misaligned and overlapping tensors are refused") {
  fake::install();
  Engine engine(private_engine());
  const auto kernel = engine.compile(parse(attention_text), on_gpu()).value();
  for (const bool warm : {false, true}) {
    GpuCall call(1, 1, 9, 9, 64);
    if (warm) REQUIRE(kernel.run(call.arguments));
    GpuCall odd(1, 1, 9, 9, 64);
    odd.tensor(2).data = static_cast<char*>(odd.tensor(2).data) + 1;
    const Diagnostic misaligned = refusal(kernel, odd.arguments);
    CHECK(misaligned.code == "A0524");
    CHECK(misaligned.tensor == "V");
    GpuCall aliased(1, 1, 9, 9, 64);
    aliased.tensor(3).data = aliased.tensor(0).data;
    CHECK(refusal(kernel, aliased.arguments).code == "A0518");
    GpuCall itself(1, 1, 9, 9, 64);
    itself.tensor(3).strides = {576, 576, 0, 1};
    CHECK(refusal(kernel, itself.arguments).code == "A0517");
  }
}

TEST_CASE("a scalar that is given as a tensor is read on the host alone") {
  fake::install();
  fake::driver().words = attention_words;
  Engine engine(private_engine());
  const auto kernel = engine.compile(parse(attention_text), on_gpu()).value();
  GpuCall call(1, 1, 9, 9, 64);
  float scale = 2;
  Arguments arguments = call.arguments;
  arguments.emplace_back("scale", TensorRef(&scale, DType::f32, {}));
  REQUIRE(kernel.run(arguments));
  CHECK(fake::driver().launches.back().words[5] == 0x40000000);
  scale = 4;  // no kept plan may hide it
  REQUIRE(kernel.run(arguments));
  CHECK(fake::driver().launches.back().words[5] == 0x40800000);
  const DeviceBuffer there = DeviceBuffer::copy_of(&scale, sizeof scale).value();
  arguments.back().value = there.view(TensorRef(&scale, DType::f32, {}));
  const Diagnostic found = refusal(kernel, arguments);
  CHECK(found.code == "A0523");
  CHECK(found.tensor == "scale");
  CHECK(found.expected == "the host");
}

TEST_CASE("the host's targets refuse a GPU's memory") {
  fake::install();
  Engine engine(private_engine());
  for (TargetKind kind : targets()) {
    const auto kernel = engine.compile(parse(attention_text), on(kind)).value();
    GpuCall call(1, 1, 9, 9, 64, DType::f32);
    INFO(kernel.target().text());
    CHECK(refusal(kernel, call.arguments).code == "A0523");
    // Kinds of memory that attune does not know: DLPack numbers more of them.
    for (const int device_kind : {0, 4, 10, 255}) {
      AttentionCall host(1, 1, 9, 9, 64);
      Arguments arguments = host.arguments();
      std::get<TensorRef>(arguments[0].value).device.kind = static_cast<DeviceKind>(device_kind);
      const Diagnostic unknown = refusal(kernel, arguments);
      CHECK(unknown.code == "A0523");
      CHECK(unknown.found == "a device of kind " + std::to_string(device_kind));
    }
    CHECK(kernel.workspace_bytes(AttentionCall(1, 1, 9, 9, 64).arguments()).value() == 0);
  }
}

TEST_CASE("a target that was asked for stays, whatever was compiled before for the automatic one") {
  for (const bool automatic_first : {true, false}) {
    INFO(automatic_first);
    fake::install();
    Engine engine(private_engine());
    const Program program = parse(attention_text);
    std::optional<Kernel> automatic, asked;
    if (automatic_first) automatic = engine.compile(program).value();
    asked = engine.compile(program, on(targets().back())).value();  // what `auto` means for the host
    if (!automatic_first) automatic = engine.compile(program).value();
    REQUIRE(asked->target() == automatic->target());
    GpuCall call(1, 2, 9, 9, 16);
    CHECK(refusal(*asked, call.arguments).code == "A0523");
    REQUIRE(automatic->run(call.arguments));
    CHECK_FALSE(fake::driver().launches.empty());
    CHECK(refusal(*asked, call.arguments).code == "A0523");
  }
}

TEST_CASE("an automatic kernel runs where its call's tensors are") {
  fake::install();
  fake::driver().devices.resize(2, fake::Model{});
  Engine engine(private_engine());
  const auto kernel = engine.compile(parse(attention_text)).value();
  CHECK(kernel.target().kind != TargetKind::cuda);
  AttentionCall host(1, 2, 9, 9, 16);
  REQUIRE(kernel.run(host.arguments()));
  CHECK(host.largest_error() < 1e-5);
  CHECK(fake::driver().launches.empty());
  CHECK(kernel.compile_count() == 1);
  for (int device : {1, 0, 1}) {
    GpuCall call(1, 2, 9, 9, 16, DType::f16, device);
    const auto report = kernel.run(call.arguments);
    if (!report) FAIL(render(report.diagnostics()));
    CHECK(fake::driver().launches.back().device == device);
  }
  CHECK(kernel.compile_count() == 3);
  REQUIRE(kernel.run(host.arguments()));
  CHECK(kernel.compile_count() == 3);

  // Without a driver it says what is missing, and still runs on the host.
  GpuCall call(1, 2, 9, 9, 16);
  fake::install_without_driver();
  const auto fresh = engine.compile(parse(attention_text)).value();
  CHECK(code_of(fresh.run(call.arguments)) == "A0602");
  CHECK(fresh.run(host.arguments()));
}
