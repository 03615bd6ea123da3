#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "ppsim/planner/effects/cost_groups.hpp"
#include "ppsim/simulator/effects/factor_draws.hpp"

namespace ppsim::planner {

/// "lognormal:0.05", "normal:0.1", "gamma:0.3", "list:1,1,1.5": a shape with its relative deviation, or
/// factors that were measured; then, after a second colon, the correlation of each factor with the next one.
/// Errors: bad_argument.
[[nodiscard]] Expected<FactorSpread> factor_spread_from_text(std::string_view text);

/// Costs of a group that vary from action to action.
struct VaryingCosts {
  std::optional<CostGroup> group;  ///< empty: all
  FactorSpread spread;
};

/// A rank or a link that is slower than planned (or faster) for the whole step.
struct SlowRank {
  RankId rank;
  double factor = 1;
};
struct SlowLink {
  RankId a, b;  ///< messages between both, either way
  double factor = 1;
};

/// The disturbances of a plan. Factors of one action multiply.
struct Disturbances {
  std::vector<VaryingCosts> varying;  ///< of several that an action is in, the last one counts
  std::optional<FactorSpread> ranks;  ///< a factor of each rank, drawn once for each step
  std::vector<SlowRank> slow_ranks;
  std::vector<SlowLink> slow_links;

  /// True where steps differ from each other.
  [[nodiscard]] bool is_random() const { return !varying.empty() || ranks.has_value(); }
};

struct SpreadOptions {
  Disturbances disturbances;
  int samples = 1000;
  std::uint64_t seed = 1;
  int threads = 1;
  int replacement_samples = 100;  ///< for gains of replacing a rank; 0: none
};

/// A figure over all samples.
struct Spread {
  static constexpr std::array<double, 4> kShares = {0.5, 0.9, 0.95, 0.99};
  double mean = 0;
  double mean_error = 0;  ///< half of the 95 % confidence interval of the mean
  /// Of each of kShares the value that this share of the samples does not exceed, with its 95 % confidence
  /// interval: values of the samples themselves, whatever their distribution.
  std::array<double, 4> percentiles = {};
  std::array<double, 4> lowest = {};
  std::array<double, 4> highest = {};
};

/// Sums are in the order of the values.
/// Requires: at least one.
[[nodiscard]] Spread spread_of(std::vector<double> values);

struct RankSpread {
  Spread busy_ns;
  double mean_idle_ns = 0;  ///< of the pipeline, as the bubble
  double mean_factor = 1;   ///< of the rank itself: drawn and given
  /// The gain of the mean step where the rank's own factor is 1 and everything else is drawn as before.
  double gain_ns = 0;
  double gain_error_ns = 0;  ///< half of the 95 % confidence interval of the gain
};

struct StepSpread {
  Nanoseconds planned_ns = 0;
  std::vector<double> steps_ns;  ///< of each sample
  Spread step_ns;
  Spread bubble;  ///< of the pipeline: 1 - mean busy time of the ranks / its time
  IdVector<RankId, RankSpread> ranks;
};

/// Steps of a Program whose costs are disturbed at random, its order of instructions kept. The same options
/// give the same bits with any number of threads.
/// Errors: those of priced_items; bad_argument for a rank or link that the Program does not have, a group
/// that nothing is in, counts out of range, and costs that become too large.
[[nodiscard]] Expected<StepSpread> step_spread(const SimulatedStep& step, const SpreadOptions& options);

/// The duration of every item of the Program in one sample, for other implementations to compare with.
[[nodiscard]] Expected<std::vector<Nanoseconds>> disturbed_costs(const SimulatedStep& step,
                                                                 const SpreadOptions& options,
                                                                 std::uint64_t sample);

}  // namespace ppsim::planner

namespace ppsim {
using planner::Disturbances;
using planner::disturbed_costs;
using planner::factor_spread_from_text;
using planner::RankSpread;
using planner::SlowLink;
using planner::SlowRank;
using planner::Spread;
using planner::spread_of;
using planner::SpreadOptions;
using planner::step_spread;
using planner::StepSpread;
using planner::VaryingCosts;
}  // namespace ppsim
