// SPDX-License-Identifier: Apache-2.0
// The manual of switches: targets by name, and the one table of environment variables.
#include "runtime/options.hpp"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cstdlib>

#include "runtime/cores.hpp"

namespace attune {
namespace {

const std::vector<EnvironmentVariable> variables = {
    {"ATTUNE_THREADS", "physical cores", "CPU threads where the program does not choose"},
    {"ATTUNE_CACHE_DIR", "$XDG_CACHE_HOME/attune or ~/.cache/attune", "directory of compiled kernels"},
    {"ATTUNE_CACHE", "on", "`off` neither reads nor writes the disk cache"},
    {"ATTUNE_CACHE_LIMIT", "256M", "size limit of the disk cache in bytes, with an optional K, M or G"},
    {"ATTUNE_CPU", "this machine's", "`avx512`, `avx2` or `generic` lowers the instruction set; it is never raised"},
    {"ATTUNE_LLVM_PATH", "searched", "the libLLVM to load"},
    {"ATTUNE_CUDA_PATH", "searched", "the driver library (libcuda.so.1) to load"},
    {"ATTUNE_NVRTC_PATH", "searched", "the libnvrtc to load"},
    {"ATTUNE_POISON", "0",
     "`1` fills temporaries and scratch with NaN bytes before use (finds reads of unwritten memory)"},
    {"ATTUNE_FAULT", "none",
     "a stage (`tile`, `emit`, ...) after which the command fails as a bug would (tests of what it then reports)"},
#ifdef NDEBUG
    {"ATTUNE_VERIFY", "0", "`1` verifies every stage's result, as debug builds do"},
#else
    {"ATTUNE_VERIFY", "1", "`0` leaves out the verification of every stage's result"},
#endif
};

struct NamedTarget {
  TargetKind kind;
  std::string_view name;
};
constexpr NamedTarget targets[] = {{TargetKind::automatic, "auto"},
                                   {TargetKind::cpu, "cpu"},
                                   {TargetKind::reference, "reference"},
                                   {TargetKind::interpreter, "interpreter"},
                                   {TargetKind::cuda, "cuda"}};

bool is_off(std::string_view text) { return text == "0" || text == "off" || text == "no" || text == "false"; }
bool is_on(std::string_view text) { return text == "1" || text == "on" || text == "yes" || text == "true"; }

/// A number with an optional K, M or G; nothing for anything else.
std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end == text.data()) return std::nullopt;
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const int shift = unit.empty() ? 0 : unit == "K" || unit == "k" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : -1;
  if (shift < 0 || (shift > 0 && value > (UINT64_MAX >> shift))) return std::nullopt;
  return value << shift;
}

std::string default_cache_directory() {
  if (std::string chosen = environment_value("ATTUNE_CACHE_DIR"); !chosen.empty()) return chosen;
  // Per the XDG base directory specification a relative value is invalid and ignored.
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && cache[0] == '/')
    return std::string(cache) + "/attune";
  if (const char* home = std::getenv("HOME"); home && home[0]) return std::string(home) + "/.cache/attune";
  return {};
}

}  // namespace

std::optional<Target> Target::parse(std::string_view text) {
  for (const NamedTarget& target : targets)
    if (target.name == text) return Target{target.kind};
  constexpr std::string_view prefix = "cuda:";
  if (!text.starts_with(prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  Target target{TargetKind::cuda};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), target.device);
  if (error != std::errc{} || end != text.data() + text.size() || target.device < 0) return std::nullopt;
  return target;
}

std::string Target::text() const {
  for (const NamedTarget& target : targets)
    if (target.kind == kind) {
      std::string out(target.name);
      if (device != 0) out += ":" + std::to_string(device);
      return out;
    }
  return "?";
}

const std::vector<EnvironmentVariable>& environment_variables() { return variables; }

std::string environment_value(std::string_view name) {
  assert(std::any_of(variables.begin(), variables.end(), [&](const auto& known) { return known.name == name; }));
  const char* value = std::getenv(std::string(name).c_str());
  return value ? value : "";
}

Settings resolve(const EngineOptions& options) {
  Settings settings;
  settings.threads = options.threads;
  if (settings.threads <= 0) {
    const std::string text = environment_value("ATTUNE_THREADS");
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc{} && end == text.data() + text.size() && value > 0) settings.threads = value;
  }
  if (settings.threads <= 0) settings.threads = usable_cores().threads;
  settings.threads = std::min(settings.threads, 1024);

  settings.cache_directory = options.cache_directory.empty() ? default_cache_directory() : options.cache_directory;
  settings.disk_cache =
      options.disk_cache && !is_off(environment_value("ATTUNE_CACHE")) && !settings.cache_directory.empty();
  settings.cache_limit_bytes = parse_bytes(environment_value("ATTUNE_CACHE_LIMIT")).value_or(options.cache_limit_bytes);
  settings.memory_cache_entries = std::max<std::size_t>(options.memory_cache_entries, 1);

  settings.poison = is_on(environment_value("ATTUNE_POISON"));
#ifdef NDEBUG
  settings.verify = is_on(environment_value("ATTUNE_VERIFY"));
#else
  settings.verify = !is_off(environment_value("ATTUNE_VERIFY"));
#endif
  return settings;
}

}  // namespace attune
