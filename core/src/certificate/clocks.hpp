#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "tracks.hpp"

namespace ppsim {

/// How far the tracks of a rank have certainly come when its instructions start and complete.
///
/// A rank counts only its own tracks. When two ranks meet in a message, each learns how far the other knows
/// the channels between them to have come, and with that everything that it knew itself by then. So on a
/// chain, where knowledge comes back the way it went, every true bound is found. A bound that follows around
/// a ring, or through a collective, may be missed. Time and memory depend on the Program alone.
/// It shares no code with the ClockPlan that makes the claims, so that it can contradict them.
class CertificateClocks {
 public:
  /// Requires: `order` holds for the graph (check_certificate_order).
  CertificateClocks(const CertificateTracks& tracks, const Program& program, const ExecutionGraph& graph,
                    const std::vector<std::uint32_t>& order);

  using Clock = std::span<const std::int32_t>;
  /// Per track of the instruction's rank.
  [[nodiscard]] Clock at_start(InstructionId id) const { return {row(id, 0), width(id)}; }
  [[nodiscard]] Clock at_completion(InstructionId id) const { return {row(id, 1), width(id)}; }
  [[nodiscard]] std::size_t width(RankId rank) const { return width_[rank]; }

  /// Calls visit(place in the clocks of its rank, part) for each part of an instruction.
  template <class Visit>
  void for_each_part(InstructionId id, Visit visit) const {
    tracks_.for_each_part(
        id, [&](CertificateTracks::Part part) { visit(place(tracks_.rank_of(id), part), part); });
  }
  /// The place of a track that is not counted.
  static constexpr int kUntracked = -1;

 private:
  using Row = std::int32_t*;
  using Event = std::size_t;  // of a message: 0 it is out, 1 it is received; under rendezvous 0 is both
  /// One end of a channel.
  struct End {
    int place = kUntracked;  ///< of the first of its tracks in the clocks of its rank
    std::size_t rows = 0;    ///< where the rank's clocks at the events of the channel's messages begin
  };

  [[nodiscard]] int place(RankId rank, CertificateTracks::Part part) const;
  void number_tracks(const Program& program);
  void number_rows(const Program& program);
  int add_track(RankId rank, std::size_t tracks);
  void start(InstructionId id);
  void complete(InstructionId id);
  void send(std::size_t message);
  void receive(std::size_t message);
  void exchange(std::size_t message, Event event);
  void learn(std::size_t message, Event event, int side);

  [[nodiscard]] std::size_t width(InstructionId id) const { return width_[tracks_.rank_of(id)]; }
  [[nodiscard]] Row row(InstructionId id, std::size_t which) const {
    const RankId rank = tracks_.rank_of(id);
    return counts_.get() + rank_rows_[rank] +
           (2 * (id.index() - rank_first_[rank].index()) + which) * width_[rank];
  }
  [[nodiscard]] RankId rank_at(std::size_t channel, int side) const {
    return side == 0 ? tracks_.channels()[channel].from : tracks_.channels()[channel].to;
  }
  /// The clock of the rank at one end of a message once the message's event has happened.
  [[nodiscard]] Row row(std::size_t message, Event event, int side) const {
    const std::size_t channel = tracks_.channel_of(message);
    const std::size_t nth = message - tracks_.channels()[channel].first;
    return counts_.get() + ends_[channel][as_size(side)].rows +
           (nth * tracks_.events() + event) * width_[rank_at(channel, side)];
  }

  const CertificateTracks& tracks_;
  const ExecutionGraph& graph_;
  IdVector<RankId, std::size_t> width_;
  IdVector<RankId, std::size_t> rank_rows_;
  IdVector<RankId, InstructionId> rank_first_;
  std::vector<std::array<End, 2>> ends_;           ///< per channel: of the sender, of the receiver
  std::vector<std::vector<std::size_t>> between_;  ///< per pair of ranks, the tracked channels between them
  std::vector<std::size_t> pair_of_;               ///< per channel, into between_
  std::map<std::size_t, int> member_place_;        ///< of the track of a membership
  std::vector<char> over_;                         ///< per message and event
  std::unique_ptr<std::int32_t[]> counts_;         ///< no vector: each row is written before it is read
};

}  // namespace ppsim
