#include "bench_programs.hpp"

#include <algorithm>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/schedule.hpp"
#include "ppsim/core/lowering/lowering.hpp"

namespace ppsim::bench {
namespace {

constexpr std::int64_t kForward = kUnitTime;
constexpr std::int64_t kBackward = 2 * kUnitTime;
constexpr std::int64_t kTransfer = kUnitTime / 10;

/// The i-th forward of a rank; `forward` false: the i-th backward.
Action nth_action(const Shape& shape, int rank, int i, bool forward) {
  const int group = shape.chunks == 1 ? 1 : shape.ranks;
  const int round = i / (group * shape.chunks);
  const int in_round = i % (group * shape.chunks);
  const int chunk = forward ? in_round / group : shape.chunks - 1 - in_round / group;
  return make_action(forward ? OpKind::forward : OpKind::backward, chunk * shape.ranks + rank,
                     round * group + in_round % group);
}

int warmup(const Shape& shape, int rank) {
  const int behind = shape.ranks - 1 - rank;
  const int all = shape.microbatches * shape.chunks;
  return std::min(all, shape.chunks == 1 ? behind : 2 * behind + (shape.chunks - 1) * shape.ranks);
}

int rank_of(const Shape& shape, int stage) { return stage % shape.ranks; }

}  // namespace

CostTable bench_costs() { return unit_cost_table({.F = 1, .B = 2, .c = 0.1}); }

std::vector<Action> compute_row(const Shape& shape, int rank) {
  const int all = shape.microbatches * shape.chunks;
  const int ahead = warmup(shape, rank);
  std::vector<Action> row;
  for (int i = 0; i < all + ahead; ++i) {
    if (i < all) row.push_back(nth_action(shape, rank, i, true));
    if (i >= ahead) row.push_back(nth_action(shape, rank, i - ahead, false));
  }
  return row;
}

Program lowered_program(const Shape& shape) {
  auto pipeline = make_chain(shape.ranks, shape.ranks * shape.chunks, shape.microbatches);
  PPSIM_CHECK(pipeline.has_value(), "a chain");
  ScheduleBuilder builder("bench", *std::move(pipeline));
  for (int r = 0; r < shape.ranks; ++r) {
    for (const Action& action : compute_row(shape, r)) builder.add(RankId(r), action);
  }
  const auto schedule = builder.build();
  PPSIM_CHECK(schedule.has_value(), to_string(schedule.error()));
  const CostTable costs = bench_costs();
  auto program = lower(*schedule, {.order = IssueOrder::timed}, &costs);
  PPSIM_CHECK(program.has_value(), to_string(program.error()));
  return *std::move(program);
}

FlatSchedule flat_schedule(const Shape& shape) {
  const int stages = shape.ranks * shape.chunks;
  const auto cell = [&](bool forward, int stage, int microbatch) {
    return static_cast<std::uint32_t>(1 + ((forward ? 0 : stages) + stage) * shape.microbatches + microbatch);
  };
  FlatSchedule flat;
  flat.cells = 1 + 2 * static_cast<std::size_t>(stages) * static_cast<std::size_t>(shape.microbatches);
  flat.row_begin.push_back(0);
  for (int r = 0; r < shape.ranks; ++r) {
    for (const Action& action : compute_row(shape, r)) {
      const bool forward = action.kind == OpKind::forward;
      const int from = action.subject + (forward ? -1 : 1);
      FlatSchedule::Step step{cell(forward, action.subject, action.microbatch), 0, 0, forward ? 0U : 1U};
      if (from >= 0 && from < stages) step.input = cell(forward, from, action.microbatch);
      step.transfer = step.input != 0 && rank_of(shape, from) != r ? 1 : 0;
      flat.steps.push_back(step);
    }
    flat.row_begin.push_back(static_cast<std::uint32_t>(flat.steps.size()));
  }
  return flat;
}

FlatTimes run_flat(const FlatSchedule& schedule, std::vector<std::int64_t>& ends) {
  const std::int64_t cost[2] = {kForward, kBackward};
  const std::int64_t transfer[2] = {0, kTransfer};
  const std::size_t ranks = schedule.row_begin.size() - 1;
  ends.assign(schedule.cells, -1);
  ends[0] = 0;
  std::vector<std::uint32_t> at(schedule.row_begin.begin(), schedule.row_begin.end() - 1);
  std::vector<std::int64_t> free(ranks, 0);
  std::vector<std::int64_t> busy(ranks, 0);
  for (std::size_t left = schedule.steps.size(); left > 0;) {
    for (std::size_t r = 0; r < ranks; ++r) {
      while (at[r] < schedule.row_begin[r + 1]) {
        const FlatSchedule::Step step = schedule.steps[at[r]];
        const std::int64_t input = ends[step.input];
        if (input < 0) break;
        free[r] = std::max(free[r], input + transfer[step.transfer]) + cost[step.backward];
        busy[r] += cost[step.backward];
        ends[step.cell] = free[r];
        ++at[r];
        --left;
      }
    }
  }
  FlatTimes times;
  double all_busy = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    times.makespan = std::max(times.makespan, free[r]);
    all_busy += static_cast<double>(busy[r]);
  }
  times.bubble_fraction = 1 - all_busy / static_cast<double>(ranks) / static_cast<double>(times.makespan);
  return times;
}

}  // namespace ppsim::bench
