// SPDX-License-Identifier: Apache-2.0
// Runs a loop kernel through the CPU backend on one thread: compiles, fills the frame, executes every task.
#pragma once
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backend/binding.hpp"
#include "backend/cpu/cpu.hpp"
#include "tests/loop/kernels.hpp"

namespace jit {

using namespace attune;

/// CPUs that this machine can run: its own, and the same without what each smaller class lacks.
inline std::vector<cpu::CpuTarget> targets() {
  std::vector<cpu::CpuTarget> list{cpu::host()};
  if (cpu::host().isa != cpu::Isa::generic) {
    cpu::CpuTarget generic;
    generic.name = "x86-64";
    list.push_back(generic);
  }
  return list;
}

struct Built {
  std::string ir;
  std::shared_ptr<cpu::Loaded> code;
};

inline Built build(const loop::Kernel& kernel, const cpu::CpuTarget& target) {
  Built built;
  built.ir = cpu::emit(kernel, target).value();
  const auto object = cpu::compile(built.ir, target).value();
  built.code = cpu::load(object, kernel.nests.size()).value();
  return built;
}

struct Outcome {
  bool out_of_range = false;
};

/// Scratch of one task, 64-byte aligned, with poison around and inside.
class Scratch {
 public:
  explicit Scratch(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes)), storage_(bytes_ + 192) {
    auto at = reinterpret_cast<std::uintptr_t>(storage_.data()) + 64;
    data_ = storage_.data() + ((at + 63) / 64 * 64 - reinterpret_cast<std::uintptr_t>(storage_.data()));
    std::memset(storage_.data(), 0xff, storage_.size());  // NaNs, -1, true
  }
  void* data() { return data_; }
  bool intact() const {
    for (const unsigned char* p = storage_.data(); p < data_; ++p)
      if (*p != 0xff) return false;
    for (const unsigned char* p = data_ + bytes_; p < storage_.data() + storage_.size(); ++p)
      if (*p != 0xff) return false;
    return true;
  }

 private:
  std::size_t bytes_;
  std::vector<unsigned char> storage_;
  unsigned char* data_;
};

/// A kernel's frame over a binding; temporaries get memory of their own.
class Call {
 public:
  Call(const loop::Kernel& kernel, const Binding& binding) {
    for (const Sym& dim : kernel.dims) dims_.push_back(binding.dims.at(dim));
    for (const Sym& scalar : kernel.scalars) {
      std::int64_t word = 0;
      const ScalarValue& value = binding.scalars.at(scalar);
      if (const auto* whole = std::get_if<std::int64_t>(&value)) word = *whole;
      if (const auto* truth = std::get_if<bool>(&value)) word = *truth ? 1 : 0;
      if (const auto* real = std::get_if<double>(&value)) {
        const float narrow = static_cast<float>(*real);
        std::memcpy(&word, &narrow, sizeof narrow);
      }
      scalars_.push_back(word);
    }
    for (const loop::Buffer& buffer : kernel.buffers) {
      if (const auto found = binding.tensors.find(buffer.sym); found != binding.tensors.end()) {
        const TensorRef& tensor = found->second;
        pointers_.push_back(tensor.data);
        strides_.insert(strides_.end(), tensor.strides.begin(), tensor.strides.end());
        extents_.insert(extents_.end(), tensor.shape.begin(), tensor.shape.end());
        continue;
      }
      std::vector<std::int64_t> shape;
      for (const Expr& extent : buffer.extents) shape.push_back(evaluate_extent(extent, binding));
      std::vector<std::int64_t> strides(shape.size(), 1);
      for (std::size_t k = shape.size(); k-- > 1;) strides[k - 1] = strides[k] * shape[k];
      std::size_t bytes = size_of(buffer.dtype);
      for (const std::int64_t extent : shape) bytes *= static_cast<std::size_t>(extent);
      temporaries_.push_back(std::make_unique<std::vector<unsigned char>>(bytes + 1, std::uint8_t{0xff}));
      pointers_.push_back(temporaries_.back()->data());
      strides_.insert(strides_.end(), strides.begin(), strides.end());
      extents_.insert(extents_.end(), shape.begin(), shape.end());
    }
    frame_ = {pointers_.data(), strides_.data(), extents_.data(), dims_.data(), scalars_.data(), &flag_};
  }
  using Expr = loop::Expr;

  /// All tasks of all nests in order; false where a task wrote outside its scratch.
  bool run(const cpu::Loaded& code) {
    bool intact = true;
    flag_ = 0;
    for (const cpu::NestCode& nest : code.nests) {
      Scratch scratch(nest.scratch(&frame_));
      const std::int64_t tasks = nest.tasks(&frame_);
      for (std::int64_t task = 0; task < tasks; ++task) nest.run(&frame_, task, scratch.data());
      intact = intact && scratch.intact();
    }
    return intact;
  }
  bool out_of_range() const { return flag_ != 0; }
  const cpu::Frame& frame() const { return frame_; }

 private:
  std::vector<void*> pointers_;
  std::vector<std::int64_t> strides_, extents_, dims_, scalars_;
  std::vector<std::unique_ptr<std::vector<unsigned char>>> temporaries_;
  std::int32_t flag_ = 0;
  cpu::Frame frame_{};
};

}  // namespace jit
