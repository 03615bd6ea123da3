#include "plan/placement.hpp"

#include <algorithm>

namespace ppsim::planner {
namespace {

ScheduleParameters parameters_for(const ScheduleChoice& choice, int ranks, int microbatches) {
  ScheduleParameters parameters;
  parameters.ranks = ranks;
  parameters.microbatches = microbatches;
  parameters.chunks = choice.chunks;
  return parameters;
}

RowForm form_of(const Schedule& schedule) {
  RowForm form;
  for (const RankId rank : schedule.pipeline().rank_ids()) {
    for (const Cell& cell : schedule.row(rank)) {
      form.overlaps = form.overlaps || cell.overlapped();
      for (const Action& action : cell.actions()) {
        form.splits = form.splits || action.kind == OpKind::backward_weight;
        form.lends = form.lends || action.kind == OpKind::send_activation;
      }
    }
  }
  return form;
}

/// The same pipeline with one microbatch.
Expected<Pipeline> of_one(const Pipeline& pipeline) {
  PipelineSpec spec = pipeline.spec();
  const MicrobatchId first(0);
  spec.microbatches = 1;
  spec.route = {spec.route[first]};
  spec.update = {0};
  spec.version = {0};
  return Pipeline::make(std::move(spec));
}

/// A microbatch whose route has the stage.
MicrobatchId passing(const Pipeline& pipeline, StageId stage) {
  MicrobatchId mb(0);
  while (mb.value() + 1 < pipeline.microbatches() && !pipeline.on_route(stage, mb))
    mb = MicrobatchId(mb.value() + 1);
  return mb;
}

}  // namespace

int Placement::count(StageId stage, int microbatches) const {
  if (any_microbatches) return microbatches;
  int count = 0;
  for (const MicrobatchId mb : pipeline.microbatch_ids()) count += pipeline.on_route(stage, mb) ? 1 : 0;
  return count;
}

std::optional<PlacedSchedule> Placements::make(const ScheduleChoice& choice, int ranks, int microbatches) {
  const ScheduleInfo& info = *choice.info;
  // Long enough for a steady state, and short where it can be.
  ScheduleParameters parameters = parameters_for(choice, ranks, std::min(microbatches, 2 * ranks));
  if (!check_parameters(info, parameters)) parameters.microbatches = microbatches;
  if (!check_parameters(info, parameters)) return std::nullopt;
  auto schedule = generate(info.name, parameters);
  if (schedule && schedule->pipeline().spec().routes.size() > 1 && parameters.microbatches != microbatches) {
    parameters.microbatches = microbatches;
    if (!check_parameters(info, parameters)) return std::nullopt;
    schedule = generate(info.name, parameters);
  }
  if (!schedule || schedule->pipeline().asynchronous()) return std::nullopt;
  const bool one_route = schedule->pipeline().spec().routes.size() == 1;
  auto pipeline = one_route ? of_one(schedule->pipeline()) : schedule->pipeline();
  if (!pipeline) return std::nullopt;
  Placement placement{*std::move(pipeline), {}, one_route};
  const Pipeline& made = placement.pipeline;
  for (std::int32_t s = 0; s < made.stages(); ++s) {
    const auto producers = made.producers(StageId(s), passing(made, StageId(s)));
    placement.producers.push_back({producers.begin(), producers.end()});
  }
  placement.sums_inputs = !made.spec().collectives.empty();
  return PlacedSchedule{choice, shared(std::move(placement)), form_of(*schedule)};
}

std::shared_ptr<const Placement> Placements::shared(Placement placement) {
  auto& known = placements_[placement.pipeline.ranks()];
  for (const auto& other : known) {
    if (other->pipeline == placement.pipeline) return other;
  }
  placement.number = known.size();
  return known.emplace_back(std::make_shared<const Placement>(std::move(placement)));
}

std::optional<PlacedSchedule> Placements::placed(const ScheduleChoice& choice, int ranks, int microbatches) {
  if (!check_parameters(*choice.info, parameters_for(choice, ranks, microbatches))) return std::nullopt;
  const int chunks = choice.chunks.value_or(0);
  const Key any(choice.info, chunks, ranks, 0);
  if (const auto found = known_.find(any); found != known_.end()) return found->second;
  const Key own(choice.info, chunks, ranks, microbatches);
  if (const auto found = known_.find(own); found != known_.end()) return found->second;
  auto made = make(choice, ranks, microbatches);
  const bool for_any = made && made->placement->any_microbatches && microbatches >= 2 * ranks;
  return known_[for_any ? any : own] = std::move(made);
}

const std::vector<PlacedSchedule>& Placements::of(const Space& space, int ranks, int microbatches) {
  const auto [list, is_new] = lists_.try_emplace({ranks, microbatches});
  if (!is_new) return list->second;
  for (const ScheduleChoice& choice : space.schedules(ranks)) {
    if (auto made = placed(choice, ranks, microbatches)) list->second.push_back(*std::move(made));
  }
  std::ranges::stable_sort(list->second, {}, [](const PlacedSchedule& one) { return one.placement->number; });
  return list->second;
}

}  // namespace ppsim::planner
