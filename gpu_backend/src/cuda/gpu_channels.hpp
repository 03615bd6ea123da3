#pragma once

#include <map>
#include <span>
#include <vector>

#include "cuda/gpu_device.hpp"
#include "ppsim/gpu_backend/transport.hpp"

namespace ppsim {

/// One end of a message, and the stream that it runs on.
struct StreamTransfer {
  Transfer transfer;
  GpuStream stream = nullptr;
};

/// The part of one rank in a sum over all members of a communicator; in place.
struct StreamCollective {
  InstructionId instruction;
  CommunicatorId communicator;
  RankId rank;
  ElementType type = ElementType::float64;
  std::span<std::byte> payload;
  GpuStream stream = nullptr;
};

/// Messages and collectives between ranks as work on streams. All channels are open before the first step.
/// Order: calls for one communicator and rank come in issue order. Errors: throws BackendError.
class GpuChannels {
 public:
  virtual ~GpuChannels() = default;

  /// Forgets the step before. Requires: nothing in flight on any rank of this process.
  virtual void begin_step() = 0;
  /// Whether the last call for a rank is still being enqueued: then no other may follow.
  [[nodiscard]] virtual bool busy(RankId rank) = 0;
  /// Enqueues all ends together: those of different channels progress independently, those of one in order.
  virtual void post(RankId rank, std::span<const StreamTransfer> group) = 0;
  virtual void post(const StreamCollective& call) = 0;
  /// Looks for what went wrong since.
  virtual void check() = 0;
  /// Makes everything that is enqueued end, whatever it waits for.
  virtual void abort() noexcept = 0;
};

/// Every channel of a Program, with the memory of its receives in order: where the copy transport writes.
using Destinations = std::map<Channel, std::vector<Payload>>;

}  // namespace ppsim
