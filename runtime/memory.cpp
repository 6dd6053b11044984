// SPDX-License-Identifier: Apache-2.0
// Blocks from the heap or, when large, from the system with huge pages advised; and the pool of workspaces.
#include "runtime/memory.hpp"

#include <sys/mman.h>

#include <new>

namespace attune {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::size_t kept_workspaces = 16;
constexpr std::size_t kept_bytes = std::size_t{64} << 20;  ///< per block; larger ones go back at once
constexpr std::align_val_t alignment{64};

std::byte* map(std::size_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return nullptr;
  madvise(address, bytes, MADV_HUGEPAGE);  // advice: without huge pages it stays correct
  return static_cast<std::byte*>(address);
}

}  // namespace

bool Memory::reserve(std::uint64_t bytes) {
  if (bytes <= size_) return true;
  if (bytes > (std::uint64_t{1} << 62)) return false;
  release();
  const bool large = bytes >= huge_page;
  const std::size_t unit = large ? huge_page : 4096;
  const std::size_t rounded = (static_cast<std::size_t>(bytes) + unit - 1) / unit * unit;
  data_ = large ? map(rounded) : static_cast<std::byte*>(::operator new(rounded, alignment, std::nothrow));
  if (!data_) return false;
  size_ = rounded;
  mapped_ = large;
  return true;
}

void Memory::release() {
  if (!data_) return;
  if (mapped_)
    munmap(data_, size_);
  else
    ::operator delete(data_, alignment);
  data_ = nullptr;
  size_ = 0;
}

WorkspacePool::Lease WorkspacePool::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Workspace> workspace = std::move(idle_.back());
      idle_.pop_back();
      return Lease(*this, std::move(workspace));
    }
    idle_.reserve(kept_workspaces);
  }
  return Lease(*this, std::make_unique<Workspace>());
}

void WorkspacePool::give_back(std::unique_ptr<Workspace> workspace) noexcept {
  if (!workspace) return;
  if (workspace->temporaries.size() > kept_bytes) workspace->temporaries.release();
  if (workspace->scratch.size() > kept_bytes) workspace->scratch.release();
  const std::lock_guard lock(mutex_);
  if (idle_.size() < kept_workspaces) idle_.push_back(std::move(workspace));
}

}  // namespace attune
