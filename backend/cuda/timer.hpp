// SPDX-License-Identifier: Apache-2.0
// Times of work on a GPU by its own events, with pauses on the GPU between.
#pragma once
#include <memory>
#include <vector>

#include "backend/cuda/device.hpp"

namespace attune::cuda {

/// Measures spans of the default stream of one device. Not thread-safe.
class Timer {
 public:
  /// Errors: those of find_device(), compile() and the driver.
  static Result<std::unique_ptr<Timer>> make(int device);
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  /// Queues idling of about so long: work queued behind it meets a rested GPU, and the host is ahead of it.
  Result<bool> pause(double microseconds);
  /// Queues the begin and the end of a span.
  Result<bool> begin();
  Result<bool> end();
  /// Waits for the spans so far: microseconds of each, in order. Forgets them.
  Result<std::vector<double>> spans();

 private:
  Timer() = default;
  Result<bool> record();

  int device_ = 0;
  std::shared_ptr<const Loaded> pause_;
  std::vector<driver::CUevent> events_;  ///< begin and end in turn; those beyond used_ are free
  std::size_t used_ = 0;
};

}  // namespace attune::cuda
