// SPDX-License-Identifier: Apache-2.0
// The device functions that generated code calls: conversions, warp exchanges, tensor-core and copy instructions as
// inline PTX. The only place where generated CUDA differs from plain C++; everything after it is portable text.
#include "backend/cuda/cuda.hpp"

namespace attune::cuda {

std::string_view prelude() {
  static constexpr std::string_view text = R"cuda(typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;
#define ATTUNE_KERNEL(threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks)
#define ATTUNE_DEVICE static __device__ __forceinline__
extern __shared__ __align__(1024) u8 attune_shared[];

ATTUNE_DEVICE int thread_index() { return (int)threadIdx.x; }
ATTUNE_DEVICE i64 block_index() { return (i64)blockIdx.x; }
// A value that is the same for all lanes of the warp, said so that the compiler knows it.
ATTUNE_DEVICE int warp_uniform(int x) { return __shfl_sync(0xffffffffu, x, 0); }
ATTUNE_DEVICE void block_sync() { __syncthreads(); }
ATTUNE_DEVICE bool block_any(bool x) { return __syncthreads_or(x) != 0; }
ATTUNE_DEVICE bool block_all(bool x) { return __syncthreads_and(x) != 0; }
ATTUNE_DEVICE bool warp_any(bool x) { return __any_sync(0xffffffffu, x) != 0; }
ATTUNE_DEVICE float lane_xor(float x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
ATTUNE_DEVICE i64 lane_xor(i64 x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
ATTUNE_DEVICE int lane_xor(int x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
ATTUNE_DEVICE bool lane_xor(bool x, int mask) { return __shfl_xor_sync(0xffffffffu, (int)x, mask) != 0; }

ATTUNE_DEVICE float bits_to_float(u32 x) { return __uint_as_float(x); }
ATTUNE_DEVICE u32 float_to_bits(float x) { return __float_as_uint(x); }
ATTUNE_DEVICE float nan_f32() { return __uint_as_float(0x7fc00000u); }
ATTUNE_DEVICE float infinity_f32() { return __uint_as_float(0x7f800000u); }

// ---- conversions: storage formats as bits ----
ATTUNE_DEVICE float f16_to_f32(u16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)); return y; }
ATTUNE_DEVICE u16 f32_to_f16(float x) { u16 y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y; }
ATTUNE_DEVICE float bf16_to_f32(u16 x) { return __uint_as_float((u32)x << 16); }
ATTUNE_DEVICE u16 f32_to_bf16(float x) {
  u32 u = __float_as_uint(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (u16)((u >> 16) | 0x40u);
  return (u16)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
// Two values in one register, the first in the low half.
ATTUNE_DEVICE u32 pack_bf16(float lo, float hi);
ATTUNE_DEVICE u32 pack_f16(float lo, float hi) { u32 y; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(hi), "f"(lo)); return y; }
ATTUNE_DEVICE u32 pack_bf16(float lo, float hi) { u32 y; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(hi), "f"(lo)); return y; }
ATTUNE_DEVICE u32 pack_bits(u16 lo, u16 hi) { return (u32)lo | ((u32)hi << 16); }

// ---- functions of f32 ----
// 2^x to about 2 units of the last place; denormal results are 0.
ATTUNE_DEVICE float exp2_fast(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
ATTUNE_DEVICE float reciprocal_fast(float x) { float y; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
ATTUNE_DEVICE float max_number(float a, float b) { return fmaxf(a, b); }
ATTUNE_DEVICE float exp_f32(float x) { return expf(x); }
ATTUNE_DEVICE float exp2_f32(float x) { return exp2f(x); }
ATTUNE_DEVICE float log_f32(float x) { return logf(x); }
ATTUNE_DEVICE float log2_f32(float x) { return log2f(x); }
ATTUNE_DEVICE float sqrt_f32(float x) { return sqrtf(x); }
ATTUNE_DEVICE float rsqrt_f32(float x) { return 1.0f / sqrtf(x); }
ATTUNE_DEVICE float sin_f32(float x) { return sinf(x); }
ATTUNE_DEVICE float cos_f32(float x) { return cosf(x); }
ATTUNE_DEVICE float tanh_f32(float x) { return tanhf(x); }
ATTUNE_DEVICE float erf_f32(float x) { return erff(x); }
ATTUNE_DEVICE float erfc_f32(float x) { return erfcf(x); }
ATTUNE_DEVICE float log1p_f32(float x) { return log1pf(x); }
ATTUNE_DEVICE float pow_f32(float x, float y) { return powf(x, y); }
ATTUNE_DEVICE float abs_f32(float x) { return fabsf(x); }
ATTUNE_DEVICE float floor_f32(float x) { return floorf(x); }
ATTUNE_DEVICE float ceil_f32(float x) { return ceilf(x); }
ATTUNE_DEVICE float round_f32(float x) { return rintf(x); }
ATTUNE_DEVICE float fma_f32(float x, float y, float z) { return fmaf(x, y, z); }
ATTUNE_DEVICE u32 multiply_high(u32 x, u32 y) { return __umulhi(x, y); }

// ---- tensor cores: d += a * b, a 16 x 16 by rows, b 16 x 8 by columns ----
ATTUNE_DEVICE void mma_bf16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
ATTUNE_DEVICE void mma_f16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// ---- shared memory: addresses are byte offsets in the shared window ----
ATTUNE_DEVICE u32 shared_base() { return (u32)__cvta_generic_to_shared(attune_shared); }
// Four 8 x 8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
ATTUNE_DEVICE void load_matrix(u32 (&r)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}
ATTUNE_DEVICE void load_matrix_transposed(u32 (&r)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}
ATTUNE_DEVICE void store_shared_16(u32 address, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" :: "r"(address), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
ATTUNE_DEVICE void load_global_16(u32 (&r)[4], const void* from) {
  asm volatile("ld.global.nc.v4.b32 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "l"(from));
}
ATTUNE_DEVICE void store_shared_2(u32 address, u16 x) {
  asm volatile("st.shared.b16 [%0], %1;" :: "r"(address), "h"(x) : "memory");
}
// 16 bytes, of which the first `bytes` (0 or 16) are read and the rest is 0.
ATTUNE_DEVICE void copy_async_16(u32 address, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(address), "l"(from), "r"(bytes) : "memory");
}
ATTUNE_DEVICE void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int pending> ATTUNE_DEVICE void copy_async_wait() { asm volatile("cp.async.wait_group %0;" :: "n"(pending) : "memory"); }
)cuda";
  return text;
}

}  // namespace attune::cuda
