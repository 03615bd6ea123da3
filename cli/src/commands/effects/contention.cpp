#include "contention.hpp"

#include <algorithm>
#include <cmath>
#include <iostream>

#include "command_line/validators.hpp"
#include "commands/effects/effects.hpp"
#include "input/evaluated.hpp"
#include "ppsim/planner/trace_file.hpp"

namespace ppsim::cli {
namespace {

simulator::Rate rate_of(double speed) {
  return std::max<simulator::Rate>(1, std::llround(speed * static_cast<double>(simulator::kFullSpeed)));
}

NodeNetwork network_of(const ContentionOptions& options, int ranks) {
  return {.ranks = options.ranks_per_node.value_or(ranks),
          .cyclic = options.placement == "cyclic",
          .nics = options.nics.value_or(1),
          .speed = rate_of(options.nic_speed.value_or(1)),
          .core = options.core_speed ? rate_of(*options.core_speed) : 0};
}

Expected<ContendedStep> contended(const ContentionOptions& options, const TransportCapabilities& capabilities,
                                  const Output& output) {
  PPSIM_ASSIGN_OR_RETURN(auto planned, evaluated("contention", read_subject(options.input, options.costs),
                                                 capabilities, output));
  const int ranks = planned.program().pipeline().ranks();
  const SharedLinks links = shared_links(planned.analyzed, network_of(options, ranks));
  PPSIM_ASSIGN_OR_RETURN(auto run, simulate_shared(planned.analyzed, planned.contended(), links,
                                                   devices_of(options.slowdowns, ranks)));
  TimedTrace trace = *std::move(run.run);  // a Program that could be evaluated finishes
  ContendedStep step{std::move(planned), std::move(trace), 0, {}};
  step.makespan = step_times(step.planned.program(), step.trace).makespan;
  for (std::size_t i = 0; i < run.uses.size(); ++i) step.links.push_back({links.links[i].name, run.uses[i]});
  return step;
}

std::string advice(const ContendedStep& step) {
  if (step.links.empty()) return "All ranks are on one node: nothing is shared.";
  const LinkRow* worst = worst_link(step.links);
  if (worst == nullptr) return "No transfer holds another one back.";
  const std::string held = worst->name + " holds transfers back for " +
                           share_text(worst->use.contended, step.makespan) + " of the step";
  if (step.makespan == step.planned.metrics.times.makespan) return held + ", which no rank waits for.";
  if (worst->name == "core") return held + ": a faster core or another --placement would help.";
  return held + ": more NICs, another --placement or fewer ranks of a node that send at once would help.";
}

std::vector<std::string> kinds_without_price(const ContendedStep& step) {
  return free_kinds(step.planned.costs.tables.costs, step.planned.program());
}

void print_text(const ContendedStep& step, bool on_devices) {
  const Nanoseconds planned = step.planned.metrics.times.makespan;
  std::cout << simulated_line(step.planned.capabilities()) << '\n'
            << step.planned.name << ": " << step.planned.program().pipeline() << '\n'
            << "pipeline " << time_text(step.makespan) << ", " << time_text(planned)
            << (on_devices ? " where everything is alone" : " where every transfer is alone");
  if (planned > 0) std::cout << " (" << difference_text(step.makespan, planned) << ")";
  std::cout << '\n' << free_kinds_text(kinds_without_price(step)) << links_text(step.links, step.makespan);
  if (!on_devices || !step.links.empty()) std::cout << advice(step) << '\n';
}

Json contended_step_json(const ContendedStep& step) {
  return {{"schedule", step.planned.name},
          {"makespan_ns", step.makespan},
          {"makespan_alone_ns", step.planned.metrics.times.makespan},
          {"links", links_json(step.links)},
          {"free_of_cost", kinds_without_price(step)},
          {"transport", transport_name(step.planned.capabilities())}};
}

Expected<void> refuse(bool given, const std::string& option, bool of_job) {
  if (!given) return {};
  return make_error(ErrorCode::bad_argument,
                    option + (of_job ? " is for all GPUs of a --model's job" : " is for --ranks-per-node"),
                    {.found = option,
                     .expected = of_job ? "neither --ranks-per-node nor a slowdown"
                                        : "--ranks-per-node N, or no such option"});
}

/// Options of the one network are none of the other's.
Expected<void> check(const ContentionOptions& options) {
  const bool on_nodes = options.ranks_per_node.has_value();
  const bool on_devices = options.slowdowns.any();
  PPSIM_RETURN_IF_ERROR(check_slowdowns(options.slowdowns));
  if (!on_nodes && !on_devices && options.costs.model.empty())
    return make_error(
        ErrorCode::bad_argument, "contention needs a network",
        {.found = "",
         .expected = "--ranks-per-node N, --ranks-per-device N, --transfer-slowdown S, or --model with its "
                     "--cluster"});
  if (on_nodes || on_devices) {
    PPSIM_RETURN_IF_ERROR(refuse(options.oversubscription.has_value(), "--oversubscription", true));
    PPSIM_RETURN_IF_ERROR(refuse(options.rails, "--rails", true));
    PPSIM_RETURN_IF_ERROR(refuse(options.every_copy, "--every-copy", true));
  }
  if (on_nodes) return {};
  if (on_devices) PPSIM_RETURN_IF_ERROR(refuse(options.nics.has_value(), "--nics", false));
  PPSIM_RETURN_IF_ERROR(refuse(!options.placement.empty(), "--placement", false));
  PPSIM_RETURN_IF_ERROR(refuse(options.nic_speed.has_value(), "--nic-speed", false));
  return refuse(options.core_speed.has_value(), "--core-speed", false);
}

Expected<int> run(const ContentionOptions& options, const Output& output) {
  PPSIM_RETURN_IF_ERROR(check(options));
  PPSIM_ASSIGN_OR_RETURN(const auto capabilities,
                         capabilities_of(options.transport, options.costs.parallelism));
  return options.ranks_per_node || options.slowdowns.any() ? run_on_nodes(options, capabilities, output)
                                                           : run_job(options, capabilities, output);
}

void add_network_options(Command& command, ContentionOptions& options) {
  command
      .add_option("--ranks-per-node", options.ranks_per_node,
                  "ranks of a node, which share its NICs; without it all GPUs of the job of --model are on "
                  "its cluster")
      .check(count());
  command
      .add_option("--placement", options.placement,
                  "block: consecutive ranks share a node; cyclic: ranks go round all nodes (block)")
      .check(one_of({"block", "cyclic"}));
  command
      .add_option("--nics", options.nics,
                  "NICs of a node, of which each rank uses one: rails (1; of a job one for each GPU)")
      .check(count());
  command
      .add_option("--nic-speed", options.nic_speed,
                  "of a NIC, each way, in transfers that it carries at full speed at once (1)")
      .check(between(0.001, 1000000));
  command
      .add_option("--core-speed", options.core_speed,
                  "of all that connects the nodes, in the same transfers; default: no limit")
      .check(between(0.001, 1000000));
  command
      .add_option("--oversubscription", options.oversubscription,
                  "of a job: all of its NICs together over what passes between its nodes; default: no limit")
      .check(between(1, 1000000));
  add_slowdown_options(command, options.slowdowns);
  command.add_flag("--rails", options.rails,
                   "of a job: GPUs with the same place in their nodes reach each other past the core");
  command.add_flag("--every-copy", options.every_copy,
                   "of a job: simulate all GPUs, even those that do the same");
}

}  // namespace

const LinkRow* worst_link(const std::vector<LinkRow>& links) {
  const auto worst = std::ranges::max_element(links, {}, [](const LinkRow& l) { return l.use.contended; });
  return worst == links.end() || worst->use.contended == 0 ? nullptr : &*worst;
}

std::string share_text(Nanoseconds part, Nanoseconds whole) {
  return percent_text(whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole));
}

std::string links_text(const std::vector<LinkRow>& links, Nanoseconds step) {
  if (links.empty()) return "";
  TextTable rows = {{"link", "transfers", "busy", "of the step", "held back"}};
  for (const LinkRow& link : links) {
    const std::string others = link.alike > 1 ? " of " + std::to_string(link.alike) : "";
    rows.push_back({link.name + others, std::to_string(link.use.flows), time_text(link.use.busy),
                    share_text(link.use.busy, step), time_text(link.use.contended)});
  }
  return table_text(rows);
}

Json links_json(const std::vector<LinkRow>& links) {
  Json rows = Json::array();
  for (const LinkRow& link : links) {
    rows.push_back({{"name", link.name},
                    {"transfers", link.use.flows},
                    {"busy_ns", link.use.busy},
                    {"held_back_ns", link.use.contended}});
  }
  return rows;
}

Expected<int> run_on_nodes(const ContentionOptions& options, const TransportCapabilities& capabilities,
                           const Output& output) {
  const auto step = contended(options, capabilities, output);
  if (!step) return report_on(capabilities, step.error(), output);
  if (!options.trace.empty()) {
    PPSIM_RETURN_IF_ERROR(write_trace_file(options.trace, step->timed_run()));
  }
  if (output.json) {
    output.print(contended_step_json(*step));
  } else {
    print_text(*step, options.slowdowns.any());
  }
  return kDone;
}

void add_contention(Command& program) {
  auto options = std::make_shared<ContentionOptions>();
  Command command =
      program.add_subcommand("contention", "the step where transfers share links: who holds up whom");
  command.add_option("INPUT", options->input.input, "FILE or NAME").required();
  add_parameter_options(command, options->input);
  add_replicas_option(command, options->input);
  add_offload_option(command, options->input);
  add_dialect_option(command, options->input.dialect);
  add_network_options(command, *options);
  add_transport_options(command, options->transport);
  command.add_option("--trace", options->trace, "timed trace: .csv, .json (Perfetto, Chrome) or .pftrace")
      .check(trace_file());
  add_cost_options(command, options->costs);
  command.runs(run, options);
}

}  // namespace ppsim::cli
