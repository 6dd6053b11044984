// SPDX-License-Identifier: Apache-2.0
// The CPU this process runs on, by cpuid: instruction set, LLVM's names for it, cache sizes. No LLVM needed.
#include <fmt/format.h>

#include <cstdlib>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "backend/cpu/cpu.hpp"
#include "backend/cpu/llvm.hpp"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace attune::cpu {
namespace {

#if defined(__x86_64__)
struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

/// All zero where the CPU lacks the leaf.
Registers cpuid(unsigned leaf, unsigned subleaf = 0) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

bool bit(unsigned value, int position) { return ((value >> position) & 1U) != 0; }

/// Which register states the operating system saves (XCR0); without this a CPU feature must not be used.
std::uint64_t saved_states(const Registers& basic) {
  if (!bit(basic.ecx, 27)) return 0;  // OSXSAVE
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

/// Everything cpuid says that matters here, with the operating system's word already applied.
struct Found {
  Registers basic = cpuid(1), wide = cpuid(7), wide1 = cpuid(7, 1), extended = cpuid(0x80000001);
  bool amd = false, intel = false;
  bool avx = false, avx512 = false;  ///< state saved by the operating system
  unsigned family = 0, model = 0;

  Found() {
    std::uint64_t states = saved_states(basic);
    avx = (states & 0x6) == 0x6 && bit(basic.ecx, 28);
    avx512 = avx && (states & 0xe6) == 0xe6 && bit(wide.ebx, 16);
    if (wide.eax < 1) wide1 = {};
    family = (basic.eax >> 8) & 0xf;
    model = (basic.eax >> 4) & 0xf;
    if (family == 0xf || family == 6) model |= ((basic.eax >> 16) & 0xf) << 4;
    if (family == 0xf) family += (basic.eax >> 20) & 0xff;
    unsigned vendor = cpuid(0).ebx;
    amd = vendor == 0x68747541 || vendor == 0x6f677948;  // "Auth"enticAMD, "Hygo"nGenuine
    intel = vendor == 0x756e6547;                        // "Genu"ineIntel
  }
};

/// LLVM's name of the processor, for its scheduling tables. Which instructions may be used is said by the features.
std::string processor_name(const Found& found, Isa isa) {
  if (found.amd && isa >= Isa::avx2) {
    unsigned m = found.model;
    if (found.family == 0x17 || found.family == 0x18) return m < 0x30 ? "znver1" : "znver2";
    if (found.family == 0x19) return (m >= 0x10 && m <= 0x1f) || m >= 0x60 ? "znver4" : "znver3";
    if (found.family == 0x1a) return "znver5";
  }
  if (found.intel && found.family == 6) {
    switch (found.model) {
      case 0x3c:
      case 0x3f:
      case 0x45:
      case 0x46: return "haswell";
      case 0x3d:
      case 0x47:
      case 0x4f:
      case 0x56: return "broadwell";
      case 0x4e:
      case 0x5e:
      case 0x8e:
      case 0x9e:
      case 0xa5:
      case 0xa6: return "skylake";
      case 0x55:
        if (bit(found.wide1.eax, 5)) return "cooperlake";
        return bit(found.wide.ecx, 11) ? "cascadelake" : "skylake-avx512";
      case 0x7d:
      case 0x7e: return "icelake-client";
      case 0x6a:
      case 0x6c: return "icelake-server";
      case 0x8c:
      case 0x8d: return "tigerlake";
      case 0x97:
      case 0x9a:
      case 0xb7:
      case 0xba:
      case 0xbf: return "alderlake";
      case 0x8f:
      case 0xcf: return "sapphirerapids";
      case 0xad:
      case 0xae: return "graniterapids";
      default: break;
    }
  }
  return isa == Isa::avx512 ? "x86-64-v4" : isa == Isa::avx2 ? "x86-64-v3" : "x86-64";
}

/// "+avx2,-avx512f,...": every feature that vector code may draw on, also those that are absent, because a hypervisor
/// may hide what the processor's name implies.
std::string feature_list(const Found& f, Isa isa) {
  std::string list;
  auto feature = [&list](std::string_view feature_name, bool present) {
    list += fmt::format("{}{}{}", list.empty() ? "" : ",", present ? '+' : '-', feature_name);
  };
  const bool v3 = isa >= Isa::avx2, v4 = isa == Isa::avx512;
  const Registers& b = f.basic;
  const Registers& w = f.wide;
  feature("sse2", true);
  feature("sse3", v3 && bit(b.ecx, 0));
  feature("ssse3", v3 && bit(b.ecx, 9));
  feature("sse4.1", v3 && bit(b.ecx, 19));
  feature("sse4.2", v3 && bit(b.ecx, 20));
  feature("popcnt", v3 && bit(b.ecx, 23));
  feature("lzcnt", v3 && bit(f.extended.ecx, 5));
  feature("bmi", v3 && bit(w.ebx, 3));
  feature("bmi2", v3 && bit(w.ebx, 8));
  feature("movbe", v3 && bit(b.ecx, 22));
  feature("avx", v3);
  feature("fma", v3);
  feature("f16c", v3 && bit(b.ecx, 29));
  feature("avx2", v3);
  feature("avxvnni", v3 && bit(f.wide1.eax, 4));
  feature("gfni", v3 && bit(w.ecx, 8));
  feature("avx512f", v4);
  feature("avx512cd", v4 && bit(w.ebx, 28));
  feature("avx512bw", v4);
  feature("avx512dq", v4);
  feature("avx512vl", v4);
  feature("avx512ifma", v4 && bit(w.ebx, 21));
  feature("avx512vbmi", v4 && bit(w.ecx, 1));
  feature("avx512vbmi2", v4 && bit(w.ecx, 6));
  feature("avx512vnni", v4 && bit(w.ecx, 11));
  feature("avx512bitalg", v4 && bit(w.ecx, 12));
  feature("avx512vpopcntdq", v4 && bit(w.ecx, 14));
  feature("avx512bf16", v4 && bit(f.wide1.eax, 5));
  feature("avx512fp16", v4 && bit(w.edx, 23));
  return list;
}

struct Caches {
  std::int64_t l1 = 0, l2 = 0;
};

/// Leaf 4 (Intel) and 0x8000001D (AMD) have one form; hypervisors often answer neither.
void read_caches(unsigned leaf, Caches& caches) {
  for (unsigned k = 0; k < 16; ++k) {
    Registers r = cpuid(leaf, k);
    unsigned type = r.eax & 0x1f, level = (r.eax >> 5) & 0x7;
    if (type == 0) return;
    std::int64_t size = std::int64_t{(r.ebx >> 22) + 1} * (((r.ebx >> 12) & 0x3ff) + 1) * ((r.ebx & 0xfff) + 1) *
                        (std::int64_t{r.ecx} + 1);
    if (level == 1 && type == 1) caches.l1 = size;
    if (level == 2 && type != 2) caches.l2 = size;
  }
}

Caches find_caches(const Found& found) {
  Caches caches;
  if (found.intel) read_caches(4, caches);
  if (found.amd && bit(found.extended.ecx, 22)) read_caches(0x8000001d, caches);
  if (found.amd && caches.l1 == 0) caches.l1 = std::int64_t{cpuid(0x80000005).ecx >> 24} << 10;
  if (caches.l2 == 0) caches.l2 = std::int64_t{cpuid(0x80000006).ecx >> 16} << 10;
  return caches;
}

Isa best_isa(const Found& f) {
  // Haswell's set; F16C is asked for apart, because some emulators leave it out.
  bool v3 = f.avx && bit(f.basic.ecx, 12) && bit(f.wide.ebx, 5);
  // Skylake-X's set: without BW, DQ and VL (the first Xeon Phi) half of what is emitted would be missing.
  bool v4 = v3 && f.avx512 && bit(f.wide.ebx, 17) && bit(f.wide.ebx, 30) && bit(f.wide.ebx, 31);
  return v4 ? Isa::avx512 : v3 ? Isa::avx2 : Isa::generic;
}

/// What follows from the instruction set and what is found of it.
CpuTarget target_of(const Found& found, Isa isa, std::string name) {
  CpuTarget target;
  target.isa = isa;
  target.name = std::move(name);
  target.features = feature_list(found, isa);
  target.vector_lanes = isa == Isa::avx512 ? 16 : isa == Isa::avx2 ? 8 : 4;
  target.vector_registers = isa == Isa::avx512 ? 32 : 16;
  target.f16c = isa >= Isa::avx2 && bit(found.basic.ecx, 29);
  target.avx512_bf16 = isa == Isa::avx512 && bit(found.wide1.eax, 5);
  return target;
}

/// What every machine of the levels x86-64-v3 and v4 has beside the vectors.
Found least_of_level() {
  Found found;
  auto bits = [](std::initializer_list<int> positions) {
    unsigned out = 0;
    for (int position : positions) out |= 1U << position;
    return out;
  };
  found.basic.ecx = bits({0, 9, 19, 20, 22, 23, 29});  // sse3, ssse3, sse4.1, sse4.2, movbe, popcnt, f16c
  found.extended.ecx = bits({5});                      // lzcnt
  found.wide = {};
  found.wide.ebx = bits({3, 8, 28});  // bmi, bmi2, avx512cd
  found.wide1 = {};
  return found;
}

CpuTarget find_host() {
  const Found found;
  const Isa best = best_isa(found);
  Isa isa = best;
  if (const char* wish = std::getenv("ATTUNE_CPU")) {
    std::string_view word = wish;
    if (word == "generic") isa = Isa::generic;
    if (word == "avx2" && isa > Isa::avx2) isa = Isa::avx2;
  }
  // A lowered target is to behave like a machine that has no more, its tuning included.
  CpuTarget target = target_of(found, isa,
                               isa == best        ? processor_name(found, isa)
                               : isa == Isa::avx2 ? "x86-64-v3"
                                                  : "x86-64");
  const Caches caches = find_caches(found);
  // Sizes outside these bounds are a hypervisor's invention; the defaults of CpuTarget then stand.
  if (caches.l1 >= (8 << 10) && caches.l1 <= (1 << 20)) target.l1_bytes = caches.l1;
  if (caches.l2 >= (64 << 10) && caches.l2 <= (64 << 20)) target.l2_bytes = caches.l2;
  return target;
}
CpuTarget make_named(std::string_view name, Isa isa) { return target_of(least_of_level(), isa, std::string(name)); }
#else
CpuTarget find_host() { return {}; }
CpuTarget make_named(std::string_view name, Isa) {
  CpuTarget target;
  target.name = std::string(name);
  return target;
}
#endif

constexpr std::pair<std::string_view, Isa> named[] = {
    {"x86-64", Isa::generic},    {"x86-64-v3", Isa::avx2},        {"x86-64-v4", Isa::avx512},
    {"haswell", Isa::avx2},      {"broadwell", Isa::avx2},        {"skylake", Isa::avx2},
    {"alderlake", Isa::avx2},    {"skylake-avx512", Isa::avx512}, {"cascadelake", Isa::avx512},
    {"cooperlake", Isa::avx512}, {"icelake-client", Isa::avx512}, {"icelake-server", Isa::avx512},
    {"tigerlake", Isa::avx512},  {"sapphirerapids", Isa::avx512}, {"graniterapids", Isa::avx512},
    {"znver1", Isa::avx2},       {"znver2", Isa::avx2},           {"znver3", Isa::avx2},
    {"znver4", Isa::avx512},     {"znver5", Isa::avx512}};

}  // namespace

std::optional<CpuTarget> named_target(std::string_view name) {
  for (const auto& [known, isa] : named)
    if (known == name) return make_named(name, isa);
  return std::nullopt;
}

std::vector<std::string> target_names() {
  std::vector<std::string> out;
  for (const auto& [known, isa] : named) out.emplace_back(known);
  return out;
}

const CpuTarget& host() {
  static const CpuTarget target = find_host();
  return target;
}

Machine CpuTarget::machine() const {
  Machine m;
  m.name = isa == Isa::avx512 ? "avx512" : isa == Isa::avx2 ? "avx2" : "generic";
  m.vector_lanes = vector_lanes;
  m.vector_registers = vector_registers;
  m.l1_bytes = l1_bytes;
  m.l2_bytes = l2_bytes;
  return m;
}

std::string function_attributes(const CpuTarget& target) {
  // Some Intel tunings prefer 256-bit vectors and would split every 512-bit operation in two.
  int bits = target.isa == Isa::avx512 ? 512 : target.isa == Isa::avx2 ? 256 : 128;
  return fmt::format(R"("target-cpu"="{}" "target-features"="{}" "prefer-vector-width"="{}" nounwind)",
                     llvm::processor(target.name), target.features, bits);
}

}  // namespace attune::cpu
