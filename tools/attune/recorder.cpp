// SPDX-License-Identifier: Apache-2.0
// Dumps, traces and reproducers.
#include "recorder.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <attune/version.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "backend/cpu/cpu.hpp"
#include "runtime/options.hpp"
#include "runtime/thread_pool.hpp"
#include "syntax/syntax.hpp"

namespace attune::tool {
namespace {

constexpr std::int64_t most_traced_tasks = 100'000;

Diagnostic unwritable(const std::string& path, const std::string& reason) {
  return problem("A0613", "cannot write `" + path + "`: " + reason, "choose a place that can be written");
}

/// A small number for each thread of the trace, in the order in which they appear.
std::uint64_t thread_number() {
  static std::atomic<std::uint64_t> next{0};
  thread_local const std::uint64_t mine = next.fetch_add(1);
  return mine;
}

/// Of a source that may consist of several modules, each of which opens with a line of its own.
std::string assembly(const std::string& source) {
  const std::string mark = "; kernel ";
  std::string out;
  for (std::size_t at = 0; at < source.size();) {
    const std::size_t next = std::min(source.find("\n" + mark, at), source.size() - 1) + 1;
    if (auto text = cpu::assembly(source.substr(at, next - at), cpu::host())) out += *text;
    at = next;
  }
  return out;
}

bool is_cuda(const std::string& source) { return source.find(cuda::prelude_end) != std::string::npos; }

/// What a stage's file is called after its number.
std::string file_of(std::string_view stage) {
  if (stage == "emit") return "source.ll";
  if (stage == "emit cuda") return "source.cu";
  if (stage == "asm") return "asm.s";
  return std::string(stage) + ".txt";
}

/// Text as comment lines of the notation.
std::string comment(const std::string& text) {
  std::string out = "# ";
  for (char c : text) {
    if (c == '\n')
      out += "\n# ";
    else if (static_cast<unsigned char>(c) >= 0x20 || c == '\t')
      out += c;
  }
  return out + "\n";
}

}  // namespace

/// Runs tasks on the pool and notes when each of them ran where.
class TracedExecutor final : public Executor {
 public:
  TracedExecutor(Recorder& recorder, int threads) : recorder_(recorder), pool_(threads) {}

  int concurrency() const override { return pool_.concurrency(); }
  void parallel_for(std::int64_t count, void (*task)(void*, std::int64_t), void* context) override {
    const int launch = launches_++;
    std::vector<Recorder::Event> events(static_cast<std::size_t>(std::min(count, most_traced_tasks)));
    struct Traced {
      void (*task)(void*, std::int64_t);
      void* context;
      std::vector<Recorder::Event>& events;
      Recorder& recorder;
    } traced{task, context, events, recorder_};
    auto one = [](void* opaque, std::int64_t index) {
      auto& t = *static_cast<Traced*>(opaque);
      const auto start = Recorder::Clock::now();
      t.task(t.context, index);
      if (index >= static_cast<std::int64_t>(t.events.size())) return;
      const double begin = t.recorder.since_start(start);
      t.events[static_cast<std::size_t>(index)] = {
          {}, begin, t.recorder.since_start(Recorder::Clock::now()) - begin, thread_number()};
    };
    pool_.parallel_for(count, one, &traced);
    for (std::size_t k = 0; k < events.size(); ++k) events[k].name = fmt::format("parallel {} task {}", launch, k);
    recorder_.events_.insert(recorder_.events_.end(), std::make_move_iterator(events.begin()),
                             std::make_move_iterator(events.end()));
  }

 private:
  Recorder& recorder_;
  ThreadPool pool_;
  int launches_ = 0;
};

Recorder& recorder() {
  static Recorder made;
  return made;
}

void Recorder::start(const Options& o) {
  fault_ = environment_value("ATTUNE_FAULT");
  dump_ = o.dump;
  if (!dump_.empty()) {
    std::error_code error;
    std::filesystem::create_directories(dump_, error);
    if (error) fail(usage_error, unwritable(dump_, error.message()));
    if (access(dump_.c_str(), W_OK) != 0) fail(usage_error, unwritable(dump_, std::strerror(errno)));
  }
  trace_ = o.trace;
  if (!trace_.empty())
    if (auto reason = why_unwritable(trace_); !reason.empty()) fail(usage_error, unwritable(trace_, reason));
  thread_number();
}

void Recorder::note(const Session& s) {
  call.clear();
  std::string list;
  for (const auto& [name, size] : s.shapes.dims) list += fmt::format("{}{}={}", list.empty() ? "" : ",", name, size);
  if (!list.empty()) call += " --shape " + list;
  list.clear();
  for (const auto& [name, type] : s.types)
    list += fmt::format("{}{}={}", list.empty() ? "" : ",", name, attune::name(type));
  if (!list.empty()) call += " --dtype " + list;
  for (const auto& text : s.options.set) call += " --set " + text;
  for (const auto& text : s.options.schedule) call += " --schedule " + text;
  if (s.options.target != "auto") call += " --target " + s.options.target;
  if (s.options.threads > 0) call += fmt::format(" --threads {}", s.options.threads);
  call += fmt::format(" --random {}", s.options.random.value_or(1));
}

void Recorder::stage(std::string_view name, double milliseconds, const std::function<std::string()>& text) {
  if (tracing()) {
    const double now = since_start(Clock::now()), length = milliseconds * 1e3;
    events_.push_back({std::string(name), now - length, length, thread_number()});
  }
  if (dumping() && text) dump(name, text());
  if (!fault_.empty() && fault_ == name)
    throw std::logic_error(fmt::format("ATTUNE_FAULT asks for a failure after `{}`", name));
}

void Recorder::span(std::string_view name, Clock::time_point start) {
  if (!tracing()) return;
  const double begin = since_start(start);
  events_.push_back({std::string(name), begin, since_start(Clock::now()) - begin, thread_number()});
}

void Recorder::dump(std::string_view name, const std::string& text) {
  if (dump_.empty()) return;
  auto found = files_.find(name);
  if (found == files_.end()) found = files_.emplace(name, fmt::format("{:02}-{}", files_.size(), file_of(name))).first;
  std::ofstream(std::filesystem::path(dump_) / found->second) << text;
}

std::shared_ptr<Executor> Recorder::executor(int threads) {
  if (!tracing()) return nullptr;
  EngineOptions options;
  options.threads = threads;
  return std::make_shared<TracedExecutor>(*this, resolve(options).threads);
}

Result<bool> Recorder::finish() {
  if (trace_.empty()) return true;
  // One event a line: the format of Chrome's about:tracing and of Perfetto, times in microseconds.
  std::string text = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  text += R"({"name": "process_name", "ph": "M", "pid": 1, "tid": 0, "args": {"name": "attune"}})";
  for (const Event& event : events_)
    text += fmt::format(",\n{}", Json{{"name", event.name},
                                      {"ph", "X"},
                                      {"pid", 1},
                                      {"tid", event.thread},
                                      {"ts", event.begin_us},
                                      {"dur", event.length_us}}
                                     .dump());
  text += "\n]}\n";
  return write_text(trace_, text);
}

std::string Recorder::reproducer(const std::string& what) const {
  std::error_code error;
  std::filesystem::path folder = dump_;
  if (folder.empty()) folder = std::filesystem::temp_directory_path(error);
  if (error) return {};
  const std::filesystem::path path =
      folder / (dump_.empty() ? fmt::format("attune-reproducer-{}.attn", getpid()) : std::string("reproducer.attn"));
  std::string text = comment("A bug in attune " + std::string(version) + ":\n" + what);
  text += comment("The command was:\n  " + command);
  std::string again = "attune run " + path.filename().string();
  if (!kernel.empty()) again += " --kernel " + kernel;
  if (!program.empty()) text += comment("Likely to show it again, with random inputs:\n  " + again + call);
  text += comment("Found here:");
  Engine probe;
  for (const auto& finding : probe.environment())
    text += comment(fmt::format("  {}: {}{}", finding.what, finding.found ? "" : "not found; ", finding.detail));
  if (program.empty()) text += comment("It happened before a program was read.");
  text += "\n" + program;
  return write_text(path.string(), text) ? path.string() : std::string();
}

Engine make_engine(const Options& o) {
  if (!o.arch.empty()) {
    if (!named_gpu(o)) machine_of(o);
    fail(target_error, problem("A0605", "code for `" + o.arch + "` is not run here",
                               "--arch works with show, emit and check; leave it out to run on this machine"));
  }
  EngineOptions options;
  options.threads = o.threads;
  // A dump is of every stage: nothing is taken from the cache.
  options.disk_cache = !o.no_cache && o.dump.empty();
  options.executor = recorder().executor(o.threads);
  if (recorder().tracing() || recorder().dumping() || !environment_value("ATTUNE_FAULT").empty())
    options.observer = [](const StageEvent& event) {
      const bool gpu = event.text && event.stage == "emit" && is_cuda(event.text());
      if (recorder().dumping() && event.stage == "emit" && event.text && !gpu)
        recorder().dump("asm", assembly(event.text()));
      recorder().stage(gpu ? "emit cuda" : event.stage, event.milliseconds, event.text);
    };
  return Engine(options);
}

void dump_texts(const Session& s) {
  if (!recorder().dumping()) return;
  if (auto tokens = print_tokens(s.program.module().source)) recorder().dump("tokens", *tokens);
  recorder().dump("ast", print_tree(s.program.module()));
  try {
    recorder().dump("mask", mask_picture(s, 64, 32));
  } catch (const Failure&) {
    // Not every program's guard can be drawn; the run itself reports what is wrong with the call.
  }
}

}  // namespace attune::tool
