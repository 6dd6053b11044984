// SPDX-License-Identifier: Apache-2.0
// Layout is no part of a program: permuted, sliced, reversed, broadcast and absurdly strided views give what contiguous
// copies give, on every target; results may be strided too.
#include "tests/catch.hpp"
#include "tests/numerics/harness.hpp"
#include "tests/numerics/on_device.hpp"

using namespace attune;
using namespace attune::test;

namespace {

constexpr std::int64_t B = 2, H = 4, G = 2, M = 29, N = 53, D = 24, E = 20;

/// Memory with room around it; the view may start anywhere inside.
struct View {
  std::vector<float> memory;
  TensorRef ref;
  View(std::int64_t room, std::int64_t start, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides,
       std::mt19937& random)
      : memory(static_cast<std::size_t>(room)) {
    std::normal_distribution<float> normal;
    for (float& x : memory) x = normal(random);
    ref = TensorRef(memory.data() + start, DType::f32, std::move(shape), std::move(strides));
  }
};

std::vector<float> packed(const TensorRef& ref) {
  std::vector<float> out;
  for (std::int64_t a = 0; a < ref.shape[0]; ++a)
    for (std::int64_t b = 0; b < ref.shape[1]; ++b)
      for (std::int64_t c = 0; c < ref.shape[2]; ++c)
        for (std::int64_t d = 0; d < ref.shape[3]; ++d)
          out.push_back(static_cast<const float*>(
              ref.data)[a * ref.strides[0] + b * ref.strides[1] + c * ref.strides[2] + d * ref.strides[3]]);
  return out;
}

}  // namespace

TEST_CASE("any strides give what contiguous copies give") {
  std::mt19937 random(5);
  EngineOptions options;
  options.disk_cache = false;
  Engine engine(options);
  struct Layout {
    const char* what;
    View q, k, v;
  };
  auto q_bshd = [&] { return View(B * M * H * D, 0, {B, H, M, D}, {M * H * D, D, H * D, 1}, random); };
  auto k_bshd = [&] { return View(B * N * G * D, 0, {B, G, N, D}, {N * G * D, D, G * D, 1}, random); };
  auto v_bshd = [&] { return View(B * N * G * E, 0, {B, G, N, E}, {N * G * E, E, G * E, 1}, random); };
  auto q_plain = [&] { return View(B * H * M * D, 0, {B, H, M, D}, {H * M * D, M * D, D, 1}, random); };
  auto k_plain = [&] { return View(B * G * N * D, 0, {B, G, N, D}, {G * N * D, N * D, D, 1}, random); };
  Layout layouts[] = {
      {"tokens before heads", q_bshd(), k_bshd(), v_bshd()},
      {"V transposed", q_plain(), k_plain(), View(B * G * E * N, 0, {B, G, N, E}, {G * E * N, E * N, 1, N}, random)},
      {"all last strides 3", View(3 * B * H * M * D, 0, {B, H, M, D}, {3 * H * M * D, 3 * M * D, 3 * D, 3}, random),
       View(3 * B * G * N * D, 0, {B, G, N, D}, {3 * G * N * D, 3 * N * D, 3 * D, 3}, random),
       View(3 * B * G * N * E, 0, {B, G, N, E}, {3 * G * N * E, 3 * N * E, 3 * E, 3}, random)},
      {"slices with an odd start",
       View(B * H * (M + 7) * D, 7 * D, {B, H, M, D}, {H * (M + 7) * D, (M + 7) * D, D, 1}, random),
       View(B * G * (N + 5) * (D + 1), 3 * (D + 1) + 1, {B, G, N, D},
            {G * (N + 5) * (D + 1), (N + 5) * (D + 1), D + 1, 1}, random),
       View(B * G * (N + 5) * (E + 3), 3, {B, G, N, E}, {G * (N + 5) * (E + 3), (N + 5) * (E + 3), E + 3, 1}, random)},
      {"reversed", View(B * H * M * D, B * H * M * D - 1, {B, H, M, D}, {-H * M * D, -M * D, -D, -1}, random),
       View(B * G * N * D, (N - 1) * D, {B, G, N, D}, {G * N * D, N * D, -D, 1}, random),
       View(B * G * N * E, E - 1, {B, G, N, E}, {G * N * E, N * E, E, -1}, random)},
      {"broadcast batch and heads", View(M * D, 0, {B, H, M, D}, {0, 0, D, 1}, random),
       View(N * D, 0, {B, G, N, D}, {0, 0, D, 1}, random), View(G * N * E, 0, {B, G, N, E}, {0, N * E, E, 1}, random)},
  };
  Program program = stdlib::program("causal").value();
  for (Layout& layout : layouts) {
    std::vector<float> q = packed(layout.q.ref), k = packed(layout.k.ref), v = packed(layout.v.ref);
    std::vector<float> wanted(static_cast<std::size_t>(B * H * M * E), NAN);
    CompileOptions reference;
    reference.target = *Target::parse("reference");
    REQUIRE(engine.run(program,
                       {{"Q", {q.data(), DType::f32, {B, H, M, D}}},
                        {"K", {k.data(), DType::f32, {B, G, N, D}}},
                        {"V", {v.data(), DType::f32, {B, G, N, E}}},
                        {"O", {wanted.data(), DType::f32, {B, H, M, E}}}},
                       reference));
    TensorRef expected(wanted.data(), DType::f32, {B, H, M, E});
    for (const char* target : {"reference", "interpreter", "cpu", "cuda"})
      for (const char* operands : {"packed", "in_place"})
        for (bool strided_result : {false, true}) {
          INFO(layout.what << " on " << target << " operands " << operands << " strided result " << strided_result);
          CompileOptions compile;
          compile.target = *Target::parse(target);
          if (compile.target.kind != TargetKind::reference) compile.schedule["operands"] = operands;
          View out(2 * B * H * M * E, 0, {B, H, M, E},
                   strided_result ? std::vector<std::int64_t>{2 * M * H * E, 2 * E, 2 * H * E, 2}
                                  : std::vector<std::int64_t>{H * M * E, M * E, E, 1},
                   random);
          std::fill(out.memory.begin(), out.memory.end(), NAN);
          auto report = run(engine, program,
                            {{"Q", layout.q.ref}, {"K", layout.k.ref}, {"V", layout.v.ref}, {"O", out.ref}}, compile);
          if (!report) {
            REQUIRE(is_missing(report.diagnostics()));
            continue;
          }
          std::vector<float> got = packed(out.ref);
          Difference d = compare(TensorRef(got.data(), DType::f32, {B, H, M, E}), expected);
          CHECK(d.special);
          CHECK(d.error <= 2e-5 * d.scale);
          if (strided_result) {  // nothing between the elements was touched
            std::int64_t touched = 0;
            for (std::size_t at = 1; at < out.memory.size(); at += 2) touched += !std::isnan(out.memory[at]);
            CHECK(touched == 0);
          }
        }
  }
}

TEST_CASE("strides of axes of size 1 are ignored") {
  std::mt19937 random(6);
  std::vector<float> q(40), k(70), v(70), o(40, NAN), wanted(40, NAN);
  std::normal_distribution<float> normal;
  for (auto* list : {&q, &k, &v})
    for (float& x : *list) x = normal(random);
  Program program = stdlib::program("softmax").value();
  const std::int64_t far = std::int64_t{1} << 40;
  std::vector<float> l(4), l2(4);
  for (const char* target : {"interpreter", "cpu"}) {
    CompileOptions compile;
    compile.target = *Target::parse(target);
    auto plain = Engine::shared().run(program,
                                      {{"Q", {q.data(), DType::f32, {1, 1, 4, 10}}},
                                       {"K", {k.data(), DType::f32, {1, 1, 7, 10}}},
                                       {"V", {v.data(), DType::f32, {1, 1, 7, 10}}},
                                       {"O", {wanted.data(), DType::f32, {1, 1, 4, 10}}},
                                       {"L", {l.data(), DType::f32, {1, 1, 4}}}},
                                      compile);
    if (!plain) continue;
    REQUIRE(Engine::shared().run(program,
                                 {{"Q", {q.data(), DType::f32, {1, 1, 4, 10}, {far, -far, 10, 1}}},
                                  {"K", {k.data(), DType::f32, {1, 1, 7, 10}, {-far, 3, 10, 1}}},
                                  {"V", {v.data(), DType::f32, {1, 1, 7, 10}, {far, far, 10, 1}}},
                                  {"O", {o.data(), DType::f32, {1, 1, 4, 10}, {far, far, 10, 1}}},
                                  {"L", {l2.data(), DType::f32, {1, 1, 4}, {far, 7, 1}}}},
                                 compile));
    CHECK(o == wanted);
    CHECK(l == l2);
  }
}
