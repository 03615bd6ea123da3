#include "stage_graphs.hpp"

#include "settings.hpp"

namespace ppsim::schedules {
namespace {

/// `from` feeds `to` as well, if there is a stage between them.
void add_edge(PipelineSpec& spec, int from, int to) {
  if (to - from > 1) spec.edges.push_back({StageId(from), StageId(to)});
}

void add_chain(PipelineSpec& spec) {
  for (int s = 1; s < spec.stages; ++s) spec.edges.push_back({StageId(s - 1), StageId(s)});
}

/// Raffel et al., T5 (JMLR 2020), figure 4, left: every layer of the decoder attends to the encoder's output.
void add_decoder_inputs(PipelineSpec& spec, int encoder) {
  for (int s = encoder; s < spec.stages; ++s) add_edge(spec, encoder - 1, s);
}

/// Ronneberger et al., U-Net (MICCAI 2015), figure 1: each level of the contracting path feeds its mirror
/// image.
void add_skips(PipelineSpec& spec) {
  for (int s = 0; s < spec.stages; ++s) add_edge(spec, s, spec.stages - 1 - s);
}

}  // namespace

std::string refused_graph(const ScheduleParameters& parameters, int stages) {
  std::string refusal = refused_word(parameters, "graph", kGraphs);
  const std::optional<std::string> graph = setting(parameters, "graph");
  if (graph != "encoder-decoder") {
    if (setting(parameters, "encoder")) refusal += "encoder is for graph=encoder-decoder alone\n";
    return refusal;
  }
  if (stages < 2) return refusal + "graph=encoder-decoder needs two stages or more, found 1\n";
  return refusal + refused_count(parameters, "encoder", {1, stages - 1});
}

bool is_chain(const ScheduleParameters& parameters) {
  return setting(parameters, "graph").value_or("chain") == "chain";
}

Expected<Pipeline> make_looped(const ScheduleParameters& parameters, int chunks) {
  const int stages = parameters.ranks * chunks;
  PipelineSpec spec{.ranks = parameters.ranks,
                    .stages = stages,
                    .microbatches = parameters.microbatches,
                    .slices = parameters.slices};
  const std::string graph = setting(parameters, "graph").value_or("chain");
  if (graph != "chain") add_chain(spec);
  if (graph == "encoder-decoder") {
    add_decoder_inputs(spec, count_setting(parameters, "encoder").value_or(stages / 2));
  }
  if (graph == "skip") add_skips(spec);
  if (graph == "index" && stages > 2) spec.side_edges = {{StageId(0), StageId(stages - 1)}};
  return Pipeline::make(std::move(spec));
}

}  // namespace ppsim::schedules
