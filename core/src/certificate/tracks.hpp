#pragma once

#include <cstdint>
#include <vector>

#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/ir/program.hpp"

namespace ppsim {

/// Numbers the tracks of a Program: the computation and the copies of each rank, then the messages of each
/// channel as they go out and as they are received (under rendezvous one track), then, for each member of
/// each communicator, its parts of the collectives. What lies on a track is over one after another, so how
/// far it has come is one number.
class CertificateTracks {
 public:
  /// Something that is over when its track has come to `count`.
  struct Part {
    std::size_t track = 0;
    std::int32_t count = 0;
  };
  /// (communicator, source, destination), and its messages [first, last).
  struct Channel {
    RankId from;
    RankId to;
    std::size_t first = 0;
    std::size_t last = 0;
  };

  /// Requires: every message and match is complete.
  CertificateTracks(const Program& program, const ExecutionGraph& graph);

  [[nodiscard]] std::size_t size() const { return first_membership_.back(); }
  [[nodiscard]] RankId rank_of(InstructionId id) const { return rank_of_[id.index()]; }
  [[nodiscard]] const std::vector<Channel>& channels() const { return channels_; }
  [[nodiscard]] std::size_t first_channel() const { return first_channel_; }
  [[nodiscard]] std::size_t first_membership() const { return first_membership_.front(); }
  /// Requires: the rank is a member.
  [[nodiscard]] std::size_t membership(CommunicatorId communicator, RankId member) const;
  [[nodiscard]] std::size_t channel_of(std::size_t message) const { return channel_of_[message]; }
  /// Tracks of a channel: 1 under rendezvous, 2 with credits.
  [[nodiscard]] std::size_t events() const { return graph_.capabilities.credits ? 2 : 1; }

  [[nodiscard]] Part sent(std::size_t message) const {
    return {first_channel_ + channel_of_[message] * events(), count(message)};
  }
  [[nodiscard]] Part received(std::size_t message) const {
    return {first_channel_ + channel_of_[message] * events() + events() - 1, count(message)};
  }
  /// Requires: an instruction of a collective.
  [[nodiscard]] Part member(InstructionId id) const {
    const auto match = as_size(graph_.match_of[id.index()]);
    return {membership(graph_.matches[match].communicator, rank_of(id)), count(match)};
  }
  /// Requires: neither transfer nor collective.
  [[nodiscard]] Part work(InstructionId id) const {
    return {2 * rank_of(id).index() + copies_[id.index()], count(id.index())};
  }

  /// An instruction is complete when all its parts are over.
  template <class Visit>
  void for_each_part(InstructionId id, Visit visit) const {
    const auto messages = graph_.messages_of(id);
    const std::int32_t match = graph_.match_of[id.index()];
    for (const std::uint32_t m : messages) visit(graph_.messages[m].send == id ? sent(m) : received(m));
    if (match >= 0) visit(member(id));
    if (messages.empty() && match < 0) visit(work(id));
  }

 private:
  /// Messages of a channel, and matches of a communicator, are numbered in order.
  static std::int32_t count(std::size_t index) { return static_cast<std::int32_t>(index) + 1; }

  const Program& program_;
  const ExecutionGraph& graph_;
  std::vector<RankId> rank_of_;
  std::vector<std::uint8_t> copies_;  ///< per instruction: 1 for a copy
  std::vector<Channel> channels_;
  std::vector<std::uint32_t> channel_of_;  ///< per message
  std::size_t first_channel_;
  std::vector<std::size_t> first_membership_;  ///< of each communicator, and the end
};

}  // namespace ppsim
