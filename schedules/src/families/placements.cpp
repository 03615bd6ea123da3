#include "placements.hpp"

namespace ppsim::schedules {

std::vector<RankId> folded_placement(int ranks, int chunks) {
  std::vector<RankId> placement;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    for (int i = 0; i < ranks; ++i) placement.emplace_back(chunk % 2 == 0 ? i : ranks - 1 - i);
  }
  return placement;
}

Expected<Pipeline> make_bidirectional(int ranks, int microbatches, const std::vector<RankId>& down) {
  const auto half = static_cast<int>(down.size());
  PipelineSpec spec{.ranks = ranks, .stages = 2 * half, .microbatches = microbatches};
  for (const RankId rank : down) spec.placement.push_back(rank);
  for (const RankId rank : down) spec.placement.push_back(RankId(ranks - 1 - rank.value()));
  std::vector<StageId> first;
  std::vector<StageId> second;
  for (int s = 0; s < half; ++s) {
    first.emplace_back(s);
    second.emplace_back(half + s);
    spec.blocks.push_back({{StageId(s), StageId(half + s)}});
    if (s == 0) continue;
    spec.edges.push_back({StageId(s - 1), StageId(s)});
    spec.edges.push_back({StageId(half + s - 1), StageId(half + s)});
  }
  spec.routes.push_back(std::move(first));
  spec.routes.push_back(std::move(second));
  for (int m = 0; m < microbatches; ++m) spec.route.push_back(RouteId(m < microbatches / 2 ? 0 : 1));
  return Pipeline::make(std::move(spec));
}

}  // namespace ppsim::schedules
