#include <algorithm>

#include "ppsim/core/io/text.hpp"
#include "ppsim/planner/targets.hpp"

namespace ppsim::planner {
namespace {

constexpr StageId kFirstStage{0};

bool is_of_first(const Action& action, OpKind kind) {
  return action.kind == kind && action.stage() == kFirstStage;
}

tl::unexpected<Error> split_first(const Target& target, const Pipeline& pipeline, const Action& action) {
  const std::string number = std::to_string(action.microbatch);
  return make_error(ErrorCode::refused,
                    std::string(target.name) + " cannot split the backward of its first stage",
                    {.found = action_text(pipeline, action) + " without 0W" + number + " directly after it",
                     .expected = "0B" + number + ", or both in one place"});
}

/// The cells of a row, each I of the first stage one B with the W after it.
Expected<std::vector<Cell>> joined_row(const Target& target, const Pipeline& pipeline,
                                       std::span<const Cell> row) {
  std::vector<Cell> cells;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const auto actions = row[i].actions();
    const auto split = std::ranges::find_if(
        actions, [](const Action& action) { return is_of_first(action, OpKind::backward_input); });
    if (split == actions.end()) {
      cells.push_back(row[i]);
      continue;
    }
    Action weights = *split;
    weights.kind = OpKind::backward_weight;
    std::size_t next = i + 1;
    while (next < row.size() && row[next].idle()) ++next;
    if (next == row.size() || row[next] != Cell(weights)) return split_first(target, pipeline, *split);
    Action whole = *split;
    whole.kind = OpKind::backward;
    cells.push_back(row[i].overlapped() ? Cell(actions[0], whole) : Cell(whole));
    i = next;
  }
  return cells;
}

}  // namespace

Expected<Schedule> as_run(const Target& target, const Schedule& schedule) {
  if (target.runtime == PipelineRuntime::pytorch) return schedule;
  const Pipeline& pipeline = schedule.pipeline();
  ScheduleBuilder builder(schedule.name(), pipeline);
  for (const RankId rank : pipeline.rank_ids()) {
    PPSIM_ASSIGN_OR_RETURN(const auto cells, joined_row(target, pipeline, schedule.row(rank)));
    for (const Cell& cell : cells) builder.add(rank, cell);
  }
  return std::move(builder).build();
}

}  // namespace ppsim::planner
