#include "tracks.hpp"

#include <algorithm>

namespace ppsim {

CertificateTracks::CertificateTracks(const Program& program, const ExecutionGraph& graph)
    : program_(program), graph_(graph), first_channel_(2 * as_size(program.pipeline().ranks())) {
  for (const RankId rank : program.pipeline().rank_ids()) {
    rank_of_.resize(program.last(rank).index(), rank);
  }
  copies_.reserve(program.size());
  for (const InstructionId id : program.ids()) {
    const OpKind kind = program.actions(id).front().kind;
    copies_.push_back(info(kind).resource == Resource::copy ? 1 : 0);
  }
  channel_of_.reserve(graph.messages.size());
  for (std::size_t m = 0; m < graph.messages.size(); ++m) {
    const Message& message = graph.messages[m];
    if (message.previous < 0) channels_.push_back({rank_of(message.send), rank_of(message.receive), m, m});
    channels_.back().last = m + 1;
    channel_of_.push_back(static_cast<std::uint32_t>(channels_.size() - 1));
  }
  first_membership_.push_back(first_channel_ + channels_.size() * events());
  for (const Communicator& communicator : program.communicators())
    first_membership_.push_back(first_membership_.back() + communicator.members.size());
}

std::size_t CertificateTracks::membership(CommunicatorId communicator, RankId member) const {
  const std::vector<RankId>& members = program_.communicators()[communicator.index()].members;
  const auto at = std::ranges::find(members, member);
  return first_membership_[communicator.index()] + as_size(at - members.begin());
}

}  // namespace ppsim
