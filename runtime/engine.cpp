// SPDX-License-Identifier: Apache-2.0
// Engine: owns caches, threads and observers; compiling and running go through it.
#include <attune/engine.hpp>
#include <new>

#include "runtime/compile.hpp"
#include "runtime/thread_pool.hpp"

namespace attune {
namespace {

std::unique_ptr<DiskCache> make_disk_cache(const Settings& settings) {
  if (!settings.disk_cache) return nullptr;
  return std::make_unique<DiskCache>(settings.cache_directory, settings.cache_limit_bytes);
}

}  // namespace

Engine::State::State(EngineOptions chosen)
    : options(std::move(chosen)),
      settings(resolve(options)),
      executor(options.executor ? options.executor : std::make_shared<ThreadPool>(settings.threads)),
      disk(make_disk_cache(settings)),
      units(settings.memory_cache_entries),
      codes(settings.memory_cache_entries),
      gpu_codes(settings.memory_cache_entries) {}

void Engine::State::observe(std::string_view stage, double milliseconds, std::function<std::string()> text) {
  const std::lock_guard lock(observer_mutex_);
  options.observer(StageEvent{stage, milliseconds, std::move(text)});
}

Engine::Engine(EngineOptions options) : state_(std::make_shared<State>(std::move(options))) {}

Engine& Engine::shared() {
  // Never destroyed: kernels in other static objects may outlive any order of destruction.
  static Engine* engine = new Engine;
  return *engine;
}

Result<Kernel> Engine::compile(const Program& program, const CompileOptions& options) {
  try {
    Result<std::shared_ptr<Unit>> unit = prepare(*state_, program, options);
    if (!unit) return unit.diagnostics();
    Diagnostics warnings = (*unit)->warnings;
    const bool follows = options.target.kind == TargetKind::automatic;
    return Result<Kernel>(Kernel(std::make_shared<Kernel::State>(state_, *std::move(unit), follows)),
                          std::move(warnings));
  } catch (const std::bad_alloc&) {
    Diagnostic diagnostic;
    diagnostic.code = "A0607";
    diagnostic.message = "out of memory while compiling";
    return diagnostic;
  }
}

Result<RunReport> Engine::run(const Program& program, const Arguments& arguments, const CompileOptions& options) {
  Result<Kernel> kernel = compile(program, options);
  if (!kernel) return kernel.diagnostics();
  Result<RunReport> report = kernel->run(arguments);
  if (!report) return report.diagnostics();
  return Result<RunReport>(*std::move(report), kernel.diagnostics());
}

std::string Engine::cache_directory() const { return state_->disk ? state_->disk->directory() : std::string(); }

std::vector<Engine::CacheEntry> Engine::cache_entries() const {
  std::vector<CacheEntry> entries;
  if (!state_->disk) return entries;
  for (DiskCache::Listed& listed : state_->disk->list())
    entries.push_back({std::move(listed.file), std::move(listed.description), listed.bytes, listed.last_used});
  return entries;
}

std::size_t Engine::clear_cache() const { return state_->disk ? state_->disk->clear() : 0; }

}  // namespace attune
