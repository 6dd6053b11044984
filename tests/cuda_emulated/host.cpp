// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda_emulated/host.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <regex>

#include "backend/cuda/cuda.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/fake.hpp"

namespace emulated {

const char* prelude() {
  return R"cpp(typedef unsigned char u8;
               typedef signed char i8;
               typedef unsigned short u16;
               typedef unsigned int u32;
               typedef unsigned long long u64;
               typedef long long i64;
#define ATTUNE_KERNEL(threads, blocks) static void
#define ATTUNE_DEVICE static inline
               static i64 block_now;
               static int thread_now;
               ATTUNE_DEVICE int thread_index() { return thread_now; }
               ATTUNE_DEVICE i64 block_index() { return block_now; }
               ATTUNE_DEVICE float bits_to_float(u32 x) {
                 float y;
                 __builtin_memcpy(&y, &x, 4);
                 return y;
               }
               ATTUNE_DEVICE u32 float_to_bits(float x) {
                 u32 y;
                 __builtin_memcpy(&y, &x, 4);
                 return y;
               }
               ATTUNE_DEVICE float nan_f32() { return bits_to_float(0x7fc00000u); }
               ATTUNE_DEVICE float infinity_f32() { return bits_to_float(0x7f800000u); }
               ATTUNE_DEVICE float bf16_to_f32(u16 x) { return bits_to_float((u32)x << 16); }
               ATTUNE_DEVICE u16 f32_to_bf16(float x) {
                 u32 u = float_to_bits(x);
                 if ((u & 0x7fffffffu) > 0x7f800000u) return (u16)((u >> 16) | 0x40u);
                 return (u16)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
               }
               // By bits: not every compiler has a 16-bit type for every processor.
               ATTUNE_DEVICE float f16_to_f32(u16 x) {
                 u32 sign = (u32)(x & 0x8000u) << 16, rest = x & 0x7fffu;
                 if (rest >= 0x7c00u) return bits_to_float(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
                 return bits_to_float(sign | float_to_bits(bits_to_float(rest << 13) * 0x1p112f));
               }
               ATTUNE_DEVICE u16 f32_to_f16(float x) {
                 u32 u = float_to_bits(x), sign = (u >> 16) & 0x8000u, rest = u & 0x7fffffffu;
                 if (rest > 0x7f800000u) return (u16)(sign | 0x7e00u | ((rest >> 13) & 0x3ffu));
                 if (rest >= 0x477ff000u) return (u16)(sign | 0x7c00u);
                 if (rest < 0x38800000u) return (u16)(sign | (float_to_bits(bits_to_float(rest) + 0.5f) - 0x3f000000u));
                 return (u16)(sign | ((rest - 0x38000000u + 0xfffu + ((rest >> 13) & 1u)) >> 13));
               }
               ATTUNE_DEVICE float max_number(float a, float b) { return __builtin_fmaxf(a, b); }
               ATTUNE_DEVICE float exp_f32(float x) { return __builtin_expf(x); }
               ATTUNE_DEVICE float exp2_f32(float x) { return __builtin_exp2f(x); }
               ATTUNE_DEVICE float log_f32(float x) { return __builtin_logf(x); }
               ATTUNE_DEVICE float log2_f32(float x) { return __builtin_log2f(x); }
               ATTUNE_DEVICE float sqrt_f32(float x) { return __builtin_sqrtf(x); }
               ATTUNE_DEVICE float rsqrt_f32(float x) { return 1.0f / __builtin_sqrtf(x); }
               ATTUNE_DEVICE float sin_f32(float x) { return __builtin_sinf(x); }
               ATTUNE_DEVICE float cos_f32(float x) { return __builtin_cosf(x); }
               ATTUNE_DEVICE float tanh_f32(float x) { return __builtin_tanhf(x); }
               ATTUNE_DEVICE float erf_f32(float x) { return __builtin_erff(x); }
               ATTUNE_DEVICE float erfc_f32(float x) { return __builtin_erfcf(x); }
               ATTUNE_DEVICE float log1p_f32(float x) { return __builtin_log1pf(x); }
               ATTUNE_DEVICE float pow_f32(float x, float y) { return __builtin_powf(x, y); }
               ATTUNE_DEVICE float abs_f32(float x) { return __builtin_fabsf(x); }
               ATTUNE_DEVICE float floor_f32(float x) { return __builtin_floorf(x); }
               ATTUNE_DEVICE float ceil_f32(float x) { return __builtin_ceilf(x); }
               ATTUNE_DEVICE float round_f32(float x) { return __builtin_rintf(x); }
               ATTUNE_DEVICE float fma_f32(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
               ATTUNE_DEVICE u32 multiply_high(u32 x, u32 y) { return (u32)(((u64)x * y) >> 32); }
  )cpp";
}

namespace {

/// Shared objects by machine code, in a folder of this process that goes with it.
class Objects {
 public:
  Objects() : folder_(std::filesystem::temp_directory_path() / fmt::format("attune-emulated-{}", getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~Objects() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Objects(const Objects&) = delete;
  Objects& operator=(const Objects&) = delete;

  void* find(const std::string& image) {
    auto [entry, fresh] = known_.emplace(image, nullptr);
    if (fresh) entry->second = make(image);
    return entry->second;
  }

 private:
  void* make(const std::string& image) {
    const std::size_t end = image.find(attune::cuda::prelude_end);
    REQUIRE(end != std::string::npos);
    std::string text = prelude() + image.substr(end);
    std::string calls = "extern \"C\" void place(i64 block, int thread) { block_now = block; thread_now = thread; }\n";
    const std::regex kernel(R"(ATTUNE_KERNEL\(\d+, \d+\) (\w+)\()");
    for (std::sregex_iterator at(text.begin(), text.end(), kernel), none; at != none; ++at)
      calls += fmt::format("extern \"C\" void call_{0}(const void* words) {{ {0}(*(const Params*)words); }}\n",
                           (*at)[1].str());
    const auto base = folder_ / std::to_string(known_.size());
    std::ofstream(base.string() + ".cpp") << text << calls;
    const std::string command =
        fmt::format("'{0}' -std=c++17 -O0 -w -shared -fPIC -o '{1}.so' '{1}.cpp' > '{1}.log' 2>&1",
                    ATTUNE_HOST_COMPILER, base.string());
    if (std::system(command.c_str()) != 0) {
      std::ifstream log(base.string() + ".log");
      FAIL(std::string(std::istreambuf_iterator<char>(log), {}));
    }
    void* object = dlopen((base.string() + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
    REQUIRE(object != nullptr);
    return object;
  }

  std::filesystem::path folder_;
  std::map<std::string, void*> known_;
};

void execute(const std::string& image, const std::string& function, unsigned blocks, unsigned threads,
             const void* words) {
  static Objects objects;
  void* object = objects.find(image);
  const auto place = reinterpret_cast<void (*)(long long, int)>(dlsym(object, "place"));
  const auto call = reinterpret_cast<void (*)(const void*)>(dlsym(object, ("call_" + function).c_str()));
  REQUIRE(place != nullptr);
  REQUIRE(call != nullptr);
  for (unsigned block = 0; block < blocks; ++block)
    for (unsigned thread = 0; thread < threads; ++thread) {
      place(block, static_cast<int>(thread));
      call(words);
    }
}

}  // namespace

bool install() {
  if (!std::filesystem::exists(ATTUNE_HOST_COMPILER)) {
    WARN("left out: " << ATTUNE_HOST_COMPILER << " is not here");
    return false;
  }
  fake::install_with_generator();
  fake::driver().execute = execute;
  return true;
}

}  // namespace emulated
