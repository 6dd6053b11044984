// SPDX-License-Identifier: Apache-2.0
// Compiled code between engines and processes: miss, memory, disk, damage, races.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/runtime/calls.hpp"
#include "tests/runtime/scratch_directory.hpp"

using namespace calls;

namespace {

EngineOptions cached(const std::string& directory) {
  EngineOptions options;
  options.cache_directory = directory;
  options.threads = 2;
  return options;
}

/// Compiles and runs in a fresh engine; the report's cache word.
std::string run_once(const std::string& directory, const CompileOptions& options = on(TargetKind::cpu)) {
  Engine engine(cached(directory));
  AttentionCall call(1, 2, 20, 30, 8);
  const auto report = engine.run(parse(attention_text), call.arguments(), options);
  if (!report) return render(report.diagnostics());
  return call.largest_error() < 1e-5 ? report->cache : "wrong result";
}

bool have_llvm() { return cpu::llvm_report().found(); }

}  // namespace

TEST_CASE("code cache: miss, then memory, then disk") {
  if (!have_llvm()) return;
  ScratchDirectory scratch;
  {
    Engine engine(cached(scratch.path()));
    const Program program = parse(attention_text);
    AttentionCall call(1, 2, 20, 30, 8);
    auto report = engine.run(program, call.arguments(), on(TargetKind::cpu)).value();
    CHECK(report.cache == "miss");
    CHECK(report.compile_ms > 0);
    report = engine.run(program, call.arguments(), on(TargetKind::cpu)).value();
    CHECK(report.cache == "memory");
    CHECK(report.compile_ms == 0);
    CHECK(report.load_ms == 0);
    // The same formula from another file shares the code, not the derivation.
    const auto renamed = Program::parse(attention_text, "other.attn").value();
    report = engine.run(renamed, call.arguments(), on(TargetKind::cpu)).value();
    CHECK(report.cache == "memory");
    CHECK(engine.cache_entries().size() == 1);
    CHECK(engine.cache_entries()[0].description.find("attention") == 0);
  }
  CHECK(run_once(scratch.path()) == "disk");
  CompileOptions trusted = on(TargetKind::cpu);
  trusted.trusted = true;
  CHECK(run_once(scratch.path(), trusted) == "miss");
  CHECK(run_once(scratch.path(), trusted) == "disk");
  CHECK(Engine(cached(scratch.path())).clear_cache() == 2);
  CHECK(run_once(scratch.path()) == "miss");
}

TEST_CASE("code cache: damage and refusal are misses, never failures") {
  if (!have_llvm()) return;
  ScratchDirectory scratch;
  CHECK(run_once(scratch.path()) == "miss");
  const std::string file = scratch.path() + "/" + files_of(scratch.path()).at(0);
  const std::string whole = read_bytes(file);
  write_bytes(file, whole.substr(0, whole.size() / 2));
  CHECK(run_once(scratch.path()) == "miss");
  CHECK(read_bytes(file) == whole);
  std::string flipped = whole;
  flipped[whole.size() - 100] = static_cast<char>(flipped[whole.size() - 100] ^ 4);
  write_bytes(file, flipped);
  CHECK(run_once(scratch.path()) == "miss");
  CHECK(run_once(scratch.path()) == "disk");
  CHECK(run_once("/proc/attune") == "miss");
  CHECK(run_once("/proc/attune") == "miss");
}

TEST_CASE("code cache: racing processes all get right results") {
  if (!have_llvm()) return;
  ScratchDirectory scratch;
  std::vector<pid_t> children;
  for (int p = 0; p < 4; ++p) {
    const pid_t child = fork();
    if (child == 0) {
      const std::string first = run_once(scratch.path()), second = run_once(scratch.path());
      _exit((first == "miss" || first == "disk") && second == "disk" ? 0 : 1);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
  CHECK(files_of(scratch.path()).size() == 1);
}

TEST_CASE("code cache: concurrent first calls compile once") {
  if (!have_llvm()) return;
  EngineOptions options = private_engine();
  std::atomic<int> compiles{0};
  options.observer = [&](const StageEvent& event) { compiles += event.stage == "compile" ? 1 : 0; };
  Engine engine(options);
  std::atomic<int> bad{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      AttentionCall call(1, 2, 20, 30, 8);
      if (!engine.run(parse(attention_text), call.arguments(), on(TargetKind::cpu)).ok()) ++bad;
    });
  for (auto& thread : threads) thread.join();
  CHECK(bad == 0);
  CHECK(compiles == 1);
}

TEST_CASE("a missing libLLVM is an error of the target cpu alone") {
  if (have_llvm()) return;
  Engine engine(private_engine());
  const auto kernel = engine.compile(parse(attention_text), on(TargetKind::cpu));
  REQUIRE_FALSE(kernel.ok());
  CHECK(kernel.diagnostics().at(0).code == "A0603");
  CHECK(engine.compile(parse(attention_text)).value().target().kind == TargetKind::interpreter);
}
