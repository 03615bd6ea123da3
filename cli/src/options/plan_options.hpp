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

/// A plan in the words of a framework: json, megatron, torchtitan or maxtext.
[[nodiscard]] std::string emitted(const PlanOptions& options, const PlanRow& row);

}  // namespace ppsim::cli
