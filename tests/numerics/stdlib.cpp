// SPDX-License-Identifier: Apache-2.0
// Every standard program on odd sizes, in f32, f16 and bf16, on the CPU and the interpreter, against the reference.
#include <algorithm>

#include "tests/numerics/harness.hpp"
#include "tensor/passes.hpp"
#include "tests/catch.hpp"

using namespace attune;
using namespace attune::test;

namespace {

Case make(std::int64_t b, std::int64_t h, std::int64_t g, std::int64_t m, std::int64_t n, std::int64_t d,
          std::int64_t e) {
  return {{{"B", b}, {"H", h}, {"G", g}, {"M", m}, {"N", n}, {"D", d}, {"E", e}}};
}

const std::vector<Case>& cases() {
  static const std::vector<Case> list = {
      make(1, 2, 1, 13, 17, 5, 6),   make(2, 4, 2, 5, 2, 64, 64),      make(1, 2, 2, 3, 0, 8, 8),
      make(1, 3, 1, 1, 37, 40, 40),  make(1, 1, 1, 130, 70, 1, 3),     make(1, 6, 2, 33, 150, 96, 40),
      make(1, 1, 1, 1, 1, 1, 1),     make(1, 2, 1, 129, 257, 128, 64), make(2, 2, 2, 0, 5, 4, 4),
      make(1, 2, 2, 25, 24, 3, 128),
  };
  return list;
}

/// Integer parameters of the standard programs by meaning; anything else counts up modulo 3.
std::int64_t integer_for(const std::string& name, std::int64_t k, const Case& c,
                         const std::vector<std::int64_t>& shape) {
  const std::int64_t n = c.dims.at("N"), m = c.dims.at("M");
  if (name == "len") return n == 0 ? 0 : (k * 7 + n / 2) % (n + 1);
  if (name == "prefix") return (k * 5 + 3) % (n + 1);
  if (name == "doc") return (k % std::max<std::int64_t>(1, shape.back())) / 7;
  if (name == "start") return m == 0 ? 0 : std::max<std::int64_t>(0, k * n / m - 4);
  if (name == "end") return m == 0 ? 0 : std::min<std::int64_t>(n, k * n / m + 5 - (k % 11 == 3 ? 20 : 0));
  return k % 3;
}

}  // namespace

TEST_CASE("standard programs agree with the reference") {
  EngineOptions options;
  options.disk_cache = false;
  options.threads = 2;
  Engine engine(options);
  const bool have_cpu = engine
                            .compile(stdlib::program("softmax").value(),
                                     [] {
                                       CompileOptions c;
                                       c.target = *Target::parse("cpu");
                                       return c;
                                     }())
                            .ok();
  std::mt19937 random(7);
  int compared = 0;
  for (const std::string& name : stdlib::names()) {
    Program program = stdlib::program(name).value();
    tensor::Program inferred = infer(program.module()).value();
    for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      CompileOptions compile;
      for (const Sym& var : inferred.type_variables) compile.types[var.text()] = dtype;
      tensor::Program bound = tensor::bind_types(inferred, compile.types).value();
      std::vector<std::pair<std::string, Kernel>> kernels;
      for (const char* target : {"reference", "interpreter", "cpu"}) {
        if (std::string(target) == "cpu" && !have_cpu) continue;
        compile.target = *Target::parse(target);
        kernels.emplace_back(target, engine.compile(program, compile).value());
      }
      for (const Case& c : cases()) {
        Binding sizes;
        for (const Sym& dim : bound.dims) sizes.dims[dim] = c.dims.at(dim.text());
        std::vector<Data> inputs;
        inputs.reserve(bound.tensors.size());
        Arguments arguments;
        for (const auto& t : bound.tensors) {
          std::vector<std::int64_t> shape;
          for (const auto& extent : t.extents) shape.push_back(evaluate_extent(extent, sizes));
          Data& data = inputs.emplace_back(t.type.dtype, shape);
          if (t.type.is_float())
            data.fill_normal(random);
          else
            data.fill_integers([&](std::int64_t k) { return integer_for(t.sym.text(), k, c, shape); });
          arguments.emplace_back(t.sym.text(), data.ref);
        }
        for (const auto& scalar : bound.scalars)
          if (!scalar.default_value) {
            if (scalar.type.is_float())
              arguments.emplace_back(scalar.sym.text(), 1.5);
            else
              arguments.emplace_back(scalar.sym.text(), 7);
          }
        // A dim that no tensor's own axis fixes is given.
        for (const auto& [dim, size] : c.dims)
          if (std::any_of(bound.dims.begin(), bound.dims.end(), [&, n = dim](const Sym& s) { return s.text() == n; }))
            arguments.emplace_back(dim, size);
        std::vector<std::vector<Data>> outputs;
        for (auto& [target, kernel] : kernels) {
          Arguments call = arguments;
          auto& mine = outputs.emplace_back();
          mine.reserve(bound.results.size());
          for (const auto& result : bound.results) {
            std::vector<std::int64_t> shape;
            for (const auto& extent : result.extents) shape.push_back(evaluate_extent(extent, sizes));
            mine.emplace_back(result.type.dtype, shape);
            call.emplace_back(result.sym.text(), mine.back().ref);
          }
          INFO(name << " " << attune::name(dtype) << " on " << target << " with " << c.text());
          auto report = kernel.run(call);
          if (!report) FAIL(render(report.diagnostics()));
          for (std::size_t r = 0; r < mine.size(); ++r) {
            if (target == "reference") continue;
            Difference d = compare(mine[r].ref, outputs[0][r].ref);
            INFO("result " << bound.results[r].sym.text() << " error " << d.error << " of " << d.scale);
            // A sum over many keys in f32, rounded once to the storage type of the inputs or the result.
            double relative = std::max(tolerance(dtype), tolerance(bound.results[r].type.dtype));
            CHECK(d.special);
            CHECK(d.error <= relative * std::max(1.0, d.scale));
            ++compared;
          }
        }
      }
    }
  }
  WARN("compared " << compared << " results");
}
