// SPDX-License-Identifier: Apache-2.0
// `attune bench`: the median over many runs beside the machine's FMA peak, and beside plain Eigen where asked.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <optional>

#include "backend/cpu/cpu.hpp"
#include "backend/cuda/timer.hpp"
#include "command.hpp"
#include "composition.hpp"
#include "on_device.hpp"

namespace attune::tool {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// The largest of all launches.
struct Resources {
  int registers = 0;
  std::int64_t spills = 0, shared_bytes = 0;
  std::vector<std::string> losses;
};
Resources resources_of(const Kernel& kernel) {
  Resources out;
  for (const LaunchUsage& usage : kernel.usage()) {
    out.registers = std::max(out.registers, usage.registers);
    out.spills = std::max(out.spills, usage.spill_bytes);
    out.shared_bytes = std::max(out.shared_bytes, usage.shared_bytes);
    out.losses.insert(out.losses.end(), usage.losses.begin(), usage.losses.end());
  }
  return out;
}

/// Times of calls, however they were measured.
struct Times {
  std::vector<double> seconds, peaks, eigen;
  std::string protocol = "burst";
  double launch_us = 0;  ///< of the host for one call, on a GPU
};

Times time_on_host(const Options& o, const Session& s, const Kernel& kernel, Composition* eigen, int threads) {
  Times out;
  const bool on_cpu = kernel.target().kind == TargetKind::cpu;
  expect(kernel.run(s.arguments));
  auto begin = Clock::now();
  const std::size_t most = o.rounds > 0 ? static_cast<std::size_t>(o.rounds) : 1000;
  // Peak, kernel and peer in turn, so that a machine whose speed drifts slows them alike.
  while (out.seconds.size() < most) {
    if (on_cpu && (out.seconds.size() < 5 || out.seconds.size() % 8 == 0))
      out.peaks.push_back(cpu::measure_fma_peak(cpu::host()));
    auto start = Clock::now();
    expect(kernel.run(s.arguments));
    out.seconds.push_back(seconds_since(start));
    if (eigen && (out.eigen.size() < 3 || out.eigen.size() * 4 < out.seconds.size())) {
      start = Clock::now();
      eigen->run(threads);
      out.eigen.push_back(seconds_since(start));
    }
    if (o.rounds == 0 && out.seconds.size() >= 5 && seconds_since(begin) > (eigen ? 6.0 : 2.0)) break;
  }
  return out;
}

/// By events of the GPU. burst: single calls, each after a pause on the GPU, so that its clocks stay high; sustained:
/// calls back to back for 0.4 s or longer. Several sets of inputs in turn, so that no call finds its own in the L2.
Times time_on_gpu(const Options& o, const Session& s, const Kernel& kernel, double bytes) {
  constexpr double spread_over = 256e6, pause_us = 120, least_s = 0.4;
  constexpr std::size_t warm_up = 10, burst_rounds = 50, most_spans = 4000;
  Times out;
  out.protocol = o.protocol.empty() ? "burst" : o.protocol;
  std::vector<OnDevice> sets;
  const double copies = bytes > 0 ? spread_over / bytes + 1 : 1;
  for (int k = 0; k < std::clamp(static_cast<int>(std::min(copies, 6.0)), 1, 6); ++k)
    sets.emplace_back(s, kernel.target());
  std::size_t turn = 0;
  const auto call = [&](bool wait = false) {
    RunOptions options;
    options.wait = wait;
    expect(kernel.run(sets[turn++ % sets.size()].arguments(), options));
  };
  const auto timer = expect(cuda::Timer::make(kernel.target().device));

  std::vector<double> host;
  for (std::size_t k = 0; k < 2 * warm_up; ++k) {
    call(true);
    const auto start = Clock::now();
    call();
    host.push_back(seconds_since(start) * 1e6);
  }
  out.launch_us = median(host);
  call(true);
  const auto start = Clock::now();
  call(true);
  const double once = std::max(seconds_since(start), 1e-6);

  const bool burst = out.protocol == "burst";
  std::size_t calls = o.rounds > 0 ? static_cast<std::size_t>(o.rounds) : burst_rounds, each = 1;
  if (!burst && o.rounds == 0) {
    calls = std::max<std::size_t>(15, static_cast<std::size_t>(least_s / once));
    each = (calls + most_spans - 1) / most_spans;
  }
  for (std::size_t k = 0; k < warm_up; ++k) call();
  const auto sustained = Clock::now();
  do {
    for (std::size_t k = 0; k < calls; k += each) {
      if (burst) expect(timer->pause(pause_us));
      expect(timer->begin());
      for (std::size_t n = 0; n < each; ++n) call();
      expect(timer->end());
    }
    for (double us : expect(timer->spans())) out.seconds.push_back(us * 1e-6 / static_cast<double>(each));
    // The first guess of a call's time includes waiting for it.
  } while (!burst && o.rounds == 0 && seconds_since(sustained) < least_s);
  return out;
}

}  // namespace

int bench_command(const Options& o) {
  Session s = open_program(o);
  open_inputs(s, 1);
  if (!o.against.empty() && o.against != "eigen") usage("--against `" + o.against + "` is unknown", "eigen");
  Engine engine = make_engine(o);
  dump_texts(s);
  Kernel kernel = expect(engine.compile(s.program, s.compile));
  if (kernel.target().kind != TargetKind::cuda && !o.protocol.empty())
    usage("--protocol is for GPUs; the target is `" + kernel.target().text() + "`", "leave it out");
  const bool on_gpu = kernel.target().kind == TargetKind::cuda;
  if (on_gpu && !o.against.empty())
    usage("--against `" + o.against + "` runs on the CPU; the target is `" + kernel.target().text() + "`",
          "use --target cpu");
  RunReport first;
  {
    OnDevice place(s, kernel.target());
    RunOptions waiting;
    waiting.wait = true;
    first = expect(kernel.run(place.arguments(), waiting));
  }
  std::optional<Composition> eigen;
  if (o.against == "eigen") eigen = expect(compose(s));
  Work work = count_work(s);
  const int threads = o.threads > 0 ? o.threads : kernel_threads(engine);
  const Times timed =
      on_gpu ? time_on_gpu(o, s, kernel, work.byte) : time_on_host(o, s, kernel, eigen ? &*eigen : nullptr, threads);
  const std::vector<double>&times = timed.seconds, &peaks = timed.peaks, &eigen_times = timed.eigen;
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
             {"device", device_name(kernel.target())},
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
    out["protocol"] = timed.protocol;
    if (on_gpu) {
      const Resources resources = resources_of(kernel);
      out["launch_us"] = timed.launch_us;
      out["registers"] = resources.registers;
      out["spills"] = resources.spills;
      out["shared_bytes"] = resources.shared_bytes;
      out["losses"] = resources.losses;
    }
    std::cout << out.dump(2) << "\n";
    return done;
  }
  if (on_gpu) {
    const Resources resources = resources_of(kernel);
    std::cout << fmt::format(
        "{} on {} ({}): median {:.1f} us of {} spans (least {:.1f}, spread {:.0f} %), {:.1f} us to "
        "launch\n",
        s.kernel_name, device_name(kernel.target()), timed.protocol, us, times.size(), least, 100 * spread,
        timed.launch_us);
    std::cout << fmt::format("  {} visible elements, {:.3f} GFLOP: {:.1f} TFLOP/s, {:.1f} GB/s\n", work.visible,
                             work.flop * 1e-9, gflops * 1e-3, work.byte / us * 1e-3);
    std::cout << fmt::format("  {} registers, {} bytes spilled, {} bytes of shared memory\n", resources.registers,
                             resources.spills, resources.shared_bytes);
    for (const std::string& loss : resources.losses) std::cout << "  " << loss << "\n";
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
