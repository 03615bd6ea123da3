#pragma once

#include "lowering/cell_rows.hpp"
#include "lowering/lines.hpp"
#include "ppsim/core/lowering/lowering.hpp"

namespace ppsim::lowering {

/// The result of a pass, as an observer of the lowering gets it. Shape: [rank][place].
[[nodiscard]] PassRows rows_text(const Pipeline& pipeline, const CellRows& rows);
[[nodiscard]] PassRows rows_text(const Pipeline& pipeline, const LineRows& rows);
[[nodiscard]] PassRows rows_text(const Pipeline& pipeline, const Program& program);

}  // namespace ppsim::lowering
