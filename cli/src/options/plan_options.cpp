#include "plan_options.hpp"

#include <algorithm>
#include <limits>
#include <sstream>

#include "command_line/shell_words.hpp"
#include "command_line/validators.hpp"
#include "ppsim/core/text/as_text.hpp"
#include "ppsim/planner/costs/workload_words.hpp"
#include "ppsim/planner/plan_settings.hpp"

namespace ppsim::cli {
namespace {

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

Expected<std::vector<int>> nodes_of(const std::string& text) {
  std::vector<int> nodes;
  for (const std::string& part : parts_of(text, ',')) {
    int count = 0;
    if (!read_number(part, count) || count < 1) {
      return make_error(ErrorCode::bad_argument, "--nodes is no list of numbers of nodes",
                        {.found = text, .expected = "8, or 8,16,32"});
    }
    if (std::ranges::find(nodes, count) != nodes.end())
      return make_error(ErrorCode::bad_argument, "--nodes has a number twice", {.found = text});
    nodes.push_back(count);
  }
  return nodes;
}

Expected<void> add_fixed(const std::string& text, PlanRequest& request) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    return make_error(ErrorCode::bad_argument, "--fix needs key=value",
                      {.found = text, .expected = "tp=8, or tp=4+8, schedule=zb-v+1f1b"});
  }
  const std::string key = text.substr(0, equals);
  if (request.fixed.contains(key)) {
    return make_error(ErrorCode::bad_argument, key + " is fixed twice",
                      {.found = text, .expected = "all its values at once, such as tp=4+8"});
  }
  request.fixed[key] = parts_of(text.substr(equals + 1), '+');
  return {};
}

/// The costs of a plan as options say them.
CostOptions costs_of(const PlanOptions& options, const PlanChoice& choice) {
  CostOptions costs = options.costs;
  const Parallelism given = costs.parallelism;
  costs.nodes = choice.nodes;
  costs.parallelism = choice.parallelism;
  costs.parallelism.global_batch_size = given.global_batch_size;
  costs.parallelism.sequence = given.sequence;
  costs.dtype = data_type_name(choice.parallelism.dtype);
  costs.recompute = choice.recompute_text();
  costs.layout = choice.layout == LayoutRule::even ? "even" : "auto";
  return costs;
}

std::string emitted_json(const PlanOptions& options, const PlanRow& row) {
  const PlanChoice& choice = row.choice;
  const Parallelism& parallelism = choice.parallelism;
  const Json object = {{"schedule", choice.schedule},
                       {"chunks", choice.chunks ? Json(*choice.chunks) : Json()},
                       {"nodes", choice.nodes},
                       {"tp", parallelism.tensor},
                       {"pp", parallelism.pipeline},
                       {"dp", parallelism.data},
                       {"cp", parallelism.context},
                       {"ep", parallelism.expert},
                       {"microbatch_size", parallelism.microbatch_size},
                       {"global_batch_size", parallelism.global_batch_size},
                       {"dtype", std::string(data_type_name(parallelism.dtype))},
                       {"fsdp", parallelism.sharded_parameters},
                       {"recompute", choice.recompute_text()},
                       {"layout", layout_text(row.layout)},
                       {"command", plan_command(options, choice)}};
  return object.dump(2) + "\n";
}

}  // namespace

void add_plan_options(Command& command, PlanOptions& options) {
  command.add_option("--model", options.costs.model, "NAME[:layers=..,...] or a Hugging Face config.json")
      .required();
  command.add_option("--cluster", options.costs.cluster, "NAME, or a file: JSON, or NCCL's XML").required();
  command.add_option("--nodes", options.nodes, "nodes of the cluster, or several numbers of them: 8,16")
      .required();
  command.add_option("--global-batch-size", options.costs.parallelism.global_batch_size, "sequences")
      .required()
      .check(count());
  command
      .add_option("--fix", options.fixed,
                  "key=value: tp, pp, dp, cp, ep, microbatch-size, schedule, chunks, layout, recompute, "
                  "dtype or fsdp; several values as tp=4+8; may be repeated")
      .one_value_each();
  command.add_option("--objective", options.objective, "time, tokens-per-dollar (GPU hours) or memory")
      .show_default()
      .check(one_of({"time", "tokens-per-dollar", "memory"}));
  command.add_option("--min-spare-memory", options.spare, "that is left on every GPU, such as 8GB");
  command.add_option("--top", options.top, "plans to show").show_default().check(count());
  command
      .add_option("--front", options.front,
                  "how much worse than the best plans on the front of time and memory may be")
      .show_default()
      .check(between(1, 100));
  command
      .add_option("--against", options.against,
                  "a plan to compare with: tp=4,pp=4,schedule=interleaved-1f1b,chunks=5; may be repeated")
      .one_value_each();
  command.add_option("--transport", options.transport,
                     "what the best is verified for: any (the default), nccl, nccl-one-queue, mpi, copy or "
                     "in-process");
  command
      .add_option("--emit", options.format, "the best in the words of: json, megatron, torchtitan, maxtext")
      .check(one_of({"json", "megatron", "torchtitan", "maxtext"}));
  command
      .add_option("--report", options.report, "HTML page: step over memory, where a point leads to its plan")
      .check(side_file({".html", ".htm"}));
  command.add_option("--sequence-length", options.costs.parallelism.sequence, "tokens; 0: the model's")
      .show_default()
      .check(whole(0, std::numeric_limits<std::int64_t>::max()));
  command.add_option("--stack", options.costs.stack, "what the software does, NAME or a JSON description")
      .show_default();
  command.add_option("--calibration", options.costs.calibration,
                     "what ppsim calibrate found on your cluster");
  command.add_option("--rank-order", options.costs.rank_order, "tp-cp-dp-pp or tp-cp-pp-dp, innermost first")
      .show_default();
  command.add_flag("--pipeline-only", options.costs.pipeline_only,
                   "without reduction of gradients and optimizer");
}

Expected<PlanRequest> plan_request(const PlanOptions& options) {
  PlanRequest request;
  PPSIM_ASSIGN_OR_RETURN(auto nodes, nodes_of(options.nodes));
  request.nodes = std::move(nodes);
  PPSIM_ASSIGN_OR_RETURN(auto work,
                         workload_to_search({.model = options.costs.model,
                                             .cluster = options.costs.cluster,
                                             .nodes = request.nodes.empty() ? 1 : request.nodes.front(),
                                             .parallelism = options.costs.parallelism,
                                             .rank_order = options.costs.rank_order,
                                             .stack = options.costs.stack,
                                             .whole_step = !options.costs.pipeline_only,
                                             .calibration = options.costs.calibration}));
  request.work = std::move(work);
  for (const std::string& item : options.fixed) {
    PPSIM_RETURN_IF_ERROR(add_fixed(item, request));
  }
  if (!options.spare.empty()) {
    PPSIM_ASSIGN_OR_RETURN(const auto spare, parse_size(options.spare));
    request.min_spare_bytes = spare;
  }
  PPSIM_ASSIGN_OR_RETURN(const auto objective, plan_objective(options.objective));
  request.objective = objective;
  request.top = options.top;
  request.front = options.front;
  request.transport = options.transport;
  return request;
}

std::string plan_command(const PlanOptions& options, const PlanChoice& choice) {
  std::string command = "ppsim simulate " + choice.schedule;
  if (choice.chunks) command += " --chunks " + std::to_string(*choice.chunks);
  command += cost_words(costs_of(options, choice));
  if (!options.transport.empty()) command += " --transport " + options.transport;
  return command;
}

Expected<std::string> emitted(const PlanOptions& options, const PlanRequest& request,
                              const std::vector<PlanRow>& best) {
  if (options.format == "json") return emitted_json(options, best.front());
  PPSIM_ASSIGN_OR_RETURN(const auto framework, framework_named(options.format));
  auto first = plan_settings(framework, request, best.front());
  if (first) return first;
  for (const PlanRow& row : best) {
    const auto settings = plan_settings(framework, request, row);
    if (!settings) continue;
    return "# not the best plan, " + as_text(best.front().choice) + " in " + time_text(best.front().step) +
           ": " + to_string(first.error()) + "\n# the next best: " + as_text(row.choice) + " in " +
           time_text(row.step) + "\n" + *settings;
  }
  return first;
}

}  // namespace ppsim::cli
