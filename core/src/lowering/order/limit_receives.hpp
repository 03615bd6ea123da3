#pragma once

#include "lowering/lines.hpp"
#include "ppsim/core/lowering/lowering.hpp"

namespace ppsim::lowering {

/// The i-th arrival of a stream `after` the first user of arrival i - n, moved after it where needed, for
/// n = `options.receive_buffers`.
/// Errors: bad_argument where that would put an arrival behind its own user.
[[nodiscard]] Expected<void> limit_receives(const Pipeline& pipeline, const LoweringOptions& options,
                                            LineRows& rows);

}  // namespace ppsim::lowering
