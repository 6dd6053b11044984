// SPDX-License-Identifier: Apache-2.0
// Events of the driver, and a kernel that does nothing for a while.
#include "backend/cuda/timer.hpp"

namespace attune::cuda {
namespace {

constexpr const char* pause_text = R"cuda(
extern "C" __global__ void __launch_bounds__(32, 1) attune_pause(unsigned long long nanoseconds) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - start < nanoseconds);
}
)cuda";

}  // namespace

Result<std::unique_ptr<Timer>> Timer::make(int device) {
  const auto found = find_device(device);
  if (!found) return found.diagnostics();
  Source source;
  source.text = pause_text;
  source.launches.push_back({"attune_pause", 32, 0, 1});
  source.words = 1;
  Result<Binary> binary = compile(source, (*found)->target);
  if (!binary) return binary.diagnostics();
  auto code = load(*binary, source, device, "attune_pause");
  if (!code) return code.diagnostics();
  std::unique_ptr<Timer> timer(new Timer);
  timer->device_ = device;
  timer->pause_ = *code;
  return timer;
}

Timer::~Timer() {
  const Current current(device_);
  if (current.result() != driver::success) return;
  for (driver::CUevent event : events_) driver::api()->cuEventDestroy(event);
}

Result<bool> Timer::pause(double microseconds) {
  const Current current(device_);
  if (current.result() != driver::success) return driver::failed(current.result(), "pausing");
  auto nanoseconds = static_cast<std::uint64_t>(microseconds * 1e3);
  void* parameters[] = {&nanoseconds};
  const auto result =
      driver::api()->cuLaunchKernel(pause_->functions[0].handle, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr);
  if (result != driver::success) return driver::failed(result, "pausing");
  return true;
}

Result<bool> Timer::record() {
  const Current current(device_);
  auto result = current.result();
  const driver::Api& api = *driver::api();
  if (result == driver::success && used_ == events_.size()) {
    driver::CUevent event = nullptr;
    result = api.cuEventCreate(&event, 0);
    if (result == driver::success) events_.push_back(event);
  }
  if (result == driver::success) result = api.cuEventRecord(events_[used_], nullptr);
  if (result != driver::success) return driver::failed(result, "recording an event");
  ++used_;
  return true;
}

Result<bool> Timer::begin() { return record(); }
Result<bool> Timer::end() { return record(); }

Result<std::vector<double>> Timer::spans() {
  std::vector<double> microseconds;
  const Current current(device_);
  auto result = current.result();
  const driver::Api& api = *driver::api();
  const std::size_t used = used_;
  used_ = 0;
  if (result == driver::success && used > 0) result = api.cuEventSynchronize(events_[used - 1]);
  for (std::size_t k = 0; result == driver::success && k + 1 < used; k += 2) {
    float milliseconds = 0;
    result = api.cuEventElapsedTime(&milliseconds, events_[k], events_[k + 1]);
    microseconds.push_back(static_cast<double>(milliseconds) * 1e3);
  }
  if (result != driver::success) return driver::failed(result, "timing");
  return microseconds;
}

}  // namespace attune::cuda
