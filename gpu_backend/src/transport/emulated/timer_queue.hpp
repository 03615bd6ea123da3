#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

namespace ppsim::gpu_backend {

using WallClock = std::chrono::steady_clock;

/// Waits of the calling thread end when they are due, not up to 50 us later.
void ask_for_precise_waits();

/// A thread that calls functions when they are due, one at a time, in the order of their times.
class TimerQueue {
 public:
  TimerQueue();
  /// Forgets what is not due yet.
  ~TimerQueue();
  TimerQueue(const TimerQueue&) = delete;
  TimerQueue& operator=(const TimerQueue&) = delete;

  void set(WallClock::time_point due, std::function<void()> call);

 private:
  void ring();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<WallClock::time_point, std::function<void()>> calls_;
  bool stopped_ = false;
  std::jthread thread_;  // last, so that it begins with everything else in place
};

}  // namespace ppsim::gpu_backend
