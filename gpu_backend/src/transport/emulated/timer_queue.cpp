#include "timer_queue.hpp"

#include <sys/prctl.h>

#include <utility>

namespace ppsim::gpu_backend {

void ask_for_precise_waits() { prctl(PR_SET_TIMERSLACK, 1UL); }

TimerQueue::TimerQueue() : thread_([this] { ring(); }) {}

TimerQueue::~TimerQueue() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_one();
}

void TimerQueue::set(WallClock::time_point due, std::function<void()> call) {
  const std::lock_guard lock(mutex_);
  const auto at = calls_.emplace(due, std::move(call));
  if (at == calls_.begin()) changed_.notify_one();
}

void TimerQueue::ring() {
  ask_for_precise_waits();
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    if (calls_.empty()) {
      changed_.wait(lock);
    } else if (const auto due = calls_.begin()->first; due > WallClock::now()) {
      changed_.wait_until(lock, due);
    } else {
      const auto next = calls_.extract(calls_.begin());
      lock.unlock();
      next.mapped()();
      lock.lock();
    }
  }
}

}  // namespace ppsim::gpu_backend
