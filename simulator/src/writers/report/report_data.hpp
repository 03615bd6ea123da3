#pragma once

#include <nlohmann/json.hpp>

#include "ppsim/simulator/writers/report.hpp"

namespace ppsim::simulator {

/// The data of one run for the page's script; times in nanoseconds, sizes in bytes. Long series are in
/// packed columns, rank after rank.
[[nodiscard]] nlohmann::ordered_json report_data(const ReportEntry& entry);

}  // namespace ppsim::simulator
