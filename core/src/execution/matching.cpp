#include "matching.hpp"

#include <algorithm>
#include <unordered_map>

#include "ppsim/core/execution/large_vector.hpp"

namespace ppsim {
namespace {

void check_match(const Program& program, Message& message) {
  if (!message.complete()) return;
  const Action& send = program.all_actions()[message.send_action];
  // Only of activations the counterpart names the sender's rank.
  const RankId sender = send.kind == OpKind::send_activation ? program.rank_of(message.send) : RankId();
  message.matched = counterpart(send, sender) == program.all_actions()[message.receive_action];
}

}  // namespace

/// Numbers the channels of a range in order of their first use.
class MessageMaker::ChannelIndex {
 public:
  ChannelIndex(const Program& program, std::vector<Channel>& channels)
      : ranks_(static_cast<std::uint64_t>(program.pipeline().ranks())),
        recent_(program.communicators().size()),
        channels_(channels) {}

  std::uint32_t operator()(CommunicatorId communicator, RankId source, RankId destination) {
    Recent& recent = recent_[communicator];
    if (recent.source != source || recent.destination != destination)
      recent = {source, destination, number(communicator, source, destination)};
    return recent.channel;
  }

 private:
  /// The last channel that was looked up on a communicator: nearly always the next one, too.
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
    const auto [found, is_new] = index_.try_emplace(key, static_cast<std::uint32_t>(channels_.size()));
    if (is_new) channels_.push_back({.key = key});
    return found->second;
  }

  std::uint64_t ranks_;
  IdVector<CommunicatorId, Recent> recent_;
  std::unordered_map<std::uint64_t, std::uint32_t> index_;  // looked up only, never iterated
  std::vector<Channel>& channels_;
};

MessageMaker::MessageMaker(const Program& program, const std::vector<RankRange>& ranges)
    : program_(program),
      ranges_(ranges),
      parts_(ranges.size()),
      message_begin_(vector_by_all_processors(program.size() + 1, std::uint32_t{0})) {
  // Allocated by the thread that starts the others: nobody reuses the memory that one of those allocates.
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const std::size_t size = program.first(ranges[i].last).index() - program.first(ranges[i].first).index();
    parts_[i].ends.reserve(size);
  }
}

void MessageMaker::count(std::size_t range) {
  Part part = std::move(parts_[range]);  // avoids false sharing with the parts of other threads
  ChannelIndex channel_of(program_, part.channels);
  const Pipeline& pipeline = program_.pipeline();
  for (RankId rank = ranges_[range].first; rank < ranges_[range].last; rank = next(rank)) {
    for (const InstructionId id : program_.ids_of(rank)) {
      const std::span<const Action> actions = program_.actions(id);
      if (is_transfer(actions.front().kind)) {
        const std::span<const CommunicatorId> communicators = program_.communicators_of(id);
        for (std::size_t a = 0; a < actions.size(); ++a) {
          const bool sends = is_send(actions[a].kind);
          const RankId peer = peer_rank(pipeline, actions[a]);
          const std::uint32_t channel =
              channel_of(communicators[a], sends ? rank : peer, sends ? peer : rank);
          ++(sends ? part.channels[channel].sends : part.channels[channel].receives);
          part.ends.push_back({2 * channel + (sends ? 1U : 0U)});
        }
      } else if (is_collective(actions.front().kind)) {
        part.has_collectives = true;
      }
      message_begin_[id.index() + 1] = static_cast<std::uint32_t>(part.ends.size());
    }
  }
  parts_[range] = std::move(part);
}

bool MessageMaker::has_collectives() const { return std::ranges::any_of(parts_, &Part::has_collectives); }

/// Puts the channels of all ranges together. Returns: by range and channel of it, the channel of all.
std::vector<std::vector<std::uint32_t>> MessageMaker::number_channels() {
  std::unordered_map<std::uint64_t, std::uint32_t> number;  // looked up only, never iterated
  std::vector<std::vector<std::uint32_t>> number_of;
  for (const Part& part : parts_) {
    std::vector<std::uint32_t>& of_part = number_of.emplace_back();
    for (const Channel& channel : part.channels) {
      const auto [found, is_new] =
          number.try_emplace(channel.key, static_cast<std::uint32_t>(channels_.size()));
      if (is_new) channels_.push_back({.key = channel.key});
      channels_[found->second].sends += channel.sends;
      channels_[found->second].receives += channel.receives;
      of_part.push_back(found->second);
    }
  }
  std::uint32_t total = 0;
  for (Channel& channel : channels_) {
    channel.begin = total;
    total += std::max(channel.sends, channel.receives);
  }
  return number_of;
}

void MessageMaker::make(ExecutionGraph& graph) {
  const std::vector<std::vector<std::uint32_t>> number_of = number_channels();
  std::vector<std::uint32_t> ends_before = {0};
  for (const Part& part : parts_)
    ends_before.push_back(ends_before.back() + static_cast<std::uint32_t>(part.ends.size()));
  graph.message_begin = std::move(message_begin_);
  graph.message_items = vector_by_all_processors(ends_before.back(), std::uint32_t{0});
  const Channel end = channels_.empty() ? Channel() : channels_.back();
  graph.messages = vector_by_all_processors(end.begin + std::max(end.sends, end.receives), Message());
  all_at_once(parts_.size(), [&](std::size_t i) { place(i, ends_before[i], number_of[i], graph); });
  all_at_once(parts_.size(), [&](std::size_t i) {
    const std::size_t last = channels_.size() * (i + 1) / parts_.size();
    for (std::size_t c = channels_.size() * i / parts_.size(); c < last; ++c) link(channels_[c], graph);
  });
}

/// Writes the ends of a range into their messages.
void MessageMaker::place(std::size_t range, std::uint32_t ends_before,
                         const std::vector<std::uint32_t>& number_of, ExecutionGraph& graph) {
  const std::vector<End>& ends = parts_[range].ends;
  std::vector<std::uint32_t> next_send;
  for (const std::uint32_t channel : number_of) next_send.push_back(channels_[channel].begin);
  std::vector<std::uint32_t> next_receive = next_send;
  std::uint32_t end = 0;
  const InstructionId last = program_.first(ranges_[range].last);
  for (InstructionId id = program_.first(ranges_[range].first); id < last; id = next(id)) {
    std::uint32_t& own_end = graph.message_begin[id.index() + 1];
    for (std::uint32_t action = program_.first_action(id); end < own_end; ++end, ++action) {
      const bool sends = ends[end].sends();
      const std::uint32_t index = (sends ? next_send : next_receive)[ends[end].channel()]++;
      Message& message = graph.messages[index];
      (sends ? message.send : message.receive) = id;
      (sends ? message.send_action : message.receive_action) = action;
      graph.message_items[ends_before + end] = index;
    }
    own_end += ends_before;
  }
  parts_[range].ends = {};
}

/// Sets for each message of a channel what it waits for, and whether its ends match.
void MessageMaker::link(const Channel& channel, ExecutionGraph& graph) const {
  const auto credits = static_cast<std::uint32_t>(graph.capabilities.credits.value_or(0));
  for (std::uint32_t nth = 0; nth < std::max(channel.sends, channel.receives); ++nth) {
    const std::uint32_t at = channel.begin + nth;
    Message& message = graph.messages[at];
    if (nth > 0) message.previous = static_cast<std::int32_t>(at) - 1;
    if (credits > 0 && nth >= credits) message.credit = static_cast<std::int32_t>(at - credits);
    check_match(program_, message);
  }
}

void add_collective_matches(const Program& program, bool any, ExecutionGraph& graph) {
  graph.match_of = vector_by_all_processors(program.size(), std::int32_t{-1});
  if (!any) return;
  // Per communicator and match, its members in rank order.
  std::vector<std::vector<std::vector<InstructionId>>> met(program.communicators().size());
  for (const RankId rank : program.pipeline().rank_ids()) {
    std::vector<std::size_t> count(met.size(), 0);
    for (const InstructionId id : program.ids_of(rank)) {
      if (!is_collective(program.actions(id).front().kind)) continue;
      const std::size_t c = program.communicators_of(id).front().index();
      const std::size_t nth = count[c]++;
      if (nth >= met[c].size()) met[c].resize(nth + 1);
      met[c][nth].push_back(id);
    }
  }
  for (std::size_t c = 0; c < met.size(); ++c) {
    for (const std::vector<InstructionId>& members : met[c]) {
      CollectiveMatch match;
      match.communicator = CommunicatorId(static_cast<std::int32_t>(c));
      match.first_member = static_cast<std::uint32_t>(graph.match_members.size());
      match.member_count = static_cast<std::uint32_t>(members.size());
      match.complete = members.size() == program.communicators()[c].members.size();
      for (const InstructionId id : members) {
        match.matched =
            match.matched && program.actions(id).front() == program.actions(members.front()).front();
        graph.match_of[id.index()] = static_cast<std::int32_t>(graph.matches.size());
        graph.match_members.push_back(id);
      }
      graph.matches.push_back(match);
    }
  }
}

}  // namespace ppsim
