// SPDX-License-Identifier: Apache-2.0
// Programs that are no attention at all, and the corner cases of meaning, on every target against the reference.
#include "backend/binding.hpp"
#include "tensor/passes.hpp"
#include "tests/catch.hpp"
#include "tests/numerics/harness.hpp"

using namespace attune;
using namespace attune::test;

namespace {

struct Item {
  const char* what;
  const char* text;
};

const Item items[] = {
    {"elementwise", "kernel k(X: f32[M, N]) -> Y: f32[M, N] { Y[i, j] = relu(X[i, j]) * 2 - exp(X[i, j]) }"},
    {"row norm", "kernel k(X: f32[M, N]) -> Y: f32[M, N] { Y[i, j] = X[i, j] * rsqrt(mean[a](X[i, a] ^ 2) + 1e-6) }"},
    {"matrix product", "kernel k(A: f32[M, D], B: f32[D, N]) -> C: f32[M, N] { C[i, j] = sum[d](A[i, d] * B[d, j]) }"},
    {"weights as a result",
     "kernel k(Q: f32[M, D], K: f32[N, D]) -> P: f32[M, N] { P[i, j] = softmax[j where j <= i + 2](sum[d](Q[i, d] * "
     "K[j, d])) }"},
    {"running sum", "kernel k(X: f32[M, N]) -> Y: f32[M, N] { Y[i, j] = cumsum[j where j != 2](X[i, j]) }"},
    {"argmax", "kernel k(X: f32[M, N]) -> Y: i32[M] { Y[i] = argmax[j where j % 3 != 1](X[i, j]) }"},
    {"integer extremes of nothing",
     "kernel k(X: i32[M, N]) -> (A: i32[M], B: i32[M]) { A[i] = max[j where j < i - 1](X[i, j]); B[i] = min[j where j "
     "< i - 1](X[i, j]) }"},
    {"any and all",
     "kernel k(X: f32[M, N]) -> (A: bool[M], B: bool[M]) { A[i] = any[j](X[i, j] > 1.5); B[i] = all[j](X[i, j] > -1.5) "
     "}"},
    {"two sweeps",
     "kernel k(X: f32[M, N]) -> V: f32[M] { A[i] = mean[j](X[i, j]); V[i] = mean[j]((X[i, j] - A[i]) ^ 2) }"},
    {"several indices jointly", "kernel k(X: f32[M, N]) -> Z: f32[] { Z[] = sum[a, b where a <= b](X[a, b]) }"},
    {"shared with a scalar",
     "kernel k(X: f32[M, N], last: i32[M]) -> (Y: f32[M], Z: f32[]) { Y[i] = sum[j where j < last[i]](X[i, j]); Z[] = "
     "sum[a, b](X[a, b]) }"},
    {"a guard inside a sum",
     "kernel k(X: f32[M, N], end: i32[M]) -> Z: f32[] { Y[i] = sum[j where j < end[i]](X[i, j]); Z[] = sum[i](Y[i]) }"},
    {"a guard along a column",
     "kernel k(X: f32[M, D], V: f32[D, E]) -> O: f32[M, E] { O[i, e] = sum[d where d <= e](X[i, d] * V[d, e]) }"},
    {"gathered rows", "kernel k(X: f32[M, N], pick: i32[M]) -> Y: f32[M, N] { Y[i, j] = X[pick[i], j] }"},
    {"forgetting gate",
     "kernel k(Q: f32[M, D], K: f32[M, D], V: f32[M, E], g: f32[M]) -> O: f32[M, E] { C[j] = cumsum[j](g[j]); O[i, e] "
     "= sum[j](softmax[j where j <= i](sum[d](Q[i, d] * K[j, d]) + C[i] - C[j]) * V[j, e]) }"},
    {"extra term",
     "kernel k(Q: f32[M, D], K: f32[N, D], V: f32[N, E]) -> (O: f32[M, E], L: f32[M]) { S[i, j] = sum[d](Q[i, d] * "
     "K[j, d]); O[i, e] = sum[j](softmax[j where j < i](S[i, j], extra = 0.5) * V[j, e]); L[i] = logsumexp[j where j < "
     "i](S[i, j], extra = 0.5) }"},
    {"a contraction with what is gathered by both indices",
     "kernel k(Q: f32[M, D], K: f32[N, D], V: f32[N, E], R: f32[C, D]) -> O: f32[M, E] { S[i, j] = sum[d](Q[i, d] * "
     "K[j, d]) + sum[d](Q[i, d] * R[(i / 3 - j / 5) % C, d]); O[i, e] = sum[j](softmax[j](S[i, j]) * V[j, e]) }"},
    {"rows that see nothing are not read",
     "kernel k(Q: f32[M, D], K: f32[N, D], V: f32[N, E], X: f32[N]) -> O: f32[M, E] { O[i, e] = sum[j](softmax[j where "
     "j <= i + N - M](sum[d](Q[i, d] * X[i + N - M] * K[j, d])) * V[j, e]) }"},
    {"keys that no row sees are not read",
     "kernel k(Q: f32[M, D], K: f32[P, D], V: f32[P, E], at: i32[N]) -> O: f32[M, E] { O[i, e] = sum[j](softmax[j "
     "where at[j] >= 0 and j <= i + N - M](sum[d](Q[i, d] * K[at[j], d])) * V[at[j], e]) }"},
    {"random numbers", "kernel k(X: f32[M, N]) -> Y: f32[M, N] { Y[i, j] = X[i, j] * rand(7, i, j) }"},
};

}  // namespace

TEST_CASE("programs of every shape agree with the reference") {
  EngineOptions options;
  options.disk_cache = false;
  Engine engine(options);
  std::mt19937 random(11);
  for (const Item& item : items) {
    Program program = Program::parse(item.text).value();
    tensor::Program inferred = infer(program.module()).value();
    // With a NaN in V the exact path runs too.
    for (auto [m, poisoned] : {std::pair<std::int64_t, bool>{1, false}, {7, false}, {70, false}, {70, true}}) {
      if (poisoned && std::string(item.text).find("V: f32") == std::string::npos) continue;
      Binding sizes;
      const std::map<std::string, std::int64_t> dims{{"M", m}, {"N", 37}, {"D", 5}, {"E", 9}, {"C", 4}, {"P", 11}};
      for (const Sym& dim : inferred.dims) sizes.dims[dim] = dims.at(dim.text());
      std::vector<Data> inputs;
      inputs.reserve(8);
      Arguments arguments;
      for (const auto& t : inferred.tensors) {
        std::vector<std::int64_t> shape;
        for (const auto& e : t.extents) shape.push_back(evaluate_extent(e, sizes));
        Data& data = inputs.emplace_back(t.type.dtype, shape);
        if (t.type.is_float())
          data.fill_normal(random);
        else
          data.fill_integers([&, rows = m](std::int64_t k) { return k * 5 % rows - (k % 7 == 3 ? 20 : 0); });
        if (poisoned && t.sym.text() == "V") store_element(data.ref.data, data.ref.dtype, 12, NAN);
        arguments.emplace_back(t.sym.text(), data.ref);
      }
      std::vector<std::vector<Data>> outputs;
      bool out_of_range = false;
      for (const char* target : {"reference", "interpreter", "cpu"}) {
        CompileOptions compile;
        compile.target = *Target::parse(target);
        INFO(item.what << " on " << target << " M=" << m << (poisoned ? " with a NaN" : ""));
        auto kernel = engine.compile(program, compile);
        if (!kernel) {
          REQUIRE(kernel.diagnostics()[0].code == "A0603");  // no libLLVM here
          continue;
        }
        Arguments call = arguments;
        auto& mine = outputs.emplace_back();
        mine.reserve(inferred.results.size());
        for (const auto& r : inferred.results) {
          std::vector<std::int64_t> shape;
          for (const auto& e : r.extents) shape.push_back(evaluate_extent(e, sizes));
          mine.emplace_back(r.type.dtype, shape);
          call.emplace_back(r.sym.text(), mine.back().ref);
        }
        auto report = kernel->run(call);
        if (!report) {
          CHECK(render(report.diagnostics()) == "");
          continue;
        }
        if (outputs.size() == 1) out_of_range = report->out_of_range;
        CHECK(report->out_of_range == out_of_range);
        for (std::size_t r = 0; r < mine.size(); ++r) {
          Difference d = compare(mine[r].ref, outputs[0][r].ref);
          INFO(inferred.results[r].sym.text() << " error " << d.error << " of " << d.scale);
          CHECK(d.special);
          CHECK(d.error <= 2e-5 * std::max(1.0, d.scale));
        }
      }
    }
  }
}
