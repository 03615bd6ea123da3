#include <iostream>

#include "command.hpp"
#include "command_line/validators.hpp"
#include "input/communicators.hpp"
#include "ppsim/core/ir/hash.hpp"
#include "ppsim/planner/files.hpp"

namespace ppsim::cli {
namespace {

struct LowerOptions {
  InputOptions input;
  CostOptions costs;
  std::string output, order, policy, grouping = "none", extras;
  std::optional<int> receive_buffers;
  bool dump_passes = false;
};

Expected<LoweringOptions> lowering_of(const LowerOptions& options, const Subject& subject) {
  LoweringOptions lowering = default_lowering(subject);
  PPSIM_ASSIGN_OR_RETURN(const auto target, target_of(options.input.target));
  if (target && std::holds_alternative<Schedule>(subject.ir)) {
    const LoweringOptions usual = usual_lowering(*target, lowering.communicators);
    lowering.order = usual.order;
    lowering.send_done_delay = subject.send_done_delay.value_or(usual.send_done_delay);
  }
  if (!options.order.empty()) {
    PPSIM_RETURN_IF_ERROR(set_order(lowering, options.order));
  }
  PPSIM_ASSIGN_OR_RETURN(const auto asked, policy_of(options.policy));
  PPSIM_ASSIGN_OR_RETURN(const auto policy,
                         target ? communicators_for(*target, asked)
                                : Expected<CommunicatorPolicy>(asked.value_or(lowering.communicators)));
  lowering.communicators = policy;
  PPSIM_ASSIGN_OR_RETURN(const auto grouping, grouping_from_name(options.grouping));
  lowering.grouping = grouping;
  lowering.receive_buffers = options.receive_buffers;
  PPSIM_RETURN_IF_ERROR(add_extras(lowering, options.extras, subject.ir));
  return lowering;
}

Expected<void> check_output(const LowerOptions& options) {
  if (options.output.empty() && !options.dump_passes)
    return make_error(ErrorCode::bad_argument, "--output is required",
                      {.found = "", .expected = "--output FILE.json or FILE.csv, or --dump-passes"});
  if (options.output == "-" && options.dump_passes) {
    return make_error(ErrorCode::bad_argument, "--dump-passes and --output would both write to stdout",
                      {.found = "-o -", .expected = "-o FILE, or no -o"});
  }
  return {};
}

/// One pass as text: a line for each rank, its instructions between bars.
std::string pass_text(std::string_view pass, const PassRows& rows) {
  std::string text = "== " + std::string(pass) + "\n";
  for (std::size_t r = 0; r < rows.size(); ++r) {
    text += "rank " + std::to_string(r) + ":";
    const char* separator = " ";
    for (const std::string& instruction : rows[RankId(static_cast<int>(r))]) {
      text += separator + (instruction.empty() ? "-" : instruction);
      separator = " | ";
    }
    text += "\n";
  }
  return text;
}

/// Prints what passes make of the rows, or collects it for --json.
PassObserver observer_of(const LowerOptions& options, const Output& output, Json& passes) {
  if (!options.dump_passes) return nullptr;
  if (!output.json) {
    return [](std::string_view pass, const PassRows& rows) { std::cout << pass_text(pass, rows); };
  }
  return [&passes](std::string_view pass, const PassRows& rows) {
    passes.push_back({{"pass", pass}, {"rows", rows.items()}});
  };
}

/// Errors: bad_argument for what a target's lowering does not have.
Expected<Program> lowered_for(const LowerOptions& options, const Subject& subject,
                              const LoweringOptions& lowering) {
  PPSIM_ASSIGN_OR_RETURN(const auto target, target_of(options.input.target));
  if (options.dump_passes) {
    return make_error(ErrorCode::bad_argument, "--dump-passes shows a lowering without target",
                      {.found = "--for " + options.input.target, .expected = "one of the two"});
  }
  return lower_for(*target, std::get<Schedule>(subject.ir), lowering, subject.cost_table());
}

/// A Schedule is lowered; of a Program only the communicators can be replaced.
Expected<Program> lowered(const LowerOptions& options, const Subject& subject, const PassObserver& observer) {
  PPSIM_ASSIGN_OR_RETURN(const auto lowering, lowering_of(options, subject));
  const auto* program = std::get_if<Program>(&subject.ir);
  if (program == nullptr && !options.input.target.empty()) return lowered_for(options, subject, lowering);
  if (program == nullptr) return lowered_program(subject, lowering, observer);
  if (options.costs.given()) {
    return make_error(ErrorCode::bad_argument,
                      "costs decide the order of a Program's instructions as it is made",
                      {.found = "costs of a Program", .expected = "its schedule, or no costs"});
  }
  LoweringOptions only_communicators = default_lowering(subject);
  only_communicators.recompute = Recompute::none;
  only_communicators.communicators = lowering.communicators;
  only_communicators.order = IssueOrder::as_written;
  LoweringOptions asked = lowering;
  if (options.order.empty()) asked.order = IssueOrder::as_written;
  if (asked.grouping == Grouping::as_written) asked.grouping = Grouping::none;
  if (asked != only_communicators) {
    return make_error(
        ErrorCode::bad_argument,
        "the input is a Program already: only --communicators applies; lower its schedule for anything else");
  }
  return with_communicators(*program, lowering.communicators);
}

Expected<void> write_program(const LowerOptions& options, const Program& program) {
  if (options.output.empty()) return {};
  PPSIM_ASSIGN_OR_RETURN(const auto target, target_of(options.input.target));
  PPSIM_ASSIGN_OR_RETURN(const auto dialect, written_dialect(options.input, options.output));
  PPSIM_ASSIGN_OR_RETURN(const auto text, target ? text_for(*target, program, options.output)
                                                 : ir_text(program, options.output, dialect));
  return write_text_file(options.output, text);
}

Expected<int> run(const LowerOptions& options, const Output& output) {
  PPSIM_RETURN_IF_ERROR(check_output(options));
  PPSIM_ASSIGN_OR_RETURN(const auto subject, read_subject(options.input, options.costs));
  if (options.dump_passes) {
    PPSIM_RETURN_IF_ERROR(check_is_schedule(subject.ir, "--dump-passes"));
  }
  Json passes = Json::array();
  PPSIM_ASSIGN_OR_RETURN(const auto program, lowered(options, subject, observer_of(options, output, passes)));
  PPSIM_RETURN_IF_ERROR(write_program(options, program));
  PPSIM_ASSIGN_OR_RETURN(const auto dialect, written_dialect(options.input, options.output));
  if (options.input.target.empty()) note_gradients(program, options.output, dialect, output);
  if (output.json && options.output != "-") {
    Json result = {{"file", options.output.empty() ? Json(nullptr) : Json(options.output)},
                   {"instructions", program.size()},
                   {"communicators", program.communicators().size()},
                   {"program_hash", program_hash(program)}};
    if (options.dump_passes) result["passes"] = std::move(passes);
    output.print(result);
  } else if (options.output != "-" && !options.output.empty()) {
    const std::string target = options.input.target.empty() ? "" : " --for " + options.input.target;
    output.note("wrote " + options.output + "; next: ppsim verify " + options.output + target);
  }
  return kDone;
}

}  // namespace

void add_lower(Command& program) {
  auto options = std::make_shared<LowerOptions>();
  Command command = program.add_subcommand("lower", "insert communication: a schedule becomes a program");
  command.add_option("IN", options->input.input, "FILE or NAME").required();
  add_parameter_options(command, options->input);
  add_replicas_option(command, options->input);
  add_tied_option(command, options->input);
  add_offload_option(command, options->input);
  add_send_done_option(command, options->input);
  add_dialect_option(command, options->input.dialect);
  options->input.writes_dialect = true;
  command
      .add_option("-o,--output", options->output,
                  "FILE.json, FILE.csv (PyTorch compute_comms) or -; needed without --dump-passes")
      .check(output_file({".json", ".csv"}));
  command.add_option(
      "--order", options->order,
      "timed (the default; by unit costs where none are given), global, just-in-time, early:N, "
      "issue-ordered, as-written or jaxpp");
  command.add_option("--receive-buffers", options->receive_buffers, "messages that may wait on a channel")
      .check(count());
  command.add_option("--communicators", options->policy,
                     "per-rank, per-pair, per-edge (the default without --for) or per-stage-edge");
  add_target_option(command, options->input.target);
  command.add_option("--grouping", options->grouping, "none, paired or as-written")
      .show_default()
      .check(one_of({"none", "paired", "as-written"}));
  command.add_option("--with", options->extras,
                     "load,unshard,reduce-grad,opt,clip: actions that lowering adds; with "
                     "reduce-grad-each-microbatch gradients of tied weights are summed for every microbatch");
  command.add_flag("--dump-passes", options->dump_passes, "print the rows after each pass of the lowering");
  add_cost_options(command, options->costs);
  command.runs(run, options);
}

}  // namespace ppsim::cli
