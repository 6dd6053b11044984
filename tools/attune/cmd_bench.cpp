// SPDX-License-Identifier: Apache-2.0
// `attune bench`: the median over many runs beside the machine's FMA peak, and beside plain Eigen where asked.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <optional>

#include "backend/cpu/cpu.hpp"
#include "command.hpp"
#include "composition.hpp"

namespace attune::tool {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int bench_command(const Options& o) {
  Session s = open_program(o);
  open_inputs(s, 1);
  if (!o.against.empty() && o.against != "eigen") usage("--against `" + o.against + "` is unknown", "eigen");
  Engine engine = make_engine(o);
  dump_texts(s);
  Kernel kernel = expect(engine.compile(s.program, s.compile));
  RunReport first = expect(kernel.run(s.arguments));
  std::optional<Composition> eigen;
  if (o.against == "eigen") eigen = expect(compose(s));
  Work work = count_work(s);
  const bool on_cpu = kernel.target().kind == TargetKind::cpu || kernel.target().kind == TargetKind::automatic;
  const int threads = o.threads > 0 ? o.threads : kernel_threads(engine);

  std::vector<double> times, peaks, eigen_times;
  expect(kernel.run(s.arguments));
  auto begin = Clock::now();
  const std::size_t most = o.rounds > 0 ? static_cast<std::size_t>(o.rounds) : 1000;
  // Peak, kernel and peer in turn, so that a machine whose speed drifts slows them alike.
  while (times.size() < most) {
    if (on_cpu && (times.size() < 5 || times.size() % 8 == 0)) peaks.push_back(cpu::measure_fma_peak(cpu::host()));
    auto start = Clock::now();
    expect(kernel.run(s.arguments));
    times.push_back(seconds_since(start));
    if (eigen && (eigen_times.size() < 3 || eigen_times.size() * 4 < times.size())) {
      start = Clock::now();
      eigen->run(threads);
      eigen_times.push_back(seconds_since(start));
    }
    if (o.rounds == 0 && times.size() >= 5 && seconds_since(begin) > (eigen ? 6.0 : 2.0)) break;
  }
  const double us = median(times) * 1e6, least = *std::min_element(times.begin(), times.end()) * 1e6;
  std::vector<double> sorted = times;
  std::sort(sorted.begin(), sorted.end());
  const double spread = (sorted[sorted.size() * 9 / 10] - sorted[sorted.size() / 10]) / median(times);
  const double gflops = work.flop / us * 1e-3;
  const double peak = peaks.empty() ? 0 : median(peaks) * threads;
  const double percent = peak > 0 ? 100 * gflops / peak : 0;
  if (o.json) {
    Json dims = Json::object(), schedule = Json::object();
    for (const auto& [name, size] : s.shapes.dims) dims[name] = size;
    for (const auto& [key, value] : kernel.schedule()) schedule[key] = value;
    Json out{{"kernel", s.kernel_name},
             {"target", kernel.target().text()},
             {"device", device_name()},
             {"arch", arch_name(kernel.target())},
             {"dims", dims},
             {"compile_ms", first.compile_ms},
             {"load_ms", first.load_ms},
             {"cache", first.cache},
             {"median_us", us},
             {"min_us", least},
             {"spread", spread},
             {"rounds", times.size()},
             {"threads", threads},
             {"visible", work.visible},
             {"flop", work.flop},
             {"byte", work.byte},
             {"tflops", gflops * 1e-3},
             {"gbps", work.byte / us * 1e-3}};
    if (peak > 0) {
      out["percent_of_peak"] = percent;
      out["peak"] = {
          {"gflops", peak},
          {"how", "independent FMA chains in registers, timed in this process between the runs, times threads"}};
    }
    if (eigen) out["eigen"] = {{"median_us", median(eigen_times) * 1e6}, {"ratio", median(eigen_times) * 1e6 / us}};
    out["schedule"] = schedule;
    out["protocol"] = "burst";
    std::cout << out.dump(2) << "\n";
    return done;
  }
  std::cout << fmt::format("{} on {} ({} thread{}): median {:.1f} us of {} runs (least {:.1f}, spread {:.0f} %)\n",
                           s.kernel_name, cpu::host().name, threads, threads == 1 ? "" : "s", us, times.size(), least,
                           100 * spread);
  std::cout << fmt::format("  {} visible elements, {:.3f} GFLOP: {:.1f} GFLOP/s, {:.2f} GB/s\n", work.visible,
                           work.flop * 1e-9, gflops, work.byte / us * 1e-3);
  if (peak > 0) {
    int bar = static_cast<int>(std::clamp(percent / 2, 0.0, 50.0));
    std::string picture;
    for (int k = 0; k < 50; ++k) picture += k < bar ? "█" : "·";
    std::cout << fmt::format("  {:.1f} % of the FMA peak timed beside it ({:.1f} GFLOP/s)\n  {}\n", percent, peak,
                             picture);
  }
  if (eigen)
    std::cout << fmt::format("  the same as Eigen matrix operations: {:.1f} us, attune is {:.2f} times as fast\n",
                             median(eigen_times) * 1e6, median(eigen_times) * 1e6 / us);
  return done;
}

}  // namespace attune::tool
