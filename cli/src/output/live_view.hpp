#pragma once

#include "ppsim/core/execution/timed_trace.hpp"
#include "ppsim/simulator/writers/palette.hpp"

namespace ppsim::cli {

/// The timeline of a run on the terminal, to scroll and zoom by keys until Q.
/// Errors: bad_argument where stdin or stdout is no terminal.
[[nodiscard]] Expected<void> show_live(const Program& program, const TimedTrace& trace,
                                       simulator::Palette palette);

}  // namespace ppsim::cli
