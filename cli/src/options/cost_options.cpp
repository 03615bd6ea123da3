#include <limits>

#include "command.hpp"
#include "ppsim/planner/files.hpp"
#include "validators.hpp"

namespace ppsim::cli {
namespace {

constexpr const char* kGroup = "Costs (one of --unit, --costs, --model)";

Expected<DataType> dtype_from_name(const std::string& name) {
  if (name == "bf16") return DataType::bf16;
  if (name == "fp8" || name == "mxfp8") return DataType::fp8;
  if (name == "nvfp4") return DataType::nvfp4;
  return make_error(ErrorCode::bad_argument, "unknown --dtype",
                    {.found = name, .expected = "bf16, fp8, mxfp8 or nvfp4"});
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
  return suffix_of(text) == ".json" || text.find('/') != std::string::npos;
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

Expected<SoftwareStack> read_stack(const std::string& argument) {
  if (!is_file_name(argument)) return stack_from_name(argument);
  const auto text = read_text_file(argument);
  if (!text) return tl::unexpected(text.error());
  return stack_from_json(*text, argument);
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
  auto stack = read_stack(options.stack);
  if (!model) return tl::unexpected(model.error());
  if (!cluster) return tl::unexpected(cluster.error());
  if (!dtype) return tl::unexpected(dtype.error());
  if (!order) return tl::unexpected(order.error());
  if (!layout) return tl::unexpected(layout.error());
  if (!stack) return tl::unexpected(stack.error());
  result.stack = *std::move(stack);
  result.whole_step = !options.pipeline_only;
  result.layout = *std::move(layout);
  result.model = *std::move(model);
  result.cluster = *std::move(cluster);
  result.parallelism.dtype = *dtype;
  result.parallelism.rank_order = *order;
  if (auto good = check_parallelism(result.parallelism, result.model, result.cluster); !good)
    return tl::unexpected(good.error());
  return CostSource(std::move(result));
}

}  // namespace

void add_cost_options(Command& command, CostOptions& options) {
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
  command.add_option("--costs", options.costs, "table of costs and sizes (JSON)").group(kGroup);
  const Option model =
      command.add_option("--model", options.model, "NAME[:layers=..,...] or a Hugging Face config.json")
          .group(kGroup);
  const auto of_model = [&](const char* name, auto& value, const char* summary) {
    return command.add_option(name, value, summary).group(kGroup).needs(model);
  };
  of_model("--cluster", options.cluster, "NAME or a JSON description");
  of_model("--nodes", options.nodes, "nodes of the cluster (1)").check(count());
  of_model("--tp", options.spread.tensor, "tensor parallelism (1)").check(count());
  of_model("--pp", options.spread.pipeline, "pipeline parallelism (1)").check(count());
  of_model("--dp", options.spread.data, "data parallelism (1)").check(count());
  of_model("--cp", options.spread.context, "context parallelism (1)").check(count());
  of_model("--ep", options.spread.expert, "expert parallelism, within tp x cp x dp (1)").check(count());
  of_model("--microbatch-size", options.spread.microbatch_size, "sequences (1)").check(count());
  of_model("--global-batch-size", options.spread.global_batch_size, "sequences (1)").check(count());
  of_model("--sequence-length", options.spread.sequence, "tokens; 0: the model's (0)")
      .check(whole(0, std::numeric_limits<std::int64_t>::max()));
  of_model("--dtype", options.dtype, "of products: bf16, fp8, mxfp8 or nvfp4 (bf16)");
  of_model("--stack", options.stack, "what the software does: NAME or a JSON description (megatron-core)");
  command
      .add_flag("--fsdp", options.spread.sharded_parameters, "parameters are sharded over dp and cp (ZeRO 3)")
      .group(kGroup)
      .needs(model);
  command.add_flag("--pipeline-only", options.pipeline_only, "without reduction of gradients and optimizer")
      .group(kGroup)
      .needs(model);
  of_model("--rank-order", options.rank_order, "tp-cp-dp-pp or tp-cp-pp-dp, innermost first (tp-cp-dp-pp)");
  of_model("--layout", options.layout, "layers of each stage: even, auto or Megatron's string (even)");
}

void add_recompute_option(Command& command, CostOptions& options) {
  command
      .add_option("--recompute", options.recompute,
                  "none, full, stages=0,2; with --model selective (within the backward: costs and sizes, no "
                  "R) and adaptive (the cheapest that fits)")
      .group(kGroup);
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

}  // namespace ppsim::cli
