#include "command.hpp"
#include "command_line/validators.hpp"
#include "ppsim/core/io/jaxpp_tasks.hpp"
#include "ppsim/planner/files.hpp"

namespace ppsim::cli {
namespace {

struct ConvertOptions {
  InputOptions input;
  std::string output;
  std::string flavor;
};

constexpr std::string_view kTasks = "jaxpp-tasks";

/// Lowers a schedule, for a target with the actions that it needs.
Expected<Program> lowered(const Schedule& schedule, const std::optional<Target>& target) {
  if (!target) return lower(schedule, {});
  return lower_for(*target, schedule, usual_lowering(*target, target->communicators.front()));
}

/// A Schedule becomes a Program where compute_comms is asked for.
Expected<Ir> in_flavor(Ir ir, const std::string& flavor, const std::optional<Target>& target) {
  const bool is_schedule = std::holds_alternative<Schedule>(ir);
  const bool as_tasks = flavor == kTasks && is_schedule;
  if (flavor.empty() || as_tasks || (flavor == "compute_only" && is_schedule) ||
      (flavor == "compute_comms" && !is_schedule))
    return ir;
  if (flavor == "compute_comms") {
    PPSIM_ASSIGN_OR_RETURN(auto program, lowered(std::get<Schedule>(ir), target));
    return Ir(std::move(program));
  }
  if (flavor == "compute_only" || flavor == kTasks) {
    return compute_only(std::get<Program>(ir)).map([](Schedule schedule) { return Ir(std::move(schedule)); });
  }
  return make_error(ErrorCode::bad_argument, "unknown --flavor",
                    {.found = flavor, .expected = "compute_only, compute_comms or jaxpp-tasks"});
}

/// The format of JaxPP's schedules, which is for no PyTorch.
Expected<std::string> tasks_text(const ConvertOptions& options, const Ir& ir) {
  if (suffix_of(options.output) == ".csv" || !options.input.target.empty()) {
    return make_error(ErrorCode::bad_argument, "--flavor jaxpp-tasks is JSON that needs no --for",
                      {.found = options.output, .expected = "a .json file or -, and no --for"});
  }
  return to_jaxpp_tasks(std::get<Schedule>(ir));
}

/// The alphabet of the output for a dialect that names the input's: PyTorch's present one, with waits where
/// these are asked for, unless the input is native.
CsvDialect own_dialect(CsvDialect asked, bool from_json) {
  return from_json || asked == CsvDialect::torch_2_15 ? asked : CsvDialect::torch;
}

/// The text of the output, in the alphabet of the target where there is one.
Expected<std::string> written(const ConvertOptions& options, const Ir& ir, bool from_json,
                              CsvDialect dialect) {
  PPSIM_ASSIGN_OR_RETURN(const auto target, target_of(options.input.target));
  const bool to_csv = suffix_of(options.output) == ".csv";
  if (from_json && dialect != CsvDialect::torch && (target || !to_csv)) {
    return make_error(ErrorCode::bad_argument,
                      to_csv ? "--for says the alphabet of what is written"
                             : "--dialect is for CSV, and neither file is one",
                      {.found = "--dialect " + options.input.dialect, .expected = "no --dialect"});
  }
  if (options.flavor == kTasks) return tasks_text(options, ir);
  if (target) return text_for(*target, ir, options.output);
  return ir_text(ir, options.output, own_dialect(dialect, from_json));
}

Expected<int> run(const ConvertOptions& options, const Output& output) {
  PPSIM_ASSIGN_OR_RETURN(const auto dialect, dialect_of(options.input.dialect));
  PPSIM_ASSIGN_OR_RETURN(const auto target, target_of(options.input.target));
  const auto text = read_text_file(options.input.input);
  if (!text && names_schedule(options.input.input)) {
    return make_error(
        ErrorCode::bad_argument, "convert reads a file, this is the name of a schedule",
        {.found = options.input.input, .expected = "ppsim generate, which writes either format"});
  }
  if (!text) return tl::unexpected(text.error());
  const CommunicatorPolicy policy = target ? target->communicators.front() : CommunicatorPolicy::per_edge;
  PPSIM_ASSIGN_OR_RETURN(auto ir, ir_from_text(*text, options.input.input, {dialect, policy}));
  PPSIM_ASSIGN_OR_RETURN(const auto converted, in_flavor(std::move(ir), options.flavor, target));
  const bool from_json = is_native_json(*text, options.input.input);
  PPSIM_ASSIGN_OR_RETURN(const auto result, written(options, converted, from_json, dialect));
  if (!target) note_gradients(converted, options.output, own_dialect(dialect, from_json), output);
  PPSIM_RETURN_IF_ERROR(write_text_file(options.output, result));
  if (output.json && options.output != "-") {
    output.print({{"file", options.output},
                  {"level", std::holds_alternative<Schedule>(converted) ? "schedule" : "program"}});
  }
  return kDone;
}

}  // namespace

void add_convert(Command& program) {
  auto options = std::make_shared<ConvertOptions>();
  Command command =
      program.add_subcommand("convert", "translate between native JSON, PyTorch CSV and task lists of JaxPP");
  command.add_option("IN", options->input.input, "FILE.json, FILE.csv or -").required();
  command.add_option("OUT", options->output, "FILE.json, FILE.csv or - (JSON)")
      .required()
      .check(output_file({".json", ".csv"}));
  command.add_option("--flavor", options->flavor,
                     "compute_only, compute_comms or jaxpp-tasks; default: the input's");
  add_dialect_option(command, options->input.dialect);
  add_target_option(command, options->input.target);
  command.runs(run, options);
}

}  // namespace ppsim::cli
