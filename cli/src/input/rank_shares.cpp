#include "rank_shares.hpp"

#include <cmath>
#include <sstream>

#include "command_line/validators.hpp"
#include "ppsim/core/ir/pipeline.hpp"

namespace ppsim::cli {
namespace {

/// How much of what a rank computes of a microbatch one action does: of a rank's part of the stages that a
/// microbatch passes one, and of its slices one.
struct Share {
  double of_stage = 1;
  double of_slice = 1;
};

Share share_of_action(const Pipeline& pipeline) {
  const auto passed = pipeline.spec().routes[RouteId(0)].size();
  return {static_cast<double>(pipeline.ranks()) / static_cast<double>(passed), 1.0 / pipeline.slices()};
}

/// Errors: bad_argument where what is rounded is more than a millionth of it.
Expected<Bytes> divided(Bytes activation, double share) {
  const double exact = static_cast<double>(activation) * share;
  const Bytes rounded = std::llround(exact);
  if (std::abs(exact - static_cast<double>(rounded)) <= exact * 1e-6) return rounded;
  std::ostringstream parts;
  parts << "A=" << activation << " in " << 1 / share << " parts";
  return make_error(
      ErrorCode::bad_argument, "the activations of a rank are no whole number of bytes for each action",
      {.found = parts.str(), .expected = "an A that can be divided, or a large one such as 1e9"});
}

/// Unit costs of all that a rank has of the model together: each action takes its share of them.
Expected<CostOptions> costs_per_rank(const CostOptions& options, const Pipeline& pipeline) {
  PPSIM_ASSIGN_OR_RETURN(auto units, parse_unit_costs(options.unit));
  const Share share = share_of_action(pipeline);
  const double of_both = share.of_stage * share.of_slice;
  UnitCosts& costs = units.costs;
  for (double* cost : {&costs.F, &costs.B, &costs.I, &costs.W, &costs.R, &costs.FB}) *cost *= of_both;
  costs.c *= share.of_slice;
  PPSIM_ASSIGN_OR_RETURN(units.activation, divided(units.activation, of_both));
  CostOptions scaled = options;
  scaled.unit.clear();
  scaled.instead = CostSource(std::move(units));
  return scaled;
}

}  // namespace

void add_per_option(Command& command, std::string& per) {
  command
      .add_option("--per", per,
                  "what --unit is the cost of: a stage, however much is in it, or all that a rank has of the "
                  "model, of which each action takes its share")
      .show_default()
      .check(one_of({"rank", "stage"}));
}

Expected<void> check_per(const std::string& per, const CostOptions& costs) {
  if (per != "rank" || (!costs.unit.empty() && costs.tokens.empty())) return {};
  return make_error(ErrorCode::bad_argument, "--per rank is for --unit",
                    {.found = "--per rank", .expected = "--unit without --token-costs"});
}

Expected<Subject> read_subject_per(const std::string& per, const InputOptions& input,
                                   const CostOptions& costs) {
  auto subject = read_subject(input, costs);
  if (!subject || per != "rank") return subject;
  PPSIM_ASSIGN_OR_RETURN(const auto scaled, costs_per_rank(costs, pipeline_of(subject->ir)));
  return read_subject(input, scaled);
}

}  // namespace ppsim::cli
