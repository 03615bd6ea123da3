#include <filesystem>
#include <limits>

#include "command.hpp"
#include "command_line/validators.hpp"
#include "plugins/plugins.hpp"
#include "ppsim/planner/costs/workload_words.hpp"
#include "ppsim/planner/files.hpp"
#include "ppsim/workload/job.hpp"

namespace ppsim::cli {
namespace {

constexpr const char* kGroup = "Costs (one of --unit, --costs, --model)";

Expected<CostSource> workload(const CostOptions& options) {
  if (options.cluster.empty()) {
    return make_error(ErrorCode::bad_argument, "--model needs a --cluster",
                      {.found = "", .expected = "--cluster NAME or FILE"});
  }
  return workload_from_words({.model = options.model,
                              .cluster = options.cluster,
                              .nodes = options.nodes,
                              .parallelism = options.parallelism,
                              .dtype = options.dtype,
                              .rank_order = options.rank_order,
                              .layout = options.layout,
                              .stack = options.stack,
                              .checkpoints = checkpoint_policy_from_name(options.recompute),
                              .whole_step = !options.pipeline_only,
                              .calibration = options.calibration})
      .map([](Workload work) { return CostSource(std::move(work)); });
}

}  // namespace

void add_cost_source_options(Command& command, CostOptions& options) {
  command
      .add_option("--unit", options.unit,
                  "F=1,B=2[,I=1,W=1,R=1,FB=3,c=0,A=1]: 1 is one millisecond of a stage; A in bytes")
      .group(kGroup);
  command
      .add_option(
          "--token-costs", options.tokens,
          "length=2048,linear=0.001,quadratic=1e-6[,fixed=0][,granularity=16][,lengths=1024+1024]: what "
          "the slices of a sequence cost, in multiples of --unit")
      .group(kGroup);
  command
      .add_option("--costs", options.costs,
                  "table of costs and sizes (JSON), or a cost model of --plugin: NAME[:key=value,...]")
      .group(kGroup);
  const Option model =
      command.add_option("--model", options.model, "NAME[:layers=..,...] or a Hugging Face config.json")
          .group(kGroup);
  std::vector<std::string> jobs;
  for (const TrainingJob& job : job_presets()) jobs.push_back(job.name);
  // Only for --help and where it has no value: before the line is parsed, the job's words take its place.
  command
      .add_option(
          "--job", options.model,
          "a published run (list jobs): its --model, --cluster and parallelism, where they are not given")
      .group(kGroup)
      .check(one_of(jobs));
  const auto of_model = [&](const char* name, auto& value, const char* summary) {
    return command.add_option(name, value, summary).group(kGroup).needs(model);
  };
  of_model("--cluster", options.cluster, "NAME, or a file: JSON, or NCCL's XML");
  of_model("--nodes", options.nodes, "nodes of the cluster (1)").check(count());
  of_model("--tp", options.parallelism.tensor, "tensor parallelism (1)").check(count());
  of_model("--pp", options.parallelism.pipeline, "pipeline parallelism (1)").check(count());
  of_model("--dp", options.parallelism.data, "data parallelism (1)").check(count());
  of_model("--cp", options.parallelism.context, "context parallelism (1)").check(count());
  of_model("--ep", options.parallelism.expert, "expert parallelism, within tp x cp x dp (1)").check(count());
  of_model("--microbatch-size", options.parallelism.microbatch_size, "sequences (1)").check(count());
  of_model("--global-batch-size", options.parallelism.global_batch_size, "sequences (1)").check(count());
  of_model("--sequence-length", options.parallelism.sequence, "tokens; 0: the model's (0)")
      .check(whole(0, std::numeric_limits<std::int64_t>::max()));
  of_model("--dtype", options.dtype, "of products: bf16, fp8, mxfp8 or nvfp4 (bf16)");
  of_model("--stack", options.stack,
           "what the software does: megatron-core, megatron-bridge, torchtitan, deepspeed, maxtext, ... or a "
           "JSON description (megatron-core)");
  command
      .add_flag("--fsdp", options.parallelism.sharded_parameters,
                "parameters are sharded over dp and cp (ZeRO 3)")
      .group(kGroup)
      .needs(model);
  command.add_flag("--pipeline-only", options.pipeline_only, "without reduction of gradients and optimizer")
      .group(kGroup)
      .needs(model);
  of_model("--rank-order", options.rank_order, "tp-cp-dp-pp or tp-cp-pp-dp, innermost first (tp-cp-dp-pp)");
  of_model("--calibration", options.calibration, "what ppsim calibrate found on your cluster");
  of_model("--layout", options.layout, "layers of each stage: even, auto or Megatron's string (even)");
}

void add_cost_options(Command& command, CostOptions& options) {
  add_cost_source_options(command, options);
  command
      .add_option(
          "--recompute", options.recompute,
          "none, full, stages=0,2; with --model selective (within the backward: costs and sizes, no "
          "R), adaptive (the cheapest that fits), or a checkpoint policy of JAX or MaxText such as minimal")
      .group(kGroup);
}

Error needs_costs(const std::string& what) {
  return {
      ErrorCode::bad_argument,
      what + " needs costs",
      {.found = "", .expected = "--unit F=1,B=2, --costs table.json, or --model NAME with --cluster NAME"}};
}

Expected<std::optional<CostSource>> cost_source(const CostOptions& options) {
  const int sources =
      (options.unit.empty() ? 0 : 1) + (options.costs.empty() ? 0 : 1) + (options.model.empty() ? 0 : 1);
  if (!options.tokens.empty() && options.unit.empty())
    return make_error(ErrorCode::bad_argument, "--token-costs are multiples of --unit",
                      {.found = "", .expected = "--unit F=1,B=2"});
  if (sources == 0) return options.instead;
  if (sources > 1) {
    return make_error(ErrorCode::bad_argument, "costs are given twice",
                      {.found = "several of --unit, --costs and --model", .expected = "one of them"});
  }
  if (!options.unit.empty()) {
    PPSIM_ASSIGN_OR_RETURN(auto units, parse_unit_costs(options.unit));
    if (!options.tokens.empty()) {
      PPSIM_ASSIGN_OR_RETURN(auto tokens, parse_token_costs(options.tokens));
      units.tokens = std::move(tokens);
    }
    return std::optional<CostSource>(std::move(units));
  }
  if (!options.model.empty()) {
    return workload(options).map(
        [](CostSource source) { return std::optional<CostSource>(std::move(source)); });
  }
  if (auto own = cost_model_from_plugin(options.costs)) {
    PPSIM_ASSIGN_OR_RETURN(auto model, *std::move(own));
    return std::optional<CostSource>(std::move(model));
  }
  const auto text = read_text_file(options.costs);
  if (!text && suffix_of(options.costs) != ".json" && !std::filesystem::exists(options.costs)) {
    return make_error(ErrorCode::bad_file, "neither a table that can be read nor a cost model of --plugin",
                      {.found = "--costs " + options.costs,
                       .expected = "a file, or --plugin with what registers this name"});
  }
  PPSIM_RETURN_IF_ERROR(text);
  return tables_from_json(*text, options.costs).map([](Tables tables) {
    return std::optional<CostSource>(std::move(tables));
  });
}

}  // namespace ppsim::cli
