#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "ppsim/core/ir/program.hpp"
#include "ppsim/gpu_backend/stage_model/stage_model.hpp"
#include "ppsim/gpu_backend/transport/transport.hpp"
#include "transport/collective_calls.hpp"

namespace ppsim::gpu_backend {

/// Channels and collectives between threads of one process, by rendezvous or with credits.
///
/// Whoever posts the end that lets a message move, moves it, and after it everything on the channel that can
/// move by then: one thread at a time for each channel, which keeps the FIFO in order.
class InProcessTransport final : public Transport {
 public:
  /// Requires: references that outlive the transport. `credits` as in TransportCapabilities.
  InProcessTransport(const Program& program, const CpuStageModel& model, std::optional<int> credits,
                     CompletionSink& sink);

  void begin_step() override;
  void post(std::span<const Transfer> group) override;
  void post(const CollectiveCall& call) override;

 private:
  struct ChannelState {
    std::deque<Transfer> sends;                  ///< posted and not out
    std::deque<Transfer> receives;               ///< posted and not complete
    std::deque<std::vector<std::byte>> arrived;  ///< with credits: out and not received
    bool moving = false;                         ///< a thread is at work on this channel
  };

  void progress(ChannelState& channel);
  bool move_one(ChannelState& channel, std::unique_lock<std::mutex>& lock);
  bool move_directly(ChannelState& channel, std::unique_lock<std::mutex>& lock);
  bool move_in(ChannelState& channel, std::unique_lock<std::mutex>& lock);
  bool move_out(ChannelState& channel, std::unique_lock<std::mutex>& lock);

  const Program& program_;
  const CpuStageModel& model_;
  std::optional<std::size_t> credits_;
  CompletionSink& sink_;
  std::mutex mutex_;  ///< never held while bytes move or the sink is told
  std::map<Channel, ChannelState> channels_;
  CollectiveCalls collectives_;
};

}  // namespace ppsim::gpu_backend
