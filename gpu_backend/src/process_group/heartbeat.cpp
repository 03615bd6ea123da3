#include <condition_variable>
#include <mutex>

#include "ppsim/gpu_backend/process_group/bootstrap.hpp"

namespace ppsim::gpu_backend {

std::jthread Bootstrap::at_work() {
  return std::jthread([this](const std::stop_token& over) {
    constexpr std::chrono::milliseconds kOften(50);  // beside every timeout there is
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    while (!over.stop_requested()) {
      send_heartbeat();
      wake.wait_for(lock, over, kOften, [] { return false; });
    }
  });
}

}  // namespace ppsim::gpu_backend
