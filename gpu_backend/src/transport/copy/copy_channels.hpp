#pragma once

#include <deque>
#include <map>
#include <vector>

#include "executor/gpu/gpu_channels.hpp"
#include "executor/gpu/gpu_collectives.hpp"
#include "executor/gpu/stream_plan.hpp"
#include "ppsim/core/ir/program.hpp"

namespace ppsim::gpu_backend {

/// Messages by the copy engines of the devices of one process, without multiprocessors. A RECV says that its
/// memory is free by writing a number that the SEND waits for; the SEND copies and writes a number that the
/// RECV waits for. Both ends complete when the copy is done, a rendezvous. The numbers lie in pinned memory
/// of the host: it can end every wait whatever the queues of the devices are full of, or wait for.
///
/// Sums of several ranks: the lowest member adds what the others have, in ascending order and with a kernel
/// of its own, into its memory; the others copy it from there. So they are the same bits in every run.
class CopyChannels final : public GpuChannels {
 public:
  /// Requires: references that outlive it; all ranks of the Program, ascending.
  CopyChannels(const Program& program, const std::vector<RankDevice*>& ranks, const SharedMemory& memory);

  void begin_step() override;
  void post(RankId rank, std::span<const StreamTransfer> group) override;
  void post(const StreamCollective& call) override;
  void check() override {}
  void abort() noexcept override { release(); }
  void release() noexcept override;

 private:
  /// A stream beside that of its queue, for one end of a channel that follows another channel in a
  /// group: no member waits for another one. As the end itself it is used by one group at a time, and groups
  /// on other queues never see it. Without a stream the end needs none.
  struct Lane {
    StreamHandle stream = nullptr;
    EventHandle done = nullptr;
  };
  /// The numbers of a channel count its messages from 1.
  struct State {
    CudaAddress ready = 0;  ///< receives that have started
    CudaAddress done = 0;   ///< messages that have arrived
    CudaValue sent = 0;     ///< enqueued by the host
    CudaValue received = 0;
    Lane sends;
    Lane receives;
  };
  /// A member of a communicator with several. The number of the lowest says how many sums are made; that of
  /// another one is odd while what it adds is there, and even again when it has the sum.
  struct Member {
    CudaAddress number = 0;
    CudaValue calls = 0;  ///< enqueued by the host
  };
  using MemberKey = std::pair<CommunicatorId, RankId>;
  struct RankState {
    RankDevice* device = nullptr;
    EventHandle fork;
    std::span<CudaValue> numbers;
  };

  void open_lanes(const Program& program);
  [[nodiscard]] const Lane& lane_of(const Transfer& transfer) const;
  void open_numbers(const Program& program);
  void set_numbers(CudaValue value) noexcept;
  void sum(const StreamCollective& call, CudaValue nth);
  void join_sum(const StreamCollective& call, CudaValue nth);
  [[nodiscard]] const std::span<std::byte>* summand(const MemberKey& member, CudaValue nth) const;
  void write(GpuStream stream, RankId rank, CudaAddress number, CudaValue value) const;
  void wait(GpuStream stream, RankId rank, CudaAddress number, CudaValue value) const;
  void announce(const RankState& state, const StreamTransfer& end);
  void complete(const RankState& state, const Transfer& transfer, GpuStream stream);
  void move(const RankState& state, const Payload& from, const Payload& to, GpuStream stream) const;

  const Program& program_;
  const SharedMemory& memory_;
  std::map<Channel, State> channels_;
  std::map<MemberKey, Member> members_;
  std::vector<RankState> ranks_;
};

/// The memory that the copy transport moves and sums. Shape: of all ranks, ascending.
[[nodiscard]] SharedMemory find_shared_memory(const Program& program, const std::vector<StreamPlan>& plans,
                                              const std::deque<RankActions>& actions,
                                              const std::deque<GpuCollectives>& collectives);

}  // namespace ppsim::gpu_backend
