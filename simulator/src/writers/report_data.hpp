#pragma once

#include <nlohmann/json.hpp>

#include "ppsim/simulator/writers/report.hpp"

namespace ppsim::simulator {

/// What the page's script reads of one run; times in nanoseconds, sizes in bytes. What there is many of is in
/// packed columns, rank after rank.
[[nodiscard]] nlohmann::ordered_json report_data(const ReportEntry& entry);

}  // namespace ppsim::simulator
