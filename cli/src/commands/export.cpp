#include <filesystem>
#include <iostream>
#include <sstream>

#include "command.hpp"
#include "input/communicators.hpp"
#include "ppsim/core/text/nearest.hpp"
#include "ppsim/planner/evaluate.hpp"
#include "ppsim/planner/export.hpp"
#include "ppsim/planner/files.hpp"
#include "ppsim/simulator/writers/chakra.hpp"

namespace ppsim::cli {
namespace {

/// The one that runs no model, but simulates its network: it gets a Program with costs.
constexpr const char* kChakra = "chakra";

struct ExportOptions {
  std::string framework, folder, layers, policy;
  InputOptions input;
  CostOptions costs;
};

/// "4,5,5,4".
Expected<std::vector<int>> layers_of(const std::string& text) {
  std::vector<int> layers;
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ',');) {
    int count = 0;
    if (!read_number(item, count) || count < 0) {
      return make_error(ErrorCode::bad_argument, "--layers out of range",
                        {.found = item, .expected = "numbers of 0 or more, such as 7,8,8,7"});
    }
    layers.push_back(count);
  }
  return layers;
}

/// A Program's rows of computation are what frameworks lower themselves.
Expected<Schedule> schedule_of(const Ir& ir) {
  if (const auto* schedule = std::get_if<Schedule>(&ir)) return *schedule;
  return make_error(
      ErrorCode::bad_argument, "frameworks lower schedules themselves: this is a Program",
      {.found = "transfers", .expected = "ppsim convert IN OUT.csv --flavor compute_only first"});
}

std::string trace_name(RankId rank) { return "trace." + std::to_string(rank.value()) + ".et"; }

Expected<Export> chakra_traces(const ExportOptions& options) {
  PPSIM_ASSIGN_OR_RETURN(const auto policy, policy_of(options.policy));
  PPSIM_ASSIGN_OR_RETURN(auto subject, read_subject(options.input, options.costs,
                                                    policy.value_or(CommunicatorPolicy::per_edge)));
  if (!subject.costs) return tl::unexpected(needs_costs("chakra"));
  PPSIM_ASSIGN_OR_RETURN(auto program, program_of(subject, policy));
  PPSIM_ASSIGN_OR_RETURN(const auto step,
                         evaluate(subject.name, std::move(program), *std::move(subject.costs)));
  const ChakraInput input = {step.analyzed, step.costs.tables.costs, step.costs.tables.sizes};
  PPSIM_RETURN_IF_ERROR(check_chakra(input));
  Export result;
  for (const RankId rank : step.program().pipeline().rank_ids()) {
    std::ostringstream trace;
    write_chakra(trace, input, rank);
    result.files.push_back({trace_name(rank), trace.str()});
  }
  std::ostringstream groups;
  write_chakra_groups(groups, input);
  result.files.push_back({"comm_groups.json", groups.str()});
  result.notes = {
      "ASTRA-sim: --workload-configuration=" + (std::filesystem::path(options.folder) / "trace").string() +
          " --comm-group-configuration=" +
          (std::filesystem::path(options.folder) / "comm_groups.json").string(),
      "Durations are whole microseconds there, and transfers take what its network says."};
  return result;
}

Expected<Export> exported(const ExportOptions& options) {
  if (options.framework == kChakra) {
    if (options.layers.empty()) return chakra_traces(options);
    return make_error(ErrorCode::bad_argument, "--layers is for frameworks that train",
                      {.found = kChakra, .expected = "the layers of --model"});
  }
  constexpr std::string_view kFrameworks[] = {"torchtitan", "megatron", "maxtext", kChakra};
  const auto framework = framework_named(options.framework);
  if (!framework) return tl::unexpected(unknown_name("unknown framework", options.framework, kFrameworks));
  if (options.costs.given() || !options.policy.empty()) {
    return make_error(ErrorCode::bad_argument, options.framework + " takes neither costs nor communicators",
                      {.expected = "these options with chakra"});
  }
  PPSIM_ASSIGN_OR_RETURN(const auto layers, layers_of(options.layers));
  PPSIM_ASSIGN_OR_RETURN(const auto subject, read_subject(options.input, {}));
  PPSIM_ASSIGN_OR_RETURN(const auto schedule, schedule_of(subject.ir));
  return export_for(*framework, schedule, layers);
}

Expected<void> write_all(const std::string& folder, const Export& result) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed)
    return make_error(ErrorCode::io, "cannot make the folder: " + failed.message(), {.file = folder});
  for (const ExportedFile& file : result.files) {
    const std::string path = (std::filesystem::path(folder) / file.name).string();
    PPSIM_RETURN_IF_ERROR(write_text_file(path, file.text));
  }
  return {};
}

Expected<int> run(const ExportOptions& options, const Output& output) {
  PPSIM_ASSIGN_OR_RETURN(const auto result, exported(options));
  PPSIM_RETURN_IF_ERROR(write_all(options.folder, result));
  std::vector<std::string> files;
  for (const ExportedFile& file : result.files)
    files.push_back((std::filesystem::path(options.folder) / file.name).string());
  if (output.json) {
    output.print({{"framework", options.framework}, {"files", files}, {"notes", result.notes}});
    return kDone;
  }
  for (const std::string& file : files) output.note("wrote " + file);
  for (const std::string& note : result.notes) std::cout << note << '\n';
  return kDone;
}

}  // namespace

void add_export(Command& program) {
  auto options = std::make_shared<ExportOptions>();
  Command command = program.add_subcommand(
      "export", "write what makes torchtitan, Megatron-LM, MaxText or ASTRA-sim run a schedule");
  command.add_option("FRAMEWORK", options->framework, "torchtitan, megatron, maxtext or chakra").required();
  command.add_option("IN", options->input.input, "FILE or NAME").required();
  command.add_option("-o,--output", options->folder, "folder to write to").required();
  command.add_option(
      "--layers", options->layers,
      "transformer layers of each stage, such as 7,8,8,7; default: the framework divides them");
  add_parameter_options(command, options->input);
  add_dialect_option(command, options->input.dialect);
  command.add_option("--communicators", options->policy,
                     "chakra: of a schedule or a CSV: per-rank, per-pair, per-edge (the default) or "
                     "per-stage-edge");
  add_cost_source_options(command, options->costs);
  command.runs(run, options);
}

}  // namespace ppsim::cli
