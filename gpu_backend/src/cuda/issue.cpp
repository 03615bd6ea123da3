#include "issue.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace ppsim {
namespace {

using std::chrono::steady_clock;

/// Time that threads have to leave a step after its deadline. What has not left by then is held in a call:
/// the driver does not return from one while the queue that it belongs to is full.
constexpr std::chrono::seconds kLeaveTime(2);

bool over(const IssueSetup& setup) { return setup.clock.now() >= setup.end || setup.peers.stopped(); }

/// Threads of which some may have to be let go.
class Leaving {
 public:
  explicit Leaving(std::size_t inside) : inside_(inside) {}

  void leave() {
    const std::scoped_lock lock(mutex_);
    --inside_;
    left_.notify_one();
  }
  /// Waits until all have left. Those that are late after `should` says that they should are let go again and
  /// again.
  template <class Should>
  void wait(GpuChannels& channels, const Should& should) {
    constexpr std::chrono::milliseconds kLook(20);
    std::unique_lock lock(mutex_);
    steady_clock::time_point late = steady_clock::time_point::max();
    while (!left_.wait_for(lock, kLook, [&] { return inside_ == 0; })) {
      const auto now = steady_clock::now();
      if (late == steady_clock::time_point::max() && should()) late = now + kLeaveTime;
      if (now >= late) channels.release();
    }
  }

 private:
  std::size_t inside_;
  std::mutex mutex_;
  std::condition_variable left_;
};

}  // namespace

void issue_together(const IssueSetup& setup) {
  const auto issued = [](const RankRun& run) { return run.issued(); };
  while (!std::all_of(setup.runs.begin(), setup.runs.end(), issued) && !over(setup)) {
    bool moved = false;
    for (RankRun& run : setup.runs) moved = run.advance() || moved;
    if (!moved) setup.clock.pause();
  }
}

void issue_with_threads(const IssueSetup& setup) {
  std::vector<std::exception_ptr> failures(setup.runs.size());
  std::atomic<bool> failed = false;
  Leaving leaving(setup.runs.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t r = 0; r < setup.runs.size(); ++r) {
      threads.emplace_back([&, r] {
        try {
          RankRun& run = setup.runs[r];
          while (!failed && !run.issued() && !over(setup)) {
            if (!run.advance()) setup.clock.pause();
          }
        } catch (...) {
          failures[r] = std::current_exception();
          failed = true;  // the others would wait for it
        }
        leaving.leave();
      });
    }
    leaving.wait(setup.channels, [&] { return failed || over(setup); });
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace ppsim
