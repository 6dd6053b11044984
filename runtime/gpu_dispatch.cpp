// SPDX-License-Identifier: Apache-2.0
// A planned call on a GPU: addresses into the words, the flag cleared, one launch a nest on the caller's stream.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/dispatch.hpp"
#include "runtime/state.hpp"

namespace attune {
namespace {

using cuda::driver::CUdeviceptr;
using cuda::driver::CUresult;
using cuda::driver::CUstream;

Diagnostic workspace_problem(std::string message, std::string help) {
  Diagnostic diagnostic;
  diagnostic.code = "A0610";
  diagnostic.message = std::move(message);
  diagnostic.help = std::move(help);
  return diagnostic;
}

bool needs_workspace(const Plan& plan) { return plan.temporary_bytes > 0 || plan.variant->gpu->may_flag; }

std::uint64_t address_of(const void* data) { return reinterpret_cast<std::uintptr_t>(data); }

}  // namespace

std::uint64_t workspace_bytes(const Plan& plan) {
  return needs_workspace(plan) ? workspace_head + plan.temporary_bytes : 0;
}

bool is_capturing(int device, void* stream) {
  const cuda::Current current(device);
  int status = 0;
  return current.result() == cuda::driver::success &&
         cuda::driver::api()->cuStreamIsCapturing(static_cast<CUstream>(stream), &status) == cuda::driver::success &&
         status != 0;
}

Result<bool> launch(Engine::State& engine, const Plan& plan, const Arguments& arguments, const RunOptions& options) {
  const cuda::Loaded& code = *plan.variant->gpu;
  const std::string& name = plan.variant->lowered.kernel.name;
  const auto failed = [&](CUresult result, const char* doing) {
    return cuda::driver::failed(result, fmt::format("{} `{}`", doing, name));
  };
  const cuda::Current current(code.device);
  if (current.result() != cuda::driver::success) return failed(current.result(), "preparing");
  const cuda::driver::Api& api = *cuda::driver::api();
  const auto stream = static_cast<CUstream>(options.stream);
  if (options.wait && is_capturing(code.device, options.stream))
    return workspace_problem(fmt::format("`{}` cannot wait for a stream that is captured", name),
                             "leave RunOptions::wait false, and read the flag from a workspace of your own");

  // Memory first, so that a failure leaves the results as they were.
  const std::uint64_t needed = workspace_bytes(plan);
  std::shared_ptr<GpuScratch> scratch;
  std::unique_lock<std::mutex> together;
  std::uint64_t workspace = address_of(options.workspace);
  if (options.workspace != nullptr) {
    if (options.workspace_bytes < needed || workspace % workspace_head != 0)
      return workspace_problem(fmt::format("`{}` needs a workspace of {} bytes, aligned to {}; {} were given at {:#x}",
                                           name, needed, workspace_head, options.workspace_bytes, workspace),
                               "Kernel::workspace_bytes() says how much a call needs");
  } else if (needed > 0) {
    scratch = engine.gpu_scratch.of(code.device, options.stream);
    together = std::unique_lock(scratch->mutex);
    if (!scratch->has(needed)) {
      if (is_capturing(code.device, options.stream))
        return workspace_problem(
            fmt::format("`{}` has to allocate {} bytes while its stream is captured", name, needed),
            "make the same call once before the capture, or give a RunOptions::workspace");
      if (const Result<bool> reserved = scratch->reserve(needed, code.device); !reserved) return reserved.diagnostics();
    }
    workspace = address_of(scratch->memory.data());
  }

  constexpr std::size_t usual = 256;
  std::uint64_t few[usual];
  std::vector<std::uint64_t> many(plan.words.values.size() > usual ? plan.words.values.size() : 0);
  std::uint64_t* words = many.empty() ? few : many.data();
  std::copy(plan.words.values.begin(), plan.words.values.end(), words);
  for (std::size_t k = 0; k < plan.pointers.size(); ++k) {
    const Plan::Pointer& pointer = plan.pointers[k];
    words[plan.words.address_at[k]] =
        pointer.argument < 0
            ? workspace + workspace_head + pointer.offset
            : address_of(std::get<TensorRef>(arguments[static_cast<std::size_t>(pointer.argument)].value).data);
  }
  words[plan.words.flag_at] = code.may_flag ? workspace : 0;

  if (engine.settings.poison && plan.temporary_bytes > 0)
    if (const CUresult result = api.cuMemsetD8Async(workspace + workspace_head, 0xff, plan.temporary_bytes, stream);
        result != cuda::driver::success)
      return failed(result, "poisoning the temporaries of");
  if (code.may_flag)
    if (const CUresult result = api.cuMemsetD32Async(workspace, 0, 1, stream); result != cuda::driver::success)
      return failed(result, "clearing the flag of");
  void* parameters[] = {words};
  for (std::size_t k = 0; k < plan.blocks.size(); ++k) {
    if (plan.blocks[k] == 0) continue;
    const cuda::Launch& shape = code.launches[k];
    const CUresult result = api.cuLaunchKernel(code.functions[k].handle, static_cast<unsigned>(plan.blocks[k]), 1, 1,
                                               static_cast<unsigned>(shape.threads), 1, 1,
                                               static_cast<unsigned>(shape.shared_bytes), stream, parameters, nullptr);
    if (result != cuda::driver::success) return failed(result, "launching");
  }
  if (!options.wait) return false;
  if (const CUresult result = api.cuStreamSynchronize(stream); result != cuda::driver::success)
    return failed(result, "running");
  std::int32_t flag = 0;
  if (code.may_flag)
    if (const CUresult result = api.cuMemcpyDtoH(&flag, workspace, sizeof flag); result != cuda::driver::success)
      return failed(result, "reading the flag of");
  return flag != 0;
}

}  // namespace attune
