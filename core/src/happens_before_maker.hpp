#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ppsim/core/happens_before.hpp"
#include "rank_parts.hpp"
#include "track_pass.hpp"

namespace ppsim {

/// How far chains of waits are followed.
enum class Reach : std::uint8_t {
  neighbours,  ///< over the ranks themselves and those at the other ends of their channels: what is found
               ///< holds, and more may hold; in time of these ranks alone
  everywhere,  ///< all that holds is found
};

/// Makes HappensBefore for ranks after ranks of a Program that finishes, in tables that it keeps.
class HappensBeforeMaker {
 public:
  /// Requires: `order` is a complete run order of the graph.
  HappensBeforeMaker(const Program& program, const ExecutionGraph& graph, const RunOrder& order);

  /// The end of the ranks from `first` on whose clocks are carried together: a few, and fewer where they
  /// would take much memory.
  [[nodiscard]] RankId end_of_batch(RankId first) const;

  /// One for each of the ranks [first, last), by one pass for all of them.
  [[nodiscard]] std::vector<HappensBefore> of_ranks(RankId first, RankId last, Reach reach);

 private:
  class Recorder;
  [[nodiscard]] std::vector<std::uint32_t> items_near(RankId first, RankId last) const;
  void run(std::span<const std::uint32_t> items, std::vector<Recorder>& recorders);

  const Program& program_;
  const RunOrder& order_;
  std::vector<RankId> rank_of_;                          ///< per instruction
  IdVector<RankId, std::vector<std::uint32_t>> places_;  ///< in the order, of a rank's items: ascending
  IdVector<RankId, std::vector<RankId>> near_;           ///< the rank and its peers, ascending
  RankParts parts_;
  TrackPass pass_;
};

}  // namespace ppsim
