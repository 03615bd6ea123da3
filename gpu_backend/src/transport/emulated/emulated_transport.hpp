#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "executor/worker.hpp"
#include "ppsim/gpu_backend/transport/transport.hpp"
#include "timer_queue.hpp"
#include "transport/collective_calls.hpp"

namespace ppsim::gpu_backend {

/// Messages and collectives of one process that take the time that they are given, by rendezvous or with
/// credits. What they carry, where there is anything, is copied and reduced when that time is over.
///
/// A channel moves one message at a time; the next one begins when the one before it was due to be out.
class EmulatedTransport final : public Transport {
 public:
  /// Requires: references that outlive the transport.
  EmulatedTransport(const RunInput& input, CompletionSink& sink);

  void begin_step() override;
  void post(std::span<const Transfer> group) override;
  void post(const CollectiveCall& call) override;

 private:
  using Time = WallClock::time_point;
  struct Posted {
    Transfer transfer;
    Time at;
  };
  struct ChannelState {
    std::deque<Posted> sends;                    ///< posted and not out
    std::deque<Posted> receives;                 ///< posted and not complete
    std::deque<std::vector<std::byte>> arrived;  ///< with credits: out and not received
    bool moving = false;                         ///< the first of `sends` is in flight
  };

  template <class Call>
  void at_its_time(const Call& call);
  void progress(ChannelState& channel, Time now);
  [[nodiscard]] bool may_move(const ChannelState& channel) const;
  [[nodiscard]] Time posted(const ChannelState& channel) const;
  void arrive(ChannelState& channel, Time due);
  void land(ChannelState& channel);
  void receive(ChannelState& channel);

  const Program& program_;
  const CpuStageModel& model_;
  const ActionTimes& times_;
  std::optional<std::size_t> credits_;
  CompletionSink& sink_;
  std::mutex mutex_;
  std::map<Channel, ChannelState> channels_;
  CollectiveCalls collectives_;
  TimerQueue timers_;  // last: its thread ends before what it works on
};

}  // namespace ppsim::gpu_backend
