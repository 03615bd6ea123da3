#pragma once

#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "synthesis/placements.hpp"
#include "synthesis/search.hpp"

namespace ppsim::verifier::synthesis {

/// The knowledge about one placement.
struct Candidate {
  SynthesisRequest request;  ///< with the best schedule among the known ones
  Nanoseconds bound = 0;     ///< no schedule with this placement is below
  std::string bound_method = "work";
  std::optional<Schedule> schedule = {};  ///< the best so far
  Nanoseconds value = 0;                  ///< of the schedule
  std::string method = {};
  std::string open = {};    ///< why nothing was found, or why it is not known to be the best
  bool impossible = false;  ///< it has no room for a microbatch
  bool explored = false;
};

/// The search behind synthesize(FreePlacement).
class PlacementSearch {
 public:
  /// Requires: `asked` outlives the search.
  PlacementSearch(const FreePlacement& asked, Clock::time_point deadline);

  /// Errors: those of asked.bind and of check_request.
  Expected<void> run();

  /// Null where nothing was found.
  [[nodiscard]] const Candidate* best() const { return best_ ? &candidates_[*best_] : nullptr; }
  /// Requires: best() is null.
  [[nodiscard]] NoSchedule none() const;
  /// A bound of all placements, and the method that proved it.
  [[nodiscard]] std::pair<Nanoseconds, std::string> lower_bound() const;
  /// The reason why the best is not known to be optimal. Requires: best() is not null.
  [[nodiscard]] std::string open() const;
  [[nodiscard]] int queries() const { return queries_; }
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  /// The number of placements that were searched.
  [[nodiscard]] std::int64_t placements() const { return explored_; }

 private:
  [[nodiscard]] Expected<SynthesisRequest> bound(Placement placement) const;
  [[nodiscard]] Expected<void> check_numbers() const;
  Expected<void> bound_work();
  Expected<std::size_t> add(const Placement& placement);
  /// Searches with a placement. Without `steps` Z3 is asked too.
  void explore(std::size_t index, std::optional<std::int64_t> steps, Clock::time_point deadline);
  void take(std::size_t index, const Search& search);
  Expected<void> look_at_all(const std::vector<Placement>& placements);
  Expected<void> go_to_neighbours();
  Expected<std::optional<std::size_t>> better_neighbour(std::size_t from);
  [[nodiscard]] Placement moved(std::size_t from);
  [[nodiscard]] Placement shuffled();
  [[nodiscard]] std::vector<std::size_t> by_value() const;
  [[nodiscard]] std::vector<std::size_t> undecided() const;
  void halve(std::size_t count);
  void decide();
  void tell();
  [[nodiscard]] bool late() const;
  [[nodiscard]] bool spent(double share) const;
  [[nodiscard]] Clock::time_point within(double share) const;

  const FreePlacement& asked_;
  std::vector<Candidate> candidates_;
  std::map<Placement, std::size_t> index_of_;
  std::optional<std::size_t> best_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point deadline_;
  std::mt19937_64 random_;
  bool all_listed_ = false;
  Nanoseconds min_work_ = 0;  ///< no schedule with any placement is below
  std::int64_t explored_ = 0;
  int queries_ = 0;
  std::int64_t steps_ = 0;
  std::int64_t looks_ = 0;
  std::pair<Nanoseconds, Nanoseconds> told_ = {-1, -1};  ///< value and lower bound
};

}  // namespace ppsim::verifier::synthesis
