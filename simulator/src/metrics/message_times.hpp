#pragma once

#include <vector>

#include "ppsim/simulator/metrics/metrics.hpp"

namespace ppsim::simulator {

/// When a message was in flight and when it was received.
struct MessageTimes {
  Instant begin;
  Instant out;
  Instant received;
  friend bool operator==(const MessageTimes&, const MessageTimes&) = default;
};

/// The times of the messages of a run. Of a transfer that stands alone they are read in the trace, which does
/// not say those of the members of a group: where there are groups, they are worked out from the costs.
class MessageClock {
 public:
  /// Requires: every instruction of the trace is complete; `run` outlives the clock.
  explicit MessageClock(const TimedRun& run);

  /// Of a message by its place in the graph.
  [[nodiscard]] MessageTimes operator()(std::size_t index) const {
    return by_costs_.empty() ? traced(run_.graph.messages[index]) : by_costs_[index];
  }

 private:
  [[nodiscard]] MessageTimes traced(const Message& message) const;

  const TimedRun& run_;
  std::vector<MessageTimes> by_costs_;  ///< of all, or empty where the trace says them
};

/// The times of every message, worked out from when its ends started and what it costs.
/// Requires: a run that was simulated.
[[nodiscard]] std::vector<MessageTimes> message_times_by_costs(const TimedRun& run);

}  // namespace ppsim::simulator
