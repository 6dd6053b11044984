// SPDX-License-Identifier: Apache-2.0
// The words of a call and the grid of a launch, on loop kernels built by hand.
#include "backend/cuda/call.hpp"

#include "tests/catch.hpp"

using namespace attune;
using tensor::integer;
using tensor::LinkOp;

namespace {

loop::Buffer buffer(const char* name, std::vector<tensor::Expr> extents) {
  loop::Buffer out;
  out.sym = Sym::fresh(name);
  out.extents = std::move(extents);
  return out;
}

struct Small {
  Sym m = Sym::fresh("M"), n = Sym::fresh("N"), scale = Sym::fresh("scale"), from = Sym::fresh("from");
  loop::Kernel kernel;
  Binding binding;

  Small() {
    kernel.name = "small";
    kernel.dims = {m, n};
    kernel.scalars = {scale, from};
    kernel.scalar_types = {tensor::type_f32, tensor::type_i64};
    binding.dims = {{m, 300}, {n, 5}};
    binding.scalars = {{scale, 0.5}, {from, std::int64_t{40}}};
  }
  loop::GridAxis axis(tensor::Expr lo, tensor::Expr hi, tensor::Expr step) const {
    return {Sym::fresh("i"), std::move(lo), std::move(hi), std::move(step), false};
  }
  Result<std::int64_t> blocks(std::vector<loop::GridAxis> grid, int tasks_per_block = 1) const {
    loop::Nest nest;
    nest.name = "nest";
    nest.grid = std::move(grid);
    return cuda::block_count(kernel, nest, {"nest0", 128, 0, tasks_per_block}, binding);
  }
};

}  // namespace

TEST_CASE("words: dims, scalars, then each buffer's address and strides, then the flag") {
  Small s;
  s.kernel.buffers = {buffer("X", {tensor::dim(s.m), tensor::dim(s.n)}), buffer("L", {}),
                      buffer("O", {tensor::dim(s.m)})};
  const cuda::Words words = cuda::lay_out(s.kernel, {300, 5}, {0x3f000000, 40}, {-7, 1, 9});
  CHECK(words.values ==
        std::vector<std::uint64_t>{300, 5, 0x3f000000, 40, 0, static_cast<std::uint64_t>(-7), 1, 0, 0, 9, 0});
  CHECK(words.address_at == std::vector<std::size_t>{4, 7, 8});
  CHECK(words.flag_at == 10);
}

TEST_CASE("blocks are the product of the grid's lengths") {
  const Small s;
  const auto m = tensor::dim(s.m), n = tensor::dim(s.n);
  CHECK(s.blocks({}).value() == 1);  // one task
  CHECK(s.blocks({s.axis(integer(0), m, integer(1))}).value() == 300);
  CHECK(s.blocks({s.axis(integer(0), m, integer(128))}).value() == 3);
  CHECK(s.blocks({s.axis(integer(0), n, integer(1)), s.axis(integer(0), m, integer(64))}).value() == 25);
  // Bounds may use scalars, steps too.
  const tensor::Expr from(tensor::Scalar{s.from}, tensor::type_i64);
  CHECK(s.blocks({s.axis(from, m, integer(1))}).value() == 260);
  CHECK(s.blocks({s.axis(from, m, n)}).value() == 52);
  CHECK(s.blocks({s.axis(integer(-3), tensor::link(LinkOp::sub, n, integer(1)), integer(2))}).value() == 4);
  // Several tasks a block.
  CHECK(s.blocks({s.axis(integer(0), m, integer(1))}, 4).value() == 75);
  CHECK(s.blocks({s.axis(integer(0), m, integer(1))}, 7).value() == 43);
  CHECK(s.blocks({s.axis(integer(0), m, integer(1))}, 1000).value() == 1);
}

TEST_CASE("an empty axis leaves nothing to launch, however long the others are") {
  const Small s;
  const auto m = tensor::dim(s.m);
  const auto huge = integer(std::int64_t{1} << 62);
  CHECK(s.blocks({s.axis(integer(0), m, integer(1)), s.axis(m, m, integer(1))}).value() == 0);
  CHECK(s.blocks({s.axis(m, integer(7), integer(1))}).value() == 0);
  CHECK(s.blocks({s.axis(integer(0), huge, integer(1)), s.axis(integer(0), huge, integer(1)),
                  s.axis(integer(0), integer(0), integer(1))})
            .value() == 0);
}

TEST_CASE("more blocks than a GPU launches are refused, without overflow") {
  const Small s;
  const auto zero = integer(0), one = integer(1);
  const auto most = integer(cuda::most_blocks);
  CHECK(s.blocks({s.axis(zero, most, one)}).value() == cuda::most_blocks);
  CHECK(s.blocks({s.axis(zero, integer(cuda::most_blocks * 4), one)}, 4).value() == cuda::most_blocks);
  const auto huge = integer(INT64_MAX);
  const auto lowest = integer(INT64_MIN);
  for (const auto& grid :
       {std::vector{s.axis(zero, integer(cuda::most_blocks + 1), one)},
        std::vector{s.axis(zero, most, one), s.axis(zero, integer(2), one)},
        std::vector{s.axis(lowest, huge, one), s.axis(lowest, huge, one), s.axis(lowest, huge, one)}}) {
    const auto refused = s.blocks(grid);
    REQUIRE_FALSE(refused);
    CHECK(refused.diagnostics()[0].code == "A0608");
  }
  const auto stuck = s.blocks({s.axis(zero, most, zero)});
  REQUIRE_FALSE(stuck);
  CHECK(stuck.diagnostics()[0].code == "A0904");
}
