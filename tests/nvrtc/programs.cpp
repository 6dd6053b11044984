// SPDX-License-Identifier: Apache-2.0
// Generated code of every standard program under the real compiler, and what of a call it is made for.
#include <attune/attune.hpp>
#include <mutex>
#include <thread>

#include "backend/cuda/nvrtc.hpp"
#include "backend/cuda/target.hpp"
#include "tensor/fix_dims.hpp"
#include "tensor/passes.hpp"
#include "tests/catch.hpp"

using namespace attune;

namespace {

struct Made {
  std::vector<std::string> fixed;
  Result<cuda::Source> source;
};

Made make(const Program& program, const cuda::GpuTarget& target, std::int64_t size,
          const std::map<std::string, std::string>& schedule = {}) {
  const tensor::Program open = infer(program.module()).value();
  std::map<std::string, DType> types;
  for (const Sym& variable : open.type_variables) types[variable.text()] = DType::bf16;
  const tensor::Program bound = tensor::bind_types(open, types).value();
  loop::LowerOptions options;
  options.machine = target.machine();
  options.overrides = schedule;
  options.index_bits = 32;
  std::map<std::string, std::int64_t> sizes;
  std::vector<std::string> names;
  const Result<std::vector<Sym>> dims = cuda::dims_to_fix(bound, options);
  for (const Sym& dim : dims.value()) {
    sizes[dim.text()] = size;
    names.push_back(dim.text());
  }
  const auto built = loop::build(tensor::fix_dims(bound, sizes), options);
  return {names, cuda::emit(built.value().kernel, target)};
}
Made make(const std::string& name, const cuda::GpuTarget& target) {
  return make(stdlib::program(name).value(), target, 64);
}

}  // namespace

TEST_CASE("code of standard programs is made for sizes of heads, not for lengths or batches") {
  for (const std::string& name : stdlib::names()) {
    INFO(name);
    const Made made = make(name, *cuda::named_target("sm_80"));
    if (!made.source) FAIL(render(made.source.diagnostics()));
    for (const std::string& dim : made.fixed) {
      INFO(dim);
      for (const char* length : {"B", "M", "N"}) CHECK(dim != length);
    }
  }
}

TEST_CASE("tiles that no thread can hold are refused with the limit and the value") {
  const Program program = stdlib::program("causal").value();
  const Made wide = make(program, *cuda::named_target("sm_80"), 300'000);
  REQUIRE_FALSE(wide.source);
  CHECK(wide.source.diagnostics()[0].code == "A0403");
  CHECK(wide.source.diagnostics()[0].expected == "at most 524288 bytes");
  CHECK(std::stoll(wide.source.diagnostics()[0].found) > 1'200'000);
  // The schedule's own fault.
  const Made tall = make(program, *cuda::named_target("sm_80"), 64, {{"tile.m", "8192"}});
  REQUIRE_FALSE(tall.source);
  CHECK(tall.source.diagnostics()[0].code == "A0403");
  CHECK(make(program, *cuda::named_target("sm_80"), 64, {{"tile.m", "4"}}).source);
}

TEST_CASE("the compiler takes generated code of every standard program") {
  if (cuda::nvrtc::api() == nullptr) {
    WARN("left out: NVRTC was not found");
    return;
  }
  // All for one architecture, some for each that the compiler knows.
  struct Job {
    std::string name, arch;
  };
  std::vector<Job> jobs;
  for (const std::string& name : stdlib::names()) jobs.push_back({name, "sm_80"});
  for (const std::string& arch : cuda::target_names())
    for (const char* name : {"quantised_kv_f8", "dropout"}) jobs.push_back({name, arch});
  std::mutex mutex;
  std::size_t next = 0, compiled = 0;
  std::vector<std::string> refused;
  const auto work = [&] {
    for (;;) {
      std::unique_lock lock(mutex);
      if (next == jobs.size()) return;
      const Job job = jobs[next++];
      lock.unlock();
      const cuda::GpuTarget target = *cuda::named_target(job.arch);
      const Made made = make(job.name, target);
      const Result<cuda::Binary> binary =
          made.source ? cuda::compile(*made.source, target) : Result<cuda::Binary>(made.source.diagnostics());
      lock.lock();
      if (binary)
        ++compiled;
      else if (binary.diagnostics()[0].code != "A0602")  // an older or newer compiler
        refused.push_back(job.name + " for " + job.arch + ": " + render(binary.diagnostics()));
    }
  };
  std::thread beside(work);
  work();
  beside.join();
  for (const std::string& problem : refused) {
    INFO(problem);
    CHECK(problem.empty());
  }
  CHECK(compiled >= stdlib::names().size());
}
