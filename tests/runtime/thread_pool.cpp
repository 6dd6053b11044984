// SPDX-License-Identifier: Apache-2.0
// The thread pool: every task once, nested and concurrent calls, nobody waits for idle threads, fork.
#include "runtime/thread_pool.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "runtime/cores.hpp"
#include "tests/catch.hpp"

using namespace attune;

namespace {

template <class F>
void run(Executor& executor, std::int64_t count, F& task) {
  executor.parallel_for(
      count, [](void* context, std::int64_t index) { (*static_cast<F*>(context))(index); }, &task);
}

}  // namespace

TEST_CASE("every task runs exactly once") {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    CHECK(pool.concurrency() == threads);
    for (std::int64_t count : {0, 1, 2, 3, 100, 5000}) {
      std::vector<std::atomic<int>> hits(static_cast<std::size_t>(count));
      std::int64_t plain = 0;  // written by tasks of index 0 only; read after the call without further synchronisation
      auto task = [&](std::int64_t index) {
        hits[static_cast<std::size_t>(index)].fetch_add(1, std::memory_order_relaxed);
        if (index == 0) plain = count;
      };
      run(pool, count, task);
      CHECK(plain == count);
      for (const auto& hit : hits) REQUIRE(hit == 1);
    }
  }
}

TEST_CASE("workers are made lazily and only as many as tasks need") {
  ThreadPool pool(4);
  CHECK(pool.workers() == 0);
  auto task = [](std::int64_t) {};
  run(pool, 1, task);
  CHECK(pool.workers() == 0);
  run(pool, 2, task);
  CHECK(pool.workers() == 1);
  run(pool, 100, task);
  CHECK(pool.workers() == 3);
}

TEST_CASE("no more tasks at a time than concurrency says") {
  ThreadPool pool(3);
  std::atomic<int> now{0}, most{0};
  auto task = [&](std::int64_t) {
    const int running = ++now;
    int seen = most;
    while (seen < running && !most.compare_exchange_weak(seen, running)) {
    }
    std::this_thread::yield();
    --now;
  };
  run(pool, 2000, task);
  CHECK(most <= 3);
}

TEST_CASE("calls from several threads and from inside tasks") {
  ThreadPool pool(3);
  std::atomic<std::int64_t> total{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        auto outer = [&](std::int64_t) {
          auto inner = [&](std::int64_t index) { total += index; };
          run(pool, 5, inner);
        };
        run(pool, 7, outer);
      }
    });
  for (auto& caller : callers) caller.join();
  CHECK(total == 4 * 50 * 7 * 10);
}

TEST_CASE("a caller does not wait for workers that hold no task of its own") {
  ThreadPool pool(2);
  std::atomic<bool> release{false}, held{false};
  std::thread slow([&] {
    auto task = [&](std::int64_t) {
      held = true;
      while (!release) std::this_thread::yield();
    };
    run(pool, 2, task);  // occupies its own thread and the only worker
  });
  while (!held) std::this_thread::yield();
  std::int64_t sum = 0;
  auto quick = [&](std::int64_t index) { sum += index; };
  // Whether or not the worker is busy by now, this ends while the other call is still held.
  if (pool.workers() == 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    run(pool, 4, quick);
    CHECK(sum == 6);
  }
  CHECK_FALSE(release);
  release = true;
  slow.join();
}

TEST_CASE("workers wake up again after they have slept") {
  ThreadPool pool(3);
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> ran{0};
    auto task = [&](std::int64_t) { ++ran; };
    run(pool, 16, task);
    CHECK(ran == 16);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

TEST_CASE("pools come and go") {
  for (int round = 0; round < 50; ++round) {
    ThreadPool pool(3);
    auto task = [](std::int64_t) {};
    run(pool, round % 3 == 0 ? 0 : 10, task);
  }
}

#ifndef __SANITIZE_THREAD__
TEST_CASE("a forked child makes its own workers") {
  auto pool = std::make_unique<ThreadPool>(3);
  auto task = [](std::int64_t) {};
  run(*pool, 10, task);
  const pid_t child = fork();
  if (child == 0) {
    std::atomic<int> ran{0};
    auto count = [&](std::int64_t) { ++ran; };
    const bool fresh = pool->workers() == 0;
    run(*pool, 100, count);
    const bool made = pool->workers() == 2;
    pool.reset();
    _exit(fresh && made && ran == 100 ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(pool->workers() == 2);
}
#endif

TEST_CASE("usable cores are sane") {
  const UsableCores cores = usable_cores();
  CHECK(cores.threads >= 1);
  CHECK(cores.threads <= cores.physical_cores);
  CHECK(cores.physical_cores <= cores.logical_cores);
}
