// SPDX-License-Identifier: Apache-2.0
// attune's own threads. Help-style: the caller runs tasks too, and nobody waits for a thread that has claimed none.
#pragma once
#include <atomic>
#include <attune/options.hpp>
#include <memory>
#include <mutex>

namespace attune {

/// parallel_for() may be called from any thread, from several at once and from inside a task. Workers are made at the
/// first call that has more than one task, spin a little after work and then sleep. After fork() the child makes its
/// own workers. Not pinned to cores.
class ThreadPool final : public Executor {
 public:
  /// `threads` counts the caller: threads - 1 workers are made, and none for 1.
  explicit ThreadPool(int threads);
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void parallel_for(std::int64_t count, void (*task)(void* context, std::int64_t index), void* context) override;
  int concurrency() const override { return threads_; }
  /// Workers that exist in this process now (for tests).
  int workers() const;

 private:
  struct Job;
  struct Core;
  Core& core();

  const int threads_;
  std::atomic<Core*> core_{nullptr};
};

}  // namespace attune
