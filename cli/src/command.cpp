#include "command.hpp"

#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "ppsim/core/replicas.hpp"
#include "ppsim/planner/adaptive_recompute.hpp"
#include "ppsim/planner/files.hpp"

namespace ppsim::cli {
namespace {

Expected<DataType> dtype_from_name(const std::string& name) {
  if (name == "bf16") return DataType::bf16;
  if (name == "fp8") return DataType::fp8;
  return make_error(ErrorCode::bad_argument, "unknown --dtype", {.found = name, .expected = "bf16 or fp8"});
}

Expected<RankOrder> rank_order_from_name(const std::string& name) {
  if (name == "tp-cp-dp-pp") return RankOrder::tp_cp_dp_pp;
  if (name == "tp-cp-pp-dp") return RankOrder::tp_cp_pp_dp;
  return make_error(ErrorCode::bad_argument, "unknown --rank-order",
                    {.found = name, .expected = "tp-cp-dp-pp or tp-cp-pp-dp"});
}

Expected<std::variant<LayoutRule, PipelineLayout>> layout_from_text(const std::string& text) {
  if (text == "even") return LayoutRule::even;
  if (text == "auto") return LayoutRule::balanced;
  return parse_layout(text);
}

bool is_file_name(const std::string& text) {
  return text.ends_with(".json") || text.find('/') != std::string::npos;
}

Expected<ModelDescription> read_model(const std::string& argument) {
  if (!is_file_name(argument)) return model_from_name(argument);
  const auto text = read_text_file(argument);
  if (!text) return tl::unexpected(text.error());
  return model_from_config_json(*text, argument);
}

Expected<ClusterDescription> read_cluster(const std::string& argument, int nodes) {
  if (!is_file_name(argument)) return cluster_from_name(argument, nodes);
  const auto text = read_text_file(argument);
  if (!text) return tl::unexpected(text.error());
  return cluster_from_json(*text, argument, nodes);
}

Expected<CostSource> workload(const CostOptions& options) {
  if (options.cluster.empty()) {
    return make_error(ErrorCode::bad_argument, "--model needs a --cluster",
                      {.found = "", .expected = "--cluster NAME or FILE"});
  }
  Workload result;
  result.parallelism = options.spread;
  auto model = read_model(options.model);
  auto cluster = read_cluster(options.cluster, options.nodes);
  const auto dtype = dtype_from_name(options.dtype);
  const auto order = rank_order_from_name(options.rank_order);
  auto layout = layout_from_text(options.layout);
  if (!model) return tl::unexpected(model.error());
  if (!cluster) return tl::unexpected(cluster.error());
  if (!dtype) return tl::unexpected(dtype.error());
  if (!order) return tl::unexpected(order.error());
  if (!layout) return tl::unexpected(layout.error());
  result.layout = *std::move(layout);
  result.model = *std::move(model);
  result.cluster = *std::move(cluster);
  result.parallelism.dtype = *dtype;
  result.parallelism.rank_order = *order;
  if (auto good = check_parallelism(result.parallelism, result.model, result.cluster); !good)
    return tl::unexpected(good.error());
  return CostSource(std::move(result));
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
    parameters.settings[setting.substr(0, equals)] = setting.substr(equals + 1);
  }
  return parameters;
}

Expected<void> check_is_name(const InputOptions& input) {
  if (!names_file(input.input) || !input.has_parameters()) return {};
  return make_error(ErrorCode::bad_argument,
                    "--ranks, --microbatches, --chunks, --slices and --set are for a NAME, this is a file",
                    {.found = input.input, .expected = "the name of a schedule"});
}

/// FILE or NAME; `native_program` is set for a Program from JSON.
Expected<Ir> read_ir(const InputOptions& input, const std::optional<CostSource>& source,
                     const ReadOptions& options, bool& native_program) {
  if (!names_file(input.input)) {
    const auto parameters = parameters_of(input, source);
    if (!parameters) return tl::unexpected(parameters.error());
    return ir_from_name(input.input, *parameters, source);
  }
  const auto text = read_text_file(input.input);
  if (!text) return tl::unexpected(text.error());
  auto ir = ir_from_text(*text, input.input, options);
  native_program = ir && std::holds_alternative<Program>(*ir) && is_native_json(*text, input.input);
  return ir;
}

}  // namespace

void Output::print(const Json& object) const {
  if (silent) return;
  // A command line may hold bytes that are no UTF-8; they show as replacement characters.
  std::cout << object.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

void Output::note(const std::string& text) const {
  if (!silent) std::cerr << text << '\n';
}

bool Output::color() const {
  const char* term = std::getenv("TERM");
  const char* unwanted = std::getenv("NO_COLOR");
  const bool dumb = term == nullptr || std::string(term) == "dumb";
  return !no_color && !json && !dumb && (unwanted == nullptr || *unwanted == '\0') &&
         ::isatty(STDOUT_FILENO) == 1;
}

int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::bad_argument:
    case ErrorCode::bad_file:
      return kUsage;
    case ErrorCode::does_not_fit:
      return kDoesNotFit;
    case ErrorCode::ill_formed:
    case ErrorCode::deadlock:
    case ErrorCode::refused:
      return kRefuted;
    case ErrorCode::io:
      return kFailed;
  }
  return kFailed;
}

int report(const Error& error, const Output& output) {
  if (!output.silent) std::cerr << "ppsim: " << error << '\n';
  if (output.json) output.print({{"error", error_json(error)}});
  return exit_code(error.code);
}

Json error_json(const Error& error) {
  const ErrorPlace& place = error.place;
  return {{"code", error_code_name(error.code)},
          {"file", place.file},
          {"row", place.row},
          {"column", place.column},
          {"found", place.found},
          {"expected", place.expected},
          {"message", error.message}};
}

void add_parameter_options(CLI::App& app, InputOptions& options) {
  app.add_option("--ranks", options.ranks, "pipeline ranks of NAME");
  app.add_option("--microbatches", options.microbatches, "microbatches of NAME");
  app.add_option("--chunks", options.chunks, "stages per rank of NAME");
  app.add_option("--slices", options.slices, "pieces of a microbatch along the sequence of NAME");
  app.add_option("--set", options.settings, "settings of NAME, key=value")->allow_extra_args(false);
}

void add_replicas_option(CLI::App& app, InputOptions& options) {
  app.add_option(
         "--replicas", options.replicas,
         "data-parallel copies of a schedule, each on ranks and microbatches of its own, that sum their "
         "gradients: N times the ranks")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
}

void add_dialect_option(CLI::App& app, std::string& dialect) {
  app.add_option("--dialect", dialect,
                 "alphabet of a CSV file: torch, torch-2.15 (writes WAIT cells), legacy or zero-bubble")
      ->capture_default_str();
}

Expected<CsvDialect> dialect_from_name(const std::string& name) {
  if (name == "torch") return CsvDialect::torch;
  if (name == "torch-2.15") return CsvDialect::torch_2_15;
  if (name == "legacy") return CsvDialect::legacy;
  if (name == "zero-bubble") return CsvDialect::zero_bubble;
  return make_error(ErrorCode::bad_argument, "unknown --dialect",
                    {.found = name, .expected = "torch, torch-2.15, legacy or zero-bubble"});
}

void add_cost_options(CLI::App& app, CostOptions& options, bool recompute) {
  const std::string group = "Costs (one of --unit, --costs, --model)";
  app.add_option("--unit", options.unit,
                 "F=1,B=2[,I=1,W=1,R=1,FB=3,c=0,A=1]: 1 is one millisecond of a stage; A in bytes")
      ->group(group);
  app.add_option(
         "--token-costs", options.tokens,
         "length=2048,linear=0.001,quadratic=1e-6[,fixed=0][,granularity=16][,lengths=1024+1024]: what "
         "the slices of a sequence cost, in multiples of --unit")
      ->group(group);
  app.add_option("--costs", options.costs, "table of costs and sizes (JSON)")->group(group);
  auto* model = app.add_option("--model", options.model, "NAME[:layers=..,...] or a Hugging Face config.json")
                    ->group(group);
  const auto of_model = [&](const char* name, auto& value, const char* summary) {
    app.add_option(name, value, summary)->group(group)->needs(model);
  };
  of_model("--cluster", options.cluster, "NAME or a JSON description");
  of_model("--nodes", options.nodes, "nodes of the cluster (1)");
  of_model("--tp", options.spread.tensor, "tensor parallelism (1)");
  of_model("--pp", options.spread.pipeline, "pipeline parallelism (1)");
  of_model("--dp", options.spread.data, "data parallelism (1)");
  of_model("--cp", options.spread.context, "context parallelism (1)");
  of_model("--ep", options.spread.expert, "expert parallelism, within dp (1)");
  of_model("--microbatch-size", options.spread.microbatch_size, "sequences (1)");
  of_model("--global-batch-size", options.spread.global_batch_size, "sequences (1)");
  of_model("--sequence-length", options.spread.sequence, "tokens; 0: the model's (0)");
  of_model("--dtype", options.dtype, "bf16 or fp8 (bf16)");
  of_model("--rank-order", options.rank_order, "tp-cp-dp-pp or tp-cp-pp-dp, innermost first (tp-cp-dp-pp)");
  of_model("--layout", options.layout, "layers of each stage: even, auto or Megatron's string (even)");
  if (recompute) {
    app.add_option("--recompute", options.recompute,
                   "none, full, stages=0,2; with --model selective (within the backward: costs and sizes, no "
                   "R) and adaptive (the cheapest that fits)")
        ->group(group);
  }
}

Expected<std::optional<CostSource>> cost_source(const CostOptions& options) {
  const int sources =
      (options.unit.empty() ? 0 : 1) + (options.costs.empty() ? 0 : 1) + (options.model.empty() ? 0 : 1);
  if (!options.tokens.empty() && options.unit.empty())
    return make_error(ErrorCode::bad_argument, "--token-costs are multiples of --unit",
                      {.found = "", .expected = "--unit F=1,B=2"});
  if (sources == 0) return options.instead;
  if (sources > 1) return make_error(ErrorCode::bad_argument, "give one of --unit, --costs and --model");
  if (!options.unit.empty()) {
    auto units = parse_unit_costs(options.unit);
    if (!units) return tl::unexpected(units.error());
    if (!options.tokens.empty()) {
      auto tokens = parse_token_costs(options.tokens);
      if (!tokens) return tl::unexpected(tokens.error());
      units->tokens = *std::move(tokens);
    }
    return std::optional<CostSource>(*std::move(units));
  }
  if (!options.model.empty()) {
    return workload(options).map(
        [](CostSource source) { return std::optional<CostSource>(std::move(source)); });
  }
  const auto text = read_text_file(options.costs);
  if (!text) return tl::unexpected(text.error());
  return tables_from_json(*text, options.costs).map([](Tables tables) {
    return std::optional<CostSource>(std::move(tables));
  });
}

namespace {

/// What --recompute asks for, or chooses for a schedule.
Expected<StageRecompute> recompute_of(const std::string& asked, const Ir& ir,
                                      const std::optional<CostSource>& source) {
  const bool adaptive = asked == "adaptive";
  auto recompute = adaptive ? StageRecompute() : recompute_from_text(asked);
  if (!recompute || (!adaptive && !recompute->any(Recompute::selective))) return recompute;
  const auto* work = source ? std::get_if<Workload>(&*source) : nullptr;
  if (work == nullptr) {
    return make_error(
        ErrorCode::bad_argument, "--recompute " + asked + " is a matter of the model's costs and sizes",
        {.found = "no --model", .expected = "--model and --cluster, or none, full, stages=0,2"});
  }
  if (!adaptive) return recompute;
  const auto* schedule = std::get_if<Schedule>(&ir);
  if (schedule == nullptr) {
    return make_error(ErrorCode::bad_argument, "--recompute adaptive chooses for a schedule",
                      {.found = "a Program", .expected = "a schedule"});
  }
  return adaptive_recompute(*schedule, *work);
}

/// Puts several replicas in the place of the one in `subject`.
Expected<void> replicate(Subject& subject, const CostOptions& options, int count) {
  if (count == 1) return {};
  const auto* schedule = std::get_if<Schedule>(&subject.ir);
  if (schedule == nullptr) {
    return make_error(ErrorCode::bad_argument,
                      "the input is a Program already: lower its schedule --replicas",
                      {.found = "a Program", .expected = "a schedule"});
  }
  if (!options.model.empty()) {
    return make_error(ErrorCode::bad_argument, "the costs of --model know replicas by --dp",
                      {.found = "--replicas with --model", .expected = "--unit or --costs"});
  }
  if (subject.recompute != StageRecompute(subject.recompute(StageId(0)))) {
    return make_error(ErrorCode::bad_argument, "--recompute names stages of one replica",
                      {.found = options.recompute, .expected = "none or full"});
  }
  auto all = replicated(*schedule, count);
  if (!all) return tl::unexpected(all.error());
  if (subject.costs) {
    Tables& tables = subject.costs->tables;
    tables.costs = replicated(tables.costs, schedule->pipeline(), count);
    tables.sizes = replicated(tables.sizes, schedule->pipeline(), count);
  }
  subject.ir = *std::move(all);
  subject.replicas = count;
  return {};
}

}  // namespace

Expected<Subject> read_subject(const InputOptions& input, const CostOptions& options,
                               CommunicatorPolicy policy) {
  auto source = cost_source(options);
  if (!source) return tl::unexpected(source.error());
  const auto dialect = dialect_from_name(input.dialect);
  if (!dialect) return tl::unexpected(dialect.error());
  if (auto good = check_is_name(input); !good) return tl::unexpected(good.error());
  bool native_program = false;
  auto ir = read_ir(input, *source, {*dialect, policy}, native_program);
  if (!ir) return tl::unexpected(ir.error());
  auto recompute = recompute_of(options.recompute, *ir, *source);
  if (!recompute) return tl::unexpected(recompute.error());
  if (auto* work = *source ? std::get_if<Workload>(&**source) : nullptr)
    work->parallelism.recompute = *recompute;
  std::optional<CostBinding> costs;
  if (*source) {
    auto bound = bind_cost_source(**source, pipeline_of(*ir));
    if (!bound) return tl::unexpected(bound.error());
    costs = *std::move(bound);
  }
  const bool from_file = std::holds_alternative<Program>(*ir);
  std::string name = from_file ? input.input : name_of(*ir);
  Subject subject{.name = std::move(name),
                  .ir = *std::move(ir),
                  .costs = std::move(costs),
                  .recompute = *std::move(recompute),
                  .native_program = native_program};
  if (auto good = replicate(subject, options, input.replicas); !good) return tl::unexpected(good.error());
  return subject;
}

LoweringOptions default_lowering(const Subject& subject) {
  LoweringOptions options;
  options.order = subject.costs ? IssueOrder::timed : IssueOrder::global;
  options.recompute = subject.recompute;
  options.reduce_grad = subject.replicas > 1;
  return options;
}

Expected<Program> default_program(const Subject& subject) {
  return to_program(subject.ir, default_lowering(subject), subject.cost_table());
}

Expected<TransportCapabilities> buffers_from_text(const std::string& text) {
  TransportCapabilities capabilities;
  if (text == "rendezvous") return capabilities;
  int credits = 0;
  if (!CLI::detail::lexical_cast(text, credits) || credits < 1) {
    return make_error(ErrorCode::bad_argument, "--buffers out of range",
                      {.found = text, .expected = "rendezvous, or 1 or more"});
  }
  capabilities.credits = credits;
  return capabilities;
}

CLI::Validator not_stdout() {
  return {[](const std::string& path) {
            return path == "-" ? std::string("stdout has the result; name a file") : std::string();
          },
          "FILE"};
}

CLI::Validator trace_path() {
  return {[](const std::string& path) {
            for (const char* suffix : {".csv", ".json", ".pftrace"}) {
              if (path.ends_with(suffix)) return std::string();
            }
            return "found " + path + ", expected a file that ends in .csv, .json or .pftrace";
          },
          "FILE"};
}

}  // namespace ppsim::cli
