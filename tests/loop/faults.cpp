// SPDX-License-Identifier: Apache-2.0
// Seeded faults: what a wrong pass would do, and the message that finds it.
#include <functional>

#include "tests/catch.hpp"
#include "tests/loop/kernels.hpp"

using namespace hand;

namespace {

std::string run_attention(const std::function<void(Attention&)>& damage) {
  Attention attention;
  damage(attention);
  AttentionCall call;
  call.fill();
  return error_of(interpreter::run(attention.kernel, call.bind(attention)));
}

void finds(const std::string& error, const std::vector<std::string>& parts) {
  INFO(error);
  CHECK(error.rfind("A0902: ", 0) == 0);
  for (const std::string& part : parts) CHECK(error.find(part) != std::string::npos);
}

template <class Kind>
Kind& at(loop::Block& block, std::size_t k) {
  return std::get<Kind>(block[k].kind);
}

std::string run_copy(const std::function<void(CopyScale&, Binding&)>& damage, std::int64_t n = 6) {
  CopyScale copy;
  std::vector<float> x(static_cast<std::size_t>(n), 1), y(static_cast<std::size_t>(n));
  Binding binding;
  binding.dims = {{copy.N, n}};
  binding.scalars = {{copy.a, 3.0}};
  binding.tensors = {{copy.x, view(x.data(), DType::f32, {n})}, {copy.y, view(y.data(), DType::f32, {n})}};
  damage(copy, binding);
  return error_of(interpreter::run(copy.kernel, binding));
}

}  // namespace

TEST_CASE("interpreter faults: reads of what nothing wrote", "[loop]") {
  // A forgotten first value of the running maximum, of the running sum, of the accumulator.
  finds(run_attention([](Attention& a) { a.nest().body.erase(a.nest().body.begin() + 1); }),
        {"nest `O`", "statement `m.2[i] = m[i]", "element [4] of tile `m`, which nothing wrote"});
  finds(run_attention([](Attention& a) { a.nest().body.erase(a.nest().body.begin() + 2); }),
        {"tile `l`, which nothing wrote"});
  finds(run_attention([](Attention& a) { a.nest().body.erase(a.nest().body.begin() + 3); }),
        {"`o[i, e] = o[i, e] * r[i] + contract", "element [4, 0] of tile `o`"});
  // A contraction that covers less of the depth than its operand is read over.
  finds(run_attention([](Attention& a) { at<loop::Map>(a.nest().body, 0).domain[0].hi = dim(a.D) - I(1); }),
        {"`S[i, j] = contract", "element [4, 4] of tile `Qp`, which nothing wrote"});
  // The last tile of keys is ragged and a statement takes it whole.
  finds(run_attention([](Attention& a) {
          auto& store = at<loop::Store>(a.nest().body, 6);
          store.value = read(a.o, {ix(a.i), dim(a.E)});
        }),
        {"element [4, 3] of tile `o`, which lies outside"});
}

TEST_CASE("interpreter faults: rows beyond the limit may hold anything", "[loop]") {
  // Only the padding of the last block lacks a value: no row that counts reads it.
  const std::string error = run_copy([](CopyScale& copy, Binding&) {
    std::get<loop::Map>(copy.nest().body[0].kind).guard = ix(copy.n) < dim(copy.N);
  });
  CHECK(error == "(no error)");
  finds(run_copy([](CopyScale& copy, Binding&) {
          std::get<loop::Map>(copy.nest().body[0].kind).guard = ix(copy.n) < dim(copy.N) - I(1);
        }),
        {"element [5] of tile `t`, which nothing wrote"});
}

TEST_CASE("interpreter faults: a read beside an absent factor is never asked for", "[loop]") {
  const auto value = [](CopyScale& copy, bool present) {
    copy.nest().body.erase(copy.nest().body.begin());
    std::get<loop::Store>(copy.nest().body[0].kind).value = read(copy.t, {ix(copy.n)}) * where(T(present), F(1));
  };
  CHECK(run_copy([&](CopyScale& copy, Binding&) { value(copy, false); }) == "(no error)");
  finds(run_copy([&](CopyScale& copy, Binding&) { value(copy, true); }),
        {"element [0] of tile `t`, which nothing wrote"});
}

TEST_CASE("interpreter faults: stores and their places", "[loop]") {
  finds(run_copy([](CopyScale& copy, Binding&) {
          std::get<loop::Store>(copy.nest().body[1].kind).subscripts = {ix(copy.n) + I(1)};
        }),
        {"statement `store y[n + 1]", "stores element [6], where axis 0 has extent 6"});
  finds(run_copy([](CopyScale& copy, Binding&) {
          std::get<loop::Store>(copy.nest().body[1].kind).subscripts = {chain(LinkOp::mod, {ix(copy.n), I(4)})};
        }),
        {"stores element [0], which another task of the nest stores too"});
  finds(run_copy([](CopyScale& copy, Binding&) { copy.nest().grid[0].hi = dim(copy.N) - I(2); }),
        {"nothing stores element [4] of result `y`"});
  finds(run_copy([](CopyScale& copy, Binding&) {
          std::get<loop::Map>(copy.nest().body[0].kind).domain[0] = {copy.n, ix(copy.n0) + I(4), ix(copy.n0) + I(8)};
        }),
        {"writes element [4] of tile `t`, which lies outside"});
}

TEST_CASE("interpreter faults: tasks of a nest are independent", "[loop]") {
  // A second nest's task reads what another task of the same nest stores.
  finds(run_copy([](CopyScale& copy, Binding&) {
          loop::Nest& nest = copy.nest();
          nest.body.push_back(map(copy.t, {{copy.n, ix(copy.n0), ix(copy.n0) + I(4)}}, read(copy.y, {I(0)})));
        }),
        {"element [0] of buffer `y`, which another task of the nest stores"});
}

TEST_CASE("interpreter faults: temporaries, gathers without checks, bounds", "[loop]") {
  const Sym w = Sym::fresh("w");
  finds(run_copy([&](CopyScale& copy, Binding&) {
          copy.kernel.buffers.push_back(buffer(w, DType::f32, {dim(copy.N)}, loop::Role::temporary));
          std::get<loop::Map>(copy.nest().body[0].kind).value = read(w, {ix(copy.n)});
        }),
        {"element [0] of buffer `w`, which nothing wrote"});
  finds(run_copy([](CopyScale& copy, Binding&) {
          copy.kernel.trusted = true;
          std::get<loop::Map>(copy.nest().body[0].kind).value = read(copy.x, {ix(copy.n) + I(1)});
        }),
        {"element [6] of buffer `x`, which lies outside"});
  finds(run_copy([](CopyScale& copy, Binding&) {
          copy.nest().body.push_back(
              stmt(loop::For{Sym::fresh("k"), I(0), I(3), dim(copy.N) - dim(copy.N), loop::ForKind::serial, "", {}}));
        }),
        {"the step is 0"});
  finds(run_copy([](CopyScale& copy, Binding&) {
          copy.nest().body.push_back(stmt(loop::For{
              Sym::fresh("k"), I(0), I(3) / (dim(copy.N) - dim(copy.N)), I(1), loop::ForKind::serial, "", {}}));
        }),
        {"a bound is absent"});
  finds(run_copy([](CopyScale& copy, Binding&) { copy.nest().tiles[0].axes[0].extent = dim(copy.N); }),
        {"extent 6 of the lane axis is no multiple of 4 lanes"});
  finds(run_copy([](CopyScale& copy, Binding&) {
          copy.nest().tiles.push_back(
              tile(Sym::fresh("big"), {{Sym::fresh("k"), I(0), dim(copy.N) * I(std::int64_t{1} << 40)}}));
        }),
        {"more than 2^31 elements"});
}

TEST_CASE("interpreter faults: an absent operand of a contraction", "[loop]") {
  finds(run_attention([](Attention& a) {
          at<loop::Contract>(a.stream(), 9).b = read(a.V, {ix(a.b), ix(a.h), ix(a.j), ix(a.e)});
        }),
        {"`o[i, e] = o[i, e] * r[i] + contract", "operand b is absent"});
}

TEST_CASE("interpreter faults: a reduction over the rows leaves padding out", "[loop]") {
  const auto bad = [](const std::function<Expr(CopyScale&)>& end) {
    return run_copy([&](CopyScale& copy, Binding&) {
      const Sym flag = Sym::fresh("flag");
      copy.nest().tiles.push_back(tile(flag, {}, DType::boolean));
      const Expr value = read(copy.t, {ix(copy.n)}) > F(5);
      copy.nest().body.push_back(map(flag, {}, T(false)));
      copy.nest().body.push_back(
          stmt(loop::Accumulate{loop::Op::any, flag, {}, {}, {{copy.n, ix(copy.n0), end(copy)}}, value, {}}));
    });
  };
  CHECK(bad([](CopyScale& copy) { return min(ix(copy.n0) + I(4), dim(copy.N)); }) == "(no error)");
  finds(bad([](CopyScale& copy) { return ix(copy.n0) + I(4); }), {"reduces over rows at or beyond the lane limit"});
}

TEST_CASE("interpreter faults: a binding that does not fit", "[loop]") {
  finds(run_copy([](CopyScale&, Binding& binding) { binding.dims.clear(); }), {"dim `N` has no size"});
  finds(run_copy([](CopyScale&, Binding& binding) { binding.scalars.clear(); }), {"scalar `a` has no value"});
  finds(run_copy([](CopyScale& copy, Binding& binding) { binding.scalars[copy.a] = std::int64_t{3}; }),
        {"another kind"});
  finds(run_copy([](CopyScale& copy, Binding& binding) { binding.tensors.erase(copy.x); }),
        {"buffer `x` has no tensor"});
  finds(run_copy([](CopyScale& copy, Binding& binding) { binding.tensors[copy.x].dtype = DType::f16; }),
        {"is f32, its tensor f16"});
  finds(run_copy([](CopyScale& copy, Binding& binding) { binding.tensors[copy.x].shape = {5}; }), {"differ in shape"});
  finds(run_copy([](CopyScale& copy, Binding&) { copy.nest().lanes = 8; }), {"nest `y`"});
}
