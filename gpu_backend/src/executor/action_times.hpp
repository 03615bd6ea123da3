#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

#include "ppsim/gpu_backend/executor/execute.hpp"
#include "transport/emulated/timer_queue.hpp"

namespace ppsim::gpu_backend {

/// The time that each action of a step is given: that of a table on an emulated device, or of each step its
/// own. An action that has done its work earlier waits for the rest of it; one that needs longer takes
/// longer.
class ActionTimes {
 public:
  /// Requires: references that outlive it.
  ActionTimes(const Program& program, const RunOptions& options);

  /// False where every action takes what its work takes.
  [[nodiscard]] bool given() const { return given_; }
  void begin_step(int step);
  /// Of a member of an instruction; of one that computes, of its first. The same for both ends of a message,
  /// and for all members of a collective.
  [[nodiscard]] Nanoseconds operator()(InstructionId id, std::uint32_t member) const {
    return times_[program_.instruction(id).first_action + member];
  }
  /// Waits until an instruction that computes has taken its time since it started: what waking up takes does
  /// not add to it.
  void wait(InstructionId id, WallClock::time_point started);
  /// The step is over before its work is done: all waits end.
  void interrupt();

 private:
  const Program& program_;
  const RunOptions& options_;
  bool given_;
  std::vector<Nanoseconds> times_;
  std::mutex mutex_;
  std::condition_variable over_;
  bool interrupted_ = false;
};

}  // namespace ppsim::gpu_backend
