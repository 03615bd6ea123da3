#include <algorithm>
#include <cmath>
#include <iostream>

#include "command_line/validators.hpp"
#include "commands/effects/effects.hpp"
#include "input/evaluated.hpp"
#include "options/transport_choice.hpp"
#include "ppsim/planner/trace_file.hpp"
#include "ppsim/simulator/effects/shared_links.hpp"

namespace ppsim::cli {
namespace {

struct Options {
  InputOptions input;
  CostOptions costs;
  TransportChoice transport;
  int ranks_per_node = 0;
  int nics = 1;
  std::string placement = "block", trace;
  double nic_speed = 1;
  std::optional<double> core_speed;
};

/// A step alone and on the network.
struct Contended {
  Evaluation planned;
  SharedLinks links;
  TimedTrace trace;
  std::vector<LinkUse> uses;

  [[nodiscard]] Nanoseconds makespan() const { return step_times(planned.program(), trace).makespan; }
  /// The trace is not that of the costs: transfers took longer.
  [[nodiscard]] RunView view() const {
    return {.analyzed = planned.analyzed,
            .trace = trace,
            .costs = planned.costs.tables.costs,
            .sizes = planned.costs.tables.sizes,
            .measured = true};
  }
};

simulator::Rate rate_of(double speed) {
  return std::max<simulator::Rate>(1, std::llround(speed * static_cast<double>(simulator::kFullSpeed)));
}

NodeNetwork network_of(const Options& options) {
  return {.ranks = options.ranks_per_node,
          .cyclic = options.placement == "cyclic",
          .nics = options.nics,
          .speed = rate_of(options.nic_speed),
          .core = options.core_speed ? rate_of(*options.core_speed) : 0};
}

Expected<Contended> contended(const Options& options, const TransportCapabilities& capabilities,
                              const Output& output) {
  PPSIM_ASSIGN_OR_RETURN(auto planned, evaluated("contention", read_subject(options.input, options.costs),
                                                 capabilities, output));
  SharedLinks links = shared_links(planned.analyzed, network_of(options));
  PPSIM_ASSIGN_OR_RETURN(auto run, simulate_shared(planned.analyzed, planned.contended(), links));
  TimedTrace trace = *std::move(run.run);  // what could be evaluated finishes
  return Contended{std::move(planned), std::move(links), std::move(trace), std::move(run.uses)};
}

/// The link that holds transfers back for the longest time; -1: none does.
int worst_link(const Contended& step) {
  int worst = -1;
  for (int i = 0; i < static_cast<int>(step.uses.size()); ++i) {
    const Nanoseconds held = step.uses[static_cast<std::size_t>(i)].contended;
    if (held > 0 && (worst < 0 || held > step.uses[static_cast<std::size_t>(worst)].contended)) worst = i;
  }
  return worst;
}

std::string share_text(Nanoseconds part, Nanoseconds whole) {
  return percent_text(whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole));
}

std::string advice(const Contended& step) {
  if (step.links.links.empty()) return "All ranks are on one node: nothing is shared.";
  const int worst = worst_link(step);
  if (worst < 0) return "No transfer holds another one back.";
  const auto index = static_cast<std::size_t>(worst);
  const std::string held = step.links.links[index].name + " holds transfers back for " +
                           share_text(step.uses[index].contended, step.makespan()) + " of the step";
  if (step.makespan() == step.planned.metrics.times.makespan) return held + ", which no rank waits for.";
  return held + ": more NICs, another --placement or fewer ranks of a node that send at once would help.";
}

void print_text(const Contended& step) {
  const Nanoseconds planned = step.planned.metrics.times.makespan;
  const Nanoseconds makespan = step.makespan();
  std::vector<std::vector<std::string>> rows = {{"link", "transfers", "busy", "of the step", "held back"}};
  for (std::size_t i = 0; i < step.uses.size(); ++i) {
    const LinkUse& use = step.uses[i];
    rows.push_back({step.links.links[i].name, std::to_string(use.flows), time_text(use.busy),
                    share_text(use.busy, makespan), time_text(use.contended)});
  }
  std::cout << simulated_line(step.planned.capabilities()) << '\n'
            << step.planned.name << ": " << step.planned.program().pipeline() << '\n'
            << "pipeline " << time_text(makespan) << ", " << time_text(planned)
            << " where every transfer is alone";
  if (planned > 0) std::cout << " (" << difference_text(makespan, planned) << ")";
  std::cout << '\n' << (step.uses.empty() ? "" : table_text(rows)) << advice(step) << '\n';
}

Json result_json(const Contended& step) {
  Json links = Json::array();
  for (std::size_t i = 0; i < step.uses.size(); ++i) {
    const LinkUse& use = step.uses[i];
    links.push_back({{"name", step.links.links[i].name},
                     {"transfers", use.flows},
                     {"busy_ns", use.busy},
                     {"held_back_ns", use.contended}});
  }
  return {{"schedule", step.planned.name},
          {"makespan_ns", step.makespan()},
          {"makespan_alone_ns", step.planned.metrics.times.makespan},
          {"links", links},
          {"transport", transport_name(step.planned.capabilities())}};
}

int run(const Options& options, const Output& output) {
  const auto capabilities = capabilities_of(options.transport, options.costs.spread);
  if (!capabilities) return report(capabilities.error(), output);
  const auto step = contended(options, *capabilities, output);
  if (!step) return report_on(*capabilities, step.error(), output);
  if (!options.trace.empty()) {
    if (auto written = write_trace_file(options.trace, step->view()); !written)
      return report(written.error(), output);
  }
  if (output.json) {
    output.print(result_json(*step));
  } else {
    print_text(*step);
  }
  return kDone;
}

}  // namespace

void add_contention(Command& program) {
  auto options = std::make_shared<Options>();
  Command command =
      program.add_subcommand("contention", "the step where transfers share NICs: who holds up whom");
  command.add_option("INPUT", options->input.input, "FILE or NAME").required();
  add_parameter_options(command, options->input);
  add_replicas_option(command, options->input);
  add_offload_option(command, options->input);
  add_dialect_option(command, options->input.dialect);
  command.add_option("--ranks-per-node", options->ranks_per_node, "ranks of a node, which share its NICs")
      .required()
      .check(count());
  command
      .add_option("--placement", options->placement,
                  "block: consecutive ranks share a node; cyclic: ranks go round all nodes")
      .show_default()
      .check(one_of({"block", "cyclic"}));
  command.add_option("--nics", options->nics, "NICs of a node, of which each rank uses one: rails")
      .show_default()
      .check(count());
  command
      .add_option("--nic-speed", options->nic_speed,
                  "of a NIC, each way, in transfers that it carries at full speed at once")
      .show_default()
      .check(between(0.001, 1000000));
  command
      .add_option("--core-speed", options->core_speed,
                  "of all that connects the nodes, in the same transfers; default: no limit")
      .check(between(0.001, 1000000));
  add_transport_options(command, options->transport);
  command.add_option("--trace", options->trace, "timed trace: .csv, .json (Perfetto, Chrome) or .pftrace")
      .check(trace_file());
  add_cost_options(command, options->costs);
  add_recompute_option(command, options->costs);
  command.runs([options](const Output& output) { return run(*options, output); });
}

}  // namespace ppsim::cli
