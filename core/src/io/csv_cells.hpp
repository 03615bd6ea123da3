#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ppsim/core/ir/error.hpp"

namespace ppsim {

/// Cuts a file into rows and cells the way Python's csv.reader does: cells between commas, quotes where
/// needed, lines that end with LF or CRLF, the last one of the file also with CR; an empty line is a row
/// without cells. A byte order mark at the start is skipped. It keeps one cell at a time.
class CsvReader {
 public:
  /// Requires: text and file outlive it.
  CsvReader(std::string_view text, const std::string& file);
  /// Of a file's later rows, which begin behind so many lines.
  CsvReader(std::string_view rows, const std::string& file, int lines_before);

  /// Goes to the next row. Returns: false at the end of the file. Requires: the row before was read to its
  /// end.
  bool next_row();
  /// The next cell of the row, which stays until the one after it is read; nothing at the end of the row.
  /// Errors: bad_file for a quoted cell that does not end, or goes on behind its closing quote.
  Expected<std::optional<std::string_view>> next_cell();

  /// The text from the next cell on; empty at the end of the row.
  [[nodiscard]] std::string_view ahead() const { return in_row_ ? text_ : std::string_view(); }
  /// Goes behind the next cell. False where its text does not end after `length` characters.
  /// Requires: the characters are ahead, and none of them is a quote, a comma or of a line end.
  bool pass_cell(std::size_t length) {
    const std::string_view rest = text_.substr(length);
    const bool ends = rest.starts_with(',') || rest.starts_with('\n') || rest.starts_with("\r\n");
    if (!ends) return false;
    ++column_;
    is_quoted_ = false;
    in_row_ = rest[0] == ',';
    text_ = rest.substr(rest[0] == '\r' ? 2 : 1);
    return true;
  }

  /// Whether that cell was quoted: its text is the reader's, not the file's.
  [[nodiscard]] bool is_quoted() const { return is_quoted_; }

  /// Where the row begins, and which of its cells was read last; from 1.
  [[nodiscard]] int line() const { return row_line_; }
  [[nodiscard]] int column() const { return column_; }

 private:
  bool take(std::string_view prefix);
  bool take_line_end();
  [[nodiscard]] bool at_cell_end() const;
  [[nodiscard]] bool is_last_return() const;
  Expected<std::string_view> read_quoted();
  [[nodiscard]] tl::unexpected<Error> broken(const char* expected) const;

  std::string_view text_;
  const std::string& file_;
  std::string quoted_;  ///< the text of the last quoted cell
  bool is_quoted_ = false;
  bool in_row_ = false;
  int line_ = 0;
  int row_line_ = 0;
  int column_ = 0;
};

/// A cell of a file, quoted where it must be.
[[nodiscard]] std::string csv_cell(const std::string& text);

/// The line that Python's csv.writer makes of cells that need no quotes: a single empty cell is `""`, to tell
/// it from a row without cells.
[[nodiscard]] std::string csv_line(const std::vector<std::string>& cells);

}  // namespace ppsim
