// SPDX-License-Identifier: Apache-2.0
// Cold compile time: every named standard program (all that take only floats by default) compiled and called once on
// small inputs with the caches off, repeated; medians of each stage in milliseconds, the process's first compile apart.
//   bench_compile [repetitions] [NAME...]        THREADS=n limits the threads that compile (default: physical cores)
#include <algorithm>
#include <attune/attune.hpp>
#include <attune/stdlib.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int repetitions = argc > 1 ? std::max(std::atoi(argv[1]), 1) : 5;
  const char* wish = std::getenv("THREADS");
  const int threads = wish != nullptr ? std::atoi(wish) : 0;
  std::vector<std::string> names(argv + std::min(argc, 2), argv + argc);
  if (names.empty()) names = {"softmax", "causal", "window", "alibi", "softcap", "sinks", "sigmoid", "with_lse"};

  constexpr std::int64_t B = 1, H = 2, G = 1, M = 8, N = 16, D = 64;
  std::vector<float> q(B * H * M * D, 0.5f), k(B * G * N * D, 0.25f), v(B * G * N * D, 1), o(B * H * M * D),
      l(B * H * M);
  std::vector<float> per_head(H, 0.5f);
  std::printf("%-12s %8s", "program", "cold ms");
  for (const char* stage : {"front", "emit", "compile", "load"}) std::printf(" %8s", stage);
  std::printf("\n");
  bool first = true;
  for (const std::string& name : names) {
    auto program = attune::stdlib::program(name);
    if (!program) return std::fprintf(stderr, "no standard program `%s`\n", name.c_str()), 2;
    std::map<std::string, std::vector<double>> stages;
    std::vector<double> totals;
    for (int run = 0; run < repetitions + first; ++run) {
      std::map<std::string, double> sums;
      attune::EngineOptions options;
      options.threads = threads;
      options.disk_cache = false;
      options.observer = [&](const attune::StageEvent& event) {
        const bool late = event.stage == "emit" || event.stage == "compile" || event.stage == "load";
        sums[late ? std::string(event.stage) : "front"] += event.milliseconds;
      };
      attune::Engine engine(options);
      attune::Arguments arguments{{"Q", {q.data(), attune::DType::f32, {B, H, M, D}}},
                                  {"K", {k.data(), attune::DType::f32, {B, G, N, D}}},
                                  {"V", {v.data(), attune::DType::f32, {B, G, N, D}}},
                                  {"O", {o.data(), attune::DType::f32, {B, H, M, D}}}};
      if (name == "softmax" || name == "with_lse")
        arguments.push_back({"L", {l.data(), attune::DType::f32, {B, H, M}}});
      if (name == "sinks") arguments.push_back({"sink", {per_head.data(), attune::DType::f32, {H}}});
      if (name == "alibi") arguments.push_back({"slope", {per_head.data(), attune::DType::f32, {H}}});
      if (name == "softcap") arguments.push_back({"cap", 50.0});
      if (name == "window") arguments.push_back({"W", 4});
      auto report = engine.run(*program, arguments);
      if (!report) return std::fprintf(stderr, "%s\n", attune::render(report.diagnostics()).c_str()), 1;
      if (first) {  // opens libLLVM
        std::printf("%-12s %8.1f  (the first in the process)\n", name.c_str(), report->compile_ms + report->load_ms);
        first = false;
        continue;
      }
      totals.push_back(report->compile_ms + report->load_ms);
      for (const auto& [stage, ms] : sums) stages[stage].push_back(ms);
    }
    std::printf("%-12s %8.1f", name.c_str(), median(totals));
    for (const char* stage : {"front", "emit", "compile", "load"}) std::printf(" %8.1f", median(stages[stage]));
    std::printf("\n");
  }
}
