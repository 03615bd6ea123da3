#pragma once

#include <array>

#include "ppsim/core/ir/schedule.hpp"
#include "ppsim/schedules/registry.hpp"

namespace ppsim::schedules {

/// One rank of DualPipe or DualPipeV. It holds a stage of each of two phases: 0, the way by which the
/// microbatches that it starts with come in, and 1, the other way.
struct DualPipeRow {
  struct Phase {
    StageId stage;
    int first_microbatch = 0;
    bool whole = false;  ///< B where others have I, and W later
  };
  RankId rank;
  std::array<Phase, 2> phases;
  int reach = 1;         ///< ranks from the entry to where the ways meet
  int away = 0;          ///< this rank's distance from the entry
  int microbatches = 2;  ///< of each phase, at least 2 reach
  /// Out of the pipes as JaxPP: on a rank only the stage of one phase has I, and every W comes last.
  bool as_jaxpp = false;
};

/// Appends the row.
/// Source: deepseek-ai/DualPipe, dualpipe.py and dualpipev.py, steps 1 to 8; NVIDIA/jaxpp, schedules.py,
/// dualpipev_tasks of 0.9.2.
void add_row(ScheduleBuilder& builder, const DualPipeRow& row);

/// The closed forms of both schedules for rows with `reach` and `microbatches` per phase where F, I and W of
/// a stage take alike, B takes I and W together, a pair takes no less than its B, and no transfer takes time.
struct DualPipeForm {
  int reach = 1;
  int microbatches = 2;

  /// Of the ranks where the ways meet, which overlap most pairs.
  [[nodiscard]] Nanoseconds busy(const StageCosts& costs) const;
  [[nodiscard]] std::optional<Nanoseconds> makespan(const StageCosts& costs) const;
  /// On every rank.
  [[nodiscard]] int peak() const { return 2 * reach + 1; }
};

}  // namespace ppsim::schedules
