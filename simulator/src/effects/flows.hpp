#pragma once

#include <vector>

#include "fair_shares.hpp"

namespace ppsim::simulator {

/// Transfers in flight on shared links, in whole numbers: of a cost of n ns there are n * kFullSpeed parts to
/// move, and what is left of a nanosecond counts as one.
class Flows {
 public:
  /// A flow and the instant at which it ends as things are.
  struct End {
    std::uint32_t flow;
    Instant at;
  };

  /// Requires: `links` outlives this.
  explicit Flows(const SharedLinks& links);

  /// Whether this one ever shares anything.
  [[nodiscard]] bool shares(std::uint32_t flow) const { return !links_.taken[flow].empty(); }
  /// Ends that the beginning of a flow sets or changes, until the next call.
  /// Requires: it shares, and its cost is above 0.
  const std::vector<End>& begin(std::uint32_t flow, Nanoseconds cost, Instant now);
  /// Whether a flow has begun, and is not over.
  [[nodiscard]] bool is_moving(std::uint32_t flow) const { return states_[flow].moving; }
  [[nodiscard]] bool has_begun(std::uint32_t flow) const { return states_[flow].rate > 0; }
  /// Whether a flow ends now, after all changes.
  [[nodiscard]] bool ends(std::uint32_t flow, Instant now) const;
  /// Ends that change where a flow is over.
  const std::vector<End>& finish(std::uint32_t flow, Instant now);

  [[nodiscard]] const std::vector<LinkUse>& uses() const { return uses_; }

 private:
  __extension__ using Parts = __int128;
  struct State {
    Parts left = 0;
    Rate rate = 0;
    Nanoseconds since = 0;
    Instant end;
    bool moving = false;
  };

  void find_neighbours(std::uint32_t flow);
  void share(Instant now);
  void move_on(State& state, Nanoseconds now) const;
  void count_use(Nanoseconds now);
  [[nodiscard]] bool is_contended(std::uint32_t link) const;

  const SharedLinks& links_;
  FairShares shares_;
  std::vector<State> states_;
  std::vector<std::vector<std::uint32_t>> on_link_;  ///< flows in flight
  std::vector<Nanoseconds> counted_;                 ///< per link: until when its use is
  std::vector<LinkUse> uses_;
  std::vector<std::uint32_t> neighbours_;  ///< flows whose rates may change together
  std::vector<std::uint32_t> reached_;     ///< their links
  std::vector<char> is_reached_;           ///< per link
  std::vector<char> is_neighbour_;         ///< per flow
  std::vector<End> ends_;
};

}  // namespace ppsim::simulator
