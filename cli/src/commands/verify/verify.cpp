#include <algorithm>
#include <iostream>
#include <limits>

#include "command.hpp"
#include "command_line/validators.hpp"
#include "input/named_input.hpp"
#include "ppsim/core/io/json.hpp"
#include "ppsim/planner/files.hpp"
#include "ppsim/verifier/verify.hpp"
#include "verify_parts.hpp"

namespace ppsim::cli {
namespace {

/// For every number of ranks as well. Sizes are for one number of ranks.
Expected<int> run_all_ranks(const VerifyRequest& options, const std::optional<CommunicatorPolicy>& policy,
                            const Output& output) {
  if (options.costs.given() || !options.memory_limit.empty() || !options.properties.empty()) {
    return make_error(
        ErrorCode::bad_argument,
        "without --ranks, --all-microbatches decides deadlock freedom for every number of ranks, "
        "without costs, --properties and --memory-limit",
        {.found = options.input.input, .expected = "--ranks P"});
  }
  const ProgramForRanks program_for = [&](int ranks, int microbatches) -> Expected<Program> {
    InputOptions input = options.input;
    input.ranks = ranks;
    input.microbatches = microbatches;
    PPSIM_ASSIGN_OR_RETURN(const auto subject, read_subject(input, options.costs));
    return program_of(subject, policy);
  };
  const RepetitionsForRanks repetitions_for = [&](int ranks) {
    return repetitions_at_unit_costs(options.input, policy, ranks);
  };
  return verify_for_all_ranks(options, {program_for, repetitions_for}, output);
}

/// NAME for one of all numbers of microbatches. The batch of a model is as large as that asks for.
Expected<Subject> subject_for(const VerifyRequest& options, int microbatches) {
  InputOptions input = options.input;
  CostOptions costs = options.costs;
  input.microbatches = microbatches;
  const std::int64_t batch =
      std::int64_t{microbatches} * costs.parallelism.data * costs.parallelism.microbatch_size;
  if (batch > std::numeric_limits<int>::max())
    return make_error(ErrorCode::bad_argument, "a batch of more than 2^31 sequences");
  costs.parallelism.global_batch_size = static_cast<int>(batch);
  return read_subject(input, costs);
}

/// The reason against --all-microbatches; empty: none.
std::string not_for_all(const VerifyRequest& options) {
  if (names_file(options.input.input) || said_by_name(options.input.input).microbatches != 0)
    return options.input.input;
  if (options.input.microbatches) return "--microbatches";
  if (!options.certificate.empty()) return "--certificate";
  return options.repair.empty() ? "" : "--repair";
}

/// For every number of microbatches; the first one accepted gives the sizes, which are the same for all.
Expected<int> run_all(const VerifyRequest& options, const std::optional<CommunicatorPolicy>& policy,
                      const Output& output) {
  if (!options.makespan_limit.empty() || options.for_all.size() + options.spread.size() > 0) {
    return make_error(ErrorCode::bad_argument, "the time of a step grows with the microbatches",
                      {.found = "--all-microbatches", .expected = options.one_number()});
  }
  if (!not_for_all(options).empty()) {
    return make_error(ErrorCode::bad_argument,
                      "--all-microbatches is for a NAME, without --microbatches, --certificate and --repair",
                      {.found = not_for_all(options), .expected = "a NAME alone"});
  }
  const bool has_ranks = options.input.ranks || said_by_name(options.input.input).ranks != 0;
  if (!has_ranks && options.costs.model.empty()) return run_all_ranks(options, policy, output);
  if (options.costs.recompute == "adaptive") {
    return make_error(ErrorCode::bad_argument, "--recompute adaptive chooses for one number of microbatches",
                      {.found = "--all-microbatches",
                       .expected = std::string("another --recompute, or ") + options.one_number()});
  }
  if (options.costs.parallelism.global_batch_size != CostOptions().parallelism.global_batch_size)
    output.note("ppsim: --global-batch-size is left out: every number of microbatches is asked about");
  std::optional<VerifyOptions> asked;
  const ProgramFor program_for = [&](int microbatches) -> Expected<Program> {
    PPSIM_ASSIGN_OR_RETURN(const auto subject, subject_for(options, microbatches));
    auto program = program_of(subject, policy);
    if (program && !asked) {
      PPSIM_ASSIGN_OR_RETURN(auto of_subject, verify_options(options, subject));
      asked = std::move(of_subject);
    }
    return program;
  };
  for (int m = 1; m <= kMaxTriedMicrobatches && !asked; ++m) {
    const auto program = program_for(m);
    if (!program && (m == kMaxTriedMicrobatches || program.error().code != ErrorCode::bad_argument))
      return tl::unexpected(program.error());
  }
  const auto repetitions = [&] {
    return repetitions_of(options, policy, [&](int m) { return subject_for(options, m); });
  };
  return verify_for_all(options, {program_for, repetitions}, *asked, output);
}

/// Of one Program Z3 is asked about deadlock only.
std::string why_not_asked(const VerifyReport& report) {
  const PropertyResult* deadlock = report.find(Property::deadlock_free);
  if (deadlock == nullptr) return "of one Program only deadlock_free is asked of Z3";
  if (const auto* unknown = std::get_if<Unknown>(&deadlock->verdict)) return unknown->reason;
  return deadlock->notes.empty() ? "nothing was asked" : deadlock->notes.front();
}

Expected<int> run_one(const VerifyRequest& options, const std::optional<CommunicatorPolicy>& policy,
                      const Output& output) {
  tell_decided(options);
  auto answered = within_limits(options, output, [&] { return verify_input(options, policy); });
  if (!answered) return answered.error();
  auto& answer = *answered;
  if (!answer) {
    annotate(options, answer, output);
    return tl::unexpected(answer.error());
  }
  add_devices(options, *answer);
  if (options.queries) options.queries->explain(why_not_asked(answer->report));
  if (!options.certificate.empty() && verdict_exit(answer->report) == kDone) {
    PPSIM_ASSIGN_OR_RETURN(auto certificate,
                           make_certificate(answer->analyzed, answer->asked, answer->report));
    if (!options.transport.name.empty()) certificate.transport = options.transport.name;
    PPSIM_RETURN_IF_ERROR(write_text_file(options.certificate, to_json(certificate)));
  }
  const std::optional<Remedy> remedy = find_remedy(options, *answer);
  const auto written = write_repaired(options, remedy);
  if (!options.repair.empty() && written && !*written)
    output.note("ppsim: nothing was repaired, so " + options.repair + " was not written");
  if (output.json) {
    Json object = report_json(*answer);
    if (remedy)
      object["properties"][remedy->mixes ? "matched" : "deadlock_free"]["repair"] = remedy_json(*remedy);
    if (!written) object["error"] = error_json(written.error());
    output.print(object);
  } else {
    print_report(*answer);
    if (remedy) print_remedy(*remedy);
    if (written) std::cout << '\n' << verify_advice(options, *answer, remedy) << '\n';
  }
  annotate(options, answer, output);
  if (written) return answer->exit();
  std::cout.flush();
  std::cerr << "ppsim: " << written.error() << '\n';
  return exit_code(written.error().code);
}

/// The transport and the communicators that --for implies.
Expected<void> add_target(VerifyRequest& request) {
  const auto target = target_of(request.input.target);
  if (!target || !*target) return target.map([](const auto&) {});
  if (request.all_microbatches || !request.other.empty() || request.input.offload != "none" ||
      request.costs.recompute != "none") {
    return make_error(ErrorCode::bad_argument,
                      "--for is about one file as a release runs it, without --all-microbatches, "
                      "--never-slower-than, --offload and --recompute",
                      {.found = "--for " + request.input.target, .expected = "a FILE or NAME"});
  }
  PPSIM_RETURN_IF_ERROR(choose_target(request.transport, request.input.target));
  request.input.loaded_by = *target;
  PPSIM_ASSIGN_OR_RETURN(const auto dialect, dialect_for(**target, request.input));
  request.input.dialect = dialect;
  if (request.policy.empty()) request.policy = policy_name((*target)->communicators.front());
  return {};
}

Expected<int> run_asked(VerifyRequest options, const Output& output) {
  PPSIM_RETURN_IF_ERROR(add_usual_costs(options));
  PPSIM_RETURN_IF_ERROR(add_target(options));
  PPSIM_RETURN_IF_ERROR(kinds_of(options.repair_with));
  if (is_many(options)) return verify_many(options, output);
  options.input.input = options.inputs.front();
  options.decided = std::make_shared<DecidedSoFar>();
  std::optional<CommunicatorPolicy> policy;
  if (!options.policy.empty()) {
    PPSIM_ASSIGN_OR_RETURN(policy, policy_of_list(options.policy));
  }
  if (!options.other.empty()) return verify_never_slower(options, policy, output);
  return options.all_microbatches ? run_all(options, policy, output) : run_one(options, policy, output);
}

Expected<int> run(VerifyRequest options, const Output& output) {
  options.start = std::chrono::steady_clock::now();
  if (!options.memory_budget.empty()) {
    PPSIM_ASSIGN_OR_RETURN(const auto budget, parse_size(options.memory_budget));
    options.budget = budget;
  }
  return with_queries(options.smt2, output, [&](const std::shared_ptr<QueryFolder>& folder) {
    options.queries = folder;
    return run_asked(options, output);
  });
}

/// The limits that end a search before it has an answer. Requires: the options that they belong to.
void add_limits(Command& command, VerifyRequest& request) {
  command.add_option("--timeout", request.timeout_s, "seconds").show_default().check(seconds());
  command.add_option("--memory-budget", request.memory_budget,
                     "of the verifier itself, e.g. 4GB; what needs more is unknown");
  command
      .add_option("--state-limit", request.state_limit,
                  "states that a search under --resident may visit; more is unknown")
      .show_default()
      .needs(command.option("--resident"))
      .check(whole(1, std::numeric_limits<std::int64_t>::max()));
  command
      .add_option("--sample-limit", request.sample_limit,
                  "with --all-microbatches: instructions of all Programs that may be generated to recognise "
                  "the schedule; what needs more is unknown")
      .show_default()
      .needs(command.option("--all-microbatches"))
      .check(whole(1, std::numeric_limits<std::int64_t>::max()));
}

void add_repair_options(Command& command, VerifyRequest& request) {
  command
      .add_option("--annotations", request.annotations,
                  "github: what is not proved at its cells, as GitHub shows it beside the lines of a change")
      .check(one_of({"github"}));
  command
      .add_option("--repair", request.repair,
                  "write to FILE the Program after the smallest change that removes its deadlock or mismatch")
      .check(side_file({".json", ".csv"}));
  command
      .add_option("--repair-with", request.repair_with,
                  "moves, groups, splits or several: what --repair may change; default: all")
      .needs(command.option("--repair"));
}

}  // namespace

void add_verify(Command& program) {
  auto options = std::make_shared<VerifyRequest>();
  Command command = program.add_subcommand(
      "verify", "prove or refute: no deadlock, no mismatch, memory within the limit, in every timing");
  command.add_option("INPUT", options->inputs, "FILE or NAME; several, or a folder, give one table")
      .required();
  add_input_options(command, options->input);
  add_target_option(command, options->input.target);
  command.add_option(
      "--properties", options->properties,
      "comma-separated; default: all that apply but ascending_accumulation (ppsim list properties)");
  command.add_option("--memory-limit", options->memory_limit,
                     "of one rank, e.g. 80GB; default with --model: the GPU's");
  command.add_option(
      "--communicators", options->policy,
      "re-lower with per-rank, per-pair, per-edge (the default) or per-stage-edge; several, with commas, or "
      "all give one table");
  add_transport_options(command, options->transport);
  command
      .add_option("--resident", options->transport.resident,
                  "communication operations of a rank that may be in flight at once")
      .check(count());
  command.add_option("--makespan-limit", options->makespan_limit,
                     "the step takes at most this, e.g. 12ms, for all costs of --spread or --for-all");
  command.add_option("--spread", options->spread, "every one of COSTS may be off by this, e.g. 10%");
  command.add_option("--for-all", options->for_all,
                     "every cost between bounds in units, e.g. F=0.5..2,I=0.5..2,W=1,B=I+W,c=0..0.1");
  command.add_option(
      "--never-slower-than", options->other,
      "prove that the step never takes longer than that of another FILE or NAME, for all costs "
      "of --spread or --for-all, the same for both");
  command.add_flag("--per-stage", options->per_stage,
                   "with --never-slower-than: each stage has costs of its own, all within --for-all");
  command.add_flag("--all-microbatches", options->all_microbatches,
                   "for every number of microbatches of NAME at once; without --ranks for every number of "
                   "ranks as well");
  add_limits(command, *options);
  command.add_flag("--cross-check", options->cross_check,
                   "decide deadlock by Z3 too, where the program is small enough");
  command
      .add_option("--certificate", options->certificate, "write the proof to FILE when every property holds")
      .check(side_file({".json", ".cert"}));
  add_query_option(command, options->smt2);
  add_repair_options(command, *options);
  add_cost_options(command, options->costs);
  command.runs([options](const Output& output) { return run(*options, output); });
}

}  // namespace ppsim::cli
