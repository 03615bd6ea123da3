#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ppsim/core/ir/error.hpp"

namespace ppsim::planner {

/// A CSV whose first row names its columns.
class Sheet {
 public:
  /// Errors: bad_file for a file without header or rows, a column named twice, a row of another length,
  /// broken quotes.
  [[nodiscard]] static Expected<Sheet> read(std::string_view text, const std::string& file);

  [[nodiscard]] const std::vector<std::string>& header() const { return header_; }
  [[nodiscard]] bool has(std::string_view column) const { return index_of(column).has_value(); }
  [[nodiscard]] std::size_t rows() const { return rows_.size(); }

 private:
  friend class SheetRow;
  struct Row {
    int line = 0;
    std::vector<std::string> cells;
  };
  [[nodiscard]] std::optional<std::size_t> index_of(std::string_view column) const;

  std::string file_;
  std::vector<std::string> header_;
  std::vector<Row> rows_;
};

/// Reads cells of one row by the names of their columns, and remembers the first that is wrong. A cell that
/// is empty or `n/a`, and one of a column that is missing, says nothing.
class SheetRow {
 public:
  SheetRow(const Sheet& sheet, std::size_t row) : sheet_(sheet), row_(sheet.rows_[row]) {}

  [[nodiscard]] const std::string& file() const { return sheet_.file_; }
  [[nodiscard]] int line() const { return row_.line; }
  [[nodiscard]] std::string text(std::string_view column) const;
  /// Up to 2^20, which keeps products of three within 64 bits.
  std::optional<int> whole(std::string_view column, int least = 1);
  std::optional<double> positive(std::string_view column);
  /// Numbers above 0 with blanks between them; empty: the cell says nothing.
  std::vector<double> positives(std::string_view column);

  void refuse(std::string_view column, const std::string& message, const std::string& expected);
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  const Sheet& sheet_;
  const Sheet::Row& row_;
  std::optional<Error> error_;
};

}  // namespace ppsim::planner
