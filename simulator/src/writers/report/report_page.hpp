#pragma once

#include <string_view>

namespace ppsim::simulator {

/// The page of a report. `{{title}}` and `{{hint}}` stand for its first lines, `{{data}}` for its data as
/// JSON.
[[nodiscard]] std::string_view report_page();

}  // namespace ppsim::simulator
