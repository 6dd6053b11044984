// SPDX-License-Identifier: Apache-2.0
// The fake compiler, and both fakes put in place.
#include <cstring>
#include <mutex>

#include "backend/cuda/nvrtc.hpp"
#include "tests/cuda/fake.hpp"

namespace fake {

const attune::cuda::driver::Api& driver_table();
void forget_driver();

namespace {

using attune::cuda::nvrtc::nvrtcProgram;

std::mutex mutex;
Compiler* state = new Compiler;

struct Translated {
  std::string source;
};
std::string cubin_of(nvrtcProgram program) {
  return "fake cubin " + reinterpret_cast<Translated*>(program)->source + '\0';
}

const attune::cuda::nvrtc::Api& compiler_table() {
  static const attune::cuda::nvrtc::Api table = [] {
    attune::cuda::nvrtc::Api api;
    api.nvrtcVersion = [](int* major, int* minor) {
      *major = 13;
      *minor = 0;
      return 0;
    };
    api.nvrtcGetErrorString = [](int result) { return result == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR"; };
    api.nvrtcGetNumSupportedArchs = [](int* count) {
      *count = static_cast<int>(state->archs.size());
      return 0;
    };
    api.nvrtcGetSupportedArchs = [](int* archs) {
      std::copy(state->archs.begin(), state->archs.end(), archs);
      return 0;
    };
    api.nvrtcCreateProgram = [](nvrtcProgram* program, const char* source, const char*, int, const char* const*,
                                const char* const*) {
      *program = reinterpret_cast<nvrtcProgram>(new Translated{source});
      return 0;
    };
    api.nvrtcDestroyProgram = [](nvrtcProgram* program) {
      delete reinterpret_cast<Translated*>(*program);
      *program = nullptr;
      return 0;
    };
    api.nvrtcCompileProgram = [](nvrtcProgram program, int count, const char* const* options) {
      const std::lock_guard lock(mutex);
      state->sources.push_back(reinterpret_cast<Translated*>(program)->source);
      state->options.emplace_back(options, options + count);
      return state->result;
    };
    api.nvrtcGetProgramLogSize = [](nvrtcProgram, std::size_t* size) {
      *size = state->log.size() + 1;
      return 0;
    };
    api.nvrtcGetProgramLog = [](nvrtcProgram, char* log) {
      std::memcpy(log, state->log.c_str(), state->log.size() + 1);
      return 0;
    };
    api.nvrtcGetCUBINSize = [](nvrtcProgram program, std::size_t* size) {
      *size = cubin_of(program).size();
      return 0;
    };
    api.nvrtcGetCUBIN = [](nvrtcProgram program, char* code) {
      const std::string cubin = cubin_of(program);
      std::memcpy(code, cubin.data(), cubin.size());
      return 0;
    };
    api.nvrtcGetPTXSize = [](nvrtcProgram, std::size_t* size) {
      *size = 9;
      return 0;
    };
    api.nvrtcGetPTX = [](nvrtcProgram, char* text) {
      std::memcpy(text, "fake PTX", 9);
      return 0;
    };
    return api;
  }();
  return table;
}

}  // namespace

Compiler& compiler() { return *state; }

namespace {

/// Functions with the right names and parameters and empty bodies.
attune::Result<attune::cuda::Source> generate(const attune::loop::Kernel& kernel, const attune::cuda::GpuTarget&) {
  attune::cuda::Source source;
  source.words = kernel.dims.size() + kernel.scalars.size() + 1;
  for (const auto& buffer : kernel.buffers) source.words += 1 + buffer.extents.size();
  source.text = std::string(attune::cuda::prelude()) + std::string(attune::cuda::prelude_end);
  source.text += "struct Params { u64 words[" + std::to_string(source.words) + "]; };\n";
  for (std::size_t k = 0; k < kernel.nests.size(); ++k) {
    const std::string name = "nest" + std::to_string(k);
    source.text += "ATTUNE_KERNEL(128, 1) " + name + "(const Params p) {}\n";
    source.launches.push_back({name, 128, 0, 1});
  }
  return source;
}

}  // namespace

void install() {
  attune::cuda::replace_generator(&generate);
  forget_driver();
  static std::vector<Compiler*> all;  // the old one stays for what still points into it
  all.push_back(state);
  state = new Compiler;
  attune::cuda::driver::replace(&driver_table());
  attune::cuda::nvrtc::replace(&compiler_table());
}

void install_with_generator() {
  install();
  attune::cuda::replace_generator(nullptr);
}

void install_without_driver() {
  install();
  attune::cuda::driver::replace(nullptr);
}

void install_without_compiler() {
  install();
  attune::cuda::nvrtc::replace(nullptr);
}

}  // namespace fake
