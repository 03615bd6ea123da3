#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/tables.hpp"
#include "ppsim/gpu_backend/transport/transport.hpp"
#include "timer_queue.hpp"

namespace ppsim::gpu_backend {

/// Messages and collectives without content that take the time of a table, by rendezvous or with credits.
///
/// A channel moves one message at a time; the next one begins when the one before it was due to be out.
class EmulatedTransport final : public Transport {
 public:
  /// Requires: references that outlive the transport. `credits` as in TransportCapabilities.
  EmulatedTransport(const Program& program, const CostTable& costs, std::optional<int> credits,
                    CompletionSink& sink);

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
    std::deque<Posted> sends;     ///< posted and not out
    std::deque<Posted> receives;  ///< posted and not complete
    int arrived = 0;              ///< with credits: out and not received
    bool moving = false;          ///< the first of `sends` is on its way
  };
  struct Meetings {
    std::vector<std::size_t> calls;  ///< per rank: how many it has made
    std::deque<std::vector<CollectiveCall>> open;
    std::size_t met = 0;  ///< meetings that all have joined
  };

  void progress(ChannelState& channel, Time now);
  [[nodiscard]] bool may_move(const ChannelState& channel) const;
  [[nodiscard]] Time posted(const ChannelState& channel) const;
  void land(ChannelState& channel);
  void receive(ChannelState& channel);
  [[nodiscard]] std::optional<std::vector<CollectiveCall>> join(const CollectiveCall& call);
  void end(const std::vector<CollectiveCall>& meeting);
  [[nodiscard]] Nanoseconds cost(InstructionId instruction, std::uint32_t member) const;

  const Program& program_;
  const CostTable& costs_;
  std::optional<int> credits_;
  CompletionSink& sink_;
  std::mutex mutex_;
  std::map<Channel, ChannelState> channels_;
  std::vector<Meetings> meetings_;  ///< per communicator
  TimerQueue timers_;               // last: its thread ends before what it works on
};

}  // namespace ppsim::gpu_backend
