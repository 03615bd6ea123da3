#include "csv_cells.hpp"

#include "action_scan.hpp"

namespace ppsim {
namespace {

class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& file) : text_(text), file_(file) {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (text_.starts_with(kByteOrderMark)) text_.remove_prefix(kByteOrderMark.size());
  }

  Expected<std::vector<CsvRow>> read() {
    std::vector<CsvRow> rows;
    while (!text_.empty()) {
      rows.push_back({++line_, {}});
      if (take_line_end()) continue;
      if (auto row = read_row(rows.back()); !row) return tl::unexpected(row.error());
    }
    return rows;
  }

 private:
  bool take(std::string_view prefix) {
    if (!text_.starts_with(prefix)) return false;
    text_.remove_prefix(prefix.size());
    return true;
  }
  bool take_line_end() { return take("\n") || take("\r\n") || (is_last_return() && take("\r")); }
  bool at_cell_end() const {
    return text_.empty() || text_[0] == ',' || text_[0] == '\n' || text_.starts_with("\r\n") ||
           is_last_return();
  }
  /// Half of the file's last line end, which whoever cut it off left there.
  bool is_last_return() const { return text_ == "\r"; }

  Expected<void> read_row(CsvRow& row) {
    for (bool more = true; more;) {
      row.cells.emplace_back();
      if (take("\"")) {
        if (auto cell = read_quoted(row); !cell) return cell;
      } else {
        while (!at_cell_end()) take_character(row.cells.back());
      }
      more = take(",");
    }
    take_line_end();
    return {};
  }

  Expected<void> read_quoted(CsvRow& row) {
    std::string& cell = row.cells.back();
    while (!text_.empty()) {
      if (take("\"\"")) {
        cell += '"';
      } else if (take("\"")) {
        return at_cell_end() ? Expected<void>() : broken(row, "a comma or the end of the line");
      } else {
        if (text_[0] == '\n') ++line_;
        take_character(cell);
      }
    }
    return broken(row, "a closing quote");
  }

  void take_character(std::string& cell) {
    cell += text_[0];
    text_.remove_prefix(1);
  }

  Expected<void> broken(const CsvRow& row, const char* expected) const {
    auto error = text_error("a broken quoted cell",
                            text_.empty() ? "the end of the file" : text_.substr(0, 1), expected);
    error.value().place.file = file_;
    error.value().place.row = row.line;
    error.value().place.column = static_cast<int>(row.cells.size());
    return error;
  }

  std::string_view text_;
  const std::string& file_;
  int line_ = 0;
};

}  // namespace

Expected<std::vector<CsvRow>> read_csv(std::string_view text, const std::string& file) {
  return CsvReader(text, file).read();
}

std::string csv_line(const std::vector<std::string>& cells) {
  if (cells.size() == 1 && cells[0].empty()) return "\"\"\r\n";
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) line += (i > 0 ? "," : "") + cells[i];
  return line + "\r\n";
}

}  // namespace ppsim
