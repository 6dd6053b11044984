// SPDX-License-Identifier: Apache-2.0
// What stream() derives: merge is associative with the empty identity on random states, and what must be stored says
// why.
#include <algorithm>
#include <attune/stdlib.hpp>
#include <cmath>
#include <random>

#include "tensor/passes.hpp"
#include "tensor/stream.hpp"
#include "tests/catch.hpp"

using namespace attune;

namespace {

tensor::Streams derive(const Program& program) {
  auto inferred = infer(program.module()).value();
  std::map<std::string, DType> types;
  for (const Sym& var : inferred.type_variables) types[var.text()] = DType::f32;
  return tensor::stream(tensor::simplify(tensor::desugar(tensor::bind_types(inferred, types).value())));
}

/// A tiny evaluator for merge expressions: scalars, arithmetic, exp, selects.
double evaluate(const tensor::Expr& e, const std::unordered_map<Sym, double>& values) {
  using namespace tensor;
  auto sub = [&](const Expr& x) { return evaluate(x, values); };
  if (const auto* literal = get_if<Literal>(e)) {
    if (const auto* d = std::get_if<double>(&literal->value)) return *d;
    if (const auto* b = std::get_if<bool>(&literal->value)) return *b;
    return static_cast<double>(std::get<std::int64_t>(literal->value));
  }
  if (const auto* scalar = get_if<Scalar>(e)) return values.at(scalar->scalar);
  if (const auto* op = get_if<Unary>(e)) {
    REQUIRE(op->op == UnaryOp::exp);
    return std::exp(sub(op->operand));
  }
  if (const auto* select = get_if<Select>(e))
    return sub(select->condition) != 0 ? sub(select->then) : sub(select->otherwise);
  if (const auto* cmp = get_if<Compare>(e)) {
    REQUIRE(cmp->relations[0] == Relation::equal);
    return sub(cmp->args[0]) == sub(cmp->args[1]);
  }
  const auto* chain = get_if<Chain>(e);
  REQUIRE(chain);
  double out = sub(chain->args[0]);
  for (std::size_t k = 0; k < chain->links.size(); ++k) {
    double x = sub(chain->args[k + 1]);
    switch (chain->links[k]) {
      case LinkOp::add: out += x; break;
      case LinkOp::sub: out -= x; break;
      case LinkOp::mul: out *= x; break;
      case LinkOp::max: out = std::max(out, x); break;
      case LinkOp::min: out = std::min(out, x); break;
      case LinkOp::both: out = out != 0 && x != 0; break;
      case LinkOp::either: out = out != 0 || x != 0; break;
      default: FAIL("unexpected link");
    }
  }
  return out;
}

}  // namespace

TEST_CASE("merge is associative and has the empty state as identity") {
  std::mt19937 random(3);
  std::normal_distribution<double> normal(0, 4);
  for (const std::string& name : stdlib::names()) {
    INFO(name);
    for (const tensor::Nest& nest : derive(stdlib::program(name).value()).nests)
      for (const tensor::Phase& phase : nest.phases) {
        tensor::Merge m = tensor::merge(phase);
        const std::size_t count = phase.states.size();
        using State = std::vector<double>;
        auto join = [&](const State& x, const State& y) {
          std::unordered_map<Sym, double> values;
          for (std::size_t k = 0; k < count; ++k) values[m.a[k]] = x[k], values[m.b[k]] = y[k];
          State out;
          for (const auto& e : m.combined) out.push_back(evaluate(e, values));
          return out;
        };
        State empty;
        for (const auto& e : m.identity) empty.push_back(evaluate(e, {}));
        for (int trial = 0; trial < 50; ++trial) {
          State a, b, c;
          for (State* s : {&a, &b, &c})
            for (std::size_t k = 0; k < count; ++k) s->push_back(normal(random));
          if (trial % 5 == 0) b = empty;
          if (trial % 7 == 0) a = empty;
          State left = join(join(a, b), c), right = join(a, join(b, c)), same = join(a, empty), also = join(empty, a);
          for (std::size_t k = 0; k < count; ++k) {
            CHECK(left[k] == Approx(right[k]).epsilon(1e-9).margin(1e-12));
            CHECK(same[k] == Approx(a[k]).epsilon(1e-12));
            CHECK(also[k] == Approx(a[k]).epsilon(1e-12));
          }
        }
      }
  }
}

TEST_CASE("every standard program is one sweep with nothing stored, or says why not") {
  // What is stored, and by which reason.
  const std::map<std::string, std::pair<std::vector<std::string>, std::string>> stored = {
      {"forgetting", {{"C"}, "a running sum"}},
      {"qk_norm", {{"Kn"}, "computed subscripts"}},
      {"rope", {{"Kr"}, "computed subscripts"}},
      {"rope_interleaved", {{"Kr"}, "computed subscripts"}},
      {"sam", {{"A", "U"}, "computed subscripts"}}};
  // The statistics of a row along a range of its own come before the keys; each range is swept once.
  const std::map<std::string, std::size_t> sweeps = {{"qk_norm", 2}, {"ragged", 2}};
  for (const std::string& name : stdlib::names()) {
    INFO(name);
    tensor::Streams streams = derive(stdlib::program(name).value());
    const auto exception = stored.find(name);
    REQUIRE(streams.temporaries.size() == (exception == stored.end() ? 0 : exception->second.first.size()));
    for (std::size_t k = 0; k < streams.temporaries.size(); ++k) {
      CHECK(streams.temporaries[k].sym.text() == exception->second.first[k]);
      CHECK(streams.temporaries[k].reason.find(exception->second.second) != std::string::npos);
    }
    CHECK(streams.nests.size() == streams.temporaries.size() + 1);
    const auto phases = sweeps.find(name);
    CHECK(streams.nests.back().phases.size() == (phases == sweeps.end() ? 1 : phases->second));
    for (const tensor::State& state : streams.nests.back().phases.back().states)
      if (state.op == tensor::ReduceOp::bound) CHECK(state.extras.empty());
  }
}

TEST_CASE("what cannot stream says why") {
  auto streams = derive(Program::parse(R"(
    kernel k<T>(X: T[M, N], Y: T[N]) -> O: T[M] {
      A[i] = max[j](X[i, j])
      O[i] = sum[j](relu(X[i, j] - A[i]) * Y[j])
    })")
                            .value());
  REQUIRE(streams.nests.size() == 1);
  REQUIRE(streams.nests[0].phases.size() == 2);
  CHECK(streams.nests[0].phases[1].reason.find("no factor") != std::string::npos);
  auto scan = derive(Program::parse("kernel k(X: f32[N]) -> O: f32[N] { O[j] = cumsum[j](X[j]) * 2 }").value());
  REQUIRE(scan.temporaries.size() == 1);
  CHECK(scan.temporaries[0].reason.find("every step") != std::string::npos);
}

TEST_CASE("what a bound depends on is a row, though a state beside it does without") {
  // `first` has no index h; the scores have. One sweep over j all the same.
  auto streams = derive(Program::parse(R"(
    kernel k(Q: f32[H, M], K: f32[H, N], V: f32[H, N], low: i32[C]) -> O: f32[H, M] {
      first[i in 0..M] = sum[c where low[c] <= i](1)
      O[h, i] = sum[j](softmax[j where first[i] <= j](Q[h, i] * K[h, j]) * V[h, j])
    })")
                            .value());
  REQUIRE(streams.nests.size() == 1);
  CHECK(streams.nests[0].rows.size() == 2);
  REQUIRE(streams.nests[0].phases.size() == 2);
  CHECK(streams.nests[0].phases[1].states.size() == 3);
  // Where an output has no h, h cannot be a row of its nest.
  auto shared = derive(Program::parse(R"(
    kernel k(Q: f32[H, M], K: f32[H, N], V: f32[M, N]) -> (O: f32[H, M], Z: f32[M]) {
      Z[i] = sum[j](V[i, j])
      O[h, i] = logsumexp[j](Q[h, i] * K[h, j]) + sum[j](V[i, j])
    })")
                           .value());
  for (const tensor::Nest& nest : shared.nests)
    for (const tensor::Output& output : nest.outputs)
      for (const auto& row : nest.rows)
        CHECK(std::find(output.indices.begin(), output.indices.end(), row.index) != output.indices.end());
}

TEST_CASE("a definition that is a running sum is stored once") {
  auto streams = derive(Program::parse(R"(
    kernel k(X: f32[B, N]) -> O: f32[B, M] {
      C[b, j] = cumsum[j](X[b, j])
      O[b, i in 0..M] = C[b, i * 2] - C[b, i * 3]
    })")
                            .value());
  REQUIRE(streams.temporaries.size() == 1);
  CHECK(streams.temporaries[0].sym.text() == "C");
  CHECK(streams.nests.size() == 2);
}

TEST_CASE("results that share nothing do not share a nest") {
  auto streams = derive(Program::parse(R"(
    kernel k(X: f32[M, N], last: i32[M]) -> (Y: f32[M], Z: f32[]) {
      Y[i] = sum[j where j < last[i]](X[i, j])
      Z[] = sum[a, b](X[a, b])
    })")
                            .value());
  REQUIRE(streams.nests.size() == 2);
  CHECK(streams.nests[0].row);
  CHECK_FALSE(streams.nests[1].row);
}
