// SPDX-License-Identifier: Apache-2.0
// A memory cache by key: least recently used entries go first, and each missing key is made once, outside the lock.
#pragma once
#include <attune/diagnostic.hpp>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

namespace attune {

/// Value is cheap to copy (a shared pointer). Failures are handed to everyone who waits for them and then forgotten.
template <class Value>
class SingleFlight {
 public:
  explicit SingleFlight(std::size_t limit) : limit_(limit ? limit : 1) {}

  struct Found {
    Value value;
    bool made = false;  ///< by this call; false: it was there, or another thread made it meanwhile
  };

  /// The value of `key`; `make()` gives a Result<Value> where there is none. make() must not ask for the same key.
  template <class Make>
  Result<Found> get(const std::string& key, Make&& make) {
    std::shared_ptr<Flight> flight;
    {
      std::unique_lock lock(mutex_);
      if (auto found = entries_.find(key); found != entries_.end()) {
        order_.splice(order_.begin(), order_, found->second.place);
        return Found{found->second.value, false};
      }
      if (auto flying = flights_.find(key); flying != flights_.end()) {
        flight = flying->second;
        flight->landed.wait(lock, [&] { return flight->result.has_value(); });
        if (!*flight->result) return flight->result->diagnostics();
        return Found{flight->result->value(), false};
      }
      flight = flights_.emplace(key, std::make_shared<Flight>()).first->second;
    }
    Landing landing{*this, key, *flight};
    Result<Value> result = make();
    landing.land(result);
    if (!result) return result.diagnostics();
    return Found{*std::move(result), true};
  }

  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return entries_.size();
  }

 private:
  struct Flight {
    std::condition_variable landed;
    std::optional<Result<Value>> result;
  };
  struct Entry {
    Value value;
    std::list<std::string>::iterator place;
  };

  /// Ends the flight whatever happens: an exception of make() (out of memory) must not leave others waiting.
  struct Landing {
    SingleFlight& cache;
    const std::string& key;
    Flight& flight;
    bool done = false;

    void land(const Result<Value>& result) {
      const std::lock_guard lock(cache.mutex_);
      done = true;
      if (result) cache.insert(key, *result);
      flight.result.emplace(result);
      flight.landed.notify_all();
      cache.flights_.erase(key);
    }
    ~Landing() {
      if (done) return;
      Diagnostic diagnostic;
      diagnostic.code = "A0607";
      diagnostic.message = "out of memory while compiling";
      land(Result<Value>(std::move(diagnostic)));
    }
  };

  void insert(const std::string& key, const Value& value) {
    order_.push_front(key);
    entries_.insert_or_assign(key, Entry{value, order_.begin()});
    while (entries_.size() > limit_) {
      entries_.erase(order_.back());
      order_.pop_back();
    }
  }

  const std::size_t limit_;
  mutable std::mutex mutex_;
  std::list<std::string> order_;  ///< most recently used first
  std::unordered_map<std::string, Entry> entries_;
  std::unordered_map<std::string, std::shared_ptr<Flight>> flights_;
};

}  // namespace attune
