// SPDX-License-Identifier: Apache-2.0
// What is baked in for a call: layouts, and whether 32 bits hold every integer.
#include "runtime/layout.hpp"
#include "runtime/narrow.hpp"
#include "tests/catch.hpp"

using namespace attune;
using namespace attune::tensor;

namespace {

float memory[1];

/// One tensor X of some rank and its call.
struct OneTensor {
  tensor::Program program;
  Binding binding;
  explicit OneTensor(std::vector<std::int64_t> shape, std::vector<std::int64_t> strides) {
    tensor::Tensor x;
    x.sym = Sym::fresh("X");
    for (std::size_t axis = 0; axis < shape.size(); ++axis) x.extents.push_back(integer(shape[axis]));
    program.tensors.push_back(x);
    binding.tensors[x.sym] = TensorRef(memory, DType::f32, std::move(shape), std::move(strides));
  }
  loop::LayoutFacts facts() const { return layout_facts(program, binding); }
  bool fits(const loop::LayoutFacts& facts) const { return layout_fits(facts, program, binding); }
};

}  // namespace

TEST_CASE("layout facts follow strides, not sizes") {
  const OneTensor contiguous({2, 8, 100, 64}, {8 * 100 * 64, 100 * 64, 64, 1});
  const OneTensor interleaved({2, 8, 100, 64}, {8 * 100 * 64, 64, 8 * 64, 1});
  const OneTensor transposed({2, 8, 100, 64}, {8 * 100 * 64, 100 * 64, 1, 100});
  const OneTensor padded({2, 8, 100, 64}, {8 * 4096 * 64, 4096 * 64, 64, 1});
  const OneTensor none({2, 8, 100, 64}, {16 * 100 * 64, 200 * 64, 128, 2});
  CHECK(contiguous.facts().unit_axes.at("X") == 3);
  CHECK(transposed.facts().unit_axes.at("X") == 2);
  CHECK(none.facts().unit_axes.empty());
  CHECK(interleaved.facts().strided.at("X"));
  CHECK(contiguous.facts().strided.empty());
  CHECK(contiguous.facts().depth_hint == 64);

  CHECK(contiguous.fits(contiguous.facts()));
  CHECK(padded.fits(contiguous.facts()));
  CHECK_FALSE(interleaved.fits(contiguous.facts()));
  CHECK_FALSE(transposed.fits(contiguous.facts()));
  CHECK_FALSE(contiguous.fits(none.facts()));  // right, but something faster is possible
  CHECK(none.fits(none.facts()));
  CHECK_FALSE(none.fits(contiguous.facts()));
}

TEST_CASE("lengths of one and empty tensors fit every layout of their kind") {
  const OneTensor interleaved({2, 8, 100, 64}, {8 * 100 * 64, 64, 8 * 64, 1});
  CHECK(OneTensor({2, 8, 1, 64}, {8 * 64, 64, 777, 1}).fits(interleaved.facts()));
  CHECK(OneTensor({1, 8, 3, 64}, {-5, 64, 8 * 64, 1}).fits(interleaved.facts()));
  const OneTensor transposed({2, 8, 100, 64}, {8 * 100 * 64, 100 * 64, 1, 100});
  CHECK(OneTensor({2, 8, 1, 64}, {64, 64, 1, 1}).fits(transposed.facts()));
  CHECK(OneTensor({2, 8, 0, 64}, {0, 0, 1, 0}).fits(transposed.facts()));
  CHECK(OneTensor({}, {}).fits(OneTensor({}, {}).facts()));
  const OneTensor every_other({100}, {2});
  CHECK(OneTensor({1}, {2}).fits(every_other.facts()));
  // A slice of a padded bias: the row distance depends on the buffer, the layout does not.
  const OneTensor bias({2, 50, 60}, {50 * 4096, 4096, 1});
  CHECK(OneTensor({2, 50, 3000}, {50 * 4096, 4096, 1}).fits(bias.facts()));
}

namespace {

/// O[i] = body, i in 0..M, with a dim M, a dim W and an i32 table T[M].
struct OneDefinition {
  tensor::Program program;
  Binding binding;
  Sym m = Sym::fresh("M"), w = Sym::fresh("W"), i = Sym::fresh("i"), table = Sym::fresh("T"), out = Sym::fresh("O");

  Expr loaded(DType dtype = DType::i32) { return Expr(Access{table, {tensor::index(i)}}, Type{dtype, {}}); }
  bool fits(Expr body, std::int64_t size, std::int64_t width = 1) {
    program.dims = {m, w};
    program.definitions = {Definition{out, {IndexRange{i, integer(0), dim(m)}}, std::move(body), {}}};
    program.results = {};
    tensor::Tensor result;
    result.sym = out;
    result.type = program.definitions[0].body->type;
    result.extents = {dim(m)};
    program.results.push_back(result);
    binding.dims[m] = size;
    binding.dims[w] = width;
    return fits_in_32_bits(program, binding);
  }
};

}  // namespace

TEST_CASE("32 bits where the call's sizes prove it") {
  OneDefinition one;
  const Expr i = tensor::index(one.i), width = dim(one.w);
  CHECK(one.fits(link(LinkOp::add, i, integer(5)), 1000));
  CHECK(one.fits(link(LinkOp::mul, i, width), 1000, 1000));
  CHECK_FALSE(one.fits(link(LinkOp::mul, i, width), 100'000, 100'000));
  CHECK_FALSE(one.fits(i, (std::int64_t{1} << 31) - 1));  // a tile beyond the end would wrap
  // The result is small, but a value on the way is not.
  CHECK_FALSE(one.fits(link(LinkOp::mod, link(LinkOp::mul, i, integer(5'000'000)), integer(7)), 1000));
  CHECK_FALSE(one.fits(link(LinkOp::sub, link(LinkOp::add, i, integer(2'147'483'000)), integer(2'147'483'000)), 1000));
  // Values that are the same for the whole launch are 64-bit anyway; met by an index they count.
  const Expr large = link(LinkOp::mul, width, width);
  CHECK(one.fits(compare(Relation::less, large, integer(0)), 10, 100'000));
  CHECK_FALSE(one.fits(compare(Relation::less, i, large), 10, 100'000));
  CHECK_FALSE(one.fits(link(LinkOp::add, i, large), 10, 100'000));
  // Also where the result fits whatever they are.
  for (const LinkOp op : {LinkOp::min, LinkOp::max}) {
    CHECK(one.fits(link(op, i, width), 10, 1000));
    const Expr bounded = op == LinkOp::min ? link(op, i, large) : link(op, i, link(LinkOp::sub, i, large));
    CHECK_FALSE(one.fits(bounded, 10, 100'000));
    CHECK_FALSE(one.fits(link(op, op == LinkOp::min ? large : link(LinkOp::sub, integer(0), large), i), 10, 100'000));
  }
}

TEST_CASE("loaded integers") {
  OneDefinition one;
  const Expr i = tensor::index(one.i);
  CHECK(one.fits(compare(Relation::equal, one.loaded(), one.loaded()), 100));
  CHECK(one.fits(cast(one.loaded(), type_f32), 100));
  CHECK_FALSE(one.fits(link(LinkOp::add, cast(one.loaded(), type_i64), i), 100));
  CHECK_FALSE(one.fits(compare(Relation::equal, one.loaded(DType::i64), one.loaded(DType::i64)), 100));
  CHECK(one.fits(link(LinkOp::add, cast(one.loaded(DType::u8), type_i64), i), 100));
}

TEST_CASE("deep comparisons are analysed once each") {
  OneDefinition one;
  Expr condition = compare(Relation::less, tensor::index(one.i), integer(3));
  for (int k = 0; k < 200; ++k) condition = compare(Relation::equal, condition, boolean(true));
  CHECK(one.fits(condition, 100));
}
