// SPDX-License-Identifier: Apache-2.0
// `attune run`: inputs, one run, results, and the comparison with the f64 reference.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <iostream>
#include <optional>

#include "backend/binding.hpp"
#include "backend/reference/reference.hpp"
#include "command.hpp"
#include "on_device.hpp"
#include "recorder.hpp"

namespace attune::tool {
namespace {

struct Comparison {
  double max_error = 0, rms_error = 0, reference_rms = 0, reference_max = 0, limit = 0;
  bool good = true;
};

/// How far a result may be from the reference, relative to the reference's largest value, by storage type.
double tolerance(DType type) {
  switch (type) {
    case DType::f32: return 2e-5;
    case DType::f16: return 4e-3;
    case DType::bf16: return 3e-2;
    case DType::f8e4m3:
    case DType::f8e5m2: return 0.25;
    default: return 0;
  }
}

/// The widest tolerance among the result and the float inputs of the program.
double tolerance_of(const Session& s, DType result) {
  double out = tolerance(result);
  for (const auto& t : s.bound.tensors)
    if (t.type.is_float()) out = std::max(out, tolerance(t.type.dtype));
  return out;
}

Comparison compare(const TensorRef& got, const TensorRef& wanted, double relative) {
  Comparison c;
  double error2 = 0, reference2 = 0;
  const std::int64_t count = got.element_count();
  bool special = true;  // NaN and infinities must agree
  for (std::int64_t k = 0; k < count; ++k) {
    double a = load_element(got.data, got.dtype, k), b = load_element(wanted.data, wanted.dtype, k);
    if (!is_float(got.dtype)) {
      std::int64_t x = load_integer(got.data, got.dtype, k), y = load_integer(wanted.data, wanted.dtype, k);
      special = special && x == y;
      continue;
    }
    if (std::isnan(a) != std::isnan(b) || (std::isinf(b) && a != b) || (std::isinf(a) && a != b)) {
      special = false;
      c.max_error = HUGE_VAL;
    }
    if (!std::isfinite(a) || !std::isfinite(b)) continue;
    c.max_error = std::max(c.max_error, std::abs(a - b));
    c.reference_max = std::max(c.reference_max, std::abs(b));
    error2 += (a - b) * (a - b);
    reference2 += b * b;
  }
  if (count > 0) {
    c.rms_error = std::sqrt(error2 / static_cast<double>(count));
    c.reference_rms = std::sqrt(reference2 / static_cast<double>(count));
  }
  c.limit = relative * c.reference_max;
  c.good = special && c.max_error <= c.limit;
  return c;
}

Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
}

}  // namespace

int run_command(const Options& o) {
  Session s = open_program(o);
  // A run may be long: what it cannot write is said before.
  if (!o.outputs.empty())
    if (std::string reason = why_unwritable(o.outputs); !reason.empty())
      fail(usage_error, problem("A0613", "cannot write `" + o.outputs + "`: " + reason,
                                "--outputs takes a file in a folder that exists and can be written"));
  if (o.inputs.empty() && !o.random && !s.inferred.tensors.empty())
    usage("no inputs are given", "give --inputs FILE.safetensors, or --random SEED with --shape");
  open_inputs(s, std::nullopt);
  Engine engine = make_engine(o);
  dump_texts(s);
  auto started = std::chrono::steady_clock::now();
  Kernel kernel = expect(engine.compile(s.program, s.compile));
  const auto running = std::chrono::steady_clock::now();
  OnDevice place(s, kernel.target());
  RunOptions waiting;
  waiting.wait = true;
  RunReport report = expect(kernel.run(place.arguments(), waiting));
  place.fetch(s);
  recorder().span("run", running);
  double total_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - started).count();
  if (report.out_of_range)
    std::cerr
        << "warning: a gather left its tensor; such elements counted as absent (the out-of-range flag is raised)\n";

  std::vector<std::optional<Comparison>> comparisons(s.results.size());
  bool good = true;
  if (o.verify) {
    Arguments reference_arguments = s.inputs;
    std::vector<Owned> wanted;
    for (const auto& [name, ref] : s.results) {
      // The reference is compared before it is rounded to the storage type, where that is a float.
      wanted.push_back(allocate(ref.dtype, ref.shape, true));
      reference_arguments.emplace_back(name, wanted.back().ref);
    }
    tensor::Program exact = s.bound;
    Binding binding = expect(attune::bind(exact, reference_arguments, true));
    // Only a terminal forgets such a line again.
    const bool progress = !o.json && isatty(STDERR_FILENO) == 1;
    if (progress) std::cerr << "verifying against the f64 reference…\r" << std::flush;
    const auto verifying = std::chrono::steady_clock::now();
    expect(reference::run(exact, binding));
    recorder().span("reference", verifying);
    if (progress) std::cerr << "                                    \r" << std::flush;
    for (std::size_t k = 0; k < s.results.size(); ++k) {
      comparisons[k] = compare(s.results[k].second, wanted[k].ref, tolerance_of(s, s.results[k].second.dtype));
      good = good && comparisons[k]->good;
    }
  }
  if (!o.outputs.empty()) expect(write_safetensors(o.outputs, s.results));

  Json dims = Json::object(), results = Json::object(), materialised = Json::array();
  for (const auto& [name, size] : s.shapes.dims) dims[name] = size;
  for (std::size_t k = 0; k < s.results.size(); ++k) {
    Json item{{"dtype", std::string(name(s.results[k].second.dtype))}, {"shape", s.results[k].second.shape}};
    if (comparisons[k]) {
      item["max_abs_error"] = number(comparisons[k]->max_error);
      item["rms_error"] = number(comparisons[k]->rms_error);
      item["reference_rms"] = number(comparisons[k]->reference_rms);
    }
    results[s.results[k].first] = item;
  }
  for (const Materialised& m : kernel.materialised()) materialised.push_back({{"name", m.name}, {"reason", m.reason}});
  if (o.json) {
    Json out{{"kernel", s.kernel_name},
             {"target", kernel.target().text()},
             {"device", device_name(kernel.target())},
             {"arch", arch_name(kernel.target())},
             {"dims", dims},
             {"results", results},
             {"compile_ms", report.compile_ms},
             {"load_ms", report.load_ms},
             {"run_ms", report.run_ms},
             {"cache", report.cache},
             {"flags", {{"out_of_range", report.out_of_range}}},
             {"fused", kernel.fused()},
             {"materialised", materialised}};
    std::cout << out.dump(2) << "\n";
  } else {
    std::string sizes;
    for (const auto& [name, size] : s.shapes.dims)
      sizes += fmt::format("{}{}={}", sizes.empty() ? "" : " ", name, size);
    std::cout << fmt::format("{} on {}: {}\n", s.kernel_name, kernel.target().text(), sizes);
    for (std::size_t k = 0; k < s.results.size(); ++k) {
      std::cout << fmt::format("  {}: {} [{}]", s.results[k].first, name(s.results[k].second.dtype),
                               fmt::join(s.results[k].second.shape, ", "));
      if (const auto& c = comparisons[k])
        std::cout << fmt::format("  max error {:.2e}, rms {:.2e} (reference rms {:.2e}, limit {:.2e}): {}",
                                 c->max_error, c->rms_error, c->reference_rms, c->limit, c->good ? "good" : "WRONG");
      std::cout << "\n";
    }
    std::cout << fmt::format("  run {:.3f} ms, compile {:.1f} ms ({}), together {:.1f} ms\n", report.run_ms,
                             report.compile_ms, report.cache, total_ms);
    for (const Materialised& m : kernel.materialised())
      std::cout << "  stored: " << m.name << " (" << m.reason << ")\n";
    if (!o.outputs.empty()) std::cout << "  wrote " << o.outputs << "\n";
  }
  if (!good) {
    std::cerr << "error: the results differ from the f64 reference by more than their types allow\n";
    return verify_error;
  }
  return done;
}

}  // namespace attune::tool
