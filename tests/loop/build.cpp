// SPDX-License-Identifier: Apache-2.0
// Whole way of a causal attention from the tensor IR: each schedule's kernel is well formed, runs, and equals the
// formula.
#include <array>
#include <attune/program.hpp>
#include <cmath>
#include <cstring>

#include "loop/passes.hpp"
#include "tensor/passes.hpp"
#include "tests/catch.hpp"
#include "tests/loop/kernels.hpp"

using namespace hand;

namespace {

/// O[b, h, i, e] = sum[j](softmax[j where j <= i + N - M](scale * sum[d](Q K)) * V), grouped heads.
struct Causal {
  Sym B = Sym::fresh("B"), H = Sym::fresh("H"), G = Sym::fresh("G"), M = Sym::fresh("M"), N = Sym::fresh("N"),
      D = Sym::fresh("D"), E = Sym::fresh("E");
  Sym Q = Sym::fresh("Q"), K = Sym::fresh("K"), V = Sym::fresh("V"), scale = Sym::fresh("scale"), S = Sym::fresh("S"),
      P = Sym::fresh("P"), O = Sym::fresh("O");
  tensor::Program program;

  explicit Causal(DType dtype = DType::f32) {
    const tensor::Type storage{dtype, {}};
    const auto over = [](const Sym& index, const Sym& extent) { return tensor::IndexRange{index, I(0), dim(extent)}; };
    const auto fresh = [] {
      return std::array<Sym, 4>{Sym::fresh("b"), Sym::fresh("h"), Sym::fresh("i"), Sym::fresh("j")};
    };
    program.name = "causal";
    program.dims = {B, H, M, D, G, N, E};
    program.tensors = {{Q, storage, {dim(B), dim(H), dim(M), dim(D)}, {}},
                       {K, storage, {dim(B), dim(G), dim(N), dim(D)}, {}},
                       {V, storage, {dim(B), dim(G), dim(N), dim(E)}, {}}};
    program.scalars = {{scale, tensor::type_f32, false, {}, {}}};
    const auto kv = [&](const Sym& h) { return ix(h) / (dim(H) / dim(G)); };
    {
      const auto [b, h, i, j] = fresh();
      const Sym d = Sym::fresh("d");
      const Expr product = read(Q, {ix(b), ix(h), ix(i), ix(d)}, dtype) * read(K, {ix(b), kv(h), ix(j), ix(d)}, dtype);
      const Expr sum(tensor::Reduce{tensor::ReduceOp::sum, {over(d, D)}, {}, product, {}}, tensor::type_f32);
      program.definitions.push_back(
          {S, {over(b, B), over(h, H), over(i, M), over(j, N)}, scalar(scale, tensor::type_f32) * sum, {}});
    }
    {
      const auto [b, h, i, j] = fresh();
      const Expr body = read(S, {ix(b), ix(h), ix(i), ix(j)}), guard = ix(j) <= ix(i) + dim(N) - dim(M);
      program.definitions.push_back({P,
                                     {over(b, B), over(h, H), over(i, M), over(j, N)},
                                     Expr(tensor::Softmax{{over(j, N)}, guard, body, {}}, tensor::type_f32),
                                     {}});
    }
    {
      const auto [b, h, i, j] = fresh();
      const Sym e = Sym::fresh("e");
      const Expr body = read(P, {ix(b), ix(h), ix(i), ix(j)}) * read(V, {ix(b), kv(h), ix(j), ix(e)}, dtype);
      program.definitions.push_back(
          {O,
           {over(b, B), over(h, H), over(i, M), over(e, E)},
           Expr(tensor::Reduce{tensor::ReduceOp::sum, {over(j, N)}, {}, body, {}}, tensor::type_f32),
           {}});
    }
    program.results = {{O, tensor::type_f32, {dim(B), dim(H), dim(M), dim(E)}, {}}};
    program.exact_quotients = {{H, G, {}}};
  }
  Binding bind(AttentionCall& c) const {
    Binding binding;
    binding.dims = {{B, c.B}, {H, c.H}, {G, c.G}, {M, c.M}, {N, c.N}, {D, c.D}, {E, c.E}};
    binding.scalars = {{scale, static_cast<double>(c.scale)}};
    binding.tensors = {{Q, view(c.q.data(), DType::f32, {c.B, c.H, c.M, c.D})},
                       {K, view(c.k.data(), DType::f32, {c.B, c.G, c.N, c.D})},
                       {V, view(c.v.data(), DType::f32, {c.B, c.G, c.N, c.E})},
                       {O, view(c.o.data(), DType::f32, {c.B, c.H, c.M, c.E})}};
    return binding;
  }
};

}  // namespace

TEST_CASE("loop build: a program equals the kernel built by hand under every schedule", "[loop]") {
  const Causal causal;
  Attention by_hand(4, 8);
  using Overrides = std::map<std::string, std::string>;
  for (const Overrides& overrides :
       {Overrides{}, Overrides{{"lanes", "8"}}, Overrides{{"lanes", "8"}, {"tile.m", "16"}, {"operands", "packed"}},
        Overrides{{"lanes", "8"}, {"tile.n", "4"}, {"operands", "in_place"}},
        Overrides{{"lanes", "16"}, {"tile.n", "12"}, {"order", "in_order"}}})
    for (const auto& [m, n] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{7, 21}, {33, 33}, {12, 5}, {1, 40}, {3, 0}}) {
      loop::LowerOptions options;
      options.overrides = overrides;
      const auto built = loop::build(causal.program, options);
      if (!built) FAIL(built.diagnostics()[0].message);
      AttentionCall call;
      call.M = m;
      call.N = n;
      call.fill();
      REQUIRE(interpreter::run(by_hand.kernel, call.bind(by_hand)).ok());
      const std::vector<float> expected = call.o;
      for (const bool reverse : {false, true}) {
        call.o.assign(call.o.size(), -1.0f);
        const auto outcome = interpreter::run(built->kernel, causal.bind(call), {reverse});
        INFO(error_of(outcome) << "\n" << loop::print(built->kernel));
        REQUIRE(outcome.ok());
        double worst = 0;
        for (std::size_t k = 0; k < expected.size(); ++k)
          worst = std::max(worst, std::fabs(double{call.o[k]} - double{expected[k]}));
        CHECK(worst < 2e-6);
      }
    }
}

TEST_CASE("loop build: register tiles visit what their own rows reach", "[loop]") {
  const Causal causal;
  const auto text = [&](const std::map<std::string, std::string>& overrides) {
    loop::LowerOptions options;
    options.overrides = overrides;
    return loop::print(loop::build(causal.program, options).value().kernel);
  };
  // Several register tiles in a task: each has an end of its own, a class of its own, and is skipped where it is empty.
  const std::string several = text({{"lanes", "8"}, {"tile.m", "32"}, {"operands", "packed"}});
  CHECK(several.find("let j.to = min(min(j0 + 128, j.hi), min(i1.2 + 8, M) - 1 + N - M + 1)") != std::string::npos);
  CHECK(several.find("if j0 < j.to") != std::string::npos);
  CHECK(several.find("let full.2 = j.to - 1 <= i1.2 + N - M") != std::string::npos);
  // One: what the task decides is exact.
  CHECK(text({{"lanes", "8"}, {"tile.m", "8"}}).find("j.to") == std::string::npos);
}

TEST_CASE("loop build: what is gathered through an earlier sweep bounds a stream", "[loop]") {
  // The range of each row is found by a sweep of its own; blocks outside of the ranges of a task's rows are not
  // visited.
  const auto program = attune::Program::parse(R"(
    kernel k(X: f32[M, N], first: i32[C], last: i32[C]) -> O: f32[M] {
      part[i in 0..M] = sum[c in 0..C where last[c] <= i](1)
      O[i] = sum[j where first[part[i]] <= j < last[part[i]]](X[i, j])
    })")
                           .value();
  const auto built = loop::build(tensor::bind_types(infer(program.module()).value(), {}).value(), {}).value();
  CHECK(built.materialised.empty());
  const std::string text = loop::print(built.kernel);
  INFO(text);
  CHECK(text.find("let j.lo = max(0, first.min") != std::string::npos);
  CHECK(text.find("let j.hi = min(N, last.max") != std::string::npos);
  CHECK(text.find("for j0 in j.lo..j.hi") != std::string::npos);
}
