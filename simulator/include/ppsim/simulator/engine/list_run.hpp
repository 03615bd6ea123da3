#pragma once

#include <optional>

#include "ppsim/simulator/engine/simulate.hpp"

namespace ppsim::simulator {

/// The times of one run without a compiled form: every rank starts its instructions in the order of its list,
/// and each gets its times as soon as what it waits for has its own. A Program that can run so cannot hang
/// where launches are ordered either: a launch finds that all before it have started, and that computation is
/// over as soon as it has started.
/// Returns: nothing where this does not answer: a rank would have to start a later instruction first or never
/// starts one, ends that meet differ, a transport with credits or a limit of places, launches that wait for
/// completions, groups. What there is to say of those, `compile` says.
/// Errors: those of bind_costs.
[[nodiscard]] std::optional<Expected<TimedTrace>> run_in_list_order(const AnalyzedProgram& analyzed,
                                                                    const CostTable& costs);

}  // namespace ppsim::simulator

namespace ppsim {
using simulator::run_in_list_order;
}  // namespace ppsim
