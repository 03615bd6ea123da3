#pragma once

#include <string>

#include "ppsim/planner/ir_source.hpp"

namespace ppsim::python {

/// As `ppsim show --width` has it, in pixels or characters. Errors: throws CoreError.
void check_width(int width);

/// The timeline at one unit for F, I and W and two for B, as SVG.
/// Errors: throws CoreError where it cannot run, and for a width that check_width refuses.
[[nodiscard]] std::string unit_svg(const Ir& ir, const std::string& title, int width);

/// The same for a notebook, or why there is none.
[[nodiscard]] std::string unit_html(const Ir& ir);

/// The same as text.
[[nodiscard]] std::string unit_text(const Ir& ir, int width);

}  // namespace ppsim::python
