#pragma once

#include <string_view>

namespace ppsim {

/// The page of a report. `{{title}}` stands for its title and `{{data}}` for its data as JSON.
[[nodiscard]] std::string_view report_page();

}  // namespace ppsim
