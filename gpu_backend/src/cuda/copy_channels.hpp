#pragma once

#include <map>
#include <vector>

#include "cuda/gpu_channels.hpp"
#include "ppsim/core/program.hpp"

namespace ppsim {

/// Messages by the copy engines of the devices of one process, without multiprocessors. A RECV says that its
/// memory is free by writing a number that the SEND waits for; the SEND copies and writes a number that the
/// RECV waits for. Both ends complete when the copy is done, a rendezvous. Collectives of several ranks need
/// NCCL.
class CopyChannels final : public GpuChannels {
 public:
  /// Requires: references that outlive it; all ranks of the Program, ascending.
  CopyChannels(const GpuApi& api, const Program& program, const std::vector<RankDevice*>& ranks,
               const Destinations& destinations);

  /// Whether the transport can do what a Program asks for. Errors: bad_argument.
  [[nodiscard]] static Expected<void> check(const Program& program);

  void begin_step() override;
  [[nodiscard]] bool busy(RankId /*rank*/) override { return false; }
  void post(RankId rank, std::span<const StreamTransfer> group) override;
  void post(const StreamCollective& /*call*/) override {}
  void check() override {}
  void abort() noexcept override;

 private:
  /// The numbers of a channel count its messages from 1.
  struct State {
    CudaAddress ready = 0;  ///< receives that have started, in memory of the receiver
    CudaAddress done = 0;   ///< messages that have arrived
    CudaValue sent = 0;     ///< enqueued by the host
    CudaValue received = 0;
  };
  /// A stream of its own for each member of a group, so that none waits for another one.
  struct Lane {
    StreamHandle stream;
    EventHandle done;
  };
  struct RankState {
    RankDevice* device = nullptr;
    std::vector<Lane> lanes;
    EventHandle fork;
    std::span<std::byte> numbers;
    StreamHandle rescue;  ///< never waits for anything
  };

  void open_lanes(RankState& state, std::size_t count) const;
  void clear_numbers();
  void announce(const RankState& state, const StreamTransfer& end);
  void complete(const RankState& state, const Transfer& transfer, GpuStream stream);
  void move(const RankState& state, const Payload& from, const Payload& to, GpuStream stream) const;

  const GpuApi& api_;
  const Destinations& destinations_;
  std::map<Channel, State> channels_;
  std::vector<RankState> ranks_;
};

}  // namespace ppsim
