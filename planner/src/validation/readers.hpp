#pragma once

#include "ppsim/planner/validate.hpp"
#include "sheet.hpp"

namespace ppsim::planner {

/// Each reads one row of a kind of file: a cell that has to be a number and is not is the row's error, and a
/// row that lacks what a simulation needs is a NotRun. A column `source` may name where any row is from.
[[nodiscard]] MeasuredRow read_published(SheetRow& row);
[[nodiscard]] MeasuredRow read_one_node(SheetRow& row);
[[nodiscard]] MeasuredRow read_megatron_bridge(SheetRow& row);
[[nodiscard]] MeasuredRow read_vtrain(SheetRow& row);
[[nodiscard]] MeasuredRow read_llm_foundry(SheetRow& row);
[[nodiscard]] MeasuredRow read_stage_times(SheetRow& row);

/// Constants of simulate_run(StageRun).
[[nodiscard]] std::vector<Constant> stage_run_constants();

}  // namespace ppsim::planner
