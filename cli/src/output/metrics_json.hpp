#pragma once

#include "command.hpp"
#include "ppsim/planner/evaluate.hpp"

namespace ppsim::cli {

/// The effects that the costs of a model leave out, and their measured error: two lines, or none.
[[nodiscard]] std::string notes_text(const SimulatedStep& step);

/// Everything that `simulate --json` says of one step.
[[nodiscard]] Json evaluation_json(const SimulatedStep& step);
/// Where the time of a simulation went, in nanoseconds.
[[nodiscard]] Json phases_json(const PhaseTimes& phases);
/// A size of the step; null where its costs have no sizes.
[[nodiscard]] Json size_json(const SimulatedStep& step, Bytes size);
[[nodiscard]] Json size_json(std::optional<Bytes> size);
/// The same as text, "-".
[[nodiscard]] std::string size_text(const SimulatedStep& step, Bytes size);
[[nodiscard]] std::string size_text(std::optional<Bytes> size);

/// The times of each kind of action, measured and simulated.
[[nodiscard]] Json kinds_json(const auto& kinds) {
  Json list = Json::array();
  for (const auto& of : kinds) {
    list.push_back({{"kind", info(of.kind).text},
                    {"count", of.count},
                    {"measured_ns", of.measured},
                    {"simulated_ns", of.simulated}});
  }
  return list;
}

}  // namespace ppsim::cli
