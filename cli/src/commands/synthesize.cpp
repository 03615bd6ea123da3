#include <iostream>
#include <limits>

#include "command.hpp"
#include "command_line/shell_words.hpp"
#include "command_line/validators.hpp"
#include "options/query_folder.hpp"
#include "output/terminal.hpp"
#include "ppsim/core/io/json.hpp"
#include "ppsim/core/ir/hash.hpp"
#include "ppsim/planner/costs/table_coverage.hpp"
#include "ppsim/planner/files.hpp"
#include "ppsim/planner/synthesis.hpp"
#include "ppsim/verifier/limit_reasons.hpp"
#include "processes/interruption.hpp"

namespace ppsim::cli {
namespace {

constexpr std::int64_t kAllSteps = -1;  // as the time allows
constexpr const char* kFree = "free";   // --placement

struct SynthesizeOptions {
  std::optional<int> ranks, microbatches;
  PlacementWords placement;
  LimitWords limit;
  std::int64_t steps = kAllSteps;
  std::uint64_t seed = 1;
  CostOptions costs;
  std::string objective = "makespan", backward = "split", output, certificate, order_of, smt2, memory_budget;
  std::shared_ptr<QueryFolder> queries;  ///< of --smt2
  double timeout_s = 60;
};

Expected<Objective> objective_from_name(const std::string& name) {
  for (const Objective objective : {Objective::makespan, Objective::span}) {
    if (name == objective_name(objective)) return objective;
  }
  return make_error(ErrorCode::bad_argument, "unknown --objective",
                    {.found = name, .expected = "makespan or span"});
}

Expected<BackwardForm> backward_from_name(const std::string& name) {
  if (name == "split") return BackwardForm::split;
  if (name == "fused") return BackwardForm::fused;
  return make_error(ErrorCode::bad_argument, "unknown --backward",
                    {.found = name, .expected = "split (I and W) or fused (B)"});
}

/// Ranks and microbatches as given, or those of a model's parallelism.
Expected<void> set_counts(const SynthesizeOptions& options, const CostSource& source,
                          SynthesisRequest& request) {
  const auto* work = std::get_if<Workload>(&source);
  if (work == nullptr && !(options.ranks && options.microbatches)) {
    return make_error(ErrorCode::bad_argument, "synthesize needs --ranks and --microbatches, or --model");
  }
  request.ranks = options.ranks ? *options.ranks : work->parallelism.pipeline;
  request.microbatches = options.microbatches ? *options.microbatches : work->parallelism.microbatches();
  return {};
}

/// The schedule whose order of F and I is kept.
Expected<Schedule> read_order(const SynthesizeOptions& options, const SynthesisRequest& request) {
  InputOptions input;
  input.input = options.order_of;
  if (!names_file(input.input)) {
    input.ranks = request.ranks;
    input.microbatches = request.microbatches;
  }
  PPSIM_ASSIGN_OR_RETURN(auto subject, read_subject(input, options.costs));
  if (const auto* program = std::get_if<Program>(&subject.ir)) return compute_only(*program);
  return std::get<Schedule>(std::move(subject.ir));
}

/// A table of a file needs the costs of what any schedule of the request runs.
Expected<void> check_table(const SynthesizeOptions& options, const SynthesisRequest& request) {
  if (options.costs.costs.empty()) return {};
  SynthesisRequest shortest = request;
  shortest.microbatches = 1;
  PPSIM_ASSIGN_OR_RETURN(const auto schedule, any_schedule(shortest));
  PPSIM_ASSIGN_OR_RETURN(const auto program, lower(schedule, {}));
  PPSIM_RETURN_IF_ERROR(check_costs(request.costs, program, options.costs.costs));
  return request.bytes ? check_sizes(request.bytes->sizes, program, options.costs.costs) : Expected<void>();
}

/// The costs of the stages on their ranks, and the limit of memory.
Expected<void> bind(const SynthesizeOptions& options, const CostSource& source, SynthesisRequest& request) {
  PPSIM_ASSIGN_OR_RETURN(const auto pipeline, synthesis_pipeline(request));
  PPSIM_ASSIGN_OR_RETURN(auto bound, bind_cost_source(source, pipeline));
  PPSIM_RETURN_IF_ERROR(bind_request(std::move(bound), options.limit, request));
  return check_table(options, request);
}

/// Everything but the placement and what depends on it.
Expected<SynthesisRequest> request_of(const SynthesizeOptions& options, const CostSource& source) {
  SynthesisRequest request;
  PPSIM_ASSIGN_OR_RETURN(request.objective, objective_from_name(options.objective));
  PPSIM_ASSIGN_OR_RETURN(request.backward, backward_from_name(options.backward));
  PPSIM_RETURN_IF_ERROR(set_counts(options, source, request));
  if (options.steps != kAllSteps) request.max_steps = options.steps;
  request.seed = options.seed;
  request.timeout_s = options.timeout_s;
  request.queries = sink_of(options.queries);
  if (!options.memory_budget.empty()) {
    PPSIM_ASSIGN_OR_RETURN(request.memory_budget, parse_size(options.memory_budget));
  }
  if (!options.order_of.empty()) {
    PPSIM_ASSIGN_OR_RETURN(request.kept_order, read_order(options, request));
  }
  return request;
}

Json placement_json(const Pipeline& pipeline) {
  Json ranks = Json::array();
  for (int s = 0; s < pipeline.stages(); ++s) ranks.push_back(pipeline.rank_of(StageId(s)).value());
  return ranks;
}

Json progress_json(const SynthesizeOptions& options, const SynthesisRequest& request,
                   const SynthesisProgress& best) {
  Json object = {{"file", options.output},
                 {"ranks", request.ranks},
                 {"stages", best.schedule.pipeline().stages()},
                 {"microbatches", request.microbatches},
                 {"peak_live_activations", peak_live_microbatches(best.schedule)},
                 {"objective", objective_name(request.objective)},
                 {"value_ns", best.value},
                 {"lower_bound_ns", best.lower_bound},
                 {"optimal", best.value == best.lower_bound}};
  if (request.bytes) {
    object["memory_limit_bytes"] = request.bytes->per_rank;
  } else {
    object["activation_limit"] = request.activation_limit;
  }
  return object;
}

Json synthesized_json(const SynthesizeOptions& options, const SynthesisRequest& request,
                      const Synthesized& found) {
  Json object = progress_json(options, request, {found.schedule, found.value, found.lower_bound});
  object.update({{"method", found.method},
                 {"bound_method", found.bound_method},
                 {"queries", found.queries},
                 {"steps", found.steps},
                 {"seconds", found.seconds},
                 {"program_hash", program_hash(found.program)}});
  if (options.placement.placement == kFree) {
    object.update(
        {{"placement", placement_json(found.schedule.pipeline())}, {"placements", found.placements}});
  }
  if (!found.optimal()) object["reason"] = found.open;
  if (request.bytes && found.worst_bytes > 0) object["worst_case_bytes"] = found.worst_bytes;
  return object;
}

/// The advice on how to find a shorter schedule than the one in `file`.
std::string advice(const std::string& open, const std::string& file) {
  const auto hit = [&](const char* limit) { return open.find(limit) != std::string::npos; };
  if (hit(kTimeLimit)) return "A longer --timeout may find a shorter one than " + file;
  if (hit(kStepsLimit)) return "More --steps, or another --seed, may find a shorter one than " + file;
  if (hit(kMemoryLimit)) return "A larger --memory-budget may find a shorter one than " + file;
  if (hit(kStartTimesLimit))
    return "Costs with a larger common divisor, or fewer microbatches, leave fewer to choose from; the best "
           "that was found is in " +
           file;
  return "The best that was found is in " + file;
}

void print_text(const SynthesizeOptions& options, const SynthesisRequest& request, const Synthesized& found) {
  const bool one_each = found.schedule.pipeline().stages() == request.ranks;
  std::cout << objective_name(request.objective) << ' ' << time_text(found.value) << " with at most "
            << peak_live_microbatches(found.schedule)
            << (one_each ? " live microbatches on a rank" : " live activations of a stage on a rank")
            << ", found by " << found.method << '\n';
  if (options.placement.placement == kFree) {
    std::cout << "stages on ranks " << placement_json(found.schedule.pipeline()).dump() << ", of "
              << found.placements
              << (found.placements == 1 ? " placement\n" : " placements that were looked at\n");
  }
  if (request.bytes && found.worst_bytes > 0) {
    std::cout << "no rank needs more than " << size_text(found.worst_bytes) << " in any timing, the limit is "
              << size_text(request.bytes->per_rank) << '\n';
  }
  if (found.optimal()) {
    std::cout << "optimal: no schedule within the limit is shorter (" << found.bound_method << ")\n";
  } else {
    const auto left = static_cast<double>(found.value - found.lower_bound);
    std::cout << "not known to be optimal: no schedule is below " << time_text(found.lower_bound) << ", "
              << percent_text(left / static_cast<double>(found.value)) << " less (" << found.bound_method
              << "); " << found.open << '\n';
  }
  if (options.output == "-") return;
  const std::string next = "Next: ppsim simulate " + shell_word(options.output) + cost_words(options.costs);
  std::cout << (found.optimal() ? next : advice(found.open, options.output)) << '\n';
}

Expected<void> write(const SynthesizeOptions& options, const Synthesized& found) {
  PPSIM_ASSIGN_OR_RETURN(const auto text, ir_text(found.schedule, options.output, CsvDialect::torch));
  if (!options.certificate.empty() && found.certificate) {
    PPSIM_RETURN_IF_ERROR(write_text_file(options.certificate, to_json(*found.certificate)));
  }
  return write_text_file(options.output, text);
}

/// Keeps the best so far for an interrupt. That it cannot be written is said at the end.
void keep_best(const SynthesizeOptions& options, const SynthesisRequest& request,
               const SynthesisProgress& best) {
  const auto text = ir_text(best.schedule, options.output, CsvDialect::torch);
  if (!text) return;
  const bool to_stdout = options.output == "-";
  if (!to_stdout && !write_text_file(options.output, *text)) return;
  KnownSoFar known;
  known.note = "the best so far" + (to_stdout ? "" : " is in " + options.output) + ": " +
               std::string(objective_name(request.objective)) + ' ' + time_text(best.value) +
               ", and no schedule is below " + time_text(best.lower_bound) +
               (options.certificate.empty() ? "" : "; there is no " + options.certificate + " yet");
  if (to_stdout) {
    known.data = *text;
  } else {
    known.members = progress_json(options, request, best);
  }
  tell_when_interrupted(known);
}

int report_none(const NoSchedule& none, const Output& output) {
  output.note("ppsim: no schedule: " + none.reason);
  if (output.json) {
    output.print({{"feasible", none.proved ? Json(false) : Json(nullptr)}, {"reason", none.reason}});
  }
  return kDoesNotFit;
}

/// Fills in `request`; its limit of memory is known when the first placement is.
Expected<SynthesisAnswer> answer_of(const SynthesizeOptions& options, const Output& output,
                                    SynthesisRequest& request) {
  PPSIM_ASSIGN_OR_RETURN(const auto source, cost_source(options.costs));
  if (!source) return make_error(ErrorCode::bad_argument, "synthesize needs --unit, --costs or --model");
  PPSIM_ASSIGN_OR_RETURN(request, request_of(options, *source));
  PlacementWords words = options.placement;
  words.ranks = request.ranks;
  SynthesisRequest asked = request;
  asked.progress = [&](const SynthesisProgress& best) {
    keep_best(options, request, best);
    if (output.terminal == nullptr) return;
    output.terminal->say(std::string(objective_name(request.objective)) + ' ' + time_text(best.value) +
                         ", none below " + time_text(best.lower_bound));
  };
  return synthesize_placed(words, std::move(asked), [&](SynthesisRequest& placed) -> Expected<void> {
    PPSIM_RETURN_IF_ERROR(bind(options, *source, placed));
    request.bytes = placed.bytes;
    request.activation_limit = placed.activation_limit;
    return {};
  });
}

Expected<int> run_asked(const SynthesizeOptions& options, const Output& output) {
  SynthesisRequest request;
  PPSIM_ASSIGN_OR_RETURN(const auto answer, answer_of(options, output, request));
  if (const auto* none = std::get_if<NoSchedule>(&answer)) return report_none(*none, output);
  const auto& found = std::get<Synthesized>(answer);
  PPSIM_RETURN_IF_ERROR(write(options, found));
  if (options.output != "-") {
    if (output.json) {
      output.print(synthesized_json(options, request, found));
    } else {
      print_text(options, request, found);
    }
  }
  if (!options.certificate.empty() && !found.certificate) {
    output.note("ppsim: no time was left for the proof, so there is no " + options.certificate);
    return kUnknown;
  }
  return found.optimal() ? kDone : kUnknown;
}

Expected<int> run(SynthesizeOptions options, const Output& output) {
  return with_queries(options.smt2, output, [&](const std::shared_ptr<QueryFolder>& folder) {
    options.queries = folder;
    return run_asked(options, output);
  });
}

}  // namespace

void add_synthesize(Command& program) {
  auto options = std::make_shared<SynthesizeOptions>();
  Command command = program.add_subcommand("synthesize", "the shortest schedule within a limit of memory");
  command.add_option("--ranks", options->ranks, "pipeline ranks").check(count());
  command.add_option("--microbatches", options->microbatches, "microbatches of a step").check(count());
  command.add_option("--placement", options->placement.placement,
                     "loop, v, free (the best is looked for), or the rank of each stage: 0,1,1,0; default: "
                     "stage s on rank s");
  command
      .add_option("--chunks", options->placement.chunks,
                  "stages per rank of a loop, a V or a free placement; default: 2")
      .check(count());
  command.add_option("--activation-limit", options->limit.activations,
                     "(stage, microbatch) that a rank may hold between their F and their W or B");
  command.add_option("--memory-limit", options->limit.bytes,
                     "of a rank in any timing, e.g. 80GB; default: that of --model's GPU");
  command.add_option("--objective", options->objective, "makespan, or span: of the longest rank")
      .show_default();
  command.add_option("--backward", options->backward, "split: I and W; fused: B").show_default();
  command.add_option("--order-of", options->order_of,
                     "FILE or NAME whose order of F and I (or B) is kept: only the W are placed");
  command.add_option("--timeout", options->timeout_s, "seconds").show_default().check(seconds());
  command
      .add_option("--steps", options->steps,
                  "orders to try, without Z3: the same result on every machine; default: as time allows")
      .check(whole(0, std::int64_t{1} << 50));
  command.add_option("--seed", options->seed, "where the search's random numbers start")
      .show_default()
      .check(whole(0, std::numeric_limits<std::int64_t>::max()));
  command
      .add_option("--certificate", options->certificate,
                  "write the proof to FILE that it runs within the limit, in every timing")
      .check(side_file({".json", ".cert"}));
  command.add_option("-o,--output", options->output, "FILE.json, FILE.csv (PyTorch compute_only) or -")
      .required()
      .check(output_file({".json", ".csv"}));
  command.add_option("--memory-budget", options->memory_budget,
                     "of the search, e.g. 4GB; without enough the best so far is taken");
  add_query_option(command, options->smt2);
  add_cost_source_options(command, options->costs);
  command.runs([options](const Output& output) { return run(*options, output); });
}

}  // namespace ppsim::cli
