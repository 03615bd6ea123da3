#pragma once

#include <string>
#include <utility>

#include "synthesis/incumbent.hpp"
#include "synthesis/orders/limited_search.hpp"
#include "synthesis/repetend.hpp"

namespace ppsim::verifier::synthesis {

/// Looks for the best schedule of a request, until it is proved to be the best or time is up.
class Search {
 public:
  /// Requires: check_request(request), limit >= 1. The request outlives the search.
  Search(const SynthesisRequest& request, Clock::time_point deadline);

  void run();

  [[nodiscard]] const Incumbent& incumbent() const { return incumbent_; }
  [[nodiscard]] Nanoseconds lower_bound() const { return lower_ * model_.unit(); }
  [[nodiscard]] const std::string& bound_method() const { return bound_method_; }
  /// Why the incumbent is not known to be optimal.
  [[nodiscard]] const std::string& open() const { return open_; }
  [[nodiscard]] int queries() const { return queries_; }
  [[nodiscard]] std::int64_t steps() const { return steps_; }

 private:
  /// A model, exact or of rounded durations, with what is known of it.
  struct Stage {
    const ChainModel& model;
    const Relaxation& relaxation;
  };

  [[nodiscard]] bool done() const { return incumbent_.value() == lower_bound(); }
  [[nodiscard]] bool late() const;
  /// Tells request.progress of what is new since it was told last.
  void tell();
  /// A part of the time that is left.
  [[nodiscard]] Clock::time_point within(double share) const;
  [[nodiscard]] QueryTitle title_of(const StartQuestion& question) const;
  [[nodiscard]] StartTimes ask(const StartQuestion& question, double share);
  /// The smallest objective in units of `model` that is no improvement.
  [[nodiscard]] Slot reached(const ChainModel& model) const;

  void search_one_stage_each();
  void search_any_placement();
  /// From neighbour to neighbour, for so many steps and a part of the time that is left.
  void search_orders(std::int64_t steps, double share);
  void look_at_rounded_costs();
  void repeat(const Stage& stage);
  void try_rate(const Stage& stage, const Rate& rate);
  void climb(const Stage& stage);
  void decide();
  bool decide_bound(Slot bound, bool& found);

  const SynthesisRequest& request_;
  Clock::time_point deadline_;
  Incumbent incumbent_;
  ChainModel model_;
  Relaxation relaxation_;
  LimitedSearch orders_;
  Slot lower_;
  std::string bound_method_ = "relaxation";
  std::string open_;
  int queries_ = 0;
  std::int64_t steps_ = 0;
  std::pair<Nanoseconds, Nanoseconds> told_ = {-1, -1};  ///< value and lower bound
};

}  // namespace ppsim::verifier::synthesis
