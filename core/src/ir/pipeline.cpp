#include "ppsim/core/ir/pipeline.hpp"

#include <algorithm>
#include <cstdint>

#include "pipeline_rules.hpp"
#include "ppsim/core/ir/padding.hpp"
#include "ppsim/core/ir/sequences.hpp"
#include "ppsim/core/text/number_text.hpp"
#include "rules.hpp"

namespace ppsim {
namespace {

void fill_defaults(PipelineSpec& spec) {
  const auto stages = as_size(spec.stages);
  const auto microbatches = as_size(spec.microbatches);
  if (spec.placement.empty()) {
    for (int s = 0; s < spec.stages; ++s) spec.placement.push_back(RankId(s % spec.ranks));
  }
  if (spec.routes.empty()) {
    std::vector<StageId> all;
    for (int s = 0; s < spec.stages; ++s) all.emplace_back(s);
    spec.routes.push_back(std::move(all));
  }
  if (spec.route.empty()) spec.route = IdVector<MicrobatchId, RouteId>(microbatches, RouteId(0));
  if (spec.edges.empty()) {
    for (const std::vector<StageId>& route : spec.routes) {
      for (std::size_t i = 1; i < route.size(); ++i) spec.edges.push_back({route[i - 1], route[i]});
    }
    sort_unique(spec.edges);
  }
  if (spec.blocks.empty()) {
    for (std::size_t s = 0; s < stages; ++s) {
      spec.blocks.push_back(ParameterBlock{{StageId(static_cast<std::int32_t>(s))}});
    }
  }
  if (spec.update.empty()) spec.update = IdVector<MicrobatchId, int>(microbatches, 0);
  if (spec.version.empty()) spec.version = IdVector<MicrobatchId, int>(microbatches, 0);
  if (spec.lag.empty()) spec.lag = IdVector<StageId, int>(stages, 0);
}

}  // namespace

Expected<Pipeline> Pipeline::make(PipelineSpec spec) {
  PPSIM_RETURN_IF_ERROR(check_counts(spec));
  fill_defaults(spec);
  PPSIM_RETURN_IF_ERROR(check_rules(spec));

  std::ranges::sort(spec.edges);
  std::ranges::sort(spec.side_edges);
  for (ParameterBlock& block : spec.blocks) std::ranges::sort(block.stages);
  for (std::vector<StageId>& route : spec.routes) std::ranges::sort(route);
  for (Collective& collective : spec.collectives) {
    if (collective.name == kGradientNormName) collective.purpose = CollectivePurpose::gradient_norm;
    std::ranges::sort(collective.members);
    std::ranges::sort(collective.after.stages);
    std::ranges::sort(collective.before.stages);
    for (StagePasses* passes : {&collective.after, &collective.before}) {
      if (passes->stages.empty()) passes->kind = OpKind::forward;  // says nothing, and so is one value
    }
  }
  Pipeline pipeline;
  pipeline.spec_ = std::move(spec);
  pipeline.build_indexes();
  return pipeline;
}

void Pipeline::build_indexes() {
  const auto stages = as_size(spec_.stages);
  const std::size_t rows = spec_.routes.size() * stages;
  on_route_.assign(rows, 0);
  for (std::size_t r = 0; r < spec_.routes.size(); ++r) {
    for (const StageId stage : spec_.routes.items()[r]) on_route_[r * stages + stage.index()] = 1;
  }
  const auto build = [&](const std::vector<StageEdge>& edges, bool forward) {
    Adjacency adjacency;
    std::vector<std::vector<StageId>> lists(rows);
    for (std::size_t r = 0; r < spec_.routes.size(); ++r) {
      for (const StageEdge& edge : edges) {
        const StageId at = forward ? edge.from : edge.to;
        const StageId other = forward ? edge.to : edge.from;
        if (on_route_[r * stages + at.index()] != 0 && on_route_[r * stages + other.index()] != 0) {
          lists[r * stages + at.index()].push_back(other);
        }
      }
    }
    adjacency.begin.push_back(0);
    for (std::vector<StageId>& list : lists) {
      std::ranges::sort(list);
      is_chain_ = is_chain_ && list.size() <= 1;
      append_all(adjacency.items, list);
      adjacency.begin.push_back(static_cast<std::int32_t>(adjacency.items.size()));
    }
    return adjacency;
  };
  is_chain_ = spec_.side_edges.empty();
  consumers_ = build(spec_.edges, true);
  producers_ = build(spec_.edges, false);
  side_consumers_ = build(spec_.side_edges, true);
  side_producers_ = build(spec_.side_edges, false);

  stages_of_ = IdVector<RankId, std::vector<StageId>>(as_size(spec_.ranks));
  for (int s = 0; s < spec_.stages; ++s) stages_of_[rank_of(StageId(s))].emplace_back(s);
  blocks_of_ = IdVector<StageId, std::vector<BlockId>>(stages);
  for (int b = 0; b < blocks(); ++b) {
    for (const StageId stage : spec_.blocks[BlockId(b)].stages) blocks_of_[stage].emplace_back(b);
  }
  updates_ = 1 + *std::ranges::max_element(spec_.update);
  asynchronous_ = updates_ > 1 || *std::ranges::max_element(spec_.version) > 0;
  microbatches_of_update_.resize(as_size(updates_));
  for (int m = 0; m < spec_.microbatches; ++m) {
    if (is_padding(*this, MicrobatchId(m))) continue;
    microbatches_of_update_[as_size(spec_.update[MicrobatchId(m)])].emplace_back(m);
  }
  build_collective_indexes();
}

void Pipeline::build_collective_indexes() {
  const auto stages = as_size(spec_.stages);
  before_forward_ = IdVector<StageId, std::vector<CollectiveId>>(stages);
  before_backward_ = before_forward_;
  input_sum_ = IdVector<StageId, CollectiveId>(stages);
  gradient_sum_ = input_sum_;
  for (const CollectiveId id : spec_.collectives.ids()) {
    const Collective& collective = spec_.collectives[id];
    const auto wait = [&](IdVector<StageId, std::vector<CollectiveId>>& before, StageId stage) {
      if (before[stage].empty() || before[stage].back() != id) before[stage].push_back(id);
    };
    const bool forward = collective.before.kind == OpKind::forward;
    for (const StageId stage : collective.before.stages) {
      wait(forward ? before_forward_ : before_backward_, stage);
    }
    if (const StageId stage = collective.gradient_of; stage.valid()) {
      gradient_sum_[stage] = id;
      wait(before_backward_, stage);
    }
    if (const StageId stage = collective.input_of; stage.valid()) {
      input_sum_[stage] = id;
      wait(before_forward_, stage);
    }
  }
}

std::ostream& operator<<(std::ostream& out, const Pipeline& pipeline) {
  const int batch = batch_microbatches(pipeline);
  out << with_plural(pipeline.ranks(), "rank") << ", " << with_plural(pipeline.stages(), "stage") << ", "
      << with_plural(batch, "microbatch");
  if (batch < pipeline.microbatches()) out << " and " << pipeline.microbatches() - batch << " of padding";
  if (pipeline.slices() > 1) out << ", " << pipeline.slices() << " slices";
  return out;
}

Expected<Pipeline> make_chain(int ranks, int stages, int microbatches, std::vector<RankId> placement) {
  PipelineSpec spec;
  spec.ranks = ranks;
  spec.stages = stages;
  spec.microbatches = microbatches;
  spec.placement = IdVector<StageId, RankId>(std::move(placement));
  return Pipeline::make(std::move(spec));
}

}  // namespace ppsim
