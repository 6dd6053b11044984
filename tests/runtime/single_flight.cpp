// SPDX-License-Identifier: Apache-2.0
// The memory cache: one make per key however many ask, failures are not kept, the least recently used leaves.
#include "runtime/single_flight.hpp"

#include <atomic>
#include <chrono>
#include <new>
#include <thread>

#include "tests/catch.hpp"

using namespace attune;

using Cache = SingleFlight<std::shared_ptr<int>>;

static Result<std::shared_ptr<int>> number(int value) { return std::make_shared<int>(value); }

TEST_CASE("single flight: many threads, one make") {
  Cache cache(8);
  std::atomic<int> makes{0}, made{0};
  std::vector<std::thread> threads;
  std::vector<std::shared_ptr<int>> values(8);
  for (std::size_t t = 0; t < values.size(); ++t)
    threads.emplace_back([&, t] {
      auto found = cache.get("key", [&] {
        ++makes;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return number(7);
      });
      if (!found) return;
      values[t] = found->value;
      made += found->made ? 1 : 0;
    });
  for (auto& thread : threads) thread.join();
  CHECK(makes == 1);
  CHECK(made == 1);
  for (const auto& value : values) CHECK(value == values[0]);
}

TEST_CASE("single flight: other keys do not wait") {
  Cache cache(8);
  std::atomic<bool> release{false}, started{false};
  std::thread slow([&] {
    auto found = cache.get("slow", [&] {
      started = true;
      while (!release) std::this_thread::yield();
      return number(1);
    });
    CHECK(found.ok());
  });
  while (!started) std::this_thread::yield();
  CHECK(*cache.get("quick", [] { return number(2); })->value == 2);
  release = true;
  slow.join();
}

TEST_CASE("single flight: failures reach the caller and are forgotten") {
  Cache cache(8);
  Diagnostic diagnostic;
  diagnostic.code = "A0901";
  const auto failed = cache.get("key", [&] { return Result<std::shared_ptr<int>>(diagnostic); });
  REQUIRE_FALSE(failed);
  CHECK(failed.diagnostics()[0].code == "A0901");
  CHECK_THROWS_AS(cache.get("key", []() -> Result<std::shared_ptr<int>> { throw std::bad_alloc(); }), std::bad_alloc);
  CHECK(*cache.get("key", [] { return number(3); })->value == 3);
}

TEST_CASE("single flight: the least recently used entry leaves") {
  Cache cache(2);
  int makes = 0;
  const auto get = [&](const std::string& key) {
    return cache
        .get(key,
             [&] {
               ++makes;
               return number(makes);
             })
        ->made;
  };
  CHECK(get("a"));
  CHECK(get("b"));
  CHECK_FALSE(get("a"));
  CHECK(get("c"));
  CHECK(cache.size() == 2);
  CHECK_FALSE(get("a"));
  CHECK(get("b"));
}
