#pragma once

#include <map>
#include <string>
#include <string_view>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/planner/costs/costs.hpp"
#include "ppsim/verifier/intervals/cost_space.hpp"

namespace ppsim::planner {

/// Durations of one stage's actions that are not known better than between bounds.
struct CostIntervals {
  std::vector<CostVariable> variables;      ///< named by their keys
  std::map<std::string, LinearCost> costs;  ///< of F, B, I, W, R, FB and c, in terms of the variables
};

/// "F=0.5..2,I=0.5..2,W=1,B=I+W,c=0..0.1": in units as --unit, each key an interval, a number or a sum of
/// numbers, keys and whole multiples of keys; with the defaults of --unit: B = I + W, FB = F + B.
/// Errors: bad_argument for what is none of these, an interval whose ends are exchanged, a number out of
/// range, and keys that stand for each other.
[[nodiscard]] Expected<CostIntervals> parse_cost_intervals(std::string_view text);

/// The middle of each interval.
[[nodiscard]] UnitSource middle_costs(const CostIntervals& intervals);

/// Every table in which the actions of a kind take equally long on all stages.
[[nodiscard]] CostSpace shared_costs(const CostIntervals& intervals);
/// Every table in which each stage has its own F, B, ...; a transfer takes the c of the stage that sends.
[[nodiscard]] CostSpace stage_costs(const CostIntervals& intervals, int stages);
/// Every table whose entries are off by at most some millionths, each for itself; rounded outwards.
/// Requires: 0 <= millionths <= 1000000.
[[nodiscard]] CostSpace spread_costs(const CostTable& costs, std::int64_t millionths);

/// "10%" is 100000 millionths. Errors: bad_argument for anything but 0% to 100%.
[[nodiscard]] Expected<std::int64_t> parse_spread(std::string_view text);
/// "12ms", "1.5s", "800us", "100ns", rounded to nanoseconds. Errors: bad_argument.
[[nodiscard]] Expected<Nanoseconds> parse_duration(std::string_view text);

}  // namespace ppsim::planner

namespace ppsim {
using planner::CostIntervals;
using planner::middle_costs;
using planner::parse_cost_intervals;
using planner::parse_duration;
using planner::parse_spread;
using planner::shared_costs;
using planner::spread_costs;
using planner::stage_costs;
}  // namespace ppsim
