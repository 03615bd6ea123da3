#include <iostream>

#include "command_line/validators.hpp"
#include "commands/effects/effects.hpp"
#include "ppsim/core/text/number_text.hpp"
#include "ppsim/planner/traces/chakra_files.hpp"

namespace ppsim::cli {
namespace {

struct ChakraOptions {
  std::string path;
  double bandwidth = 0, latency = 0;
};

std::int64_t node_count(const ChakraTrace& trace) {
  std::int64_t count = 0;
  for (const auto& nodes : trace.ranks) count += static_cast<std::int64_t>(nodes.size());
  return count;
}

Json chakra_json(const ChakraTrace& trace, const ChakraRun& run) {
  Json ranks = Json::array();
  for (std::size_t r = 0; r < run.busy.size(); ++r)
    ranks.push_back({{"nodes", trace.ranks[r].size()},
                     {"busy_ns", run.busy[r]},
                     {"idle_ns", run.makespan - run.busy[r]}});
  return {{"makespan_ns", run.makespan},
          {"nodes", node_count(trace)},
          {"free_messages", run.free_messages},
          {"priced_messages", run.priced_messages},
          {"per_rank", ranks}};
}

void print_text(const ChakraOptions& options, const ChakraTrace& trace, const ChakraRun& run) {
  TextTable rows = {{"rank", "nodes", "busy", "idle"}};
  for (std::size_t r = 0; r < run.busy.size(); ++r)
    rows.push_back({std::to_string(r), std::to_string(trace.ranks[r].size()), time_text(run.busy[r]),
                    time_text(run.makespan - run.busy[r])});
  std::cout << with_plural(static_cast<std::int64_t>(trace.ranks.size()), "rank") << ", "
            << with_plural(static_cast<std::int64_t>(node_count(trace)), "node") << '\n'
            << "step " << time_text(run.makespan) << '\n'
            << table_text(rows);
  const bool has_network = options.bandwidth + options.latency > 0;
  if (run.free_messages > 0)
    std::cout << run.free_messages << " messages and collectives have no duration and took no time"
              << (has_network ? ": the network is too fast for them.\n"
                              : ": --bandwidth and --latency give them one.\n");
  if (has_network && run.priced_messages == 0)
    std::cout << "--bandwidth and --latency change nothing: no message lacks a duration in the traces.\n";
}

Expected<int> run(const ChakraOptions& options, const Output& output) {
  PPSIM_ASSIGN_OR_RETURN(const auto trace, read_chakra_files(options.path));
  PPSIM_ASSIGN_OR_RETURN(const auto run, simulate_chakra(trace, {options.bandwidth, options.latency}));
  if (output.json) {
    output.print(chakra_json(trace, run));
  } else {
    print_text(options, trace, run);
  }
  return kDone;
}

}  // namespace

void add_chakra(Command& program) {
  auto options = std::make_shared<ChakraOptions>();
  Command command =
      program.add_subcommand("chakra", "simulate execution traces of MLCommons Chakra, one a rank");
  command
      .add_option(
          "TRACES", options->path,
          "PREFIX of PREFIX.0.et, PREFIX.1.et, ..., or the folder with them, as export chakra writes it")
      .required();
  command
      .add_option("--bandwidth", options->bandwidth,
                  "GB/s of communication that has no duration in the traces (none: its bytes take no time)")
      .check(positive());
  command
      .add_option("--latency", options->latency,
                  "us of each such message or collective, with --bandwidth or alone")
      .check(not_negative());
  command.runs(run, options);
}

}  // namespace ppsim::cli
