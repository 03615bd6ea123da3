#include "call_watch.hpp"

#include <chrono>
#include <system_error>
#include <utility>

#include "ppsim/gpu_backend/executor/backend_error.hpp"

namespace ppsim::gpu_backend {

CallWatch::CallWatch(Setup setup) : setup_(std::move(setup)) {
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
  } catch (const std::system_error& error) {
    throw BackendError(ErrorCode::io, std::string("a thread that watches over NCCL: ") + error.what());
  }
}

void CallWatch::begin(Nanoseconds end) {
  const std::scoped_lock lock(mutex_);
  watches_ = true;
  interrupted_ = false;
  end_ = end;
  changed_.notify_one();
}

bool CallWatch::has_interrupted() {
  const std::scoped_lock lock(mutex_);
  return interrupted_;
}

bool CallWatch::end() {
  const std::scoped_lock lock(mutex_);
  watches_ = false;
  return !interrupted_;
}

bool CallWatch::over() const {
  try {
    setup_.check_abort();
  } catch (const BackendError&) {
    return true;
  }
  return setup_.clock.now() >= end_;
}

void CallWatch::serve(const std::stop_token& stop) {
  constexpr std::chrono::milliseconds kLook(20);
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return watches_; })) {
    if (changed_.wait_for(lock, stop, kLook, [&] { return !watches_; }) || stop.stop_requested()) continue;
    if (!over()) continue;
    interrupted_ = true;
    setup_.interrupt();
  }
}

}  // namespace ppsim::gpu_backend
