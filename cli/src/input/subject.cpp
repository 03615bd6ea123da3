#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "command.hpp"
#include "input/named_input.hpp"
#include "plugins/plugins.hpp"
#include "ppsim/core/ir/inference.hpp"
#include "ppsim/core/ir/padding.hpp"
#include "ppsim/core/ir/replicas.hpp"
#include "ppsim/core/ir/tied_ends.hpp"
#include "ppsim/core/text/number_text.hpp"
#include "ppsim/planner/costs/table_coverage.hpp"
#include "ppsim/planner/costs/workload_words.hpp"
#include "ppsim/planner/files.hpp"
#include "ppsim/planner/recompute/adaptive_recompute.hpp"

namespace ppsim::cli {
namespace {

/// Refuses --set for a parameter that every schedule has: it has its own option.
Expected<void> check_is_setting(const std::string& key, const std::string& setting) {
  for (const char* own : {"ranks", "microbatches", "chunks", "slices"}) {
    if (key != own) continue;
    return make_error(ErrorCode::bad_argument, "--set is for what only some schedules have",
                      {.found = "--set " + setting, .expected = "--" + key});
  }
  return {};
}

Expected<ScheduleParameters> parameters_of(const InputOptions& input,
                                           const std::optional<CostSource>& source) {
  ScheduleParameters parameters;
  parameters.ranks = parameters.microbatches = 0;  // none given
  parameters.slices = kUsualSlices;
  if (const auto* work = source ? std::get_if<Workload>(&*source) : nullptr) {
    parameters.ranks = work->parallelism.pipeline;
    parameters.microbatches = work->parallelism.microbatches();
  }
  parameters.ranks = input.ranks.value_or(parameters.ranks);
  parameters.microbatches = input.microbatches.value_or(parameters.microbatches);
  if (input.chunks) parameters.chunks = input.chunks;
  parameters.slices = input.slices.value_or(parameters.slices);
  for (const std::string& setting : input.settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) {
      return make_error(ErrorCode::bad_argument, "--set needs key=value",
                        {.found = setting, .expected = "key=value"});
    }
    const std::string key = setting.substr(0, equals);
    PPSIM_RETURN_IF_ERROR(check_is_setting(key, setting));
    const auto [other, is_new] = parameters.settings.emplace(key, setting.substr(equals + 1));
    if (is_new || setting == key + "=" + other->second) continue;
    return make_error(ErrorCode::bad_argument, key + " is given twice, and differs",
                      {.found = "--set " + key + "=" + other->second + " and --set " + setting,
                       .expected = "one of the two"});
  }
  return parameters;
}

/// Checks that options of schedules come with a schedule's NAME, and agree with it.
Expected<void> check_is_name(const InputOptions& input) {
  if (!names_file(input.input)) return check_agrees(input);
  if (!input.has_parameters()) return {};
  return make_error(ErrorCode::bad_argument,
                    "--ranks, --microbatches, --chunks, --slices and --set are for a NAME, this is a file",
                    {.found = input.input, .expected = "the name of a schedule"});
}

/// An alphabet is one of CSV; that of --for is the target's own.
Expected<void> check_dialect_is_for(const InputOptions& input) {
  const bool is_csv = names_file(input.input) && suffix_of(input.input) != ".json";
  if (is_csv || input.writes_dialect || input.loaded_by || input.dialect == "torch") return {};
  return make_error(
      ErrorCode::bad_argument, "--dialect is the alphabet of a CSV that is read",
      {.found = "--dialect " + input.dialect + " with " + input.input, .expected = "a CSV, or no --dialect"});
}

/// Checks that an input is a file or a schedule.
Expected<void> check_is_there(const std::string& input) {
  if (names_schedule(input)) return {};
  std::error_code ignored;
  if (std::filesystem::is_directory(input, ignored)) {
    return make_error(ErrorCode::bad_argument, "a folder is no schedule",
                      {.found = input, .expected = "a file, or the name of a schedule"});
  }
  const auto found = find_schedule(input.substr(0, input.find(':')));
  if (found) return {};
  Error error = found.error();
  error.message += "; nor is there such a file";
  return tl::unexpected(std::move(error));
}

/// "mine" of "mine:ranks=4".
std::string schedule_name(const std::string& input) { return input.substr(0, input.find(':')); }

std::string counts_text(int ranks, int microbatches) {
  return with_plural(ranks, "rank") + ", " + with_plural(microbatches, "microbatch");
}

/// A schedule of --plugin: text of a library, read like a file.
Expected<Ir> ir_from_plugin(const InputOptions& input, const ScheduleParameters& parameters,
                            const ReadOptions& options) {
  PPSIM_ASSIGN_OR_RETURN(const auto named, parse_named_schedule(input.input, parameters));
  const ScheduleParameters& asked = named.parameters;
  if (asked.ranks < 1 || asked.microbatches < 1) return tl::unexpected(needs_counts(named.name, asked));
  const auto text = text_from_plugin(named.name, asked);
  if (!*text) return tl::unexpected(text->error());
  PPSIM_ASSIGN_OR_RETURN(auto ir, ir_from_text(**text, named.name, options));
  const Pipeline& made = pipeline_of(ir);
  const int microbatches = batch_microbatches(made);
  if (made.ranks() == asked.ranks && microbatches == asked.microbatches) return ir;
  return make_error(ErrorCode::bad_argument, "the plugin made another schedule",
                    {.file = named.name,
                     .found = counts_text(made.ranks(), microbatches),
                     .expected = counts_text(asked.ranks, asked.microbatches) + ", as it was asked for"});
}

/// FILE or NAME; `native_program` is set for a Program from JSON.
Expected<Ir> read_ir(const InputOptions& input, const std::optional<CostSource>& source,
                     const ReadOptions& options, bool& native_program) {
  if (!names_file(input.input)) {
    const bool is_plugin = has_plugin_schedule(schedule_name(input.input));
    if (auto good = check_is_there(input.input); !is_plugin && !good) return tl::unexpected(good.error());
    PPSIM_ASSIGN_OR_RETURN(const auto parameters, parameters_of(input, source));
    if (is_plugin) return ir_from_plugin(input, parameters, options);
    return ir_from_name(input.input, parameters, source);
  }
  PPSIM_ASSIGN_OR_RETURN(const auto text, read_text_file(input.input));
  auto ir = ir_from_text(text, input.input, options);
  native_program = ir && std::holds_alternative<Program>(*ir) && is_native_json(text, input.input);
  return ir;
}

/// Where a Program recomputes nothing, no option makes it.
Expected<void> check_recomputes(const Ir& ir, const StageRecompute& recompute) {
  const auto* program = std::get_if<Program>(&ir);
  if (program == nullptr || !recompute.any(Recompute::full)) return {};
  if (program->has(OpKind::recompute)) return {};
  return check_is_schedule(ir, "--recompute");
}

/// The recomputation that --recompute asks for, or chooses for a schedule.
Expected<StageRecompute> recompute_of(const std::string& asked, const Ir& ir,
                                      const std::optional<CostSource>& source) {
  const bool adaptive = asked == "adaptive";
  auto recompute = adaptive ? StageRecompute() : recompute_from_words(asked).map(&RecomputeWords::stages);
  if (recompute) {
    PPSIM_RETURN_IF_ERROR(check_recomputes(ir, *recompute));
  }
  if (!recompute || (!adaptive && !recompute->any(Recompute::selective))) return recompute;
  const auto* work = source ? std::get_if<Workload>(&*source) : nullptr;
  if (work == nullptr) {
    return make_error(
        ErrorCode::bad_argument, "--recompute " + asked + " is a matter of the model's costs and sizes",
        {.found = "no --model", .expected = "--model and --cluster, or none, full, stages=0,2"});
  }
  if (!adaptive) return recompute;
  PPSIM_RETURN_IF_ERROR(check_is_schedule(ir, "--recompute"));
  return adaptive_recompute(std::get<Schedule>(ir), *work);
}

/// Sets the recomputation that --recompute names, as part of the costs that an order follows. The choice of
/// `adaptive` comes after the order.
void tell_recomputation(std::optional<CostSource>& source, const std::string& asked) {
  auto* work = source ? std::get_if<Workload>(&*source) : nullptr;
  if (work == nullptr) return;
  if (const auto words = recompute_from_words(asked)) work->parallelism.recompute = words->stages;
}

/// The offloading that --offload asks for.
Expected<Offload> offload_of(const InputOptions& input, const CostOptions& options, const Ir& ir) {
  auto offload = offload_from_text(input.offload);
  if (!offload || !offload->on()) return offload;
  PPSIM_RETURN_IF_ERROR(check_is_schedule(ir, "--offload"));
  if (options.recompute == "adaptive") {
    return make_error(ErrorCode::bad_argument, "--recompute adaptive chooses without --offload",
                      {.found = "--offload " + input.offload, .expected = "one of the two"});
  }
  return offload;
}

/// The delay that --send-done-delay asks for.
Expected<std::optional<int>> send_done_delay_of(const InputOptions& input, const Ir& ir) {
  if (input.send_done_delay.empty()) return std::optional<int>();
  PPSIM_RETURN_IF_ERROR(check_is_schedule(ir, "--send-done-delay"));
  PPSIM_ASSIGN_OR_RETURN(const auto delay, send_done_delay_from_text(input.send_done_delay));
  return std::optional<int>(delay);
}

/// Gives embedding and head of a Schedule one block, and looks for it in a Program.
Expected<void> tie(Subject& subject, const CostOptions& options, bool tied) {
  if (!tied) return {};
  if (const auto* program = std::get_if<Program>(&subject.ir)) {
    if (has_tied_ends(program->pipeline())) return {};
    return make_error(
        ErrorCode::bad_argument, "tied weights: the Program has no such block",
        {.found = subject.name,
         .expected = "a Schedule, or a Program of ppsim lower --tied, whose first and last stages "
                     "own a second block together"});
  }
  if (!options.model.empty()) {
    return make_error(ErrorCode::bad_argument, "--model already says whether weights are tied",
                      {.found = "tied weights with --model", .expected = "--unit or --costs"});
  }
  PPSIM_ASSIGN_OR_RETURN(auto all, with_tied_ends(std::get<Schedule>(subject.ir)));
  subject.ir = std::move(all);
  return {};
}

/// Puts several replicas in the place of the one in `subject`.
Expected<void> replicate(Subject& subject, const CostOptions& options, int count) {
  if (count == 1) return {};
  PPSIM_RETURN_IF_ERROR(check_is_schedule(subject.ir, "--replicas"));
  const auto& schedule = std::get<Schedule>(subject.ir);
  if (!options.model.empty()) {
    return make_error(ErrorCode::bad_argument, "the costs of --model know replicas by --dp",
                      {.found = "--replicas with --model", .expected = "--unit or --costs"});
  }
  if (subject.recompute != StageRecompute(subject.recompute(StageId(0)))) {
    return make_error(ErrorCode::bad_argument, "--recompute names stages of one replica",
                      {.found = options.recompute, .expected = "none or full"});
  }
  if (!subject.offload.stages.empty())
    return make_error(ErrorCode::bad_argument, "--offload names stages of one replica",
                      {.found = "stages", .expected = "none, all, half or 25%"});
  PPSIM_ASSIGN_OR_RETURN(auto all, replicated(schedule, count));
  if (subject.costs) {
    Tables& tables = subject.costs->tables;
    tables.costs = replicated(tables.costs, schedule.pipeline(), count);
    tables.sizes = replicated(tables.sizes, schedule.pipeline(), count);
    tables.beside_transfers = replicated(tables.beside_transfers, schedule.pipeline(), count);
  }
  subject.ir = std::move(all);
  subject.replicas = count;
  return {};
}

/// Checks the costs of a Schedule's cells; those that lowering adds are checked in the Program.
Expected<void> check_table(const Subject& subject, const Schedule& schedule) {
  if (subject.table_file.empty()) return {};
  return check_costs(subject.costs->tables.costs, schedule, subject.table_file);
}

Expected<void> check_table(const Subject& subject, const Program& program) {
  if (subject.table_file.empty()) return {};
  const Tables& tables = subject.costs->tables;
  PPSIM_RETURN_IF_ERROR(check_costs(tables.costs, program, subject.table_file));
  return check_sizes(tables.sizes, program, subject.table_file);
}

/// The field that an item of --with sets, or none.
bool* extra_named(LoweringOptions& lowering, std::string_view item) {
  if (item == "load") return &lowering.load;
  if (item == "unshard") return &lowering.unshard;
  if (item == "reduce-grad") return &lowering.reduce_grad;
  if (item == "reduce-grad-each-microbatch") return &lowering.reduce_each_microbatch;
  if (item == "opt") return &lowering.optimizer;
  if (item == "clip") return &lowering.clip;
  return nullptr;
}

bool needs_gradients(std::string_view extra) { return extra != "load" && extra != "unshard"; }

bool has_gradients(const Ir& ir) {
  const auto* schedule = std::get_if<Schedule>(&ir);
  if (schedule == nullptr) return trains(std::get<Program>(ir));
  const auto gives = [](const Action& action) { return gives_weight_gradient(action.kind); };
  for (const RankId rank : schedule->pipeline().rank_ids()) {
    for (const Cell& cell : schedule->row(rank)) {
      if (std::ranges::any_of(cell.actions(), gives)) return true;
    }
  }
  return false;
}

}  // namespace

Expected<Subject> read_subject(const InputOptions& input, const CostOptions& options,
                               CommunicatorPolicy policy) {
  PPSIM_ASSIGN_OR_RETURN(auto source, cost_source(options));
  PPSIM_ASSIGN_OR_RETURN(const auto dialect, dialect_of(input.dialect));
  PPSIM_RETURN_IF_ERROR(check_is_name(input));
  PPSIM_RETURN_IF_ERROR(check_dialect_is_for(input));
  bool native_program = false;
  const Target* target = input.loaded_by ? &*input.loaded_by : nullptr;
  PhaseTimes phases;
  tell_recomputation(source, options.recompute);
  Stopwatch watch;
  auto ir = read_ir(input, source, {dialect, policy, target}, native_program);
  PPSIM_RETURN_IF_ERROR(ir);
  (names_file(input.input) ? phases.reading : phases.generation) = watch.lap();
  if (target != nullptr) {
    PPSIM_RETURN_IF_ERROR(check_runs(*target, *ir));
    if (const auto* schedule = std::get_if<Schedule>(&*ir)) {
      PPSIM_ASSIGN_OR_RETURN(auto run, as_run(*target, *schedule));
      ir = std::move(run);
    }
  }
  PPSIM_ASSIGN_OR_RETURN(auto offload, offload_of(input, options, *ir));
  PPSIM_ASSIGN_OR_RETURN(const auto send_done_delay, send_done_delay_of(input, *ir));
  PPSIM_ASSIGN_OR_RETURN(auto recompute, recompute_of(options.recompute, *ir, source));
  if (auto* work = source ? std::get_if<Workload>(&*source) : nullptr)
    work->parallelism.recompute = recompute;
  std::optional<CostBinding> costs;
  if (source) {
    PPSIM_ASSIGN_OR_RETURN(auto bound, bind_cost_source(*source, pipeline_of(*ir)));
    costs = std::move(bound);
  }
  const bool from_file = std::holds_alternative<Program>(*ir);
  const std::string called = schedule_name(input.input);
  std::string name = from_file ? input.input : has_plugin_schedule(called) ? called : name_of(*ir);
  Subject subject{.name = std::move(name),
                  .ir = *std::move(ir),
                  .costs = std::move(costs),
                  .table_file = options.costs,
                  .recompute = std::move(recompute),
                  .offload = std::move(offload),
                  .send_done_delay = send_done_delay,
                  .native_program = native_program,
                  .phases = phases};
  PPSIM_RETURN_IF_ERROR(std::visit([&](const auto& read) { return check_table(subject, read); }, subject.ir));
  subject.phases.costs = watch.lap();
  PPSIM_RETURN_IF_ERROR(tie(subject, options, input.tied));
  PPSIM_RETURN_IF_ERROR(replicate(subject, options, input.replicas));
  return subject;
}

Expected<Program> lowered_program(const Subject& subject, const LoweringOptions& lowering,
                                  const PassObserver& observer) {
  auto program = to_program(subject.ir, lowering, subject.cost_table(), observer);
  if (!program || std::holds_alternative<Program>(subject.ir)) return program;
  PPSIM_RETURN_IF_ERROR(check_table(subject, *program));
  return program;
}

LoweringOptions default_lowering(const Subject& subject) {
  LoweringOptions options;
  options.recompute = subject.recompute;
  options.offload = subject.offload;
  options.reduce_grad = subject.replicas > 1;
  options.send_done_delay = subject.send_done_delay.value_or(0);
  return options;
}

Error of_other_costs(Error error, bool is_schedule) {
  if (is_schedule && error.message.starts_with("not this program's trace"))
    error.message += "; was the run one with other COSTS? Then give the same --unit, --costs or --model";
  return error;
}

Expected<void> add_extras(LoweringOptions& lowering, const std::string& extras, const Ir& ir) {
  std::istringstream items(extras);
  std::set<std::string> seen;
  for (std::string item; std::getline(items, item, ',');) {
    bool* extra = extra_named(lowering, item);
    if (extra == nullptr) {
      return make_error(
          ErrorCode::bad_argument, "unknown --with",
          {.found = item, .expected = "load, unshard, reduce-grad, reduce-grad-each-microbatch, opt, clip"});
    }
    if (!seen.insert(item).second)
      return make_error(ErrorCode::bad_argument, "--with names an action twice", {.found = extras});
    if (needs_gradients(item) && !has_gradients(ir)) {
      return make_error(ErrorCode::bad_argument, "--with " + item + " needs a backward, which is not there",
                        {.found = extras, .expected = "load or unshard"});
    }
    *extra = true;
  }
  lowering.reduce_grad = lowering.reduce_grad || lowering.reduce_each_microbatch;
  return {};
}

Expected<void> check_is_schedule(const Ir& ir, const std::string& option) {
  if (std::holds_alternative<Schedule>(ir)) return {};
  return make_error(ErrorCode::bad_argument,
                    "the input is a Program already: lower its schedule with " + option,
                    {.found = "a Program", .expected = "a schedule"});
}

Expected<Program> default_program(const Subject& subject) {
  return lowered_program(subject, default_lowering(subject));
}

}  // namespace ppsim::cli
