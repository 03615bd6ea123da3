// The effects of a cluster on a step: sensitivities, break-even points, random costs.

#include "effects.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <vector>

#include "ppsim/planner/effects/sensitivity.hpp"
#include "ppsim/planner/effects/step_spread.hpp"

namespace ppsim::python {
namespace {

/// Numerator and denominator; None where there is no end.
nb::object ratio_of(const Ratio& ratio) {
  if (ratio.is_infinite()) return nb::none();
  return nb::make_tuple(ratio.numerator(), ratio.denominator());
}

Data growth_of(const StepGrowth& growth) {
  nb::dict result;
  result["below"] = growth.below.slope;
  result["above"] = growth.above.slope;
  result["holds_from"] = ratio_of(growth.from);
  result["holds_to"] = ratio_of(growth.to);
  return Data(result);
}

Data sensitivity_of(const Sensitivity& of) {
  nb::dict result;
  result["group"] = of.group;
  result["actions"] = of.actions;
  result["total_ns"] = of.total;
  result["one_percent_less_ns"] = of.one_percent_less;
  result["one_percent_more_ns"] = of.one_percent_more;
  result["path"] = growth_of(of.scaled);
  return Data(result);
}

CostGrouping grouping_of(const std::string& by) {
  if (by == "kind") return CostGrouping::kind;
  if (by == "rank") return CostGrouping::rank;
  if (by == "stage") return CostGrouping::stage;
  if (by == "link") return CostGrouping::link;
  if (by == "class") return CostGrouping::cost_class;
  throw CoreError({ErrorCode::bad_argument,
                   "no way to group costs",
                   {.found = by, .expected = "kind, rank, stage, link or class"}});
}

DataList sensitivities_of(const Evaluation& step, const std::string& by) {
  DataList result;
  for (const Sensitivity& of : value_of(sensitivities(step, grouping_of(by))))
    result.append(sensitivity_of(of));
  return result;
}

Data break_even_of(const Evaluation& first, const Evaluation& second, const std::string& over, bool added) {
  const CostGroup group = value_of(cost_group_from_text(over));
  const BreakEven found = value_of(break_even(first, second, {group, added}));
  nb::list ranges;
  for (const ShorterRange& range : found.ranges)
    ranges.append(nb::make_tuple(ratio_of(range.from), range.shorter));
  nb::dict result;
  result["added"] = found.added;
  result["ranges"] = ranges;
  return Data(result);
}

/// The functions that python/ppsim/effects.py calls.
struct SpreadWords {
  std::vector<std::tuple<std::string, std::string>> vary;
  std::string vary_ranks;
  std::vector<std::tuple<int, double>> slow_ranks;
  std::vector<std::tuple<int, int, double>> slow_links;
  int samples = 1000;
  std::uint64_t seed = 1;
  int threads = 1;
};

SpreadOptions options_of(const SpreadWords& words) {
  SpreadOptions options{.samples = words.samples, .seed = words.seed, .threads = words.threads};
  for (const auto& [costs, spread] : words.vary) {
    VaryingCosts varying{std::nullopt, value_of(factor_spread_from_text(spread))};
    if (costs != "all") varying.group = value_of(cost_group_from_text(costs));
    options.disturbances.varying.push_back(std::move(varying));
  }
  if (!words.vary_ranks.empty())
    options.disturbances.ranks = value_of(factor_spread_from_text(words.vary_ranks));
  for (const auto& [rank, factor] : words.slow_ranks)
    options.disturbances.slow_ranks.push_back({RankId(rank), factor});
  for (const auto& [a, b, factor] : words.slow_links)
    options.disturbances.slow_links.push_back({RankId(a), RankId(b), factor});
  return options;
}

Data step_spread_of(const Evaluation& step, const SpreadWords& words) {
  const SpreadOptions options = options_of(words);
  StepSpread spread;
  {
    const nb::gil_scoped_release release;
    spread = value_of(step_spread(step, options));
  }
  nb::dict result;
  result["planned_ns"] = spread.planned_ns;
  result["steps_ns"] = spread.steps_ns;
  result["mean_ns"] = spread.step_ns.mean;
  result["mean_error_ns"] = spread.step_ns.mean_error;
  nb::list gains;
  for (const RankSpread& rank : spread.ranks) gains.append(rank.gain_ns);
  result["gains_ns"] = gains;
  return Data(result);
}

}  // namespace

void bind_effects(nb::module_& module) {
  nb::class_<SpreadWords>(module, "SpreadWords", "What ppsim.effects asks.")
      .def(nb::init<>())
      .def_rw("vary", &SpreadWords::vary)
      .def_rw("vary_ranks", &SpreadWords::vary_ranks)
      .def_rw("slow_ranks", &SpreadWords::slow_ranks)
      .def_rw("slow_links", &SpreadWords::slow_links)
      .def_rw("samples", &SpreadWords::samples)
      .def_rw("seed", &SpreadWords::seed)
      .def_rw("threads", &SpreadWords::threads);
  module.def("sensitivities", &sensitivities_of, "step"_a, "by"_a);
  module.def("break_even", &break_even_of, "first"_a, "second"_a, "over"_a, "added"_a);
  module.def("step_spread", &step_spread_of, "step"_a, "words"_a);
}

}  // namespace ppsim::python
