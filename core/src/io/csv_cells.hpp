#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ppsim/core/ir/error.hpp"

namespace ppsim {

/// One line of a CSV file.
struct CsvRow {
  int line = 0;  ///< 1-based
  std::vector<std::string> cells;
};

/// Cuts a file into rows the way Python's csv.reader does: cells between commas, quotes where needed, lines
/// that end with LF or CRLF, the last one of the file also with CR; an empty line is a row without cells. A
/// byte order mark at the start is skipped.
/// Errors: bad_file for a quoted cell that does not end, or goes on behind its closing quote.
[[nodiscard]] Expected<std::vector<CsvRow>> read_csv(std::string_view text, const std::string& file);

/// The line that Python's csv.writer makes of cells that need no quotes: a single empty cell is `""`, to tell
/// it from a row without cells.
[[nodiscard]] std::string csv_line(const std::vector<std::string>& cells);

}  // namespace ppsim
