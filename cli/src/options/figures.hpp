#pragma once

#include <optional>
#include <string>

#include "command.hpp"

namespace ppsim::cli {

/// --columns: how wide a figure is in a paper.
Option add_columns_option(Command& command, std::optional<int>& columns, const Option& width);
/// Pixels of a figure over one or two columns of a page of letter size.
[[nodiscard]] int column_pixels(int columns);
/// Errors: bad_argument where the title has letters that the font of a PDF lacks.
[[nodiscard]] Expected<void> check_pdf_title(const std::string& title);

}  // namespace ppsim::cli
