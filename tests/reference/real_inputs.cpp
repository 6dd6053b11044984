// SPDX-License-Identifier: Apache-2.0
// The reference on queries, keys and values of a sentence encoder, against results of another f64 computation.
#if __has_include(<nlohmann/json.hpp>)  // what the reader of the files needs
#include <algorithm>
#include <attune/program.hpp>
#include <optional>

#include "tensor/passes.hpp"
#include "tests/reference/build.hpp"
#include "tools/attune/safetensors.cpp"  // the reader belongs to the command and is in no library

using namespace attune;
using namespace attune::test;

namespace {

/// Runs the kernel on `<name>.safetensors`; the largest error against `<name>.expected.safetensors`.
double largest_error(const std::string& name, const std::string& text) {
  const std::string folder = std::string(ATTUNE_SOURCE_DIR) + "/examples/data/";
  const auto inputs = tool::read_safetensors(folder + name + ".safetensors");
  const auto expected = tool::read_safetensors(folder + name + ".expected.safetensors");
  REQUIRE(inputs.ok());
  REQUIRE(expected.ok());
  Arguments arguments;
  for (const auto& stored : inputs->tensors)
    arguments.emplace_back(stored.name, TensorRef(static_cast<const void*>(stored.data), *stored.dtype, stored.shape));
  std::vector<Data<float>> results;
  for (const auto& stored : expected->tensors) results.push_back(filled(stored.shape, NaN));
  for (std::size_t k = 0; k < results.size(); ++k)
    arguments.emplace_back(expected->tensors[k].name, results[k].ref(DType::f32));

  const auto parsed = attune::Program::parse(text);
  REQUIRE(parsed.ok());
  const auto program = infer(parsed->module());
  INFO(render(program.diagnostics()));
  REQUIRE(program.ok());
  CHECK_FALSE(call(*program, arguments));
  double largest = 0;
  for (std::size_t k = 0; k < results.size(); ++k)
    for (std::int64_t n = 0; n < results[k].count(); ++n) {
      const double difference = std::fabs(load_element(expected->tensors[k].data, DType::f32, n) -
                                          double(results[k].values[static_cast<std::size_t>(n)]));
      largest = std::isnan(difference) ? HUGE_VAL : std::max(largest, difference);
    }
  return largest;
}

}  // namespace

TEST_CASE("real inputs: one passage") {
  CHECK(largest_error("minilm_passage", R"(
kernel passage(Q: f32[B, H, M, D], K: f32[B, H, N, D], V: f32[B, H, N, D]) -> (O: f32[B, H, M, D], L: f32[B, H, M]) {
  S[b, h, i, j] = sum[d](Q[b, h, i, d] * K[b, h, j, d]) / sqrt(D)
  P[b, h, i, j] = softmax[j](S[b, h, i, j])
  O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h, j, e])
  L[b, h, i] = logsumexp[j](S[b, h, i, j])
})") < 5e-7);
}

TEST_CASE("real inputs: sentences padded with NaN") {
  CHECK(largest_error("minilm_batch", R"(
kernel batch(Q: f32[B, H, M, D], K: f32[B, H, N, D], V: f32[B, H, N, D], len: i32[B])
    -> (O: f32[B, H, M, D], L: f32[B, H, M]) {
  S[b, h, i, j] = sum[d](Q[b, h, i, d] * K[b, h, j, d]) / sqrt(D)
  P[b, h, i, j] = softmax[j where j < len[b]](S[b, h, i, j])
  O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h, j, e])
  L[b, h, i] = logsumexp[j where j < len[b]](S[b, h, i, j])
})") < 5e-7);
}

TEST_CASE("real inputs: the same sentences packed") {
  CHECK(largest_error("minilm_packed", R"(
kernel packed(Q: f32[M, H, D], K: f32[N, H, D], V: f32[N, H, D], start: i32[M], end: i32[M]) -> O: f32[M, H, D] {
  S[h, i, j] = sum[d](Q[i, h, d] * K[j, h, d]) / sqrt(D)
  P[h, i, j] = softmax[j where start[i] <= j < end[i]](S[h, i, j])
  O[i, h, e] = sum[j](P[h, i, j] * V[j, h, e])
})") < 5e-7);
}
#endif
