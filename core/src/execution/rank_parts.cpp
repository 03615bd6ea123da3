#include "rank_parts.hpp"

namespace ppsim {
namespace {

/// The channel of each message: messages lie channel by channel.
std::vector<int> channels_of(const ExecutionGraph& graph) {
  std::vector<int> channel(graph.messages.size());
  int current = -1;
  for (std::size_t m = 0; m < channel.size(); ++m) {
    if (graph.messages[m].previous < 0) ++current;
    channel[m] = current;
  }
  return channel;
}

}  // namespace

RankParts::RankParts(const Program& program, const ExecutionGraph& graph, RankId rank)
    : program_(program),
      graph_(graph),
      channel_(channels_of(graph)),
      first_(program.first(rank)),
      last_(program.last(rank)),
      begin_{0},
      sent_(graph.messages.size(), -1),
      received_(graph.messages.size(), -1) {
  for (InstructionId id = first_; id < last_; id = InstructionId(id.value() + 1)) add(id, rank);
}

void RankParts::add(InstructionId id, RankId rank) {
  const Action& action = program_.actions(id).front();
  if (is_transfer(action.kind)) {
    add_messages(id);
  } else if (is_collective(action.kind)) {
    const auto match = as_size(graph_.match_of[id.index()]);
    const int communicator = graph_.matches[match].communicator.value();
    parts_.push_back({track(TrackKind::member, communicator), count(match)});
  } else {
    const int queue = program_.queue_of(action, CommunicatorId());
    parts_.push_back({track(TrackKind::work, rank.value(), queue), id.value() + 1});
  }
  begin_.push_back(parts_.size());
}

void RankParts::add_messages(InstructionId id) {
  for (const std::uint32_t m : graph_.messages_of(id)) {
    if (graph_.messages[m].send == id) {
      sent_[m] = track(TrackKind::sent, channel_[m]);
      parts_.push_back(sent(m));
    }
    if (graph_.messages[m].receive == id) {
      received_[m] = track(TrackKind::received, channel_[m]);
      parts_.push_back(received(m));
    }
  }
}

int RankParts::track(TrackKind kind, int number, int queue) {
  return numbers_.try_emplace({kind, number, queue}, static_cast<int>(tracks())).first->second;
}

}  // namespace ppsim
