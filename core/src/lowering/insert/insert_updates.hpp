#pragma once

#include "lowering/cell_rows.hpp"
#include "ppsim/core/lowering/lowering.hpp"

namespace ppsim::lowering {

/// Per rank, block and update: REDUCE_GRAD directly after the last B or W, then OPT; of a block that is
/// reduced for each microbatch, directly after the last B or W of each. With clipping, COLL
/// "norm" stands after the last of an update's B, W and REDUCE_GRAD, and the OPTs of the update after it.
/// Nothing where there is no backward. Requires: with `options.clip` the pipeline has a collective of every
/// rank named "norm".
void insert_updates(const Pipeline& pipeline, const LoweringOptions& options, CellRows& rows);

/// The pipeline with the collective that clipping needs: "norm", over all ranks.
[[nodiscard]] Expected<Pipeline> with_norm(const Pipeline& pipeline);

/// The pipeline with a REDUCE_GRAD for each microbatch of every block that several ranks have copies of.
/// Errors: bad_argument where there is no such block, or a microbatch does not visit all copies of one.
[[nodiscard]] Expected<Pipeline> reducing_each_microbatch(const Pipeline& pipeline);

}  // namespace ppsim::lowering
