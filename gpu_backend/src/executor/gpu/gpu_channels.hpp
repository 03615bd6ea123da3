#pragma once

#include <functional>
#include <span>

#include "device/cuda/gpu_device.hpp"
#include "ppsim/gpu_backend/transport/transport.hpp"

namespace ppsim::gpu_backend {

/// One end of a message, and the stream that it runs on.
struct StreamTransfer {
  Transfer transfer;
  GpuStream stream = nullptr;
};

/// Enqueues into += from.
using StreamSum =
    std::function<void(GpuStream stream, std::span<std::byte> into, std::span<const std::byte> from)>;

/// The part of one rank in a sum over all members of a communicator; in place.
struct StreamCollective {
  InstructionId instruction;
  CommunicatorId communicator;
  RankId rank;
  ElementType type = ElementType::float64;
  std::span<std::byte> payload;
  GpuStream stream = nullptr;
  StreamSum add = {};  ///< by a kernel of the rank
};

/// Messages and collectives between ranks as work on streams. All channels are open before the first step.
/// Order: calls for one communicator and rank come in issue order. Errors: throws BackendError.
class GpuChannels {
 public:
  virtual ~GpuChannels() = default;

  /// Forgets the step before. Requires: nothing in flight on any rank of this process.
  virtual void begin_step() = 0;
  /// Enqueues all ends together: those of different channels progress independently, those of one in order.
  virtual void post(RankId rank, std::span<const StreamTransfer> group) = 0;
  virtual void post(const StreamCollective& call) = 0;

  // The rest of what is posted, for ranks that are planned together (HostCall), and whether the other ranks
  // of the process have enqueued what each waits for. A transport that enqueues everything at once leaves
  // these as they are.
  [[nodiscard]] virtual bool may_move(std::size_t /*message*/) const { return true; }
  [[nodiscard]] virtual bool may_sum(std::size_t /*collective*/) const { return true; }
  [[nodiscard]] virtual bool may_end(InstructionId /*id*/) const { return true; }
  virtual void move(std::size_t /*message*/) {}
  virtual void sum(std::size_t /*collective*/) {}
  virtual void end(InstructionId /*id*/) {}

  /// Gives back what other processes lent, which these keep until then; nothing follows.
  virtual void leave() {}

  /// Whether no stream of the channels' own has anything left, after an abort.
  [[nodiscard]] virtual bool stopped() const { return true; }
  /// Looks for what went wrong since.
  virtual void check() = 0;
  /// Makes everything that is enqueued end, whatever it waits for.
  virtual void abort() noexcept = 0;
  /// Begins that while other threads enqueue, as often as needed: threads that go on may wait again.
  /// Nothing but an abort follows, and both come from one thread.
  virtual void release() noexcept = 0;
};

}  // namespace ppsim::gpu_backend
