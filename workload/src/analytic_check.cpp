#include "analytic_check.hpp"

#include "analytic_work.hpp"
#include "route_parts.hpp"

#include <string>

namespace ppsim::workload {
namespace {

constexpr std::int64_t kMaxToBalance = 1 << 20;  // layers times stages: seconds at worst

/// The stages of each route against the layout, or the layers that an even one needs.
Expected<void> check_stages(const Workload& workload, const Pipeline& pipeline) {
  const std::int64_t layers = workload.model.layers;
  const auto* given = std::get_if<PipelineLayout>(&workload.layout);
  const bool even = given == nullptr && std::get<LayoutRule>(workload.layout) == LayoutRule::even;
  for (const RouteId route : routes_of_batch(pipeline)) {
    const int stages = static_cast<int>(parts_of(pipeline, pipeline.spec().routes[route]).layers.size());
    if (stages == 0) return make_error(ErrorCode::bad_argument, "no stage of a route has layers");
    if (given != nullptr) {
      PPSIM_RETURN_IF_ERROR(check_layout(*given, layers, stages));
    } else if (!even && layers > kMaxToBalance / stages) {
      return make_error(ErrorCode::bad_argument, "a balanced layout of so many layers takes too long",
                        {.found = std::to_string(layers) + " layers on " + std::to_string(stages) + " stages",
                         .expected = "a product of at most " + std::to_string(kMaxToBalance)});
    } else if (even && stages > layers) {
      return make_error(ErrorCode::bad_argument, "every stage needs a layer",
                        {.found = std::to_string(stages) + " stages",
                         .expected = "at most " + std::to_string(layers) + ", or a layout"});
    }
  }
  return {};
}

/// Tensor cores for it came with Blackwell; of a GPU of the user's own it is taken as given.
bool has_nvfp4(const GpuDescription& gpu) {
  return gpu.name.find("a100") == std::string::npos && gpu.name.find("h100") == std::string::npos &&
         gpu.name.find("h200") == std::string::npos;
}

}  // namespace

Expected<void> check_checkpoints(const Workload& workload) {
  if (!workload.stack.checkpoints) return {};
  const ModelDescription& model = workload.model;
  const bool flash = workload.stack.attention != AttentionKernel::unfused;
  if (model.architecture == Architecture::decoder && flash) return {};
  return make_error(
      ErrorCode::bad_argument, "checkpoint policies are priced for dense decoders with flash attention",
      {.found = std::string(architecture_name(model.architecture)) + ", stack " + workload.stack.name,
       .expected = "such a model and stack, or recompute none, selective or full"});
}

Expected<void> check_workload(const Workload& workload, const Pipeline& pipeline) {
  const ModelDescription& model = workload.model;
  PPSIM_RETURN_IF_ERROR(check_parallelism(workload.parallelism, model, workload.cluster));
  if (model.architecture == Architecture::encoder_decoder || model.architecture == Architecture::encoder ||
      model.architecture == Architecture::vit) {
    return make_error(ErrorCode::bad_argument,
                      "the analytic cost model covers decoders and mixtures of experts",
                      {.found = std::string(architecture_name(model.architecture)),
                       .expected = "decoder, moe or moe-mla; or a cost table (--costs)"});
  }
  PPSIM_RETURN_IF_ERROR(check_checkpoints(workload));
  if (pipeline.slices() > 1) {
    return make_error(
        ErrorCode::bad_argument, "the analytic cost model covers whole sequences",
        {.found = std::to_string(pipeline.slices()) + " slices", .expected = "1, or a cost table (--costs)"});
  }
  if (pipeline.ranks() != workload.parallelism.pipeline) {
    return make_error(ErrorCode::bad_argument, "the schedule's ranks must be the pipeline-parallel size",
                      {.found = std::to_string(pipeline.ranks()),
                       .expected = std::to_string(workload.parallelism.pipeline)});
  }
  if (workload.parallelism.dtype != DataType::bf16 && workload.cluster.gpu.fp8_achievable_tflops <= 0) {
    return make_error(ErrorCode::bad_argument, workload.cluster.gpu.name + " has no fp8 products");
  }
  if (workload.parallelism.dtype == DataType::nvfp4 && !has_nvfp4(workload.cluster.gpu)) {
    return make_error(ErrorCode::bad_argument, workload.cluster.gpu.name + " has no nvfp4 products");
  }
  const Parallelism& parallelism = workload.parallelism;
  if (parallelism.expert > 1 && model.experts == 0) {
    return make_error(
        ErrorCode::bad_argument, "ep needs a model with experts",
        {.found = "ep " + std::to_string(parallelism.expert) + ", " + model.name, .expected = "ep 1"});
  }
  if (expert_split(workload) > 1 && parallelism.context * parallelism.data % parallelism.expert != 0) {
    return make_error(ErrorCode::bad_argument, "experts that are split over tp need ep to divide cp x dp",
                      {.found = "ep " + std::to_string(parallelism.expert) + ", cp x dp " +
                                std::to_string(parallelism.context * parallelism.data),
                       .expected = "a divisor, or a stack that does not split experts"});
  }
  if (workload.stack.context == ContextExchange::all_to_all &&
      model.heads % (std::int64_t{parallelism.tensor} * parallelism.context) != 0) {
    return make_error(ErrorCode::bad_argument, "context parallelism by all-to-all splits the heads",
                      {.found = std::to_string(model.heads) + " heads, tp x cp " +
                                std::to_string(parallelism.tensor * parallelism.context),
                       .expected = "a divisor of the heads, or a stack with a ring"});
  }
  return check_stages(workload, pipeline);
}

}  // namespace ppsim::workload
