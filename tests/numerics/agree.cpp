// SPDX-License-Identifier: Apache-2.0
// One standard program on several targets.
#include <algorithm>

#include "tensor/passes.hpp"
#include "tests/catch.hpp"
#include "tests/numerics/on_device.hpp"
#include "tests/numerics/standard.hpp"

namespace attune::test {
namespace {

/// The narrowest float that takes part decides what can be asked.
double allowed(const tensor::Program& bound, const tensor::Tensor& result) {
  double out = tolerance(result.type.dtype);
  for (const auto& t : bound.tensors)
    if (t.type.dtype == DType::f16 || t.type.dtype == DType::bf16) out = std::max(out, tolerance(t.type.dtype));
  return out;
}

bool large(const Case& c) { return c.dims.at("M") * c.dims.at("N") * c.dims.at("D") > 500000; }

}  // namespace

int agree(Engine& engine, const std::string& name, DType dtype, const std::vector<Case>& cases,
          std::span<const char* const> targets) {
  std::mt19937 random(7);
  const Program program = stdlib::program(name).value();
  const tensor::Program inferred = infer(program.module()).value();
  CompileOptions compile;
  for (const Sym& var : inferred.type_variables) compile.types[var.text()] = dtype;
  const tensor::Program bound = tensor::bind_types(inferred, compile.types).value();
  std::vector<std::pair<std::string, Kernel>> kernels;
  for (const char* target : targets) {
    compile.target = *Target::parse(target);
    auto kernel = engine.compile(program, compile);
    if (!kernel && is_missing(kernel.diagnostics())) continue;
    kernels.emplace_back(target, kernel.value());
  }
  int compared = 0;
  for (const Case& c : cases)
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

}  // namespace attune::test
