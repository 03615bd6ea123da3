#include "frameworks.hpp"

namespace ppsim::planner::exporting {
namespace {

/// "Ettt|tttt|tttL": E the embedding, t a layer, L the loss.
std::string megatron_layout(const std::vector<int>& layers) {
  std::string text = "E";
  for (std::size_t s = 0; s < layers.size(); ++s) {
    if (s > 0) text += "|";
    text += std::string(as_size(layers[s]), 't');
  }
  return text + "L";
}

}  // namespace

Expected<Export> for_megatron(const Schedule& schedule, const std::vector<int>& layers) {
  const Pipeline& pipeline = schedule.pipeline();
  const int chunks = chunks_of(pipeline);
  const bool plain = chunks == 1 && has_rows_of(schedule, "1f1b", 1);
  const bool interleaved = chunks > 1 && pipeline.microbatches() % pipeline.ranks() == 0 &&
                           has_rows_of(schedule, "interleaved-1f1b", chunks);
  if (!plain && !interleaved)
    return refusal("Megatron-LM has no such schedule",
                   "1f1b, or interleaved-1f1b with a multiple of the ranks as microbatches", schedule.name());
  std::string flags = "--pipeline-model-parallel-size " + std::to_string(pipeline.ranks()) + "\n";
  if (!layers.empty()) {
    flags += "--pipeline-model-parallel-layout \"" + megatron_layout(layers) + "\"\n";
  } else if (interleaved) {
    flags += "--num-virtual-stages-per-pipeline-rank " + std::to_string(chunks) + "\n";
  }
  return Export{{{"megatron.args", flags}},
                {"--global-batch-size / (--micro-batch-size x data-parallel size) has to be " +
                 std::to_string(pipeline.microbatches()) + "."}};
}

Expected<Export> for_maxtext(const Schedule& schedule, const std::vector<int>& layers) {
  const Pipeline& pipeline = schedule.pipeline();
  const int chunks = chunks_of(pipeline);
  const bool is_known = (chunks == 1 && has_rows_of(schedule, "gpipe", 1)) ||
                        (chunks > 1 && has_rows_of(schedule, "looped-bfs", chunks));
  if (!is_known || pipeline.microbatches() % pipeline.ranks() != 0)
    return refusal("MaxText has no such schedule",
                   "gpipe or looped-bfs with a multiple of the ranks as microbatches", schedule.name());
  for (const int count : layers) {
    if (count != layers.front() || count == 0)
      return make_error(ErrorCode::bad_argument, "MaxText's stages have the same number of layers",
                        {.expected = "--layers with equal numbers"});
  }
  std::string flags = "ici_pipeline_parallelism=" + std::to_string(pipeline.ranks()) +
                      "\nnum_pipeline_microbatches=" + std::to_string(pipeline.microbatches()) +
                      "\nnum_pipeline_repeats=" + std::to_string(chunks) + "\n";
  if (!layers.empty()) flags += "num_layers_per_pipeline_stage=" + std::to_string(layers.front()) + "\n";
  return Export{{{"maxtext.args", flags}},
                {"ici_pipeline_parallelism x dcn_pipeline_parallelism has to be " +
                     std::to_string(pipeline.ranks()) + ": ranks on several nodes are cut in both.",
                 "JAX differentiates the loop, so the backwards run in the opposite order of the forwards."}};
}

}  // namespace ppsim::planner::exporting
