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
    : first_(program.first(rank)),
      begin_{0},
      sent_(graph.messages.size(), -1),
      received_(graph.messages.size(), -1),
      met_(graph.meetings.size(), -1) {
  const std::vector<int> channel = channels_of(graph);
  for (int i = first_.value(); i < program.last(rank).value(); ++i) {
    const InstructionId id(i);
    const Action& action = program.actions(id).front();
    if (is_transfer(action.kind)) {
      add_messages(graph, id, channel);
    } else if (is_collective(action.kind)) {
      const auto meeting = static_cast<std::size_t>(graph.meeting_of[id.index()]);
      met_[meeting] = track(TrackKind::met, graph.meetings[meeting].communicator.value());
      parts_.push_back(met(meeting));
    } else {
      const int queue = program.queue_of(action, CommunicatorId());
      parts_.push_back({track(TrackKind::work, queue), i - first_.value() + 1});
    }
    begin_.push_back(parts_.size());
  }
}

void RankParts::add_messages(const ExecutionGraph& graph, InstructionId id, const std::vector<int>& channel) {
  for (const std::uint32_t m : graph.messages_of(id)) {
    if (graph.messages[m].send == id) {
      sent_[m] = track(TrackKind::sent, channel[m]);
      parts_.push_back(sent(m));
    }
    if (graph.messages[m].receive == id) {
      received_[m] = track(TrackKind::received, channel[m]);
      parts_.push_back(received(m));
    }
  }
}

int RankParts::track(TrackKind kind, int number) {
  return numbers_.try_emplace({kind, number}, tracks()).first->second;
}

}  // namespace ppsim
