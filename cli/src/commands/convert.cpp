#include "command.hpp"
#include "options/validators.hpp"
#include "ppsim/planner/files.hpp"

namespace ppsim::cli {
namespace {

struct Options {
  InputOptions input;
  std::string output;
  std::string flavor;
};

/// A Schedule becomes a Program where compute_comms is asked for; a Program cannot become a Schedule.
Expected<Ir> in_flavor(Ir ir, const std::string& flavor) {
  const bool is_schedule = std::holds_alternative<Schedule>(ir);
  if (flavor.empty() || (flavor == "compute_only" && is_schedule) ||
      (flavor == "compute_comms" && !is_schedule))
    return ir;
  if (flavor == "compute_comms") {
    auto program = to_program(ir, {}, nullptr);
    if (!program) return tl::unexpected(program.error());
    return Ir(*std::move(program));
  }
  if (flavor == "compute_only") {
    return compute_only(std::get<Program>(ir)).map([](Schedule schedule) { return Ir(std::move(schedule)); });
  }
  return make_error(ErrorCode::bad_argument, "unknown --flavor",
                    {.found = flavor, .expected = "compute_only or compute_comms"});
}

int run(const Options& options, const Output& output) {
  const auto dialect = dialect_from_name(options.input.dialect);
  if (!dialect) return report(dialect.error(), output);
  const auto text = read_text_file(options.input.input);
  if (!text) return report(text.error(), output);
  // A file's own alphabet is asked for on the way in; what is written is PyTorch's present one, with waits
  // where these are asked for, unless the input is native.
  auto ir = ir_from_text(*text, options.input.input, {*dialect, CommunicatorPolicy::per_edge});
  if (!ir) return report(ir.error(), output);
  const auto converted = in_flavor(*std::move(ir), options.flavor);
  if (!converted) return report(converted.error(), output);
  const bool as_asked = is_native_json(*text, options.input.input) || *dialect == CsvDialect::torch_2_15;
  const auto result = ir_text(*converted, options.output, as_asked ? *dialect : CsvDialect::torch);
  if (!result) return report(result.error(), output);
  if (auto written = write_text_file(options.output, *result); !written)
    return report(written.error(), output);
  if (output.json && options.output != "-") {
    output.print({{"file", options.output},
                  {"level", std::holds_alternative<Schedule>(*converted) ? "schedule" : "program"}});
  }
  return kDone;
}

}  // namespace

void add_convert(Command& program) {
  auto options = std::make_shared<Options>();
  Command command = program.add_subcommand("convert", "translate between native JSON and PyTorch CSV");
  command.add_option("IN", options->input.input, "FILE.json, FILE.csv or -").required();
  command.add_option("OUT", options->output, "FILE.json, FILE.csv or - (JSON)")
      .required()
      .check(output_file({".json", ".csv"}));
  command.add_option("--flavor", options->flavor, "compute_only or compute_comms; default: the input's");
  add_dialect_option(command, options->input.dialect);
  command.runs([options](const Output& output) { return run(*options, output); });
}

}  // namespace ppsim::cli
