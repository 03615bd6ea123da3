#pragma once

#include <future>

#include "ppsim/core/ir/program.hpp"
#include "ppsim/planner/ir_source.hpp"

namespace ppsim::cli {

/// Gives back what lies free between other memory where a Program is large: the arrays that come next are
/// larger than any of it.
void give_back_free_memory(const Program& lowered);

/// Asks the system for the pages that the heap gives out next, by another processor, while this one orders
/// the cells of a schedule, which it does alone. Until the result goes.
[[nodiscard]] std::future<void> ask_for_pages_ahead(const planner::Ir& ir);

}  // namespace ppsim::cli
