#include "rank_shares.hpp"

#include "command_line/validators.hpp"
#include "ppsim/core/ir/pipeline.hpp"

namespace ppsim::cli {
namespace {

/// How much of a rank's share of the model one stage has: a p-th of the stages that a microbatch passes.
double share_of_stage(const Pipeline& pipeline) {
  const auto passed = pipeline.spec().routes[RouteId(0)].size();
  return static_cast<double>(pipeline.ranks()) / static_cast<double>(passed);
}

/// Unit costs of all that a rank has of the model together: each of its stages takes its share of them.
Expected<CostOptions> costs_per_rank(const CostOptions& options, const Pipeline& pipeline) {
  PPSIM_ASSIGN_OR_RETURN(auto units, parse_unit_costs(options.unit));
  const double share = share_of_stage(pipeline);
  UnitCosts& costs = units.costs;
  for (double* cost : {&costs.F, &costs.B, &costs.I, &costs.W, &costs.R, &costs.FB}) *cost *= share;
  units.activation = static_cast<Bytes>(static_cast<double>(units.activation) * share);
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
                  "model, of which each stage takes its share")
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
