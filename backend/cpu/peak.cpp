// SPDX-License-Identifier: Apache-2.0
// The multiply-add peak of one core, timed: the yardstick beside every measured kernel.
#include <algorithm>
#include <chrono>

#include "backend/cpu/cpu.hpp"

namespace attune::cpu {
namespace {

#if defined(__x86_64__)
// Twelve independent accumulators: more than latency (4 cycles) times throughput (2 a cycle) needs. Written as
// assembly, because in a debug build intrinsics would keep the accumulators in memory and time that instead. All
// operands are zero: nothing overflows, nothing is subnormal, and no x86 multiplier is faster for it.
#define ATTUNE_TWELVE(op) \
  op("0") op("1") op("2") op("3") op("4") op("5") op("6") op("7") op("8") op("9") op("10") op("11")
#define ATTUNE_CLOBBERS                                                                                            \
  "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", \
      "xmm13"
#define ATTUNE_ZERO(r) "vxorps %%xmm" r ", %%xmm" r ", %%xmm" r "\n\t"
#define ATTUNE_FMA_ZMM(r) "vfmadd231ps %%zmm12, %%zmm13, %%zmm" r "\n\t"
#define ATTUNE_FMA_YMM(r) "vfmadd231ps %%ymm12, %%ymm13, %%ymm" r "\n\t"
#define ATTUNE_ZERO_SSE(r) "xorps %%xmm" r ", %%xmm" r "\n\t"

void run_avx512(long rounds) {
  asm volatile(ATTUNE_TWELVE(ATTUNE_ZERO) ATTUNE_ZERO("12")
                   ATTUNE_ZERO("13") "1:\n\t" ATTUNE_TWELVE(ATTUNE_FMA_ZMM) "dec %0\n\tjnz 1b\n\tvzeroupper"
               : "+r"(rounds)
               :
               : ATTUNE_CLOBBERS);
}

void run_avx2(long rounds) {
  asm volatile(ATTUNE_TWELVE(ATTUNE_ZERO) ATTUNE_ZERO("12")
                   ATTUNE_ZERO("13") "1:\n\t" ATTUNE_TWELVE(ATTUNE_FMA_YMM) "dec %0\n\tjnz 1b\n\tvzeroupper"
               : "+r"(rounds)
               :
               : ATTUNE_CLOBBERS);
}

// Six independent multiplications and six independent additions: what code without a fused form is made of.
void run_generic(long rounds) {
  asm volatile(ATTUNE_TWELVE(ATTUNE_ZERO_SSE) ATTUNE_ZERO_SSE("12") ATTUNE_ZERO_SSE("13")
               "1:\n\t"
               "mulps %%xmm12, %%xmm0\n\taddps %%xmm13, %%xmm1\n\tmulps %%xmm12, %%xmm2\n\taddps %%xmm13, %%xmm3\n\t"
               "mulps %%xmm12, %%xmm4\n\taddps %%xmm13, %%xmm5\n\tmulps %%xmm12, %%xmm6\n\taddps %%xmm13, %%xmm7\n\t"
               "mulps %%xmm12, %%xmm8\n\taddps %%xmm13, %%xmm9\n\tmulps %%xmm12, %%xmm10\n\taddps %%xmm13, %%xmm11\n\t"
               "dec %0\n\tjnz 1b"
               : "+r"(rounds)
               :
               : ATTUNE_CLOBBERS);
}
#endif

}  // namespace

double measure_fma_peak(const CpuTarget& target) {
#if defined(__x86_64__)
  // A target above what this process can run has no peak here.
  if (target.isa > host().isa) return 0;
  void (*run)(long) = run_generic;
  double flops_a_round = 12 * 4;
  if (target.isa == Isa::avx512) {
    run = run_avx512;
    flops_a_round = 12 * 16 * 2;
  } else if (target.isa == Isa::avx2) {
    run = run_avx2;
    flops_a_round = 12 * 8 * 2;
  }
  using Clock = std::chrono::steady_clock;
  constexpr long rounds = 8000;  // about 20 us: short enough that some samples are not interrupted
  const Clock::time_point begin = Clock::now();
  Clock::time_point last = begin;
  double best = 1e9;
  do {
    run(rounds);
    Clock::time_point now = Clock::now();
    best = std::min(best, std::chrono::duration<double>(now - last).count());
    last = now;
  } while (last - begin < std::chrono::milliseconds(20));
  return best > 0 ? flops_a_round * static_cast<double>(rounds) / best * 1e-9 : 0;
#else
  (void)target;
  return 0;
#endif
}

}  // namespace attune::cpu
