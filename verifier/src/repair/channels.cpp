#include "repair/channels.hpp"

namespace ppsim::verifier::repairing {

ChannelKey channel_key(const Program& program, InstructionId id, std::size_t member) {
  const Action& action = program.actions(id)[member];
  const RankId own = program.rank_of(id);
  const RankId peer = peer_rank(program.pipeline(), action);
  const CommunicatorId communicator = program.communicators_of(id)[member];
  return is_send(action.kind) ? ChannelKey{communicator, own, peer} : ChannelKey{communicator, peer, own};
}

std::map<ChannelKey, ChannelEnds> channel_ends(const Program& program) {
  std::map<ChannelKey, ChannelEnds> channels;
  for (const InstructionId id : program.ids()) {
    for (std::size_t a = 0; a < program.actions(id).size(); ++a) {
      const Action& action = program.actions(id)[a];
      if (!is_transfer(action.kind)) continue;
      ChannelEnds& ends = channels[channel_key(program, id, a)];
      if (is_send(action.kind)) {
        ends.sent.push_back(action);
      } else {
        ends.received.push_back(counterpart(action, program.rank_of(id)));
        ends.receivers.push_back(id);
      }
    }
  }
  return channels;
}

}  // namespace ppsim::verifier::repairing
