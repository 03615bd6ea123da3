#include "command.hpp"
#include "command_line/validators.hpp"
#include "ppsim/core/io/json.hpp"
#include "ppsim/planner/costs/table_coverage.hpp"
#include "ppsim/planner/files.hpp"

namespace ppsim::cli {
namespace {

struct GenerateOptions {
  InputOptions input;
  CostOptions costs;
  std::string output, costs_out;
};

/// The costs that the schedule is for, as --costs reads them.
Expected<void> write_costs(const GenerateOptions& options, const Subject& subject) {
  if (options.costs_out.empty()) return {};
  if (!subject.costs) return make_error(ErrorCode::bad_argument, "--costs-out needs costs to write");
  return write_text_file(options.costs_out, to_json(with_zeros(subject.costs->tables)));
}

Json summary_json(const GenerateOptions& options, const Subject& subject) {
  const Pipeline& pipeline = pipeline_of(subject.ir);
  Json object = {{"schedule", subject.name},
                 {"file", options.output},
                 {"ranks", pipeline.ranks()},
                 {"stages", pipeline.stages()},
                 {"microbatches", pipeline.microbatches()},
                 {"slices", pipeline.slices()},
                 {"actions", std::get<Schedule>(subject.ir).action_count()}};
  if (subject.costs && !subject.costs->slice_lengths.empty())
    object["slice_lengths"] = subject.costs->slice_lengths;
  return object;
}

/// A Schedule or Program in the format of the file's suffix.
Expected<int> run(const GenerateOptions& options, const Output& output) {
  if (names_file(options.input.input)) {
    return make_error(ErrorCode::bad_argument,
                      "generate makes a schedule of the registry; convert reads files",
                      {.found = options.input.input, .expected = "the name of a schedule"});
  }
  PPSIM_ASSIGN_OR_RETURN(const auto subject, read_subject(options.input, options.costs));
  if (options.costs.recompute == "adaptive" || subject.recompute.any(Recompute::full)) {
    return make_error(
        ErrorCode::bad_argument, "a schedule has no recomputation before it is lowered",
        {.found = "--recompute " + options.costs.recompute, .expected = "ppsim lower --recompute"});
  }
  PPSIM_ASSIGN_OR_RETURN(const auto target, target_of(options.input.target));
  PPSIM_ASSIGN_OR_RETURN(const auto text, target ? text_for(*target, subject.ir, options.output)
                                                 : ir_text(subject.ir, options.output, CsvDialect::torch));
  PPSIM_RETURN_IF_ERROR(write_costs(options, subject));
  PPSIM_RETURN_IF_ERROR(write_text_file(options.output, text));
  if (subject.costs && !subject.costs->slice_lengths.empty() && !output.json)
    output.note("slices of " + lengths_text(subject.costs->slice_lengths) + " tokens");
  if (output.json && options.output != "-") {
    output.print(summary_json(options, subject));
  } else if (options.output != "-") {
    const std::string as_target = target ? " --for " + options.input.target : "";
    output.note("wrote " + options.output + "; next: ppsim verify " + options.output + as_target);
  }
  return kDone;
}

}  // namespace

void add_generate(Command& program) {
  auto options = std::make_shared<GenerateOptions>();
  Command command = program.add_subcommand("generate", "write a schedule of the registry to a file");
  command.add_option("NAME", options->input.input, "schedule, or name:key=value,...").required();
  add_parameter_options(command, options->input);
  add_cost_options(command, options->costs);
  command.add_option("-o,--output", options->output, "FILE.json, FILE.csv (PyTorch compute_only) or -")
      .required()
      .check(output_file({".json", ".csv"}));
  add_target_option(command, options->input.target);
  command.add_option("--costs-out", options->costs_out, "the costs as a table that --costs reads")
      .check(side_file({".json"}));
  command.runs(run, options);
}

}  // namespace ppsim::cli
