#include "sheet.hpp"

#include <algorithm>
#include <sstream>

#include "decimal.hpp"
#include "io/csv_cells.hpp"

#include "ppsim/core/text/number_text.hpp"

namespace ppsim::planner {
namespace {

constexpr std::string_view kBlanks = " \t";
constexpr int kMaxWhole = 1 << 20;
// More than any measurement, in any of the units.
constexpr double kMaxNumber = 1e15;
constexpr std::string_view kNumbers = "from 1e-15 to 1e15";

std::optional<double> measured_number(const std::string& text) {
  const auto value = parse_decimal(text);
  return value && *value >= 1 / kMaxNumber && *value <= kMaxNumber ? value : std::nullopt;
}

std::string without_blanks(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(kBlanks) + 1 - first));
}

Expected<std::vector<std::string>> cells_of(CsvReader& reader) {
  std::vector<std::string> cells;
  for (;;) {
    PPSIM_ASSIGN_OR_RETURN(const auto cell, reader.next_cell());
    if (!cell) return cells;
    cells.push_back(without_blanks(*cell));
  }
}

Expected<void> check_header(const std::vector<std::string>& header, const std::string& file) {
  for (std::size_t i = 0; i < header.size(); ++i) {
    if (std::find(header.begin(), header.begin() + static_cast<std::ptrdiff_t>(i), header[i]) ==
        header.begin() + static_cast<std::ptrdiff_t>(i))
      continue;
    return make_error(ErrorCode::bad_file, "two columns have the same name",
                      {.file = file,
                       .row = 1,
                       .column = static_cast<int>(i) + 1,
                       .found = header[i],
                       .expected = "each name once"});
  }
  return {};
}

}  // namespace

Expected<Sheet> Sheet::read(std::string_view text, const std::string& file) {
  Sheet sheet;
  sheet.file_ = file;
  CsvReader reader(text, sheet.file_);
  while (reader.next_row()) {
    PPSIM_ASSIGN_OR_RETURN(auto cells, cells_of(reader));
    if (cells.empty()) continue;
    if (sheet.header_.empty()) {
      sheet.header_ = std::move(cells);
      PPSIM_RETURN_IF_ERROR(check_header(sheet.header_, file));
      continue;
    }
    if (cells.size() != sheet.header_.size()) {
      return make_error(ErrorCode::bad_file, "a row has another number of cells than the header",
                        {.file = file,
                         .row = reader.line(),
                         .found = std::to_string(cells.size()),
                         .expected = std::to_string(sheet.header_.size())});
    }
    sheet.rows_.push_back({reader.line(), std::move(cells)});
  }
  if (!sheet.rows_.empty()) return sheet;
  const bool empty = sheet.header_.empty();
  return make_error(ErrorCode::bad_file, empty ? "the file is empty" : "the file has no rows",
                    {.file = file, .expected = "a header and a row for each measurement"});
}

std::optional<std::size_t> Sheet::index_of(std::string_view column) const {
  const auto found = std::ranges::find(header_, column);
  if (found == header_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - header_.begin());
}

std::string SheetRow::text(std::string_view column) const {
  const auto index = sheet_.index_of(column);
  if (!index || row_.cells[*index] == "n/a") return {};
  return row_.cells[*index];
}

std::optional<int> SheetRow::whole(std::string_view column, int least) {
  const std::string cell = text(column);
  if (cell.empty()) return std::nullopt;
  const auto value = parse_number<int>(cell);
  if (value && *value >= least && *value <= kMaxWhole) return value;
  refuse(column, "not such a number",
         "a whole number from " + std::to_string(least) + " to " + std::to_string(kMaxWhole));
  return std::nullopt;
}

std::optional<double> SheetRow::positive(std::string_view column) {
  const std::string cell = text(column);
  if (cell.empty()) return std::nullopt;
  if (const auto value = measured_number(cell)) return value;
  refuse(column, "not such a number", "a number " + std::string(kNumbers));
  return std::nullopt;
}

std::vector<double> SheetRow::positives(std::string_view column) {
  std::vector<double> values;
  std::istringstream items(text(column));
  for (std::string item; items >> item;) {
    const auto value = measured_number(item);
    if (!value) {
      refuse(column, "not such numbers", "numbers " + std::string(kNumbers) + " with blanks between them");
      return {};
    }
    values.push_back(*value);
  }
  return values;
}

void SheetRow::refuse(std::string_view column, const std::string& message, const std::string& expected) {
  if (error_) return;
  const auto index = sheet_.index_of(column);
  error_ = Error{ErrorCode::bad_file,
                 std::string(column) + ": " + message,
                 {.file = file(),
                  .row = row_.line,
                  .column = index ? static_cast<int>(*index) + 1 : 0,
                  .found = index ? row_.cells[*index] : "nothing",
                  .expected = expected}};
}

}  // namespace ppsim::planner
