#include "emulated_worker.hpp"

#include "timer_queue.hpp"

namespace ppsim::gpu_backend {

void EmulatedWorker::run(ActionPlace place) {
  const auto started = WallClock::now();
  const auto actions = program_.actions(place.instruction);
  const Nanoseconds cost = costs_(cost_class_of(actions, program_.instruction(place.instruction).form));
  if (cost == 0) return;
  ask_for_precise_waits();
  std::unique_lock lock(mutex_);
  over_.wait_until(lock, started + std::chrono::nanoseconds(cost), [&] { return interrupted_; });
}

void EmulatedWorker::interrupt() {
  const std::lock_guard lock(mutex_);
  interrupted_ = true;
  over_.notify_all();
}

}  // namespace ppsim::gpu_backend
