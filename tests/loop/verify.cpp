// SPDX-License-Identifier: Apache-2.0
// Each rule of a loop kernel, broken once.
#include <functional>

#include "tests/catch.hpp"
#include "tests/loop/kernels.hpp"

using namespace hand;

namespace {

void rejects(const std::string& part, const std::function<void(Attention&)>& damage) {
  Attention attention;
  damage(attention);
  const std::string problem = loop::verify(attention.kernel);
  INFO("wanted: " << part << "\nfound: " << problem);
  CHECK(problem.find(part) != std::string::npos);
}

template <class Kind>
Kind& at(loop::Block& block, std::size_t k) {
  return std::get<Kind>(block[k].kind);
}

}  // namespace

TEST_CASE("loop verify: the kernels built by hand are right", "[loop]") {
  CHECK(loop::verify(CopyScale().kernel) == "");
  CHECK(loop::verify(Attention().kernel) == "");
}

TEST_CASE("loop verify: kernel and buffers", "[loop]") {
  rejects("1 scalars have 0 types", [](Attention& a) { a.kernel.scalar_types.clear(); });
  rejects("16 index bits", [](Attention& a) { a.kernel.index_bits = 16; });
  rejects("declared twice", [](Attention& a) { a.kernel.dims.push_back(a.B); });
  rejects("declared twice", [](Attention& a) { a.kernel.buffers.push_back(a.kernel.buffers[0]); });
  rejects("no axis 4", [](Attention& a) { a.kernel.buffers[0].unit_axis = 4; });
  rejects("no boolean temporary", [](Attention& a) { a.kernel.buffers[3].presence = a.Q; });
  rejects("not a dim of the kernel", [](Attention& a) { a.kernel.buffers[0].extents[0] = dim(Sym::fresh("X")); });
  rejects("different extents", [](Attention& a) {
    const Sym p = Sym::fresh("p");
    a.kernel.buffers[3].presence = p;
    a.kernel.buffers.push_back(buffer(p, DType::boolean, {dim(a.B)}, loop::Role::temporary));
  });
}

TEST_CASE("loop verify: lanes", "[loop]") {
  rejects("lanes is 0", [](Attention& a) { a.nest().lanes = 0; });
  rejects("lanes is 4 without a lane index", [](Attention& a) { a.nest().lane = {}; });
  rejects("a lane limit without a lane or row index", [](Attention& a) {
    a.nest().lane = a.nest().row = {};
    a.nest().lanes = 1;
  });
  rejects("no limit", [](Attention& a) { a.nest().lane_limit = {}; });
  rejects("not over 8 lanes", [](Attention& a) {
    a.nest().lanes = 8;
    for (loop::Tile& tile : a.nest().tiles)
      for (loop::TileAxis& axis : tile.axes)
        if (axis.index == a.i) axis.extent = I(8);
  });
  rejects("not a multiple of 4 lanes", [](Attention& a) { a.nest().tiles[2].axes[0].extent = I(6); });
  rejects("not over 4 lanes", [](Attention& a) { at<loop::Map>(a.nest().body, 1).domain[0].hi = dim(a.M); });
  rejects("runs over the lane index", [](Attention& a) {
    auto& scores = at<loop::Contract>(a.stream(), 1);
    scores.dst = Sym::fresh("t");
    scores.over = {scores.domain[0]};
    scores.domain = {scores.domain[1]};
    a.nest().tiles.push_back(tile(scores.dst, {{a.j, ix(a.j0), I(8)}}));
  });
  // The same range in another spelling is the same range.
  Attention same;
  at<loop::Map>(same.nest().body, 1).domain = {{same.i, ix(same.i0) + I(3) - I(3), I(4) + ix(same.i0)}};
  CHECK(loop::verify(same.kernel) == "");
}

TEST_CASE("loop verify: tiles and domains", "[loop]") {
  rejects("has dtype bf16", [](Attention& a) { a.nest().tiles[2].dtype = DType::bf16; });
  rejects("declared twice", [](Attention& a) { a.nest().tiles.push_back(a.nest().tiles[2]); });
  rejects("also a buffer", [](Attention& a) { a.nest().tiles[2].sym = a.Q; });
  rejects("occurs twice", [](Attention& a) { a.nest().tiles[1].axes[1].index = a.i; });
  rejects("has no base", [](Attention& a) { a.nest().tiles[1].axes[1].base = {}; });
  rejects("is not bound here", [](Attention& a) { a.nest().tiles[2].axes[0].extent = ix(a.i0); });
  rejects("has extent 0", [](Attention& a) { a.nest().tiles[1].axes[1].extent = I(0); });
  rejects("leaves out axis `e` of `o`", [](Attention& a) { at<loop::Map>(a.nest().body, 3).domain.pop_back(); });
  rejects("the domain has 2 indices, `m` 1 axes", [](Attention& a) {
    at<loop::Map>(a.nest().body, 1).domain.push_back({a.e, I(0), dim(a.E)});
  });
  rejects("no tile of the nest", [](Attention& a) { at<loop::Map>(a.nest().body, 1).dst = Sym::fresh("x"); });
  rejects("no tile of the nest", [](Attention& a) { at<loop::Map>(a.nest().body, 1).dst = a.O; });
  rejects("bound twice", [](Attention& a) { at<loop::For>(a.nest().body, 5).index = a.h; });
  rejects("bound twice", [](Attention& a) { a.nest().grid[1].index = a.b; });
  // S stands on j0, which is bound inside the stream only.
  rejects("index `j0` is not bound here", [](Attention& a) {
    a.nest().body.push_back(map(a.S, {{a.i, ix(a.i0), ix(a.i0) + I(4)}, {a.j, I(0), I(8)}}, F(0)));
  });
  rejects("base `j0` is not bound here", [](Attention& a) {
    a.nest().body.push_back(map(a.m, {{a.i, ix(a.i0), ix(a.i0) + I(4)}}, read(a.S, {ix(a.i), I(0)})));
  });
  // Ranges are uniform.
  rejects("index `i` is not bound here",
          [](Attention& a) { at<loop::Accumulate>(a.stream(), 4).over[0].hi = ix(a.i); });
}

TEST_CASE("loop verify: names, arity and types", "[loop]") {
  const auto value = [](const std::string& part, const std::function<Expr(Attention&)>& make) {
    rejects(part, [&](Attention& a) { at<loop::Map>(a.nest().body, 1).value = make(a); });
  };
  value("lacks an operand", [](Attention& a) { return read(a.l, {Expr()}); });
  value("index `x` is not bound", [](Attention&) { return cast(ix(Sym::fresh("x")), DType::f32); });
  value("dim `x` is not a dim", [](Attention&) { return cast(dim(Sym::fresh("x")), DType::f32); });
  value("scalar `end` is not bound", [](Attention& a) { return cast(scalar(a.end, tensor::type_i64), DType::f32); });
  value("neither buffer nor tile", [](Attention&) { return read(Sym::fresh("x"), {}); });
  value("3 subscripts, the buffer 4 axes", [](Attention& a) { return read(a.Q, {I(0), I(0), I(0)}); });
  value("0 subscripts, the tile 1 axes", [](Attention& a) { return read(a.l, {}); });
  value("is float, not integer", [](Attention& a) { return read(a.l, {F(0)}); });
  value("is typed i64", [](Attention& a) { return cast(read(a.l, {ix(a.i)}, DType::i64), DType::f32); });
  value("is integer, not float", [](Attention& a) { return ix(a.i); });
  value("is integer, not float", [](Attention&) { return chain(LinkOp::add, {F(1), I(1)}); });
  value("mixes operators", [](Attention&) {
    return Expr(tensor::Chain{{LinkOp::add, LinkOp::mul}, {F(1), F(1), F(1)}}, tensor::type_f32);
  });
  value("divides integers as floats", [](Attention&) { return cast(chain(LinkOp::div, {I(1), I(2)}), DType::f32); });
  value("divides floats as integers", [](Attention&) { return chain(LinkOp::mod, {F(1), F(2)}); });
  value("a chain has 0 links", [](Attention&) { return Expr(tensor::Chain{{}, {F(1)}}, tensor::type_f32); });
  value("compares values of different kinds", [](Attention&) { return where(F(0) < I(1), F(0)); });
  value("is float, not boolean", [](Attention&) { return where(F(0), F(1)); });
  value("not one to four", [](Attention&) { return Expr(tensor::Random{I(0), {}}, tensor::type_f32); });
  value("no literal of at least 0", [](Attention&) {
    return cast(Expr(tensor::Power{I(2), I(-1)}, tensor::type_i64), DType::f32);
  });
  value("type variable", [](Attention&) {
    return Expr(tensor::Cast{F(1)}, tensor::Type{DType::f32, Sym::fresh("T")});
  });
  value("reads another element", [](Attention& a) { return read(a.m, {ix(a.i0)}); });
  value("inside an expression", [](Attention& a) {
    const Sym k = Sym::fresh("k");
    return Expr(tensor::Reduce{tensor::ReduceOp::sum, {{k, I(0), dim(a.N)}}, {}, F(1), {}}, tensor::type_f32);
  });
  value("inside an expression", [](Attention&) { return Expr(tensor::Softmax{{}, {}, F(1), {}}, tensor::type_f32); });
  value("inside an expression", [](Attention&) { return Expr(tensor::Cumsum{{}, {}, F(1)}, tensor::type_f32); });
}

TEST_CASE("loop verify: statements", "[loop]") {
  rejects("the guard is integer", [](Attention& a) { at<loop::Map>(a.nest().body, 1).guard = I(1); });
  rejects("the fill is boolean", [](Attention& a) { at<loop::Map>(a.nest().body, 1).fill = T(true); });
  rejects("`any` accumulates into f32", [](Attention& a) { at<loop::Accumulate>(a.stream(), 4).op = loop::Op::any; });
  rejects("lacks a destination", [](Attention& a) { at<loop::Accumulate>(a.stream(), 4).op = loop::Op::argmax; });
  rejects("does not take a destination", [](Attention& a) { at<loop::Accumulate>(a.stream(), 4).dst_index = a.r; });
  rejects("no i64 tile", [](Attention& a) {
    at<loop::Accumulate>(a.stream(), 4).op = loop::Op::argmax;
    at<loop::Accumulate>(a.stream(), 4).dst_index = a.r;
  });
  rejects("reads the destination",
          [](Attention& a) { at<loop::Accumulate>(a.stream(), 4).value = read(a.next, {ix(a.i)}); });
  rejects("no read of a tile with the lane axis", [](Attention& a) {
    auto& scores = at<loop::Contract>(a.stream(), 1);
    scores.a = read(a.Q, {ix(a.b), ix(a.h), ix(a.i), ix(a.d)});
  });
  rejects("operand a does not mention the lane index", [](Attention& a) {
    at<loop::Contract>(a.stream(), 1).a = read(a.Qp, {ix(a.d), ix(a.i0)});
  });
  rejects("operand a mentions the index `j`", [](Attention& a) {
    at<loop::Contract>(a.stream(), 1).a = read(a.Qp, {ix(a.j), ix(a.i)});
  });
  rejects("operand b mentions the lane index", [](Attention& a) {
    at<loop::Contract>(a.stream(), 1).b = read(a.Q, {ix(a.b), ix(a.h), ix(a.i), ix(a.d)});
  });
  rejects("operand b is no read", [](Attention& a) { at<loop::Contract>(a.stream(), 1).b = F(1); });
  rejects("reads the destination", [](Attention& a) {
    at<loop::Contract>(a.stream(), 1).a = read(a.S, {ix(a.i), ix(a.j)});
  });
  rejects("the scale is no read",
          [](Attention& a) { at<loop::Contract>(a.stream(), 9).scale = tensor::unary(tensor::UnaryOp::exp, F(2)); });
  rejects("neither a read nor a product",
          [](Attention& a) { at<loop::Contract>(a.stream(), 9).scale = read(a.r, {ix(a.i)}) + read(a.l, {ix(a.i)}); });
  rejects("the scale mentions the contracted index", [](Attention& a) {
    at<loop::Contract>(a.stream(), 9).scale = read(a.S, {ix(a.i), ix(a.j)});
  });
  rejects("a store into the input", [](Attention& a) { at<loop::Store>(a.nest().body, 6).target = a.Q; });
  rejects("is no buffer", [](Attention& a) { at<loop::Store>(a.nest().body, 6).target = a.o; });
  rejects("3 subscripts for 4 axes", [](Attention& a) { at<loop::Store>(a.nest().body, 6).subscripts.pop_back(); });
  rejects("is integer, not float", [](Attention& a) { at<loop::Store>(a.nest().body, 6).value = I(0); });
  rejects("`scale` is bound twice", [](Attention& a) { at<loop::Let>(a.nest().body, 4).sym = a.scale; });
  rejects("scalar `end` is not bound here", [](Attention& a) { std::swap(a.nest().body[4], a.nest().body[5]); });
  rejects("scalar `hi` is not bound here", [](Attention& a) {
    a.nest().body.push_back(stmt(loop::Let{Sym::fresh("late"), scalar(a.hi, tensor::type_i64)}));
  });
  rejects("a guard without an index", [](Attention& a) { at<loop::For>(a.nest().body, 5).guard = T(true); });
  rejects("the guard of the loop is no condition", [](Attention& a) {
    at<loop::For>(a.nest().body, 5).blocks = a.j;
    at<loop::For>(a.nest().body, 5).guard = I(1);
  });
  rejects("the grid has 3 axes", [](Attention& a) { a.nest().row_axis = 3; });
  rejects("the step is 0", [](Attention& a) { at<loop::For>(a.nest().body, 5).step = I(0); });
  rejects("the condition is integer", [](Attention& a) { a.nest().body.push_back(stmt(loop::If{I(1), {}, {}})); });
  rejects("grid index `b` is boolean", [](Attention& a) { a.nest().grid[0].hi = T(true); });
  rejects("is missing", [](Attention& a) { a.nest().grid[0].hi = {}; });
}
