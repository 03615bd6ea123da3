#include "ppsim/core/ir/tied_ends.hpp"

#include <algorithm>

#include "ppsim/core/ir/sequences.hpp"

namespace ppsim {
namespace {

/// The first and the last stages of all routes, ascending.
std::vector<StageId> end_stages(const Pipeline& pipeline) {
  std::vector<StageId> ends;
  for (const MicrobatchId mb : pipeline.microbatch_ids()) {
    for (const StageId stage : pipeline.spec().routes[pipeline.route_of(mb)]) {
      const bool inside = !pipeline.producers(stage, mb).empty() && !pipeline.consumers(stage, mb).empty();
      if (!inside) ends.push_back(stage);
    }
  }
  sort_unique(ends);
  return ends;
}

Expected<void> check(const Schedule& schedule) {
  const Pipeline& pipeline = schedule.pipeline();
  for (int s = 0; s < pipeline.stages(); ++s) {
    const std::size_t blocks = pipeline.blocks_of(StageId(s)).size();
    if (blocks == 1) continue;
    return make_error(ErrorCode::bad_argument, "tied weights are a second block of the first and last stages",
                      {.found = std::to_string(blocks) + " blocks on stage " + std::to_string(s),
                       .expected = "one on each stage"});
  }
  for (const RankId rank : pipeline.rank_ids()) {
    for (const Cell& cell : schedule.row(rank)) {
      for (const Action& action : cell.actions()) {
        if (action.kind != OpKind::optimizer) continue;
        return make_error(ErrorCode::bad_argument,
                          "tied weights need an OPT of their own, and the schedule brings all OPTs along",
                          {.found = schedule.name(), .expected = "a schedule without OPT"});
      }
    }
  }
  return {};
}

}  // namespace

bool has_tied_ends(const Pipeline& pipeline) {
  const std::vector<StageId> ends = end_stages(pipeline);
  return std::ranges::any_of(pipeline.spec().blocks, [&](const ParameterBlock& block) {
    std::vector<StageId> owners = block.stages;
    std::ranges::sort(owners);
    return owners == ends &&
           std::ranges::all_of(ends, [&](StageId end) { return pipeline.blocks_of(end).size() == 2; });
  });
}

Expected<Schedule> with_tied_ends(const Schedule& schedule) {
  const Pipeline& pipeline = schedule.pipeline();
  if (has_tied_ends(pipeline)) return schedule;
  PPSIM_RETURN_IF_ERROR(check(schedule));
  PipelineSpec spec = pipeline.spec();
  spec.blocks.push_back({end_stages(pipeline)});
  PPSIM_ASSIGN_OR_RETURN(auto tied, Pipeline::make(std::move(spec)));
  ScheduleBuilder builder(schedule.name(), std::move(tied));
  for (const RankId rank : pipeline.rank_ids()) {
    for (const Cell& cell : schedule.row(rank)) builder.add(rank, cell);
  }
  return std::move(builder).build();
}

}  // namespace ppsim
