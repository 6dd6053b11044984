// SPDX-License-Identifier: Apache-2.0
// Whole calls: right results, no new code for new lengths, errors that write nothing, hosts' executors, observers.
#include <algorithm>
#include <atomic>
#include <limits>
#include <set>
#include <thread>

#include "tests/runtime/calls.hpp"

using namespace calls;

TEST_CASE("a call gives the right result on every target") {
  Engine engine(private_engine());
  const Program program = parse(attention_text);
  for (TargetKind kind : targets()) {
    const auto kernel = engine.compile(program, on(kind)).value();
    CHECK(kernel.name() == "attention");
    CHECK(kernel.target().kind == kind);
    AttentionCall call(2, 3, 37, 51, 16);
    INFO(kernel.target().text());
    const auto report = kernel.run(call.arguments());
    if (!report) FAIL(render(report.diagnostics()));
    CHECK(call.largest_error() < 1e-5);
    CHECK_FALSE(report->out_of_range);
  }
}

TEST_CASE("strides that leave all memory are refused") {
  Engine engine(private_engine());
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max(),
                         least = std::numeric_limits<std::int64_t>::min();
  for (TargetKind kind : targets()) {
    const auto kernel = engine.compile(parse(attention_text), on(kind)).value();
    for (const std::int64_t stride : {most, least, most / 2, std::int64_t{1} << 60, -(std::int64_t{1} << 60),
                                      std::int64_t{1} << 52, -(std::int64_t{1} << 52)})
      for (std::size_t tensor = 0; tensor < 4; ++tensor) {
        AttentionCall call(1, 1, 9, 9, 8);
        Arguments arguments = call.arguments();
        std::get<TensorRef>(arguments[tensor].value).strides[2] = stride;
        INFO(kernel.target().text() << " " << arguments[tensor].name << " " << stride);
        const auto report = kernel.run(arguments);
        REQUIRE_FALSE(report);
        CHECK(report.diagnostics()[0].code == "A0519");
        CHECK(report.diagnostics()[0].tensor == arguments[tensor].name);
        CHECK(std::all_of(call.o.begin(), call.o.end(), [](float x) { return std::isnan(x); }));
      }
    // Of an axis with one element a stride says nothing.
    AttentionCall call(1, 1, 1, 9, 8);
    Arguments arguments = call.arguments();
    std::get<TensorRef>(arguments[0].value).strides = {most, least, most, 1};
    CHECK(kernel.run(arguments));
    CHECK(call.largest_error() < 1e-5);
  }
}

TEST_CASE("new lengths and scalar values add no code") {
  Engine engine(private_engine());
  for (TargetKind kind : targets()) {
    if (kind == TargetKind::reference) continue;
    const auto kernel = engine.compile(parse(attention_text), on(kind)).value();
    CHECK(kernel.compile_count() == 0);
    bool first = true;
    for (auto [b, h, m, n] : {std::tuple{1, 2, 33, 40}, {3, 2, 1, 70}, {1, 1, 65, 65}, {1, 2, 1, 1}, {2, 2, 7, 130}}) {
      AttentionCall call(b, h, m, n, 8);
      for (double scale : {call.scale, 0.5}) {
        call.scale = scale;
        Arguments arguments = call.arguments();
        arguments.emplace_back("scale", scale);
        const auto report = kernel.run(arguments);
        if (!report) FAIL(render(report.diagnostics()));
        CHECK(report->cache == (first ? "miss" : "memory"));
        CHECK((report->compile_ms > 0) == first);
        CHECK(kernel.compile_count() == 1);
        CHECK(call.largest_error() < 1e-5);
        first = false;
      }
    }
  }
}

TEST_CASE("another layout is other code, and the same result") {
  Engine engine(private_engine());
  for (TargetKind kind : targets()) {
    const auto kernel = engine.compile(parse(attention_text), on(kind)).value();
    AttentionCall call(1, 6, 9, 21, 8);
    REQUIRE(kernel.run(call.arguments()).ok());
    // K with its two last axes exchanged in memory.
    std::vector<float> transposed(call.k.size());
    for (std::int64_t h = 0; h < 6; ++h)
      for (std::int64_t j = 0; j < 21; ++j)
        for (std::int64_t d = 0; d < 8; ++d)
          transposed[static_cast<std::size_t>((h * 8 + d) * 21 + j)] =
              call.k[static_cast<std::size_t>((h * 21 + j) * 8 + d)];
    Arguments arguments = call.arguments();
    arguments[1].value = TensorRef(transposed.data(), DType::f32, {1, 6, 21, 8}, {999, 168, 1, 21});
    std::fill(call.o.begin(), call.o.end(), -1.f);
    const auto report = kernel.run(arguments);
    if (!report) FAIL(render(report.diagnostics()));
    CHECK(call.largest_error() < 1e-5);
    CHECK(kernel.compile_count() == (kind == TargetKind::reference ? 0 : 2));
    REQUIRE(kernel.run(call.arguments()).ok());
    CHECK(kernel.compile_count() == (kind == TargetKind::reference ? 0 : 2));
  }
}

TEST_CASE("an error writes nothing and names what is wrong") {
  Engine engine(private_engine());
  for (TargetKind kind : targets()) {
    const auto kernel = engine.compile(parse(attention_text), on(kind)).value();
    AttentionCall call(1, 1, 4, 4, 4);
    std::fill(call.o.begin(), call.o.end(), 42.f);
    const auto refuses = [&](Arguments arguments) {
      const auto report = kernel.run(arguments);
      CHECK_FALSE(report.ok());
      CHECK(std::all_of(call.o.begin(), call.o.end(), [](float x) { return x == 42.f; }));
      return report.diagnostics();
    };
    for (int round = 0; round < 2; ++round) {  // the second round with a call remembered
      Arguments arguments = call.arguments();
      arguments.pop_back();
      CHECK(refuses(arguments).at(0).tensor == "O");
      arguments = call.arguments();
      arguments[1].value = TensorRef(call.k.data(), DType::f32, {1, 1, 4, 3});
      CHECK(refuses(arguments).at(0).tensor == "K");
      arguments = call.arguments();
      arguments.emplace_back("tau", 1.0);
      refuses(arguments);
      arguments = call.arguments();
      arguments[3].value = TensorRef(call.v.data(), DType::f32, {1, 1, 4, 4});  // the result lies on an input
      refuses(arguments);
      arguments = call.arguments();
      std::get<TensorRef>(arguments[0].value).data = nullptr;
      refuses(arguments);
      REQUIRE(kernel.run(call.arguments()).ok());
      CHECK(call.largest_error() < 1e-5);
      std::fill(call.o.begin(), call.o.end(), 42.f);
    }
  }
}

TEST_CASE("errors of the options come at compile time") {
  Engine engine(private_engine());
  const Program program = parse(attention_text);
  CompileOptions options;
  options.types["U"] = DType::f16;
  CHECK_FALSE(engine.compile(program, options).ok());
  options = {};
  options.types["T"] = DType::i32;
  CHECK_FALSE(engine.compile(program, options).ok());
  options = {};
  options.schedule["tile.q"] = "64";
  CHECK_FALSE(engine.compile(program, options).ok());
  options = {};
  options.kernel = "atention";
  CHECK_FALSE(engine.compile(program, options).ok());
}

TEST_CASE("empty results and empty sets") {
  Engine engine(private_engine());
  for (TargetKind kind : targets()) {
    const auto kernel = engine.compile(parse(attention_text), on(kind)).value();
    for (auto [b, m, n] : {std::tuple{0, 3, 3}, {2, 0, 3}, {2, 3, 0}, {0, 0, 0}}) {
      AttentionCall call(b, 2, m, n, 4);
      const auto report = kernel.run(call.arguments());
      if (!report) FAIL(render(report.diagnostics()));
      for (float value : call.o) CHECK(value == 0);
    }
  }
}

TEST_CASE("types are bound by the call") {
  Engine engine(private_engine());
  for (TargetKind kind : targets()) {
    const auto kernel = engine.compile(parse(attention_text), on(kind)).value();
    AttentionCall call(1, 1, 5, 5, 4);
    REQUIRE(kernel.run(call.arguments()).ok());
    std::vector<std::uint16_t> half(call.q.size(), 0x3c00), out(call.q.size(), 0xffff);  // all ones
    Arguments arguments;
    for (const char* name : {"Q", "K", "V"})
      arguments.emplace_back(name, TensorRef(half.data(), DType::f16, {1, 1, 5, 4}));
    arguments.emplace_back("O", TensorRef(out.data(), DType::f16, {1, 1, 5, 4}));
    const auto report = kernel.run(arguments);
    if (!report) FAIL(render(report.diagnostics()));
    for (std::uint16_t value : out) CHECK(value == 0x3c00);
    if (kind != TargetKind::reference) CHECK(kernel.compile_count() == 2);
    arguments[1].value = TensorRef(call.k.data(), DType::f32, {1, 1, 5, 4});
    CHECK_FALSE(kernel.run(arguments).ok());
  }
}

TEST_CASE("shapes without running") {
  Engine engine(private_engine());
  const auto kernel = engine.compile(parse(attention_text)).value();
  AttentionCall call(2, 3, 4, 5, 6);
  Arguments arguments = call.arguments();
  arguments.pop_back();
  const auto shapes = kernel.shapes(arguments).value();
  CHECK(shapes.dims.at("N") == 5);
  REQUIRE(shapes.results.size() == 1);
  CHECK(shapes.results[0].name == "O");
  CHECK(shapes.results[0].dtype == DType::f32);
  CHECK(shapes.results[0].shape == std::vector<std::int64_t>{2, 3, 4, 6});
  CHECK_FALSE(kernel.shapes({}).ok());
}

TEST_CASE("scalars that lie in memory are read at every call") {
  Engine engine(private_engine());
  for (TargetKind kind : targets()) {
    const auto kernel = engine.compile(parse(attention_text), on(kind)).value();
    AttentionCall call(1, 1, 6, 6, 4);
    float scale = 0;
    for (float value : {0.25f, 2.f}) {
      scale = value;
      call.scale = value;
      Arguments arguments = call.arguments();
      arguments.emplace_back("scale", TensorRef(&scale, DType::f32, {1}));
      const auto report = kernel.run(arguments);
      if (!report) FAIL(render(report.diagnostics()));
      CHECK(call.largest_error() < 1e-5);
    }
  }
}

TEST_CASE("a gather that leaves its tensor raises the flag") {
  Engine engine(private_engine());
  const Program program = parse("kernel pick(X: f32[N], at: i32[M]) -> Y: f32[M] { Y[i] = X[at[i]] }");
  for (TargetKind kind : targets()) {
    const auto kernel = engine.compile(program, on(kind)).value();
    float x[3] = {1, 2, 3}, y[2];
    std::int32_t at[2] = {2, 0};
    const Arguments arguments = {{"X", TensorRef(x, DType::f32, {3})},
                                 {"at", TensorRef(at, DType::i32, {2})},
                                 {"Y", TensorRef(y, DType::f32, {2})}};
    auto report = kernel.run(arguments);
    if (!report) FAIL(render(report.diagnostics()));
    CHECK_FALSE(report->out_of_range);
    CHECK((y[0] == 3 && y[1] == 1));
    at[1] = -7;
    report = kernel.run(arguments);
    REQUIRE(report.ok());
    CHECK(report->out_of_range);
    CHECK((y[0] == 3 && y[1] == 0));
  }
}

TEST_CASE("large integers get the one 64-bit variant") {
  Engine engine(private_engine());
  const Program program = parse("kernel wide(step: i64) -> Y: i64[M] { Y[i] = (i * step) % 1000 }");
  for (TargetKind kind : targets()) {
    const auto kernel = engine.compile(program, on(kind)).value();
    const auto run = [&](std::int64_t step) {
      std::vector<std::int64_t> y(50, -1);
      const auto report = kernel.run({{"step", step}, {"Y", TensorRef(y.data(), DType::i64, {50})}});
      if (!report) FAIL(render(report.diagnostics()));
      for (std::int64_t i = 0; i < 50; ++i) CHECK(y[static_cast<std::size_t>(i)] == (i * step) % 1000);
    };
    for (std::int64_t step : {std::int64_t{3}, std::int64_t{999}, std::int64_t{123'456'789'012}, std::int64_t{5},
                              std::int64_t{77'000'000'001}})
      run(step);
    if (kind != TargetKind::reference) CHECK(kernel.compile_count() == 2);
  }
}

namespace {
/// A host's executor: plain threads, made for each call.
class HostExecutor : public Executor {
 public:
  void parallel_for(std::int64_t count, void (*task)(void*, std::int64_t), void* context) override {
    ++calls;
    std::vector<std::thread> threads;
    std::atomic<std::int64_t> next{0};
    for (int t = 0; t < concurrency(); ++t)
      threads.emplace_back([&] {
        for (std::int64_t index = next++; index < count; index = next++) {
          task(context, index);
          ++tasks;
        }
      });
    for (auto& thread : threads) thread.join();
  }
  int concurrency() const override { return 3; }
  std::atomic<int> calls{0};
  std::atomic<std::int64_t> tasks{0};
};
}  // namespace

TEST_CASE("a host's executor runs the tasks") {
  if (!cpu::llvm_report().found()) return;
  auto host = std::make_shared<HostExecutor>();
  EngineOptions options = private_engine();
  options.executor = host;
  Engine engine(options);
  const auto kernel = engine.compile(parse(attention_text), on(TargetKind::cpu)).value();
  AttentionCall call(2, 4, 40, 40, 8);
  const auto report = kernel.run(call.arguments());
  if (!report) FAIL(render(report.diagnostics()));
  CHECK(call.largest_error() < 1e-5);
  CHECK(host->calls >= 1);
  CHECK(host->tasks >= 8);
}

TEST_CASE("one kernel from many threads, first calls included") {
  Engine engine(private_engine(3));
  for (TargetKind kind : targets()) {
    const auto kernel = engine.compile(parse(attention_text), on(kind)).value();
    std::atomic<int> bad{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (int round = 0; round < 5; ++round) {
          AttentionCall call(1, 2, 10 + round, 12 + static_cast<int>(t), 8, t);
          if (!kernel.run(call.arguments()).ok() || !(call.largest_error() < 1e-5)) ++bad;
        }
      });
    for (auto& thread : threads) thread.join();
    CHECK(bad == 0);
    if (kind != TargetKind::reference) CHECK(kernel.compile_count() == 1);
  }
}

TEST_CASE("stages are observed in order") {
  EngineOptions options = private_engine();
  std::vector<std::string> stages;
  std::set<std::string> with_text;
  options.observer = [&](const StageEvent& event) {
    stages.emplace_back(event.stage);
    if (event.text && !event.text().empty()) with_text.insert(stages.back());
  };
  Engine engine(options);
  const auto kernel = engine.compile(parse(attention_text)).value();
  AttentionCall call(1, 1, 4, 4, 4);
  REQUIRE(kernel.run(call.arguments()).ok());
  const auto position = [&](const char* stage) {
    return std::find(stages.begin(), stages.end(), stage) - stages.begin();
  };
  CHECK(position("parse") == 0);
  CHECK(position("infer") == 1);
  for (const char* stage : {"parse", "infer", "tensor", "stream", "lower", "tile", "map", "schedule", "loop"})
    CHECK(with_text.count(stage));
  CHECK(position("infer") < position("stream"));
  CHECK(position("stream") < position("lower"));
  if (kernel.target().kind == TargetKind::cpu) {
    CHECK(position("lower") < position("emit"));
    CHECK(position("emit") < position("compile"));
    CHECK(position("compile") < position("load"));
    CHECK(with_text.count("emit"));
  }
}

TEST_CASE("a kernel says what was derived and baked in") {
  Engine engine(private_engine());
  const auto kernel = engine.compile(parse(attention_text), on(TargetKind::interpreter)).value();
  CHECK(kernel.fused());
  CHECK(kernel.materialised().empty());
  CHECK(kernel.schedule().count("tile.m"));
  AttentionCall call(1, 1, 4, 4, 4);
  REQUIRE(kernel.run(call.arguments()).ok());
  const auto facts = kernel.specialisations();
  CHECK(std::find(facts.begin(), facts.end(), "type T = f32") != facts.end());
  CHECK(std::find(facts.begin(), facts.end(), "K: axis 3 has stride 1") != facts.end());
  CHECK(std::find(facts.begin(), facts.end(), "indices of 32 bits") != facts.end());
}

TEST_CASE("environment lists libraries, processor, threads and caches") {
  const auto findings = Engine(private_engine()).environment();
  const auto has = [&](const char* what) {
    return std::any_of(findings.begin(), findings.end(),
                       [&](const auto& f) { return f.what == what && !f.detail.empty(); });
  };
  for (const char* what : {"attune", "target auto", "libLLVM", "CPU", "threads", "disk cache", "huge pages"})
    CHECK(has(what));
}

TEST_CASE("a default-constructed program is the empty text") {
  const Program none;
  CHECK(none.text().empty());
  CHECK(none.kernels().empty());
  CHECK(none == Program::parse("").value());
  CHECK(none.hash() == Program::parse("").value().hash());
  CHECK_FALSE(none == parse(attention_text));
  const auto compiled = Engine(private_engine()).compile(none);
  REQUIRE_FALSE(compiled.ok());
  CHECK(compiled.diagnostics().front().code == "A0229");
}

TEST_CASE("a value that a second sweep reads is not stored") {
  Engine engine(private_engine());
  const Program program = parse(
      "kernel spread(X: f32[M, N]) -> O: f32[M] {\n  Mean[i] = mean[j](X[i, j])\n"
      "  O[i] = max[j](abs(X[i, j] - Mean[i]))\n}");
  for (TargetKind kind : targets()) {
    if (kind == TargetKind::reference) continue;
    CompileOptions options = on(kind);
    options.require_fused = true;
    const auto kernel = engine.compile(program, options).value();
    CHECK(kernel.fused());
    const float x[6] = {1, 2, 6, -1, 0, 1};
    float o[2];
    REQUIRE(kernel.run({{"X", TensorRef(x, DType::f32, {2, 3})}, {"O", TensorRef(o, DType::f32, {2})}}).ok());
    CHECK((o[0] == 3 && o[1] == 1));
  }
}
