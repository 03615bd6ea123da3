#pragma once

#include <optional>
#include <string>

#include "command.hpp"
#include "options/slowdown_options.hpp"
#include "options/transport_choice.hpp"
#include "ppsim/planner/evaluate.hpp"
#include "ppsim/simulator/effects/shared_links.hpp"

namespace ppsim::cli {

struct ContentionOptions {
  InputOptions input;
  CostOptions costs;
  TransportChoice transport;
  std::optional<int> ranks_per_node;  ///< empty: all GPUs of the --model's job
  std::optional<int> nics;
  SlowdownOptions slowdowns;
  std::string placement, trace;
  std::optional<double> nic_speed, core_speed, oversubscription;
  bool rails = false;
  bool every_copy = false;
};

/// The link of a row of the table, and how many others it stands for.
struct LinkRow {
  std::string name;
  LinkUse use;
  int alike = 1;
};

/// A step alone and on the network.
struct ContendedStep {
  SimulatedStep planned;
  TimedTrace trace;
  Nanoseconds makespan = 0;
  std::vector<LinkRow> links;

  /// The trace is not that of the costs: transfers took longer.
  [[nodiscard]] TimedRun timed_run() const {
    return {.analyzed = planned.analyzed,
            .trace = trace,
            .costs = planned.costs.tables.costs,
            .sizes = planned.costs.tables.sizes,
            .measured = true};
  }
};

/// The link that holds transfers back for the longest time; none does: null.
[[nodiscard]] const LinkRow* worst_link(const std::vector<LinkRow>& links);
/// "25.11 %".
[[nodiscard]] std::string share_text(Nanoseconds part, Nanoseconds whole);
/// A table with a row for each link, or nothing.
[[nodiscard]] std::string links_text(const std::vector<LinkRow>& links, Nanoseconds step);
[[nodiscard]] Json links_json(const std::vector<LinkRow>& links);

/// A step of one pipeline on NICs of nodes, and that of all GPUs of a job on its cluster.
Expected<int> run_on_nodes(const ContentionOptions& options, const TransportCapabilities& capabilities,
                           const Output& output);
Expected<int> run_job(const ContentionOptions& options, const TransportCapabilities& capabilities,
                      const Output& output);

}  // namespace ppsim::cli
