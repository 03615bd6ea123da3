#include "csv_cells.hpp"

#include "action_scan.hpp"

namespace ppsim {

namespace {

/// How many characters there are before the first one that may end a cell.
std::size_t plain_length(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size() && text[length] != ',' && text[length] != '\n' && text[length] != '\r')
    ++length;
  return length;
}

}  // namespace

CsvReader::CsvReader(std::string_view text, const std::string& file) : text_(text), file_(file) {
  take("\xef\xbb\xbf");  // a byte order mark
}

CsvReader::CsvReader(std::string_view rows, const std::string& file, int lines_before)
    : text_(rows), file_(file), line_(lines_before) {}

bool CsvReader::next_row() {
  if (text_.empty()) return false;
  row_line_ = ++line_;
  column_ = 0;
  in_row_ = !take_line_end();
  return true;
}

Expected<std::optional<std::string_view>> CsvReader::next_cell() {
  if (!in_row_) return std::nullopt;
  ++column_;
  std::string_view cell = text_;
  is_quoted_ = take("\"");
  if (is_quoted_) {
    PPSIM_ASSIGN_OR_RETURN(const auto quoted, read_quoted());
    cell = quoted;
  } else {
    while (!at_cell_end()) text_.remove_prefix(1 + plain_length(text_.substr(1)));
    cell.remove_suffix(text_.size());
  }
  in_row_ = take(",");
  if (!in_row_) take_line_end();
  return cell;
}

Expected<std::string_view> CsvReader::read_quoted() {
  quoted_.clear();
  while (!text_.empty()) {
    if (take("\"\"")) {
      quoted_ += '"';
    } else if (take("\"")) {
      if (!at_cell_end()) return broken("a comma or the end of the line");
      return quoted_;
    } else {
      if (text_[0] == '\n') ++line_;
      quoted_ += text_[0];
      text_.remove_prefix(1);
    }
  }
  return broken("a closing quote");
}

bool CsvReader::take(std::string_view prefix) {
  if (!text_.starts_with(prefix)) return false;
  text_.remove_prefix(prefix.size());
  return true;
}

bool CsvReader::take_line_end() { return take("\n") || take("\r\n") || (is_last_return() && take("\r")); }

bool CsvReader::at_cell_end() const {
  return text_.empty() || text_[0] == ',' || text_[0] == '\n' || text_.starts_with("\r\n") ||
         is_last_return();
}

/// Half of the file's last line end, left where the file was cut off.
bool CsvReader::is_last_return() const { return text_ == "\r"; }

tl::unexpected<Error> CsvReader::broken(const char* expected) const {
  auto error = text_error("a broken quoted cell", text_.empty() ? "the end of the file" : text_.substr(0, 1),
                          expected);
  error.value().place.file = file_;
  error.value().place.row = row_line_;
  error.value().place.column = column_;
  return error;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

std::string csv_line(const std::vector<std::string>& cells) {
  if (cells.size() == 1 && cells[0].empty()) return "\"\"\r\n";
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) line += (i > 0 ? "," : "") + cells[i];
  return line + "\r\n";
}

}  // namespace ppsim
