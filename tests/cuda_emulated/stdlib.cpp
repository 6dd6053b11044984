// SPDX-License-Identifier: Apache-2.0
// Every standard program as generated CUDA, executed on the host, against the reference: values, what is not finite,
// and the out-of-range flag, on odd sizes, with hostile data, into poisoned results.
#include "tensor/passes.hpp"
#include "tests/catch.hpp"
#include "tests/cuda_emulated/host.hpp"
#include "tests/numerics/on_device.hpp"
#include "tests/numerics/standard.hpp"

using namespace attune;
using namespace attune::test;

namespace {

/// Head sizes are literals of the code, so all cases of one program share theirs.
const std::vector<Case>& cases() {
  static const std::vector<Case> list = {
      shape(1, 2, 1, 13, 17, 5, 6), shape(1, 4, 2, 5, 2, 5, 6),    shape(1, 2, 2, 3, 0, 5, 6),
      shape(2, 2, 2, 0, 5, 5, 6),   shape(1, 1, 1, 131, 70, 5, 6),
  };
  return list;
}

void agree(Engine& engine, const std::string& name, DType dtype) {
  std::mt19937 random(11);
  const Program program = stdlib::program(name).value();
  const tensor::Program inferred = infer(program.module()).value();
  CompileOptions compile;
  for (const Sym& var : inferred.type_variables) compile.types[var.text()] = dtype;
  const tensor::Program bound = tensor::bind_types(inferred, compile.types).value();
  compile.target = *Target::parse("reference");
  const Kernel reference = engine.compile(program, compile).value();
  compile.target = *Target::parse("cuda");
  const auto made = engine.compile(program, compile);
  if (!made) FAIL(render(made.diagnostics()));
  for (const Case& c : cases())
    for (const bool hostile : {false, true}) {
      if (hostile && !depends_on_data(bound)) continue;
      const Call call = standard_call(name, bound, c, hostile, random);
      std::vector<std::vector<Data>> outputs;
      bool flags[2];
      for (const Kernel* kernel : {&reference, &*made}) {
        Arguments arguments = call.arguments;
        auto& mine = outputs.emplace_back();
        mine.reserve(bound.results.size());
        for (const auto& result : bound.results) {
          mine.push_back(call.result(result));
          arguments.emplace_back(result.sym.text(), mine.back().ref);
        }
        INFO(name << " " << attune::name(dtype) << " with " << c.text() << (hostile ? "and hostile data" : ""));
        auto report = run(*kernel, arguments);
        if (!report) FAIL(render(report.diagnostics()));
        flags[outputs.size() - 1] = report->out_of_range;
      }
      INFO(name << " " << attune::name(dtype) << " with " << c.text() << (hostile ? "and hostile data" : ""));
      CHECK(flags[1] == flags[0]);
      for (std::size_t r = 0; r < bound.results.size(); ++r) {
        const Difference d = compare(outputs[1][r].ref, outputs[0][r].ref);
        INFO("result " << bound.results[r].sym.text() << " error " << d.error << " of " << d.scale);
        CHECK(d.special);
        CHECK(d.error <= std::max(tolerance(bound.results[r].type.dtype), tolerance(dtype)) * std::max(1.0, d.scale));
      }
    }
}

}  // namespace

TEST_CASE("generated CUDA of standard programs, executed on the host, agrees with the reference") {
  if (!emulated::install()) return;
  EngineOptions options;
  options.disk_cache = false;
  Engine engine(options);
  for (const std::string& name : stdlib::names()) {
    DYNAMIC_SECTION(name) {
      for (const DType dtype : {DType::f32, DType::bf16}) agree(engine, name, dtype);
    }
  }
}
