#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <exception>
#include <span>

#include "ppsim/core/ir/ids.hpp"
#include "ppsim/core/ir/op_kind.hpp"

namespace ppsim::gpu_backend {

/// A FIFO between two ranks. There are no tags: its i-th send meets its i-th receive.
struct Channel {
  CommunicatorId communicator;
  RankId source;
  RankId destination;
  friend auto operator<=>(const Channel&, const Channel&) = default;
};

/// The memory that one end of a message reads or writes: up to two pieces of memory, one after the other.
using Payload = std::array<std::span<std::byte>, 2>;

/// One end of a message.
struct Transfer {
  InstructionId instruction;  ///< reported to the sink when this end is complete
  std::uint32_t member = 0;   ///< which of its actions this is
  Channel channel;
  Direction direction = Direction::send;
  Payload payload;
};

/// The effect of a collective on the payloads of its members.
enum class Reduction : std::uint8_t {
  none,       ///< nothing: all meet
  gradients,  ///< every member gets the sum, as CpuStageModel::accumulate adds, in ascending rank order
  norm,       ///< the same for one double
  combined,   ///< CpuStageModel::combine of the parts: one member gets the sum, all get the statistics
};

/// The part of one rank in a collective; the i-th on a communicator meets the i-th of every other member.
struct CollectiveCall {
  InstructionId instruction;
  CommunicatorId communicator;
  RankId rank;
  Reduction reduction = Reduction::none;
  std::span<std::byte> statistics = {};  ///< the same on all members afterwards
  std::span<std::byte> summand = {};     ///< is overwritten; both empty: the rank has no part
  std::span<std::byte> result = {};      ///< where the sum goes, perhaps the summand itself
  RankId receiver = {};                  ///< the member that gets the sum; none: every member
  std::span<std::byte> total = {};       ///< the result is added to it in the end; empty: to nothing
  [[nodiscard]] bool gets_sum(RankId who) const { return !receiver.valid() || receiver == who; }
};

/// Learns which messages are complete.
class CompletionSink {
 public:
  virtual ~CompletionSink() = default;
  /// These ends and calls are complete, all at one instant. An instruction of several ends is named once for
  /// each.
  virtual void complete(std::span<const InstructionId> ends) = 0;
  /// The transport has work in flight that it completes by itself: until landed(), the run does not count as
  /// hung, even if every queue waits.
  virtual void in_flight() = 0;
  virtual void landed() = 0;
  /// The transport cannot go on.
  virtual void fail(std::exception_ptr failure) = 0;
};

/// Moves messages between ranks. A call starts an operation and may return before it is complete; the thread
/// that completes it tells the sink that the transport was made with.
/// Order: calls for one communicator and rank come one after another, in issue order.
/// Errors: throws BackendError.
class Transport {
 public:
  virtual ~Transport() = default;

  /// Drops the messages that nobody received in the step before, and the collectives that not all joined.
  virtual void begin_step() = 0;

  /// Starts all ends together: those on different channels progress independently, those on one channel in
  /// order.
  virtual void post(std::span<const Transfer> group) = 0;
  virtual void post(const CollectiveCall& call) = 0;
};

}  // namespace ppsim::gpu_backend

namespace ppsim {
using gpu_backend::Channel;
using gpu_backend::CollectiveCall;
using gpu_backend::CompletionSink;
using gpu_backend::Payload;
using gpu_backend::Reduction;
using gpu_backend::Transfer;
using gpu_backend::Transport;
}  // namespace ppsim
