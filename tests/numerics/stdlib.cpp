// SPDX-License-Identifier: Apache-2.0
// Every standard program on odd sizes, in f32, f16 and bf16, on every target that is here, against the reference.
#include <algorithm>

#include "tensor/passes.hpp"
#include "tests/catch.hpp"
#include "tests/numerics/on_device.hpp"
#include "tests/numerics/standard.hpp"

using namespace attune;
using namespace attune::test;

namespace {

const std::vector<Case>& cases() {
  static const std::vector<Case> list = {
      shape(1, 2, 1, 13, 17, 5, 6),   shape(2, 4, 2, 5, 2, 64, 64),      shape(1, 2, 2, 3, 0, 8, 8),
      shape(1, 3, 1, 1, 37, 40, 40),  shape(1, 1, 1, 130, 70, 1, 3),     shape(1, 6, 2, 33, 150, 96, 40),
      shape(1, 1, 1, 1, 1, 1, 1),     shape(1, 2, 1, 129, 257, 128, 64), shape(2, 2, 2, 0, 5, 4, 4),
      shape(1, 2, 2, 25, 24, 3, 128),
  };
  return list;
}

/// The narrowest float that takes part decides what can be asked.
double allowed(const tensor::Program& bound, const tensor::Tensor& result) {
  double out = tolerance(result.type.dtype);
  for (const auto& t : bound.tensors)
    if (t.type.dtype == DType::f16 || t.type.dtype == DType::bf16) out = std::max(out, tolerance(t.type.dtype));
  return out;
}

bool large(const Case& c) { return c.dims.at("M") * c.dims.at("N") * c.dims.at("D") > 500000; }

/// One program in one type, on all cases: how many results of the compiled targets were compared.
int agree(Engine& engine, const std::string& name, DType dtype) {
  std::mt19937 random(7);
  const Program program = stdlib::program(name).value();
  const tensor::Program inferred = infer(program.module()).value();
  CompileOptions compile;
  for (const Sym& var : inferred.type_variables) compile.types[var.text()] = dtype;
  const tensor::Program bound = tensor::bind_types(inferred, compile.types).value();
  std::vector<std::pair<std::string, Kernel>> kernels;
  for (const char* target : {"reference", "interpreter", "cpu", "cuda"}) {
    compile.target = *Target::parse(target);
    auto kernel = engine.compile(program, compile);
    if (!kernel && is_missing(kernel.diagnostics())) continue;
    kernels.emplace_back(target, kernel.value());
  }
  int compared = 0;
  for (const Case& c : cases())
    for (const bool hostile : {false, true}) {
      if (hostile && !depends_on_data(bound)) continue;
      const Call call = standard_call(name, bound, c, hostile, random);
      std::vector<std::vector<Data>> outputs;
      bool out_of_range = false;
      for (auto& [target, kernel] : kernels) {
        // The interpreter is slow, and what it does with a type does not depend on sizes.
        if (target == "interpreter" && large(c) && (dtype != DType::f32 || hostile)) continue;
        Arguments arguments = call.arguments;
        auto& mine = outputs.emplace_back();
        mine.reserve(bound.results.size());
        for (const auto& result : bound.results) {
          mine.push_back(call.result(result));
          arguments.emplace_back(result.sym.text(), mine.back().ref);
        }
        INFO(name << " " << attune::name(dtype) << " on " << target << " with " << c.text()
                  << (hostile ? "and hostile data" : ""));
        auto report = run(kernel, arguments);
        if (!report) FAIL(render(report.diagnostics()));
        if (target == "reference") {
          out_of_range = report->out_of_range;
          continue;
        }
        CHECK(report->out_of_range == out_of_range);
        for (std::size_t r = 0; r < mine.size(); ++r) {
          Difference d = compare(mine[r].ref, outputs[0][r].ref);
          INFO("result " << bound.results[r].sym.text() << " error " << d.error << " of " << d.scale);
          // A sum over many keys in f32, rounded once to the storage type of the inputs or the result.
          CHECK(d.special);
          CHECK(d.error <= allowed(bound, bound.results[r]) * std::max(1.0, d.scale));
          ++compared;
        }
      }
    }
  return compared;
}

}  // namespace

TEST_CASE("standard programs agree with the reference") {
  EngineOptions options;
  options.disk_cache = false;
  options.threads = 2;
  static Engine engine(options);
  for (const std::string& name : stdlib::names()) {
    DYNAMIC_SECTION(name) {
      for (DType dtype : {DType::f32, DType::f16, DType::bf16})
        CHECK(agree(engine, name, dtype) >= static_cast<int>(cases().size()) - 1);
    }
  }
}
