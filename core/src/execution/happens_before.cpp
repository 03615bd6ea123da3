#include "ppsim/core/execution/happens_before.hpp"

#include "happens_before_maker.hpp"

namespace ppsim {

HappensBefore HappensBefore::of_rank(const Program& program, const ExecutionGraph& graph,
                                     const ClockPlan& plan, RankId rank) {
  return HappensBeforeMaker(program, graph, rank).make(plan);
}

bool HappensBefore::completes_before_start(InstructionId first, InstructionId second) const {
  return complete_before_start(second)[as_size(track_of(first))] > index_in_track(first);
}

bool HappensBefore::completes_before_completion(InstructionId first, InstructionId second) const {
  return complete_before_completion(second)[as_size(track_of(first))] > index_in_track(first);
}

std::span<const std::int32_t> HappensBefore::complete_before_start(InstructionId id) const {
  return {before_start_.data() + row(id), as_size(tracks_)};
}

std::span<const std::int32_t> HappensBefore::complete_before_completion(InstructionId id) const {
  return {before_end_.data() + row(id), as_size(tracks_)};
}

}  // namespace ppsim
