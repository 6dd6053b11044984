// SPDX-License-Identifier: Apache-2.0
// Loop kernels built by hand, with the small vocabulary that keeps them readable.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/interpreter/interpreter.hpp"
#include "loop/ir.hpp"

namespace hand {

using namespace attune;
using loop::Expr;
using tensor::LinkOp;
using tensor::Relation;
using tensor::UnaryOp;

inline Expr I(std::int64_t value) { return Expr(tensor::Literal{value}, tensor::type_i64); }
inline Expr F(double value) { return Expr(tensor::Literal{value}, tensor::type_f32); }
inline Expr T(bool value) { return Expr(tensor::Literal{value}, tensor::type_bool); }
inline Expr ix(const Sym& sym) { return Expr(tensor::Index{sym}, tensor::type_i64); }
inline Expr dim(const Sym& sym) { return Expr(tensor::Dim{sym}, tensor::type_i64); }
inline Expr scalar(const Sym& sym, tensor::Type type) { return Expr(tensor::Scalar{sym}, type); }
inline Expr read(const Sym& sym, std::vector<Expr> subscripts, DType dtype = DType::f32) {
  return Expr(tensor::Access{sym, std::move(subscripts)}, tensor::Type{dtype, {}});
}
inline Expr call(UnaryOp op, Expr x) {
  const tensor::Type type = x->type;
  return Expr(tensor::Unary{op, std::move(x)}, type);
}
inline Expr chain(LinkOp op, std::vector<Expr> args) {
  const bool logical = op == LinkOp::both || op == LinkOp::either;
  const tensor::Type type = logical                      ? tensor::type_bool
                            : args[0]->type.is_integer() ? tensor::type_i64
                                                         : tensor::type_f32;
  std::vector<LinkOp> links(args.size() - 1, op);
  return Expr(tensor::Chain{std::move(links), std::move(args)}, type);
}
inline Expr relate(Relation relation, Expr a, Expr b) {
  return Expr(tensor::Compare{{relation}, {std::move(a), std::move(b)}}, tensor::type_bool);
}
inline Expr where(Expr condition, Expr body) {
  const tensor::Type type = body->type;
  return Expr(tensor::Where{std::move(condition), std::move(body)}, type);
}
inline Expr cast(Expr x, DType dtype) { return Expr(tensor::Cast{std::move(x)}, tensor::Type{dtype, {}}); }
inline Expr operator+(Expr a, Expr b) { return chain(LinkOp::add, {std::move(a), std::move(b)}); }
inline Expr operator-(Expr a, Expr b) { return chain(LinkOp::sub, {std::move(a), std::move(b)}); }
inline Expr operator*(Expr a, Expr b) { return chain(LinkOp::mul, {std::move(a), std::move(b)}); }
inline Expr operator/(Expr a, Expr b) {
  const bool whole = a->type.is_integer();
  return chain(whole ? LinkOp::floordiv : LinkOp::div, {std::move(a), std::move(b)});
}
inline Expr operator<(Expr a, Expr b) { return relate(Relation::less, std::move(a), std::move(b)); }
inline Expr operator<=(Expr a, Expr b) { return relate(Relation::less_equal, std::move(a), std::move(b)); }
inline Expr operator>(Expr a, Expr b) { return relate(Relation::greater, std::move(a), std::move(b)); }
inline Expr min(Expr a, Expr b) { return chain(LinkOp::min, {std::move(a), std::move(b)}); }

template <class Kind>
loop::Stmt stmt(Kind kind) {
  return loop::Stmt{std::move(kind), {}};
}
inline loop::Stmt map(const Sym& dst, std::vector<loop::Range> domain, Expr value, Expr guard = {}, Expr fill = {}) {
  return stmt(loop::Map{dst, std::move(domain), std::move(value), std::move(guard), std::move(fill)});
}
inline loop::Stmt store(const Sym& target, std::vector<Expr> subscripts, std::vector<loop::Range> domain, Expr value) {
  return stmt(loop::Store{target, std::move(subscripts), std::move(domain), std::move(value)});
}
inline loop::Tile tile(const Sym& sym, std::vector<loop::TileAxis> axes, DType dtype = DType::f32,
                       loop::Scope scope = loop::Scope::stack) {
  return {sym, dtype, std::move(axes), scope};
}
inline loop::Buffer buffer(const Sym& sym, DType dtype, std::vector<Expr> extents, loop::Role role) {
  loop::Buffer out;
  out.sym = sym;
  out.dtype = dtype;
  out.extents = std::move(extents);
  out.role = role;
  return out;
}
inline TensorRef view(void* data, DType dtype, std::vector<std::int64_t> shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t k = shape.size(); k-- > 1;) strides[k - 1] = strides[k] * shape[k];
  return {data, dtype, std::move(shape), std::move(strides)};
}

/// y[n] = a * x[n] in blocks of `lanes`, the last one ragged.
struct CopyScale {
  Sym N = Sym::fresh("N"), a = Sym::fresh("a"), x = Sym::fresh("x"), y = Sym::fresh("y"), t = Sym::fresh("t"),
      n0 = Sym::fresh("n0"), n = Sym::fresh("n");
  loop::Kernel kernel;

  explicit CopyScale(std::int64_t lanes = 4) {
    kernel.name = "copy";
    kernel.dims = {N};
    kernel.scalars = {a};
    kernel.scalar_types = {tensor::type_f32};
    kernel.buffers = {buffer(x, DType::f32, {dim(N)}, loop::Role::input),
                      buffer(y, DType::f32, {dim(N)}, loop::Role::result)};
    loop::Nest nest;
    nest.name = "y";
    nest.grid = {{n0, I(0), dim(N), I(lanes), false}};
    nest.lane = n;
    nest.lane_limit = dim(N);
    nest.lanes = lanes;
    nest.tiles = {tile(t, {{n, ix(n0), I(lanes)}})};
    const loop::Range all{n, ix(n0), ix(n0) + I(lanes)};
    nest.body = {map(t, {all}, read(x, {ix(n)})),
                 store(y, {ix(n)}, {all}, scalar(a, tensor::type_f32) * read(t, {ix(n)}))};
    kernel.nests = {std::move(nest)};
  }
  loop::Nest& nest() { return kernel.nests[0]; }
};

/// Grouped-query causal attention as a stream over tiles of j, rows i along the lanes.
struct Attention {
  Sym B = Sym::fresh("B"), H = Sym::fresh("H"), G = Sym::fresh("G"), M = Sym::fresh("M"), N = Sym::fresh("N"),
      D = Sym::fresh("D"), E = Sym::fresh("E"), scale = Sym::fresh("scale");
  Sym Q = Sym::fresh("Q"), K = Sym::fresh("K"), V = Sym::fresh("V"), O = Sym::fresh("O");
  Sym b = Sym::fresh("b"), h = Sym::fresh("h"), i0 = Sym::fresh("i0"), i = Sym::fresh("i"), j0 = Sym::fresh("j0"),
      j = Sym::fresh("j"), d = Sym::fresh("d"), e = Sym::fresh("e"), end = Sym::fresh("end"), hi = Sym::fresh("hi");
  Sym Qp = Sym::fresh("Qp"), S = Sym::fresh("S"), m = Sym::fresh("m"), next = Sym::fresh("m"), l = Sym::fresh("l"),
      r = Sym::fresh("r"), o = Sym::fresh("o");
  loop::Kernel kernel;

  explicit Attention(std::int64_t lanes = 4, std::int64_t step = 8) {
    using namespace loop;
    kernel.name = "causal";
    kernel.dims = {B, H, G, M, N, D, E};
    kernel.scalars = {scale};
    kernel.scalar_types = {tensor::type_f32};
    kernel.buffers = {buffer(Q, DType::f32, {dim(B), dim(H), dim(M), dim(D)}, Role::input),
                      buffer(K, DType::f32, {dim(B), dim(G), dim(N), dim(D)}, Role::input),
                      buffer(V, DType::f32, {dim(B), dim(G), dim(N), dim(E)}, Role::input),
                      buffer(O, DType::f32, {dim(B), dim(H), dim(M), dim(E)}, Role::result)};
    Nest nest;
    nest.name = "O";
    nest.grid = {{b, I(0), dim(B), I(1), false}, {h, I(0), dim(H), I(1), false}, {i0, I(0), dim(M), I(lanes), true}};
    nest.row = i;
    nest.row_axis = 2;
    nest.lane = i;
    nest.lane_limit = dim(M);
    nest.lanes = lanes;
    const TileAxis row{i, ix(i0), I(lanes)};
    nest.tiles = {tile(Qp, {{d, I(0), dim(D)}, row}, DType::f32, Scope::packed),
                  tile(S, {row, {j, ix(j0), I(step)}}),
                  tile(m, {row}),
                  tile(next, {row}),
                  tile(l, {row}),
                  tile(r, {row}),
                  tile(o, {row, {e, I(0), dim(E)}})};
    const Range rows{i, ix(i0), ix(i0) + I(lanes)}, depth{d, I(0), dim(D)}, columns{e, I(0), dim(E)},
        keys{j, ix(j0), scalar(hi, tensor::type_i64)};
    const Expr kv = ix(h) / (dim(H) / dim(G)), visible = ix(j) <= ix(i) + dim(N) - dim(M);
    const Expr at_m = read(m, {ix(i)}), at_next = read(next, {ix(i)}), at_l = read(l, {ix(i)}), at_r = read(r, {ix(i)}),
               at_s = read(S, {ix(i), ix(j)}), at_o = read(o, {ix(i), ix(e)});
    For stream;
    stream.index = j0;
    stream.lo = I(0);
    stream.hi = scalar(end, tensor::type_i64);
    stream.step = I(step);
    stream.tag = "stream j";
    stream.body = {
        stmt(Let{hi, min(ix(j0) + I(step), scalar(end, tensor::type_i64))}),
        stmt(Contract{S, {rows, keys}, {depth}, read(Qp, {ix(d), ix(i)}), read(K, {ix(b), kv, ix(j), ix(d)}), {}}),
        map(S, {rows, keys}, at_s * scalar(scale, tensor::type_f32), visible, F(-3.39e38f)),
        map(next, {rows}, at_m),
        stmt(Accumulate{Op::max_any, next, {}, {rows}, {keys}, at_s, {}}),
        map(r, {rows}, call(UnaryOp::exp, at_m - at_next)),
        map(S, {rows, keys}, call(UnaryOp::exp, at_s - at_next)),
        map(l, {rows}, at_l * at_r),
        stmt(Accumulate{Op::sum, l, {}, {rows}, {keys}, at_s, {}}),
        stmt(Contract{o, {rows, columns}, {keys}, at_s, read(V, {ix(b), kv, ix(j), ix(e)}), at_r}),
        map(m, {rows}, at_next)};
    nest.body = {map(Qp, {depth, rows}, read(Q, {ix(b), ix(h), ix(i), ix(d)})),
                 map(m, {rows}, F(tensor::exponent_floor)),
                 map(l, {rows}, F(0)),
                 map(o, {rows, columns}, F(0)),
                 stmt(Let{end, min(dim(N), ix(i0) + I(lanes) + dim(N) - dim(M))}),
                 stmt(std::move(stream)),
                 store(O, {ix(b), ix(h), ix(i), ix(e)}, {rows, columns}, where(at_l > F(0), at_o / at_l))};
    kernel.nests = {std::move(nest)};
  }
  loop::Nest& nest() { return kernel.nests[0]; }
  loop::Block& stream() { return std::get<loop::For>(nest().body[5].kind).body; }
};

/// Sizes, data and binding of an Attention call.
struct AttentionCall {
  std::int64_t B = 2, H = 4, G = 2, M = 7, N = 21, D = 5, E = 3;
  float scale = 0.4f;
  std::vector<float> q, k, v, o;

  void fill() {
    std::uint32_t state = 1;
    const auto draw = [&](std::vector<float>& data, std::int64_t count) {
      data.resize(static_cast<std::size_t>(count));
      for (float& x : data) {
        state = state * 1664525u + 1013904223u;
        x = static_cast<float>(static_cast<std::int32_t>(state >> 8) - (1 << 23)) * 0x1p-22f;
      }
    };
    draw(q, B * H * M * D);
    draw(k, B * G * N * D);
    draw(v, B * G * N * E);
    o.assign(static_cast<std::size_t>(B * H * M * E), -1.0f);
  }
  Binding bind(const Attention& a) {
    Binding binding;
    binding.dims = {{a.B, B}, {a.H, H}, {a.G, G}, {a.M, M}, {a.N, N}, {a.D, D}, {a.E, E}};
    binding.scalars = {{a.scale, static_cast<double>(scale)}};
    binding.tensors = {{a.Q, view(q.data(), DType::f32, {B, H, M, D})},
                       {a.K, view(k.data(), DType::f32, {B, G, N, D})},
                       {a.V, view(v.data(), DType::f32, {B, G, N, E})},
                       {a.O, view(o.data(), DType::f32, {B, H, M, E})}};
    return binding;
  }
};

/// The one error of a failed run.
inline std::string error_of(const Result<interpreter::Outcome>& outcome) {
  return outcome.ok() ? std::string("(no error)")
                      : outcome.diagnostics()[0].code + ": " + outcome.diagnostics()[0].message;
}

}  // namespace hand
