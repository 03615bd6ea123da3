#include <iostream>

#include "command_line/validators.hpp"
#include "options/measurement.hpp"
#include "ppsim/core/ir/tied_ends.hpp"
#include "ppsim/core/text/as_text.hpp"
#include "ppsim/gpu_backend/executor/backends.hpp"
#include "ppsim/planner/files.hpp"
#include "ppsim/planner/profile.hpp"
#include "run_output.hpp"

namespace ppsim::cli {
namespace {

struct ProfileOptions {
  Measurement measurement{.steps = 11};
  std::string output;
};

/// The schedules that run where none is named: between them they have F, B, I, W, R, OPT and both transfers.
Expected<std::vector<Program>> usual_programs(const InputOptions& input) {
  ScheduleParameters parameters{.ranks = input.ranks.value_or(2)};
  parameters.microbatches = input.microbatches.value_or(4 * parameters.ranks);
  LoweringOptions with_update;
  with_update.optimizer = true;
  LoweringOptions with_recompute;
  with_recompute.recompute = Recompute::full;
  const std::pair<const char*, LoweringOptions> runs[] = {
      {"1f1b", with_update}, {"zb-h1", {}}, {"1f1b", with_recompute}};
  std::vector<Program> programs;
  for (const auto& [name, lowering] : runs) {
    PPSIM_ASSIGN_OR_RETURN(auto schedule, generate(name, parameters));
    if (input.tied) {
      PPSIM_ASSIGN_OR_RETURN(schedule, with_tied_ends(schedule));
    }
    PPSIM_ASSIGN_OR_RETURN(auto program, lower(schedule, lowering));
    programs.push_back(std::move(program));
  }
  return programs;
}

Expected<std::vector<Program>> programs_of(const InputOptions& input) {
  if (input.input.empty()) return usual_programs(input);
  const CostOptions no_costs;
  PPSIM_ASSIGN_OR_RETURN(const auto subject, read_subject(input, no_costs));
  PPSIM_ASSIGN_OR_RETURN(auto program, default_program(subject));
  return std::vector<Program>{std::move(program)};
}

/// Measured costs, and what computed that could be computed otherwise.
struct Profile {
  Tables tables;
  std::string kernels;
};

Expected<Profile> profiled(const Measurement& measurement) {
  PPSIM_ASSIGN_OR_RETURN(auto run, open_measurement(measurement));
  PPSIM_ASSIGN_OR_RETURN(auto algorithms, RunAlgorithms::open(measurement.device));
  algorithms.give_to(run);
  InputOptions input = measurement.input;
  PPSIM_ASSIGN_OR_RETURN(const bool tied, is_tied(measurement.model));
  input.tied = tied;
  PPSIM_ASSIGN_OR_RETURN(const auto programs, programs_of(input));
  PPSIM_ASSIGN_OR_RETURN(const auto model, transformer_of(measurement.model, measurement.device,
                                                          programs.front().pipeline().stages()));
  PPSIM_RETURN_IF_ERROR(open_backend(measurement.device));
  const auto held = hold_devices(run, max_ranks(programs));
  auto tables = profile(programs, *model, run);
  PPSIM_RETURN_IF_ERROR(algorithms.keep());
  PPSIM_RETURN_IF_ERROR(tables);
  const std::string kernels = kernels_text(measurement.device, *model, programs.front().pipeline());
  return Profile{*std::move(tables), algorithms.added_to(kernels)};
}

void print_text(const Tables& tables) {
  TextTable rows = {{"action", "samples", "lower quartile", "median", "upper quartile", "mean"}};
  for (const auto& [key, spread] : tables.spreads) {
    rows.push_back({as_text(key), std::to_string(spread.samples), time_text(spread.lower_quartile),
                    time_text(spread.median), time_text(spread.upper_quartile),
                    time_text(tables.costs(key))});
  }
  std::cout << table_text(rows);
}

/// The costs that were found; `written`: or why they are in no file.
void print(const ProfileOptions& options, const Profile& found, const Expected<void>& written,
           const Output& output) {
  if (output.json) {
    Json object = {{"file", options.output}, {"classes", found.tables.spreads.size()}};
    if (!found.kernels.empty()) object["kernels"] = found.kernels;
    if (!written) object["error"] = error_json(written.error());
    output.print(object);
    return;
  }
  print_text(found.tables);
  if (!found.kernels.empty()) std::cout << found.kernels << '\n';
  if (written)
    output.note("wrote " + options.output + "; next: ppsim run or simulate with --costs " + options.output);
}

Expected<int> run(const ProfileOptions& options, const Output& output) {
  PPSIM_RETURN_IF_ERROR(check_outputs({options.output}));
  PPSIM_ASSIGN_OR_RETURN(const auto found, profiled(options.measurement));
  const auto written = write_text_file(options.output, to_json(found.tables));
  if (options.output == "-") {
    PPSIM_RETURN_IF_ERROR(written);
    return kDone;
  }
  if (!written) std::cerr << "ppsim: " << written.error() << '\n';
  print(options, found, written, output);
  return written ? kDone : exit_code(written.error().code);
}

}  // namespace

void add_profile(Command& program) {
  auto options = std::make_shared<ProfileOptions>();
  Command command = program.add_subcommand(
      "profile", "measure what every action costs: mean, median and quartiles, as --costs reads them");
  command.add_option("INPUT", options->measurement.input.input,
                     "FILE or NAME to run; none: 1f1b with optimizer, zb-h1, and 1f1b with recompute, one "
                     "stage on each rank");
  add_measurement_options(command, options->measurement, "steps; the first one does not count");
  command.add_option("-o,--output", options->output, "FILE.json or -")
      .required()
      .check(output_file({".json"}));
  command.runs(run, options);
}

}  // namespace ppsim::cli
