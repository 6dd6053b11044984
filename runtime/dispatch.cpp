// SPDX-License-Identifier: Apache-2.0
// Frames, temporaries and scratch of one call; nests run one after the other, their tasks on the executor.
#include "runtime/dispatch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <thread>

#include "runtime/state.hpp"

namespace attune {
namespace {

constexpr std::uint64_t alignment = 64, gpu_alignment = 256;
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 47;  ///< no address space has more

Diagnostic out_of_memory(const std::string& what) {
  Diagnostic diagnostic;
  diagnostic.code = "A0607";
  diagnostic.message = "out of memory: " + what;
  return diagnostic;
}

Diagnostic internal(const std::string& what) {
  Diagnostic diagnostic;
  diagnostic.code = "A0904";
  diagnostic.message = "internal error: " + what;
  diagnostic.help = "please report this together with the program";
  return diagnostic;
}

/// The slot of a scalar as generated code reads it.
std::int64_t scalar_slot(const ScalarValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return *integer;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
  return std::bit_cast<std::uint32_t>(static_cast<float>(std::get<double>(value)));
}

Plan::Extent extent_of(const TensorRef& tensor) {
  Plan::Extent extent;
  extent.tensor = true;
  std::int64_t lo = 0, hi = 0;
  for (std::size_t axis = 0; axis < tensor.rank(); ++axis) {
    if (tensor.shape[axis] == 0) return extent;
    const std::int64_t reach = (tensor.shape[axis] - 1) * tensor.strides[axis];
    (reach < 0 ? lo : hi) += reach;
  }
  const auto size = static_cast<std::int64_t>(size_of(tensor.dtype));
  extent.lo = lo * size;
  extent.hi = (hi + 1) * size;
  return extent;
}

bool same_value(const Argument& a, const Argument& b) {
  if (a.value.index() != b.value.index()) return false;
  if (const auto* tensor = std::get_if<TensorRef>(&a.value)) {
    const auto& other = std::get<TensorRef>(b.value);
    return tensor->dtype == other.dtype && tensor->shape == other.shape && tensor->strides == other.strides &&
           tensor->device == other.device;
  }
  return a.value.index() == 1   ? std::get<double>(a.value) == std::get<double>(b.value)
         : a.value.index() == 2 ? std::get<std::int64_t>(a.value) == std::get<std::int64_t>(b.value)
                                : std::get<bool>(a.value) == std::get<bool>(b.value);
}

/// Hands out scratch, one piece to each running task. An executor may run tasks on any of its threads, so a task finds
/// its piece by itself; a thread tries the piece it had last, which is warm in its cache.
class ScratchSlots {
 public:
  ScratchSlots(std::byte* base, std::uint64_t bytes, int count)
      : base_(base), bytes_(bytes), count_(static_cast<unsigned>(count)), taken_((count_ + 63) / 64) {}

  unsigned take() {
    thread_local unsigned last = next_hint();
    for (;;) {
      for (unsigned k = 0; k < count_; ++k) {
        const unsigned slot = (last + k) % count_;
        const std::uint64_t bit = std::uint64_t{1} << (slot % 64);
        if (taken_[slot / 64].fetch_or(bit, std::memory_order_acquire) & bit) continue;
        last = slot;
        return slot;
      }
      // More tasks at a time than the executor's concurrency() said: one of them is about to finish.
      std::this_thread::yield();
    }
  }
  void give_back(unsigned slot) {
    taken_[slot / 64].fetch_and(~(std::uint64_t{1} << (slot % 64)), std::memory_order_release);
  }
  std::byte* memory(unsigned slot) const { return base_ + slot * bytes_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  static unsigned next_hint() {
    static std::atomic<unsigned> threads{0};
    return threads.fetch_add(1, std::memory_order_relaxed);
  }
  std::byte* base_;
  std::uint64_t bytes_;
  unsigned count_;
  std::vector<std::atomic<std::uint64_t>> taken_;
};

struct NestRun {
  const cpu::NestCode& code;
  const cpu::Frame& frame;
  ScratchSlots& slots;
  bool poison;

  static void task(void* context, std::int64_t index) {
    const auto& run = *static_cast<const NestRun*>(context);
    const unsigned slot = run.slots.take();
    if (run.poison && run.slots.bytes()) std::memset(run.slots.memory(slot), 0xff, run.slots.bytes());
    run.code.run(&run.frame, index, run.slots.memory(slot));
    run.slots.give_back(slot);
  }
};

}  // namespace

Result<std::shared_ptr<const Plan>> make_plan(std::shared_ptr<const Variant> variant, const Binding& binding,
                                              const Arguments& arguments) {
  auto plan = std::make_shared<Plan>();
  plan->variant = std::move(variant);
  plan->arguments = arguments;
  const loop::Kernel& kernel = plan->variant->lowered.kernel;
  const tensor::Program& program = *plan->variant->program;
  const std::uint64_t granule = plan->variant->gpu ? gpu_alignment : alignment;

  for (const Argument& argument : arguments) {
    Plan::Extent extent;
    if (const auto* tensor = std::get_if<TensorRef>(&argument.value)) {
      extent = extent_of(*tensor);
      for (const tensor::Tensor& result : program.results) extent.result |= result.sym.text() == argument.name;
      for (const tensor::ScalarParam& scalar : program.scalars) plan->reusable &= scalar.sym.text() != argument.name;
    }
    plan->extents_of_arguments.push_back(extent);
  }

  for (const Sym& dim : kernel.dims) {
    const auto found = binding.dims.find(dim);
    if (found == binding.dims.end()) return internal(fmt::format("dim `{}` of the kernel is not bound", dim.text()));
    plan->dims.push_back(found->second);
  }
  for (const Sym& scalar : kernel.scalars) {
    const auto found = binding.scalars.find(scalar);
    if (found == binding.scalars.end())
      return internal(fmt::format("scalar `{}` of the kernel is not bound", scalar.text()));
    plan->scalars.push_back(scalar_slot(found->second));
  }
  for (const loop::Buffer& buffer : kernel.buffers) {
    Plan::Pointer pointer;
    if (buffer.role == loop::Role::temporary) {
      std::vector<std::int64_t> shape;
      std::uint64_t bytes = size_of(buffer.dtype);
      bool empty = false;
      for (const tensor::Expr& extent : buffer.extents) {
        shape.push_back(std::max<std::int64_t>(evaluate_extent(extent, binding), 0));
        const auto size = static_cast<std::uint64_t>(shape.back());
        empty |= size == 0;
        bytes = size != 0 && bytes > most_bytes / size ? most_bytes + 1 : bytes * std::max<std::uint64_t>(size, 1);
      }
      if (empty) bytes = 0;
      if (bytes > most_bytes || plan->temporary_bytes + bytes > most_bytes)
        return out_of_memory(fmt::format("`{}` would have to be stored ({})", buffer.sym.text(), buffer.why));
      pointer.offset = plan->temporary_bytes;
      plan->temporary_bytes += (bytes + granule - 1) / granule * granule;
      const std::vector<std::int64_t> strides = contiguous_strides(shape);
      plan->strides.insert(plan->strides.end(), strides.begin(), strides.end());
      plan->extents.insert(plan->extents.end(), shape.begin(), shape.end());
    } else {
      const auto found = binding.tensors.find(buffer.sym);
      const auto argument = std::find_if(arguments.begin(), arguments.end(),
                                         [&](const Argument& given) { return given.name == buffer.sym.text(); });
      if (found == binding.tensors.end() || argument == arguments.end() || argument->value.index() != 0)
        return internal(fmt::format("tensor `{}` of the kernel is not bound", buffer.sym.text()));
      pointer.argument = argument - arguments.begin();
      const TensorRef& tensor = found->second;
      for (std::size_t axis = 0; axis < tensor.rank(); ++axis) {
        // The stride of an axis of size 1 means nothing and may be anything: the code sees one that it can trust.
        const bool unit = static_cast<std::int64_t>(axis) == buffer.unit_axis;
        plan->strides.push_back(tensor.shape[axis] > 1 ? tensor.strides[axis] : unit ? 1 : 0);
        plan->extents.push_back(tensor.shape[axis]);
      }
    }
    plan->pointers.push_back(pointer);
  }
  if (const cuda::Loaded* code = plan->variant->gpu.get()) {
    plan->words = cuda::lay_out(kernel, plan->dims, plan->scalars, plan->strides);
    if (plan->words.values.size() != code->words || code->launches.size() != kernel.nests.size())
      return internal(fmt::format("`{}` takes {} words in {} launches, the call has {} in {}", kernel.name, code->words,
                                  code->launches.size(), plan->words.values.size(), kernel.nests.size()));
    for (std::size_t k = 0; k < kernel.nests.size(); ++k) {
      const Result<std::int64_t> blocks = cuda::block_count(kernel, kernel.nests[k], code->launches[k], binding);
      if (!blocks) return blocks.diagnostics();
      plan->blocks.push_back(*blocks);
    }
  }
  return std::shared_ptr<const Plan>(std::move(plan));
}

bool same_call(const Plan& plan, const Arguments& arguments) {
  const std::size_t count = arguments.size();
  if (!plan.reusable || count != plan.arguments.size()) return false;
  for (std::size_t k = 0; k < count; ++k)
    if (arguments[k].name != plan.arguments[k].name || !same_value(arguments[k], plan.arguments[k])) return false;

  const auto address = [&](std::size_t k) {
    return reinterpret_cast<std::intptr_t>(std::get<TensorRef>(arguments[k].value).data);
  };
  for (std::size_t k = 0; k < count; ++k) {
    const Plan::Extent& extent = plan.extents_of_arguments[k];
    if (!extent.tensor || extent.lo == extent.hi) continue;
    const std::intptr_t data = address(k);
    if (data == 0 || data % static_cast<std::intptr_t>(size_of(std::get<TensorRef>(arguments[k].value).dtype)) != 0)
      return false;
    if (!extent.result) continue;
    for (std::size_t other = 0; other < count; ++other) {
      const Plan::Extent& its = plan.extents_of_arguments[other];
      if (other == k || !its.tensor || its.lo == its.hi) continue;
      if (data + extent.lo < address(other) + its.hi && address(other) + its.lo < data + extent.hi) return false;
    }
  }
  return true;
}

Result<bool> execute(Engine::State& engine, const Plan& plan, const Arguments& arguments) {
  const std::vector<cpu::NestCode>& nests = plan.variant->code->nests;
  const bool poison = engine.settings.poison;
  WorkspacePool::Lease workspace = engine.workspaces.take();

  if (!workspace->temporaries.reserve(plan.temporary_bytes))
    return out_of_memory(fmt::format("the stored intermediates need {} bytes", plan.temporary_bytes));
  if (poison && plan.temporary_bytes) std::memset(workspace->temporaries.data(), 0xff, plan.temporary_bytes);
  workspace->pointers.clear();
  for (const Plan::Pointer& pointer : plan.pointers)
    workspace->pointers.push_back(
        pointer.argument < 0 ? workspace->temporaries.data() + pointer.offset
                             : std::get<TensorRef>(arguments[static_cast<std::size_t>(pointer.argument)].value).data);
  std::int32_t out_of_range = 0;
  const cpu::Frame frame{workspace->pointers.data(), plan.strides.data(), plan.extents.data(),
                         plan.dims.data(),           plan.scalars.data(), &out_of_range};

  // All memory is there before the first nest runs, so that a failure leaves the results as they were.
  struct Work {
    std::int64_t tasks;
    std::uint64_t scratch;
    int slots;
  };
  constexpr std::size_t usual = 8;
  Work few[usual];
  std::vector<Work> many(nests.size() > usual ? nests.size() : 0);
  Work* work = many.empty() ? few : many.data();
  std::uint64_t scratch_bytes = 0;
  for (std::size_t k = 0; k < nests.size(); ++k) {
    const std::int64_t tasks = nests[k].tasks(&frame);
    work[k] = {std::max<std::int64_t>(tasks, 0), 0, 1};
    if (tasks <= 0) continue;
    const std::int64_t bytes = nests[k].scratch(&frame);
    work[k].slots = static_cast<int>(std::min<std::int64_t>(tasks, std::max(engine.executor->concurrency(), 1)));
    if (bytes < 0 || static_cast<std::uint64_t>(bytes) > most_bytes / static_cast<std::uint64_t>(work[k].slots))
      return out_of_memory("a task's scratch is too large");
    work[k].scratch = (static_cast<std::uint64_t>(bytes) + alignment - 1) / alignment * alignment;
    scratch_bytes = std::max(scratch_bytes, work[k].scratch * static_cast<std::uint64_t>(work[k].slots));
  }
  if (!workspace->scratch.reserve(scratch_bytes))
    return out_of_memory(fmt::format("the tasks' scratch needs {} bytes", scratch_bytes));

  for (std::size_t k = 0; k < nests.size(); ++k) {
    if (work[k].tasks == 0) continue;
    if (work[k].tasks == 1) {
      if (poison && work[k].scratch) std::memset(workspace->scratch.data(), 0xff, work[k].scratch);
      nests[k].run(&frame, 0, workspace->scratch.data());
      continue;
    }
    ScratchSlots slots(workspace->scratch.data(), work[k].scratch, work[k].slots);
    NestRun run{nests[k], frame, slots, poison};
    engine.executor->parallel_for(work[k].tasks, &NestRun::task, &run);
  }
  return out_of_range != 0;
}

}  // namespace attune
