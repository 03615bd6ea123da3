#pragma once

#include <optional>
#include <string>
#include <vector>

#include "binding.hpp"
#include "ppsim/core/ir/capabilities.hpp"
#include "ppsim/planner/costs/costs.hpp"

namespace ppsim::python {

/// A CostSource as Python holds it.
struct Source {
  CostSource value;
};
using Sources = std::vector<Source>;

/// Costs and sizes of one pipeline, of later sources over those before.
/// Errors: throws CoreError, where there is none too.
[[nodiscard]] CostBinding bound_costs(const Sources& sources, const Pipeline& pipeline);

/// The recomputation of the model of these costs; nothing without a model.
[[nodiscard]] std::optional<StageRecompute> recompute_of(const Sources& sources);

/// Errors: throws CoreError where a table that was measured or written down lacks what the Program runs, and
/// where a model counts on recomputation that the Program does not have.
void check_tables(const Sources& sources, const CostBinding& bound, const Program& program);

/// Whether sizes are those of a device, and not of abstract units.
[[nodiscard]] bool of_device(const Sources& sources);

/// A named transport that buffers so many messages of a channel; none: rendezvous. Under a model with tensor,
/// context or expert parallelism the computation launches collectives, too.
/// Errors: throws CoreError.
[[nodiscard]] TransportCapabilities capabilities_named(const std::string& transport,
                                                       std::optional<int> buffers, const Sources& sources);

}  // namespace ppsim::python
