// SPDX-License-Identifier: Apache-2.0
// Memory of calls: temporaries and per-thread scratch, kept between calls so that a warm call allocates nothing.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace attune {

/// A 64-byte aligned block that only grows. Large ones are mapped and advised to be huge pages.
class Memory {
 public:
  Memory() = default;
  ~Memory() { release(); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  /// Room for `bytes`, contents undefined; false where the system has not that much.
  [[nodiscard]] bool reserve(std::uint64_t bytes);
  void release();
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  bool mapped_ = false;
};

/// What one call in flight needs besides its arguments.
struct Workspace {
  Memory temporaries;
  Memory scratch;
  std::vector<void*> pointers;
};

/// Workspaces between calls. Safe to share; keeps a few, and no very large ones.
class WorkspacePool {
 public:
  class Lease {
   public:
    Lease(WorkspacePool& pool, std::unique_ptr<Workspace> workspace) : pool_(pool), workspace_(std::move(workspace)) {}
    ~Lease() { pool_.give_back(std::move(workspace_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Workspace* operator->() const { return workspace_.get(); }

   private:
    WorkspacePool& pool_;
    std::unique_ptr<Workspace> workspace_;
  };
  Lease take();

 private:
  void give_back(std::unique_ptr<Workspace> workspace) noexcept;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> idle_;
};

}  // namespace attune
