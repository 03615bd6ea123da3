#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <thread>
#include <type_traits>

#include "ppsim/core/ir/units.hpp"

namespace ppsim::cli {

/// While it lives, this process gets no more memory than it has now and so much: what asks for more fails
/// with std::bad_alloc instead of being killed later. Without a budget, and where there is no /proc, it does
/// nothing.
class MemoryCap {
 public:
  explicit MemoryCap(std::optional<Bytes> budget);
  MemoryCap(const MemoryCap&) = delete;
  MemoryCap& operator=(const MemoryCap&) = delete;
  ~MemoryCap();

 private:
  std::optional<unsigned long> before_;
};

/// Says on the way out what could not be decided, and ends the process at once: for work in another thread
/// that cannot be stopped.
[[noreturn]] void end_late(const std::function<int()>& say);

/// Runs `work` under a limit and returns its result. Library calls look at the clock themselves; reading,
/// generating and lowering do not. Where `work` has not ended half a second after `seconds`, `when_late`
/// prints and returns the exit code with which the process ends.
template <class Work>
std::invoke_result_t<Work> within(double seconds, Work work, const std::function<int()>& when_late) {
  constexpr double kGrace = 0.5;
  std::packaged_task<std::invoke_result_t<Work>()> task(std::move(work));
  auto result = task.get_future();
  std::thread thread(std::move(task));
  if (result.wait_for(std::chrono::duration<double>(seconds + kGrace)) != std::future_status::ready) {
    thread.detach();
    end_late(when_late);
  }
  thread.join();
  return result.get();
}

}  // namespace ppsim::cli
