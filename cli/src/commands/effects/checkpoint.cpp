#include <cmath>
#include <iostream>

#include "command_line/validators.hpp"
#include "commands/effects/effects.hpp"
#include "input/evaluated.hpp"
#include "options/transport_choice.hpp"
#include "ppsim/planner/effects/checkpoint.hpp"

namespace ppsim::cli {
namespace {

struct Options {
  InputOptions input;
  CostOptions costs;
  TransportChoice transport;
  std::string storage, node_storage, writers = "all";
  int every = 100;
  std::optional<double> hours_between_failures;
};

struct Checkpointed {
  SimulatedStep step;
  CheckpointCost cost;
};

Expected<CheckpointPlan> plan_of(const Options& options) {
  CheckpointPlan plan{.all_replicas = options.writers == "all", .steps = options.every};
  PPSIM_ASSIGN_OR_RETURN(const Bytes storage, parse_size(options.storage));
  plan.storage = static_cast<double>(storage);
  if (!options.node_storage.empty()) {
    PPSIM_ASSIGN_OR_RETURN(const Bytes node, parse_size(options.node_storage));
    plan.node_storage = static_cast<double>(node);
  }
  if (options.hours_between_failures)
    plan.mean_time_between_failures = *options.hours_between_failures * 3600;
  return plan;
}

Expected<Checkpointed> checkpointed(const Options& options, const TransportCapabilities& capabilities,
                                    const Output& output) {
  PPSIM_ASSIGN_OR_RETURN(const auto plan, plan_of(options));
  PPSIM_RETURN_IF_ERROR(check_file(options.input));
  if (options.costs.model.empty())
    return make_error(ErrorCode::bad_argument, "a checkpoint is that of a model",
                      {.found = "", .expected = "--model with its --cluster"});
  PPSIM_ASSIGN_OR_RETURN(const auto source, cost_source(options.costs));
  PPSIM_ASSIGN_OR_RETURN(
      auto step, evaluated("checkpoint", read_subject(options.input, options.costs), capabilities, output));
  PPSIM_ASSIGN_OR_RETURN(const auto cost, checkpoint_cost(step, std::get<Workload>(*source), plan));
  return Checkpointed{std::move(step), cost};
}

Nanoseconds rounded(double nanoseconds) { return std::llround(nanoseconds); }

void print_text(const Checkpointed& of, int every) {
  const CheckpointCost& cost = of.cost;
  std::cout << of.step.name << ": " << of.step.program().pipeline() << '\n'
            << "step " << time_text(of.step.step()) << ", a checkpoint of "
            << size_text(static_cast<Bytes>(cost.bytes))
            << (every == 1 ? " every step\n" : " every " + std::to_string(every) + " steps\n")
            << "copies to the host " << time_text(cost.copy) << ", at most "
            << size_text(static_cast<Bytes>(cost.gpu_bytes)) << " of a GPU; writes " << time_text(cost.write)
            << " from " << cost.writing_nodes << (cost.writing_nodes == 1 ? " node\n" : " nodes\n");
  TextTable rows = {{"checkpoint", "training waits", "a step", "of the time"}};
  const bool fails = cost.together.best_steps.has_value();
  if (fails) rows.front().emplace_back("best every");
  for (const auto& [name, wait] :
       {std::pair("synchronous", cost.together), std::pair("asynchronous", cost.beside)}) {
    rows.push_back({name, time_text(wait.each), time_text(rounded(wait.a_step)), percent_text(wait.share)});
    if (fails) rows.back().push_back(std::to_string(rounded(*wait.best_steps)) + " steps");
  }
  std::cout << table_text(rows);
  if (cost.beside.each > cost.copy) {
    std::cout << "Storage is not done when the next checkpoint comes: write less often, or faster.\n";
  } else {
    std::cout << "Asynchronous writing needs the checkpoint in host memory, and frees training for "
              << time_text(cost.write) << " each time.\n";
  }
}

Json wait_json(const CheckpointWait& wait) {
  Json object = {
      {"wait_ns", wait.each}, {"wait_a_step_ns", wait.a_step}, {"share_percent", 100 * wait.share}};
  if (wait.best_steps) object["best_steps"] = *wait.best_steps;
  return object;
}

Json checkpoint_json(const Checkpointed& of, int every) {
  return {{"schedule", of.step.name},
          {"step_ns", of.step.step()},
          {"every", every},
          {"checkpoint_bytes", static_cast<Bytes>(of.cost.bytes)},
          {"gpu_bytes", static_cast<Bytes>(of.cost.gpu_bytes)},
          {"writing_nodes", of.cost.writing_nodes},
          {"copy_ns", of.cost.copy},
          {"write_ns", of.cost.write},
          {"synchronous", wait_json(of.cost.together)},
          {"asynchronous", wait_json(of.cost.beside)}};
}

Expected<int> run(const Options& options, const Output& output) {
  PPSIM_ASSIGN_OR_RETURN(const auto capabilities,
                         capabilities_of(options.transport, options.costs.parallelism));
  const auto found = checkpointed(options, capabilities, output);
  if (!found) return report_on(capabilities, found.error(), output);
  if (output.json) {
    output.print(checkpoint_json(*found, options.every));
  } else {
    print_text(*found, options.every);
  }
  return kDone;
}

}  // namespace

void add_checkpoint(Command& program) {
  auto options = std::make_shared<Options>();
  Command command = program.add_subcommand(
      "checkpoint", "what writing checkpoints costs a step: copies, storage, synchronous or not");
  command.add_option("INPUT", options->input.input, "FILE or NAME").required();
  add_parameter_options(command, options->input);
  add_dialect_option(command, options->input.dialect);
  command
      .add_option("--storage", options->storage,
                  "bytes a second that storage takes from all nodes together, such as 40GB")
      .required();
  command.add_option("--node-storage", options->node_storage,
                     "bytes a second from a node; default: what its network takes");
  command
      .add_option(
          "--writers", options->writers,
          "all: every replica writes its part; first: the first one writes everything, but for experts "
          "that it does not hold: the first GPUs that do write these")
      .show_default()
      .check(one_of({"all", "first"}));
  command.add_option("--every", options->every, "steps from one checkpoint to the next")
      .show_default()
      .check(count());
  command
      .add_option("--hours-between-failures", options->hours_between_failures,
                  "of the job, in the mean: how many steps between checkpoints lose least")
      .check(between(0.000001, 1000000));
  add_transport_options(command, options->transport);
  add_cost_options(command, options->costs);
  command.runs(run, options);
}

}  // namespace ppsim::cli
