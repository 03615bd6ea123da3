#include "synthesis/incumbent.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/lowering/earliest_times.hpp"

namespace ppsim::verifier::synthesis {
namespace {

Schedule build(const SynthesisRequest& request, const PhaseRows& rows) {
  const std::vector<OpKind> kinds = phases_of(request.backward);
  auto pipeline = make_chain(request.ranks, request.ranks, request.microbatches);
  PPSIM_CHECK(pipeline.has_value(), "a chain of checked counts");
  ScheduleBuilder builder("synthesized", *std::move(pipeline));
  for (int r = 0; r < request.ranks; ++r) {
    std::array<int, 3> next = {};
    for (const int phase : rows[static_cast<std::size_t>(r)]) {
      const auto at = static_cast<std::size_t>(phase);
      builder.add(kinds[at], StageId(r), MicrobatchId(next[at]++));
    }
  }
  auto schedule = builder.build();
  PPSIM_CHECK(schedule.has_value(), "rows that were made for a chain break a rule of schedules");
  return *std::move(schedule);
}

}  // namespace

PhaseRows rows_of(const ChainModel& model, const std::vector<Slot>& starts) {
  PhaseRows rows(static_cast<std::size_t>(model.ranks()));
  const int per_rank = model.phases() * model.microbatches();
  std::vector<int> tasks(static_cast<std::size_t>(per_rank));
  for (int r = 0; r < model.ranks(); ++r) {
    std::iota(tasks.begin(), tasks.end(), r * per_rank);
    std::ranges::sort(tasks, {}, [&](int task) { return starts[static_cast<std::size_t>(task)]; });
    for (const int task : tasks) rows[static_cast<std::size_t>(r)].push_back(model.phase_of(task));
  }
  return rows;
}

void Incumbent::keep(const Schedule& schedule, Nanoseconds value, const std::string& method) {
  if (schedule_ && value >= value_) return;
  schedule_ = schedule;
  value_ = value;
  method_ = method;
}

bool Incumbent::has_form(const Schedule& schedule) const {
  const auto chain = make_chain(request_.ranks, request_.ranks, request_.microbatches);
  if (!chain || schedule.pipeline() != *chain) return false;
  const auto fits = [&](const Step& step) {
    return std::ranges::all_of(step.actions(), [&](const Action& action) {
      const bool split = action.kind == OpKind::backward_input || action.kind == OpKind::backward_weight;
      const bool fused = action.kind == OpKind::backward;
      return !step.overlapped() &&
             (action.kind == OpKind::forward || (request_.backward == BackwardForm::split ? split : fused));
    });
  };
  for (int r = 0; r < request_.ranks; ++r) {
    if (!std::ranges::all_of(schedule.row(RankId(r)), fits)) return false;
  }
  return true;
}

void Incumbent::offer_known(const Schedule& schedule) {
  if (!has_form(schedule) || peak_live_microbatches(schedule) > request_.activation_limit) return;
  const auto value = objective_of(schedule, request_.costs, request_.objective);
  if (value) keep(schedule, *value, "known");
}

Nanoseconds Incumbent::offer(const PhaseRows& rows, const Found& found) {
  const Schedule schedule = build(request_, rows);
  PPSIM_CHECK(peak_live_microbatches(schedule) <= request_.activation_limit,
              "rows that were made for a limit are over it");
  const auto value = objective_of(schedule, request_.costs, request_.objective);
  PPSIM_CHECK(value.has_value(), "rows that were made for a chain wait for each other");
  PPSIM_CHECK(!found.promised || *value <= *found.promised,
              "rows that were made for start times are later than these");
  keep(schedule, *value, found.method);
  return *value;
}

}  // namespace ppsim::verifier::synthesis

namespace ppsim::verifier {

std::string_view objective_name(Objective objective) {
  switch (objective) {
    case Objective::makespan:
      return "makespan";
    case Objective::span:
      return "span";
  }
  PPSIM_CHECK(false, "an objective without a name");
}

Expected<Nanoseconds> objective_of(const Schedule& schedule, const CostTable& costs, Objective objective) {
  PPSIM_ASSIGN_OR_RETURN(const auto times, earliest_times(schedule, costs));
  if (objective == Objective::makespan) return times.makespan;
  std::vector<Nanoseconds> first(static_cast<std::size_t>(schedule.pipeline().ranks()), -1);
  Nanoseconds span = 0;
  for (const EarliestTimes::Item& item : times.walk) {
    Nanoseconds& start = first[item.rank.index()];
    if (start < 0) start = item.start;
    span = std::max(span, item.end - start);
  }
  return span;
}

int peak_live_microbatches(const Schedule& schedule) {
  int peak = 0;
  for (int r = 0; r < schedule.pipeline().ranks(); ++r) {
    int live = 0;
    for (const Step& step : schedule.row(RankId(r))) {
      for (const Action& action : step.actions()) {
        if (action.kind == OpKind::forward) peak = std::max(peak, ++live);
        if (action.kind == OpKind::backward || action.kind == OpKind::backward_weight) --live;
      }
    }
  }
  return peak;
}

}  // namespace ppsim::verifier
