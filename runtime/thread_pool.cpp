// SPDX-License-Identifier: Apache-2.0
// The help-style pool. Waiting for *threads* would stall a call for a scheduler tick whenever a core is busy, so the
// caller waits only for tasks that a worker has claimed.
#include "runtime/thread_pool.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>
#include <vector>

namespace attune {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto spin_time = std::chrono::microseconds(30);

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

/// Polls for about spin_time; true as soon as `ready()` holds.
template <class F>
bool spin(F&& ready) {
  const auto end = Clock::now() + spin_time;
  do {
    for (int k = 0; k < 32; ++k) {
      if (ready()) return true;
      pause();
    }
  } while (Clock::now() < end);
  return ready();
}

/// Counts the forks between this process and the one that loaded the library: workers of another generation do not
/// exist here, and their locks may be in any state.
std::atomic<std::uint64_t> fork_generation{0};

std::uint64_t generation() {
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { fork_generation.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(registered);
  return fork_generation.load(std::memory_order_relaxed);
}

}  // namespace

/// One parallel_for. Refcounted: a late worker may look at it after the caller has returned, and finds nothing to do.
struct ThreadPool::Job {
  void (*task)(void*, std::int64_t);
  void* context;
  std::int64_t count;
  std::atomic<std::int64_t> next{0};
  std::atomic<std::int64_t> finished{0};
  std::atomic<int> done{0};

  bool exhausted() const { return next.load(std::memory_order_relaxed) >= count; }

  /// Claims and runs tasks until none is left.
  void help() {
    std::int64_t ran = 0;
    for (;;) {
      const std::int64_t index = next.fetch_add(1, std::memory_order_relaxed);
      if (index >= count) break;
      task(context, index);
      ++ran;
    }
    // Release: whoever sees the last count also sees what these tasks wrote.
    if (ran && finished.fetch_add(ran, std::memory_order_acq_rel) + ran == count) {
      done.store(1, std::memory_order_release);
      done.notify_all();
    }
  }
};

struct ThreadPool::Core {
  const std::uint64_t made_in = generation();
  std::mutex mutex;                        // guards jobs and threads
  std::vector<std::shared_ptr<Job>> jobs;  // posted and perhaps not exhausted
  std::vector<std::thread> threads;
  std::atomic<int> made{0};   // threads.size(), readable without the lock
  std::atomic<int> epoch{0};  // changes with every post
  std::atomic<int> parked{0};
  std::atomic<bool> stop{false};

  std::shared_ptr<Job> find() {
    const std::lock_guard lock(mutex);
    for (const auto& job : jobs)
      if (!job->exhausted()) return job;
    return nullptr;
  }

  void work() {
    int seen = epoch.load(std::memory_order_acquire);
    // A stop is announced before its epoch: whoever has seen that epoch sees the stop here, and does not sleep on it.
    while (!stop.load(std::memory_order_acquire)) {
      while (std::shared_ptr<Job> job = find()) job->help();
      const auto news = [&] { return epoch.load(std::memory_order_seq_cst) != seen; };
      if (!spin(news)) {
        // Announce the sleep before the last look at epoch; a poster changes epoch before it looks at parked.
        parked.fetch_add(1, std::memory_order_seq_cst);
        while (!news()) epoch.wait(seen, std::memory_order_seq_cst);
        parked.fetch_sub(1, std::memory_order_seq_cst);
      }
      seen = epoch.load(std::memory_order_acquire);
    }
  }

  void make_workers(int wanted) {
    if (made.load(std::memory_order_relaxed) >= wanted) return;
    const std::lock_guard lock(mutex);
    // Signals belong to the host's threads.
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    try {
      while (static_cast<int>(threads.size()) < wanted) threads.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      // The system gives no more threads: those that exist and the caller do the work.
    }
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
    made.store(static_cast<int>(threads.size()), std::memory_order_relaxed);
  }

  void announce(int helpers) {
    epoch.fetch_add(1, std::memory_order_seq_cst);
    const int sleeping = parked.load(std::memory_order_seq_cst);
    if (sleeping == 0) return;
    if (helpers >= sleeping) return epoch.notify_all();
    for (int k = 0; k < helpers; ++k) epoch.notify_one();
  }

  void run(const std::shared_ptr<Job>& job, int helpers) {
    {
      const std::lock_guard lock(mutex);
      jobs.push_back(job);
    }
    announce(helpers);
    job->help();
    {
      const std::lock_guard lock(mutex);
      jobs.erase(std::find(jobs.begin(), jobs.end(), job));
    }
    const auto done = [&] { return job->done.load(std::memory_order_acquire) != 0; };
    if (!spin(done))
      while (!done()) job->done.wait(0, std::memory_order_acquire);
  }
};

ThreadPool::ThreadPool(int threads) : threads_(std::max(threads, 1)) { generation(); }

ThreadPool::~ThreadPool() {
  Core* core = core_.load(std::memory_order_acquire);
  if (!core) return;
  // Threads of another process cannot be joined, nor may their std::thread objects die: that memory stays.
  if (core->made_in != generation()) return;
  core->stop.store(true, std::memory_order_release);
  core->epoch.fetch_add(1, std::memory_order_seq_cst);
  core->epoch.notify_all();
  for (std::thread& thread : core->threads) thread.join();
  delete core;
}

ThreadPool::Core& ThreadPool::core() {
  Core* core = core_.load(std::memory_order_acquire);
  while (!core || core->made_in != generation()) {
    auto fresh = std::make_unique<Core>();
    if (core_.compare_exchange_strong(core, fresh.get(), std::memory_order_acq_rel)) core = fresh.release();
  }
  return *core;
}

void ThreadPool::parallel_for(std::int64_t count, void (*task)(void*, std::int64_t), void* context) {
  if (count <= 1 || threads_ == 1) {
    for (std::int64_t index = 0; index < count; ++index) task(context, index);
    return;
  }
  Core& pool = core();
  const int helpers = static_cast<int>(std::min<std::int64_t>(threads_, count)) - 1;
  pool.make_workers(helpers);
  auto job = std::make_shared<Job>();
  job->task = task;
  job->context = context;
  job->count = count;
  pool.run(job, helpers);
}

int ThreadPool::workers() const {
  const Core* core = core_.load(std::memory_order_acquire);
  return core && core->made_in == generation() ? core->made.load(std::memory_order_relaxed) : 0;
}

}  // namespace attune
