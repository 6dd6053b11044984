// SPDX-License-Identifier: Apache-2.0
// Programs through every pass and the CPU backend, against the interpreter of the same kernel: values, absent elements,
// flags, ragged edges, storage types, layouts and schedules.
#include <attune/program.hpp>
#include <cmath>
#include <map>

#include "loop/passes.hpp"
#include "loop/print.hpp"
#include "tensor/passes.hpp"
#include "tests/catch.hpp"
#include "tests/cpu/support.hpp"

using namespace attune;

namespace {

struct Case {
  const char* name;
  const char* text;
  std::map<std::string, std::int64_t> dims;
  std::map<std::string, ScalarValue> scalars;
  DType type = DType::f32;             ///< of the type variable T
  double whole_lo = -1, whole_hi = 6;  ///< range of integer inputs
  double special = 0;                  ///< share of float inputs that are NaN, infinite or huge
};

using Dims = std::map<std::string, std::int64_t>;

const std::vector<Case>& cases() {
  static const Dims attention{{"B", 2}, {"H", 4}, {"G", 2}, {"M", 37}, {"N", 45}, {"D", 19}, {"E", 21}};
  static const char* const causal = R"(
    kernel causal<T>(Q: T[B, H, M, D], K: T[B, G, N, D], V: T[B, G, N, E], scale: f32 = 1 / sqrt(D)) -> O: T[B, H, M, E] {
      fn kv(h) = h / (H / G)
      S[b, h, i, j] = scale * sum[d](Q[b, h, i, d] * K[b, kv(h), j, d])
      P[b, h, i, j] = softmax[j where j <= i + N - M](S[b, h, i, j])
      O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, kv(h), j, e])
    })";
  static const std::vector<Case> list{
      {"causal f32", causal, attention, {{"scale", 0.3}}},
      {"causal f16", causal, attention, {{"scale", 0.3}}, DType::f16},
      {"causal bf16", causal, attention, {{"scale", 0.3}}, DType::bf16},
      {"causal f8e4m3", causal, attention, {{"scale", 0.3}}, DType::f8e4m3},
      {"causal f8e5m2", causal, attention, {{"scale", 0.3}}, DType::f8e5m2},
      {"causal, more rows than keys",
       causal,
       {{"B", 1}, {"H", 2}, {"G", 2}, {"M", 29}, {"N", 7}, {"D", 8}, {"E", 8}},
       {{"scale", 0.3}}},
      {"causal, one row",
       causal,
       {{"B", 2}, {"H", 2}, {"G", 1}, {"M", 1}, {"N", 33}, {"D", 16}, {"E", 5}},
       {{"scale", 0.3}}},
      {"causal with special values", causal, attention, {{"scale", 0.3}}, DType::f32, 0, 0, 0.02},
      {"no keys", causal, {{"B", 1}, {"H", 2}, {"G", 2}, {"M", 5}, {"N", 0}, {"D", 8}, {"E", 8}}, {{"scale", 0.3}}},
      {"window, ALiBi, sinks, log-sum-exp",
       R"(
    kernel window(Q: f32[H, M, D], K: f32[H, N, D], V: f32[H, N, E], slope: f32[H], sink: f32[H], W: i64)
        -> (O: f32[H, M, E], L: f32[H, M]) {
      fn pos(i) = i + N - M
      S[h, i, j] = sum[d](Q[h, i, d] * K[h, j, d]) + slope[h] * (j - pos(i))
      P[h, i, j] = softmax[j where pos(i) - W < j <= pos(i) or j < 2](S[h, i, j], extra = sink[h])
      O[h, i, e] = sum[j](P[h, i, j] * V[h, j, e])
      L[h, i] = logsumexp[j where pos(i) - W < j <= pos(i) or j < 2](S[h, i, j], extra = sink[h])
    })",
       {{"H", 3}, {"M", 26}, {"N", 40}, {"D", 8}, {"E", 11}},
       {{"W", std::int64_t{9}}}},
      {"documents, softcap, gathers that leave their table",
       R"(
    kernel documents(Q: f32[M, D], K: f32[M, D], V: f32[M, E], doc: i32[M], bias: f32[R], cap: f32) -> O: f32[M, E] {
      S[i, j] = cap * tanh(sum[d](Q[i, d] * K[j, d]) / cap) + bias[i - j]
      P[i, j] = softmax[j where doc[i] == doc[j] and j <= i](S[i, j])
      O[i, e] = sum[j](P[i, j] * V[j, e])
    })",
       {{"M", 41}, {"D", 6}, {"E", 9}, {"R", 17}},
       {{"cap", 3.0}}},
      {"paged keys",
       R"(
    kernel paged(Q: f32[B, M, D], K: f32[C, 4, D], V: f32[C, 4, E], table: i32[B, R], len: i32[B]) -> O: f32[B, M, E] {
      S[b, i, j in 0..4 * R] = sum[d](Q[b, i, d] * K[table[b, j / 4], j % 4, d])
      P[b, i, j] = softmax[j where j < len[b]](S[b, i, j])
      O[b, i, e] = sum[j](P[b, i, j] * V[table[b, j / 4], j % 4, e])
    })",
       {{"B", 2}, {"M", 9}, {"D", 8}, {"E", 8}, {"C", 7}, {"R", 3}},
       {},
       DType::f32,
       -1,
       7},
      {"sigmoid, no normaliser, Boolean mask",
       R"(
    kernel hstu<T>(Q: T[M, D], K: T[N, D], V: T[N, E], mask: bool[M, N]) -> O: T[M, E] {
      S[i, j] = sum[d](Q[i, d] * K[j, d])
      O[i, e] = sum[j where mask[i, j]](silu(S[i, j]) * V[j, e])
    })",
       {{"M", 27}, {"N", 35}, {"D", 8}, {"E", 10}},
       {},
       DType::bf16},
      {"argmax, counts, any, all, extremes",
       R"(
    kernel rows(X: f32[M, N], k: i32[M, N], flag: bool[N]) -> (best: i64[M], count: i64[M], some: bool[M], every: bool[M],
                lo: f32[M], top: i32[M], product: f32[M], average: f32[M]) {
      best[i] = argmax[j where flag[j]](X[i, j])
      count[i] = sum[j where X[i, j] > 0](k[i, j] + 1)
      some[i] = any[j where flag[j]](X[i, j] > 1.5)
      every[i] = all[j](X[i, j] < 1.9 or flag[j])
      lo[i] = min[j where k[i, j] % 3 == 1](X[i, j])
      top[i] = max[j](k[i, j] * j - i / 3)
      product[i] = prod[j where j < 9](X[i, j])
      average[i] = mean[j where k[i, j] > 2](X[i, j])
    })",
       {{"M", 30}, {"N", 23}},
       {}},
      {"running sums and dropout",
       R"(
    kernel forget(Q: f32[M, D], K: f32[M, D], V: f32[M, E], logf: f32[M], seed: i64, p: f32) -> O: f32[M, E] {
      C[j] = cumsum[j](logf[j])
      S[i, j] = sum[d](Q[i, d] * K[j, d]) + C[i] - C[j]
      P[i, j] = softmax[j where j <= i](S[i, j])
      O[i, e] = sum[j](P[i, j] * (rand(seed, i, j) >= p) / (1 - p) * V[j, e])
    })",
       {{"M", 33}, {"D", 8}, {"E", 8}},
       {{"seed", std::int64_t{123456789012345}}, {"p", 0.25}}},
      {"rotary keys and queries, cast back",
       R"(
    kernel rope<T>(Q: T[N, D], K: T[N, D], V: T[N, D], cosine: f32[N, D], sine: f32[N, D]) -> O: T[N, D] {
      fn turn(d) = (d + D / 2) % D
      R[i, d] = T(Q[i, d] * cosine[i, d] + (Q[i, turn(d)] if d >= D / 2 else -Q[i, turn(d)]) * sine[i, d])
      U[j, d] = T(K[j, d] * cosine[j, d] + (K[j, turn(d)] if d >= D / 2 else -K[j, turn(d)]) * sine[j, d])
      S[i, j] = sum[d](R[i, d] * U[j, d])
      P[i, j] = softmax[j where j <= i](S[i, j])
      O[i, e] = sum[j](P[i, j] * V[j, e])
    })",
       {{"N", 30}, {"D", 12}},
       {},
       DType::f16},
      {"integers, casts, powers",
       R"(
    kernel numbers(a: i32[M, N], b: i8[M, N], x: f32[M, N]) -> (q: i64[M, N], r: i32[M, N], t: i8[M, N], u: u8[M, N], p: f32[M, N]) {
      q[i, j] = a[i, j] / b[i, j] + (j - 7) / 3 + (i - j) % 5
      r[i, j] = a[i, j] % b[i, j] + a[i, j] ^ 3 - abs(b[i, j] - 2)
      t[i, j] = i8(100 * x[i, j]) + i8(a[i, j] * 77)
      u[i, j] = u8(x[i, j] * 200) if x[i, j] > 0 else u8(a[i, j])
      p[i, j] = x[i, j] ^ 2 + abs(x[i, j]) ^ 1.5 + max(x[i, j], 0.25, floor(x[i, j])) + clamp(x[i, j], -1, 1) * f32(f16(x[i, j]))
    })",
       {{"M", 13}, {"N", 19}},
       {}},
  };
  return list;
}

/// Memory of one tensor in one of three layouts, filled by a small generator.
struct Storage {
  std::vector<unsigned char> bytes;
  TensorRef ref;

  Storage(DType dtype, std::vector<std::int64_t> shape, int layout) {
    std::vector<std::int64_t> strides(shape.size(), 1);
    std::int64_t count = 1;
    const auto axis = [&](std::size_t k) {
      strides[k] = count;
      count *= std::max<std::int64_t>(shape[k], 1);
    };
    if (layout == 1)
      for (std::size_t k = 0; k < shape.size(); ++k) axis(k);  // first axis fastest
    else
      for (std::size_t k = shape.size(); k-- > 0;) axis(k);
    if (layout == 2) {  // gaps between elements
      for (std::int64_t& stride : strides) stride *= 3;
      count *= 3;
    }
    bytes.resize(static_cast<std::size_t>(count) * size_of(dtype) + 64, 0x5a);
    ref = {bytes.data(), dtype, std::move(shape), std::move(strides)};
  }
  template <class F>
  void each(F&& f) const {
    std::vector<std::int64_t> at(ref.shape.size(), 0);
    for (const std::int64_t extent : ref.shape)
      if (extent == 0) return;
    for (;;) {
      std::int64_t offset = 0;
      for (std::size_t k = 0; k < at.size(); ++k) offset += at[k] * ref.strides[k];
      f(offset);
      std::size_t k = at.size();
      while (k > 0 && ++at[k - 1] == ref.shape[k - 1]) at[--k] = 0;
      if (k == 0) return;
    }
  }
};

void draw(Storage& storage, const Case& c, std::uint32_t& state) {
  const auto next = [&] { return (state = state * 1664525u + 1013904223u) >> 8; };
  storage.each([&](std::int64_t offset) {
    const double unit = next() * 0x1p-24;
    const DType dtype = storage.ref.dtype;
    if (is_float(dtype)) {
      double x = 4 * unit - 2;
      if (c.special > 0 && next() * 0x1p-24 < c.special) {
        const double odd[] = {NAN, INFINITY, -INFINITY, 1e30, -1e-40, 0.0};
        x = odd[next() % 6];
      }
      store_element(storage.ref.data, dtype, offset, x);
    } else if (is_bool(dtype)) {
      store_integer(storage.ref.data, dtype, offset, unit < 0.4);
    } else {
      store_integer(storage.ref.data, dtype, offset,
                    static_cast<std::int64_t>(std::floor(c.whole_lo + unit * (c.whole_hi - c.whole_lo))));
    }
  });
}

struct Setting {
  int layout;
  bool facts;  ///< the kernel knows the unit axes
  int index_bits;
  std::map<std::string, std::string> schedule;
};

void check(const Case& c, const Setting& setting, const cpu::CpuTarget& target) {
  const tensor::Program open = infer(Program::parse(c.text).value().module()).value();
  std::map<std::string, DType> types;
  for (const Sym& variable : open.type_variables) types[variable.text()] = c.type;
  const tensor::Program program = tensor::bind_types(open, types).value();

  Binding binding;
  for (const Sym& dim : program.dims) binding.dims[dim] = c.dims.at(dim.text());
  for (const auto& scalar : program.scalars) binding.scalars[scalar.sym] = c.scalars.at(scalar.sym.text());
  std::vector<std::unique_ptr<Storage>> inputs, results;
  loop::LowerOptions options;
  options.machine = target.machine();
  options.overrides = setting.schedule;
  options.index_bits = setting.index_bits;
  options.layout.depth_hint = 16;
  std::uint32_t state = 12345;
  const auto shape_of = [&](const tensor::Tensor& tensor) {
    std::vector<std::int64_t> shape;
    for (const tensor::Expr& extent : tensor.extents) shape.push_back(evaluate_extent(extent, binding));
    if (setting.facts && !shape.empty() && setting.layout < 2)
      options.layout.unit_axes[tensor.sym.text()] =
          setting.layout == 0 ? static_cast<std::int64_t>(shape.size()) - 1 : 0;
    return shape;
  };
  for (const auto& tensor : program.tensors) {
    inputs.push_back(std::make_unique<Storage>(tensor.type.dtype, shape_of(tensor), setting.layout));
    draw(*inputs.back(), c, state);
    binding.tensors[tensor.sym] = inputs.back()->ref;
  }
  for (const auto& tensor : program.results) {
    results.push_back(std::make_unique<Storage>(tensor.type.dtype, shape_of(tensor), setting.layout));
    binding.tensors[tensor.sym] = results.back()->ref;
  }

  const loop::Lowered lowered = loop::build(program, options).value();
  INFO(loop::print(lowered.kernel));
  const auto expected = interpreter::run(lowered.kernel, binding);
  INFO((expected.ok() ? std::string() : expected.diagnostics()[0].message));
  REQUIRE(expected.ok());
  std::vector<std::vector<unsigned char>> wanted;
  for (const auto& result : results) {
    wanted.push_back(result->bytes);
    std::fill(result->bytes.begin(), result->bytes.end(), std::uint8_t{0x5a});
  }
  const std::vector<unsigned char> untouched(64, 0x5a);

  const jit::Built built = jit::build(lowered.kernel, target);
  jit::Call call(lowered.kernel, binding);
  CHECK(call.run(*built.code));
  CHECK(call.out_of_range() == expected->out_of_range);
  for (std::size_t k = 0; k < results.size(); ++k) {
    const DType dtype = results[k]->ref.dtype;
    INFO("result " << program.results[k].sym.text());
    double worst = 0;
    std::int64_t where = -1;
    results[k]->each([&](std::int64_t offset) {
      if (!is_float(dtype)) {
        const std::int64_t a = load_integer(results[k]->bytes.data(), dtype, offset),
                           b = load_integer(wanted[k].data(), dtype, offset);
        if (a != b) worst = INFINITY, where = offset;
        return;
      }
      const double a = load_element(results[k]->bytes.data(), dtype, offset),
                   b = load_element(wanted[k].data(), dtype, offset);
      if (std::isnan(a) && std::isnan(b)) return;
      if (a == b) return;
      // One step of the storage type beside the rounding of f32.
      const double step = dtype == DType::f32    ? 0
                          : dtype == DType::f16  ? 0x1p-10
                          : dtype == DType::bf16 ? 0x1p-7
                                                 : 0x1p-2;
      const double error = std::fabs(a - b) / ((1 + std::fabs(b)) * (2e-5 + step));
      if (!(error <= worst)) worst = std::isnan(error) ? INFINITY : error, where = offset;
    });
    INFO("offset " << where << ", error in tolerances " << worst);
    if (where >= 0 && worst > 1) {
      INFO("found " << load_element(results[k]->bytes.data(), dtype, where) << ", expected "
                    << load_element(wanted[k].data(), dtype, where));
      CHECK(worst <= 1);
    }
    CHECK(std::equal(untouched.begin(), untouched.end(), results[k]->bytes.end() - 64));
  }
}

}  // namespace

TEST_CASE("cpu: programs equal the interpreter on every target", "[cpu]") {
  for (const Case& c : cases())
    for (const cpu::CpuTarget& target : jit::targets()) DYNAMIC_SECTION(c.name << ", " << target.name) {
        check(c, {0, true, 32, {}}, target);
      }
}

TEST_CASE("cpu: programs equal the interpreter in every layout", "[cpu]") {
  for (const Case& c : cases())
    for (int layout = 0; layout < 3; ++layout) DYNAMIC_SECTION(c.name << ", layout " << layout) {
        check(c, {layout, layout == 1, 64, {}}, cpu::host());
      }
}

TEST_CASE("cpu: programs equal the interpreter under every schedule", "[cpu]") {
  const std::vector<std::map<std::string, std::string>> schedules{
      {{"operands", "in_place"}},
      {{"lanes", "8"}, {"tile.m", "8"}, {"tile.n", "8"}},
      {{"lanes", "32"}, {"tile.m", "64"}, {"tile.n", "16"}, {"unit.rows", "2"}, {"operands", "packed"}},
  };
  for (const Case& c : cases())
    for (std::size_t k = 0; k < schedules.size(); ++k) DYNAMIC_SECTION(c.name << ", schedule " << k) {
        if (cpu::host().vector_lanes == 8) check(c, {0, true, 32, schedules[k]}, cpu::host());
      }
}

TEST_CASE("cpu: code for AVX-512 compiles and calls nothing", "[cpu]") {
  cpu::CpuTarget wide;
  wide.isa = cpu::Isa::avx512;
  wide.name = "skylake-avx512";
  wide.features = "+avx512f,+avx512bw,+avx512vl,+avx512dq,+avx512cd,+avx2,+fma,+f16c";
  wide.vector_lanes = 16;
  wide.vector_registers = 32;
  wide.f16c = true;
  for (const Case& c : cases()) DYNAMIC_SECTION(c.name) {
      const tensor::Program open = infer(Program::parse(c.text).value().module()).value();
      std::map<std::string, DType> types;
      for (const Sym& variable : open.type_variables) types[variable.text()] = c.type;
      const tensor::Program program = tensor::bind_types(open, types).value();
      loop::LowerOptions options;
      options.machine = wide.machine();
      options.index_bits = 32;
      for (const auto* tensors : {&program.tensors, &program.results})
        for (const auto& tensor : *tensors)
          if (!tensor.extents.empty())
            options.layout.unit_axes[tensor.sym.text()] = static_cast<std::int64_t>(tensor.extents.size()) - 1;
      const loop::Kernel kernel = loop::build(program, options).value().kernel;
      const std::string text = cpu::assembly(cpu::emit(kernel, wide).value(), wide).value();
      // Only the kernel's own parts are called.
      for (std::size_t at = text.find("\tcall"); at != std::string::npos; at = text.find("\tcall", at + 1))
        CHECK(text.substr(at, 11).find("\tnest") != std::string::npos);
      CHECK(text.find("zmm") != std::string::npos);
    }
}
