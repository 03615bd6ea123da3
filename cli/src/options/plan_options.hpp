#pragma once

#include <string>
#include <vector>

#include "command.hpp"
#include "ppsim/planner/plan.hpp"

namespace ppsim::cli {

/// The question to `plan`.
struct PlanOptions {
  CostOptions costs;  ///< model, cluster, batch, stack; not its parallelism
  std::string nodes, objective = "time", transport, spare, format, report, output = "-";
  std::vector<std::string> fixed, against;
  int top = 10;
  double front = 1.02;
};
void add_plan_options(Command& command, PlanOptions& options);

/// Errors: bad_argument naming the option and its value; those of the model and the cluster.
[[nodiscard]] Expected<PlanRequest> plan_request(const PlanOptions& options);

/// The command that simulates a plan.
[[nodiscard]] std::string plan_command(const PlanOptions& options, const PlanChoice& choice);

/// The best plan that a framework takes, in its words, which say where that is not the first; or the first as
/// JSON. Requires: there is one. Errors: why the framework does not take the first, where it takes none.
[[nodiscard]] Expected<std::string> emitted(const PlanOptions& options, const PlanRequest& request,
                                            const std::vector<PlanRow>& best);

}  // namespace ppsim::cli
