#include "meetings.hpp"

#include <algorithm>
#include <unordered_map>

namespace ppsim {
namespace {

/// Numbers the channels (communicator, source, destination) in order of their first use.
class ChannelIndex {
 public:
  explicit ChannelIndex(const Program& program)
      : ranks_(static_cast<std::uint64_t>(program.pipeline().ranks())),
        recent_(program.communicators().size()) {}

  std::uint32_t operator()(CommunicatorId communicator, RankId source, RankId destination) {
    Recent& recent = recent_[communicator];
    if (recent.source != source || recent.destination != destination)
      recent = {source, destination, number(communicator, source, destination)};
    return recent.channel;
  }
  [[nodiscard]] std::size_t size() const { return index_.size(); }

 private:
  /// What a communicator was asked for last: nearly always what it is asked for next.
  struct Recent {
    RankId source;
    RankId destination;
    std::uint32_t channel = 0;
  };

  std::uint32_t number(CommunicatorId communicator, RankId source, RankId destination) {
    const std::uint64_t key = (static_cast<std::uint64_t>(communicator.value()) * ranks_ +
                               static_cast<std::uint64_t>(source.value())) *
                                  ranks_ +
                              static_cast<std::uint64_t>(destination.value());
    return index_.try_emplace(key, static_cast<std::uint32_t>(index_.size())).first->second;
  }

  std::uint64_t ranks_;
  IdVector<CommunicatorId, Recent> recent_;
  std::unordered_map<std::uint64_t, std::uint32_t> index_;  // looked up only, never iterated
};

struct ChannelEnds {
  std::uint32_t sends = 0;
  std::uint32_t receives = 0;
  std::uint32_t begin = 0;  ///< first message
};

/// Calls visit(instruction, index into all_actions, action, rank, channel) for every transfer, rank by rank.
template <class Visit>
void for_each_transfer(const Program& program, ChannelIndex& channels, Visit visit) {
  const Pipeline& pipeline = program.pipeline();
  for (int r = 0; r < pipeline.ranks(); ++r) {
    const RankId rank(r);
    for (auto id = program.first(rank); id < program.last(rank); id = InstructionId(id.value() + 1)) {
      const auto actions = program.actions(id);
      if (!is_transfer(actions.front().kind)) continue;
      const auto communicators = program.communicators_of(id);
      for (std::size_t a = 0; a < actions.size(); ++a) {
        const bool out = is_send(actions[a].kind);
        const RankId peer = peer_rank(pipeline, actions[a]);
        const std::uint32_t channel = channels(communicators[a], out ? rank : peer, out ? peer : rank);
        visit(id, program.instruction(id).first_action + static_cast<std::uint32_t>(a), actions[a], rank,
              channel);
      }
    }
  }
}

void check_match(const Program& program, Message& message) {
  if (!message.complete()) return;
  const Action& send = program.all_actions()[message.send_action];
  // Only of activations the counterpart names the sender's rank.
  const RankId sender = send.kind == OpKind::send_activation ? program.rank_of(message.send) : RankId();
  message.matched = counterpart(send, sender) == program.all_actions()[message.receive_action];
}

}  // namespace

void add_messages(const Program& program, ExecutionGraph& graph) {
  ChannelIndex channels(program);
  std::vector<ChannelEnds> ends;
  graph.message_begin.assign(program.size() + 1, 0);
  for_each_transfer(program, channels,
                    [&](InstructionId id, std::uint32_t, const Action& a, RankId, std::uint32_t c) {
                      if (c >= ends.size()) ends.resize(c + 1);
                      ++(is_send(a.kind) ? ends[c].sends : ends[c].receives);
                      ++graph.message_begin[id.index() + 1];
                    });
  for (std::size_t i = 1; i < graph.message_begin.size(); ++i)
    graph.message_begin[i] += graph.message_begin[i - 1];
  graph.message_items.assign(graph.message_begin.back(), 0);

  std::uint32_t total = 0;
  for (ChannelEnds& channel : ends) {
    channel.begin = total;
    total += std::max(channel.sends, channel.receives);
    channel.sends = channel.receives = 0;
  }
  graph.messages.assign(total, Message{});
  const int credits = graph.capabilities.credits.value_or(0);
  for_each_transfer(program, channels,
                    [&](InstructionId id, std::uint32_t action, const Action& a, RankId, std::uint32_t c) {
                      const bool out = is_send(a.kind);
                      const std::uint32_t nth = out ? ends[c].sends++ : ends[c].receives++;
                      const std::uint32_t at = ends[c].begin + nth;
                      Message& message = graph.messages[at];
                      (out ? message.send : message.receive) = id;
                      (out ? message.send_action : message.receive_action) = action;
                      if (nth > 0) message.previous = static_cast<std::int32_t>(at) - 1;
                      if (credits > 0 && nth >= static_cast<std::uint32_t>(credits))
                        message.credit = static_cast<std::int32_t>(at) - credits;
                      const std::uint32_t slot =
                          graph.message_begin[id.index()] + (action - program.instruction(id).first_action);
                      graph.message_items[slot] = at;
                    });
  for (Message& message : graph.messages) check_match(program, message);
}

void add_collective_meetings(const Program& program, ExecutionGraph& graph) {
  graph.meeting_of.assign(program.size(), -1);
  // Per communicator and meeting, its members in rank order.
  std::vector<std::vector<std::vector<InstructionId>>> met(program.communicators().size());
  for (int r = 0; r < program.pipeline().ranks(); ++r) {
    std::vector<std::size_t> count(met.size(), 0);
    for (auto id = program.first(RankId(r)); id < program.last(RankId(r));
         id = InstructionId(id.value() + 1)) {
      if (!is_collective(program.actions(id).front().kind)) continue;
      const std::size_t c = program.communicators_of(id).front().index();
      const std::size_t nth = count[c]++;
      if (nth >= met[c].size()) met[c].resize(nth + 1);
      met[c][nth].push_back(id);
    }
  }
  for (std::size_t c = 0; c < met.size(); ++c) {
    for (const std::vector<InstructionId>& members : met[c]) {
      CollectiveMatch meeting;
      meeting.communicator = CommunicatorId(static_cast<std::int32_t>(c));
      meeting.first_member = static_cast<std::uint32_t>(graph.meeting_members.size());
      meeting.member_count = static_cast<std::uint32_t>(members.size());
      meeting.complete = members.size() == program.communicators()[c].members.size();
      for (const InstructionId id : members) {
        meeting.matched =
            meeting.matched && program.actions(id).front() == program.actions(members.front()).front();
        graph.meeting_of[id.index()] = static_cast<std::int32_t>(graph.meetings.size());
        graph.meeting_members.push_back(id);
      }
      graph.meetings.push_back(meeting);
    }
  }
}

}  // namespace ppsim
