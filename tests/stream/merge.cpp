// SPDX-License-Identifier: Apache-2.0
// What stream() derives: merge is associative with the empty identity on random states, and what must be stored says
// why.
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

TEST_CASE("every standard program is one sweep with nothing stored") {
  for (const std::string& name : stdlib::names()) {
    INFO(name);
    tensor::Streams streams = derive(stdlib::program(name).value());
    CHECK(streams.temporaries.empty());
    CHECK(streams.nests.size() == 1);
    for (const tensor::Nest& nest : streams.nests) CHECK(nest.phases.size() == 1);
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

TEST_CASE("results that share nothing do not share a nest") {
  auto streams = derive(Program::parse(R"(
    kernel k(X: f32[M, N], last: i32[M]) -> (Y: f32[M], Z: f32[]) {
      Y[i] = sum[j where j < last[i]](X[i, j])
      Z[] = sum[a, b](X[a, b])
    })").value());
  REQUIRE(streams.nests.size() == 2);
  CHECK(streams.nests[0].row);
  CHECK_FALSE(streams.nests[1].row);
}
