#include "synthesis/incumbent.hpp"

#include <algorithm>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/lowering/earliest_times.hpp"
#include "synthesis/lowered_order.hpp"

namespace ppsim::verifier::synthesis {
namespace {

Pipeline pipeline_of(const SynthesisRequest& request) {
  const std::vector<RankId> placement = placement_of(request);
  auto pipeline =
      make_chain(request.ranks, static_cast<int>(placement.size()), request.microbatches, placement);
  PPSIM_CHECK(pipeline.has_value(), "a chain of checked counts");
  return *std::move(pipeline);
}

Schedule build(const SynthesisRequest& request, const TaskRows& rows) {
  const std::vector<OpKind> kinds = phases_of(request.backward);
  const auto phases = static_cast<int>(kinds.size());
  ScheduleBuilder builder("synthesized", pipeline_of(request));
  for (const auto& row : rows) {
    for (const int task : row) {
      const int strand = task / request.microbatches;
      builder.add(kinds[as_size(strand % phases)], StageId(strand / phases),
                  MicrobatchId(task % request.microbatches));
    }
  }
  auto schedule = builder.build();
  PPSIM_CHECK(schedule.has_value(), "rows that were made for a chain break a rule of schedules");
  return *std::move(schedule);
}

}  // namespace

TaskRows rows_of(const ChainModel& model, const std::vector<Slot>& starts) {
  TaskRows rows(as_size(model.ranks()));
  for (int task = 0; task < model.tasks(); ++task) rows[as_size(model.rank_of(task))].push_back(task);
  for (auto& row : rows) std::ranges::stable_sort(row, {}, [&](int task) { return starts[as_size(task)]; });
  return rows;
}

void Incumbent::keep(const Schedule& schedule, Nanoseconds value, const std::string& method) {
  if (schedule_ && value >= value_) return;
  schedule_ = schedule;
  value_ = value;
  method_ = method;
}

bool Incumbent::has_form(const Schedule& schedule) const {
  if (schedule.pipeline() != pipeline_of(request_)) return false;
  const auto fits = [&](const Cell& cell) {
    return std::ranges::all_of(cell.actions(), [&](const Action& action) {
      const bool split = action.kind == OpKind::backward_input || action.kind == OpKind::backward_weight;
      const bool fused = action.kind == OpKind::backward;
      return !cell.overlapped() &&
             (action.kind == OpKind::forward || (request_.backward == BackwardForm::split ? split : fused));
    });
  };
  for (int r = 0; r < request_.ranks; ++r) {
    if (!std::ranges::all_of(schedule.row(RankId(r)), fits)) return false;
  }
  return true;
}

void Incumbent::offer_known(const Schedule& schedule) {
  if (!has_form(schedule)) return;
  const auto value = objective_of(schedule, request_.costs, request_.objective);
  if (!value || (schedule_ && *value >= value_)) return;
  const bool fits = request_.bytes ? bytes_over(schedule, request_).empty()
                                   : peak_live_microbatches(schedule) <= request_.activation_limit;
  if (fits) keep(schedule, *value, "known");
}

std::vector<Bytes> Incumbent::offer(const TaskRows& rows, const Found& found) {
  const Schedule schedule = build(request_, rows);
  PPSIM_CHECK(request_.bytes || peak_live_microbatches(schedule) <= request_.activation_limit,
              "rows that were made for a limit are over it");
  const auto value = objective_of(schedule, request_.costs, request_.objective);
  PPSIM_CHECK(value.has_value(), "rows that were made for a chain wait for each other");
  PPSIM_CHECK(!found.promised || *value <= *found.promised,
              "rows that were made for start times are later than these");
  if (schedule_ && *value >= value_) return {};
  std::vector<Bytes> over;
  if (request_.bytes) over = bytes_over(schedule, request_);
  if (over.empty()) keep(schedule, *value, found.method);
  return over;
}

TaskRows Incumbent::rows() const {
  const auto phases = static_cast<int>(phases_of(request_.backward).size());
  std::vector<int> next(placement_of(request_).size() * as_size(phases), 0);
  TaskRows rows;
  for (int r = 0; r < request_.ranks; ++r) {
    rows.emplace_back();
    for (const Cell& cell : schedule_->row(RankId(r))) {
      for (const Action& action : cell.actions()) {
        const int phase = action.kind == OpKind::forward ? 0 : action.kind == OpKind::backward_weight ? 2 : 1;
        const int strand = action.stage().value() * phases + phase;
        rows.back().push_back(strand * request_.microbatches + next[as_size(strand)]++);
      }
    }
  }
  return rows;
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
  std::vector<Nanoseconds> first(as_size(schedule.pipeline().ranks()), -1);
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
  for (const RankId rank : schedule.pipeline().rank_ids()) {
    int live = 0;
    for (const Cell& cell : schedule.row(rank)) {
      for (const Action& action : cell.actions()) {
        if (action.kind == OpKind::forward) peak = std::max(peak, ++live);
        if (action.kind == OpKind::backward || action.kind == OpKind::backward_weight) --live;
      }
    }
  }
  return peak;
}

}  // namespace ppsim::verifier
