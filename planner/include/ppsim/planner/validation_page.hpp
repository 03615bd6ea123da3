#pragma once

#include <string>

#include "ppsim/planner/validate.hpp"

namespace ppsim::planner {

/// Markdown: errors by group, rows unless they are not wanted, what was not simulated and why, constants.
[[nodiscard]] std::string validation_page(const Validation& validation, bool with_rows = true);

/// SVG: each simulated step over the measured one, both logarithmic, and below it the error, with bands of 5
/// and 10 %.
[[nodiscard]] std::string validation_picture(const Validation& validation);

}  // namespace ppsim::planner

namespace ppsim {
using planner::validation_page;
using planner::validation_picture;
}  // namespace ppsim
