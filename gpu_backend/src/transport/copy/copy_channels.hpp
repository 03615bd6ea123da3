#pragma once

#include <atomic>
#include <map>
#include <vector>

#include "executor/gpu/gpu_channels.hpp"
#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/ir/program.hpp"

namespace ppsim::gpu_backend {

/// Messages by copies between the ranks of one process. A RECV says by an event that its memory is free, the
/// SEND copies behind that and says so by another one, which the RECV ends behind: a rendezvous. No stream
/// waits for a number in memory, an order that CUDA does not see and may break where streams share a queue
/// (CUDA Driver API, stream memory operations). A host enqueues a wait only when what it waits for is
/// enqueued, and is told to come back before that.
///
/// Sums of several ranks: the lowest member adds what the others have, in ascending order and with a kernel
/// of its own, into its memory, and copies it to the others. So they are the same bits in every run.
class CopyChannels final : public GpuChannels {
 public:
  /// Requires: references that outlive it; all ranks of the Program, ascending; plan_ranks_together().
  CopyChannels(const Program& program, const ExecutionGraph& graph, const std::vector<RankDevice*>& ranks);

  void begin_step() override;
  void post(RankId rank, std::span<const StreamTransfer> group) override;
  void post(const StreamCollective& call) override;
  [[nodiscard]] bool may_move(std::size_t message) const override { return messages_[message].received; }
  [[nodiscard]] bool may_sum(std::size_t collective) const override;
  [[nodiscard]] bool may_end(InstructionId id) const override;
  void move(std::size_t message) override;
  void sum(std::size_t collective) override;
  void end(InstructionId id) override;
  [[nodiscard]] bool stopped() const override;
  void check() override {}
  void abort() noexcept override {}    ///< everything enqueued ends by itself
  void release() noexcept override {}  ///< likewise

 private:
  /// A message and what its ends have enqueued in this step.
  struct Meeting {
    EventHandle ready;    ///< the memory of its RECV is free
    EventHandle done;     ///< the copy is there
    StreamTransfer send;  ///< on the stream that copies
    StreamTransfer receive;
    GpuStream send_queue = nullptr;      ///< the stream of the SEND's queue
    std::atomic<bool> received = false;  ///< `ready` is recorded
    std::atomic<bool> moved = false;     ///< `done` is recorded
  };
  /// A collective of several ranks. Shape: per member, ascending by rank.
  struct Sum {
    std::vector<EventHandle> there;  ///< what the member adds
    std::vector<StreamCollective> calls;
    EventHandle done;
    std::atomic<std::size_t> begun = 0;  ///< calls whose `there` is recorded
    std::atomic<bool> made = false;      ///< `done` is recorded
  };

  void open_messages();
  void open_sums();
  void open_lanes();
  [[nodiscard]] GpuStream lane_of(const StreamTransfer& end) const;
  [[nodiscard]] const RankDevice& device_of(RankId rank) const { return *ranks_[rank.index()]; }
  [[nodiscard]] std::uint32_t message_of(const StreamTransfer& end) const;

  const Program& program_;
  const ExecutionGraph& graph_;
  std::vector<RankDevice*> ranks_;
  std::vector<Meeting> messages_;   ///< per message of the graph
  std::vector<Sum> sums_;           ///< per collective of the graph
  std::vector<EventHandle> forks_;  ///< per rank
  /// A stream beside that of its queue, for the sends of a channel that follow another channel in a group: no
  /// member waits for another one. As the channel itself it is used by one group at a time.
  std::map<Channel, StreamHandle> lanes_;
};

}  // namespace ppsim::gpu_backend
