#include "plan/structure.hpp"

#include <algorithm>
#include <set>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/simulator/engine/stuck.hpp"

namespace ppsim::planner {

bool follows_costs(const StructureKey& key) {
  const auto info = find_schedule(key.schedule);
  return info && (*info)->uses_costs;
}

namespace {

bool is_forward_or_backward(const Action& action) {
  return action.kind == OpKind::forward || gives_input_gradient(action.kind) ||
         gives_weight_gradient(action.kind);
}

/// Walks the row of one rank.
class RowWalk {
 public:
  RowWalk(const Schedule& schedule, RankId rank) : stages_(schedule.pipeline().stages_of(rank)) {
    now_.stages.resize(stages_.size());
    for (const Cell& cell : schedule.row(rank)) pass(cell);
  }

  [[nodiscard]] std::vector<RowMoment> moments() && { return {moments_.begin(), moments_.end()}; }

 private:
  StageLoad& of(const Action& action) {
    const auto at = std::ranges::find(stages_, action.stage());
    return now_.stages[as_size(at - stages_.begin())];
  }

  void start(const Action& action) {
    StageLoad& load = of(action);
    if (action.kind == OpKind::forward) {
      ++load.for_input;
      ++load.for_weight;
      ++load.inputs;
    }
    if (gives_input_gradient(action.kind)) {
      ++load.begun_input;
      ++load.begun_weight;
    }
    load.gradients = load.gradients || gives_weight_gradient(action.kind);
  }

  void end(const Action& action) {
    StageLoad& load = of(action);
    if (gives_input_gradient(action.kind)) {
      --load.for_input;
      --load.begun_input;
    }
    if (gives_weight_gradient(action.kind)) {
      --load.for_weight;
      --load.begun_weight;
      --load.inputs;
    }
  }

  void pass(const Cell& cell) {
    const auto actions = cell.actions();
    if (actions.empty() || !is_forward_or_backward(actions.front())) return;
    for (const Action& action : actions) start(action);
    now_.kind = actions.front().kind;
    now_.running = actions.front().stage();
    moments_.insert(now_);
    for (const Action& action : actions) end(action);
  }

  std::span<const StageId> stages_;
  RowMoment now_;
  std::set<RowMoment> moments_;
};

Expected<Schedule> schedule_of(const StructureKey& key, const CostTable& costs) {
  ScheduleParameters parameters;
  parameters.ranks = key.ranks;
  parameters.microbatches = key.microbatches;
  if (key.chunks > 0) parameters.chunks = key.chunks;
  if (follows_costs(key)) parameters.costs = costs;
  return generate(key.schedule, parameters);
}

RowMoments moments_of(const Schedule& schedule) {
  RowMoments result;
  for (const RankId rank : schedule.pipeline().rank_ids()) {
    result.rows.push_back(RowWalk(schedule, rank).moments());
    for (const Cell& cell : schedule.row(rank)) {
      for (const Action& action : cell.actions())
        result.lends = result.lends || action.kind == OpKind::send_activation;
    }
  }
  return result;
}

std::size_t weight_of(const RowMoments& moments) {
  std::size_t weight = 0;
  for (const std::vector<RowMoment>& row : moments.rows) {
    for (const RowMoment& moment : row) weight += 4 + 2 * moment.stages.size();
  }
  return weight;
}

Expected<CompiledProgram> compiled_for(const StructureKey& key, const CostTable& costs) {
  PPSIM_ASSIGN_OR_RETURN(const auto schedule, schedule_of(key, costs));
  const Recompute recompute = key.recomputes ? Recompute::full : Recompute::none;
  // On independent queues the order between queues is no matter of time.
  PPSIM_ASSIGN_OR_RETURN(const auto program,
                         lower(schedule, {.order = IssueOrder::global, .recompute = recompute}));
  auto compiled = compile({program, rendezvous()});
  if (!compiled) return tl::unexpected(to_error(program, compiled.error()));
  return *std::move(compiled);
}

}  // namespace

Expected<std::shared_ptr<const RowMoments>> Structures::moments(StructureKey key, const CostTable& costs) {
  key.recomputes = false;  // rows are the same
  if (auto found = moments_.find(key)) return found;
  PPSIM_ASSIGN_OR_RETURN(const auto schedule, schedule_of(key, costs));
  RowMoments made = moments_of(schedule);
  if (follows_costs(key)) return std::make_shared<const RowMoments>(std::move(made));
  const std::size_t weight = weight_of(made);
  return moments_.keep(key, std::move(made), weight);
}

Expected<std::shared_ptr<const CompiledProgram>> Structures::compiled(const StructureKey& key,
                                                                      const CostTable& costs) {
  if (auto found = compiled_.find(key)) return found;
  PPSIM_ASSIGN_OR_RETURN(auto made, compiled_for(key, costs));
  if (follows_costs(key)) return std::make_shared<const CompiledProgram>(std::move(made));
  const std::size_t weight = made.items.size() + made.end_item.size();
  return compiled_.keep(key, std::move(made), weight);
}

}  // namespace ppsim::planner
