#pragma once

#include <compare>
#include <map>
#include <vector>

#include "ppsim/core/ir/program.hpp"

namespace ppsim::verifier::repairing {

/// A channel of a Program: messages of a communicator from one rank to another.
struct ChannelKey {
  CommunicatorId communicator;
  RankId source;
  RankId destination;
  friend auto operator<=>(const ChannelKey&, const ChannelKey&) = default;
};

/// The channel of an action of an instruction. Requires: a transfer.
[[nodiscard]] ChannelKey channel_key(const Program& program, InstructionId id, std::size_t member);

/// The two ends of a channel as the messages that they name, each as its SEND, in issue order.
struct ChannelEnds {
  std::vector<Action> sent;
  std::vector<Action> received;
  std::vector<InstructionId> receivers;  ///< parallel to received
};
[[nodiscard]] std::map<ChannelKey, ChannelEnds> channel_ends(const Program& program);

}  // namespace ppsim::verifier::repairing
