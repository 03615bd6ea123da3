#include "ppsim/planner/annotations.hpp"

#include <algorithm>
#include <optional>

#include "ppsim/core/text/number_text.hpp"

namespace ppsim::planner {
namespace {

constexpr std::size_t kMaxAnnotations = 10;  // of one kind and step; GitHub leaves out what is beyond

/// Line `row` of a text, which counts from 1; empty where there is none.
std::string_view line_of(std::string_view text, int row) {
  for (int line = 1; line < row && !text.empty(); ++line)
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  text = text.substr(0, text.find('\n'));
  return text.ends_with('\r') ? text.substr(0, text.size() - 1) : text;
}

/// Cells of a row with the characters before each. Quoted cells are not split, but stay quoted.
struct TextCell {
  std::string_view text;
  int before = 0;
};
std::vector<TextCell> cells_of(std::string_view row) {
  std::vector<TextCell> cells;
  for (std::size_t begin = 0; begin <= row.size();) {
    bool quoted = false;
    std::size_t end = begin;
    for (; end < row.size() && (quoted || row[end] != ','); ++end) quoted = quoted != (row[end] == '"');
    cells.push_back({row.substr(begin, end - begin), static_cast<int>(begin)});
    begin = end + 1;
  }
  return cells;
}

void point_at(const TextCell& cell, Annotation& annotation) {
  annotation.first_column = cell.before + 1;
  annotation.last_column = cell.before + std::max<int>(static_cast<int>(cell.text.size()), 1);
}

/// "0SEND_F1" of `rank 0: 0SEND_F1>1 waits for ...`, and the rank.
struct NamedCell {
  int rank = 0;
  std::string_view action;
};
std::optional<NamedCell> named_cell(std::string_view line) {
  constexpr std::string_view kRank = "rank ";
  if (!line.starts_with(kRank)) return std::nullopt;
  line.remove_prefix(kRank.size());
  const auto rank = take_leading_number<int>(line);
  if (!rank || !line.starts_with(": ")) return std::nullopt;
  line.remove_prefix(2);
  return NamedCell{*rank, line.substr(0, line.find_first_of(" <>,"))};
}

bool has_rows(const std::string& file) { return file.ends_with(".csv"); }

Annotation annotation_at(const NamedCell& named, const std::string& file, std::string_view text) {
  Annotation annotation{.file = file, .row = named.rank + 1};
  const std::vector<TextCell> cells = cells_of(line_of(text, annotation.row));
  const auto found = std::ranges::find(cells, named.action, &TextCell::text);
  if (found != cells.end()) point_at(*found, annotation);
  return annotation;
}

std::string escaped(std::string_view text, bool is_property) {
  std::string result;
  for (const char c : text) {
    if (c == '%') {
      result += "%25";
    } else if (c == '\r') {
      result += "%0D";
    } else if (c == '\n') {
      result += "%0A";
    } else if (is_property && c == ':') {
      result += "%3A";
    } else if (is_property && c == ',') {
      result += "%2C";
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace

Annotation annotation_of(const Error& error, const std::string& file, std::string_view text) {
  Annotation annotation{.file = file, .row = error.place.row};
  Error without_place = error;
  without_place.place.file.clear();
  without_place.place.row = without_place.place.column = 0;
  annotation.title = "ppsim: " + std::string(error_code_name(error.code));
  annotation.message = to_string(without_place);
  if (error.place.row == 0 || error.place.column == 0) return annotation;
  const std::vector<TextCell> cells = cells_of(line_of(text, error.place.row));
  const auto index = as_size(error.place.column - 1);
  if (has_rows(file) && index < cells.size()) {
    point_at(cells[index], annotation);
    annotation.message += ", cell " + std::to_string(error.place.column) + " of the row";
  } else if (!has_rows(file)) {
    annotation.first_column = annotation.last_column = error.place.column;
  }
  return annotation;
}

std::vector<Annotation> annotations_of(const std::string& title, std::span<const std::string> lines,
                                       const std::string& file, std::string_view text) {
  std::vector<Annotation> result;
  std::string all;
  for (const std::string& line : lines) {
    all += (all.empty() ? "" : "\n") + line;
    const auto named = has_rows(file) ? named_cell(line) : std::nullopt;
    if (!named || result.size() == kMaxAnnotations) continue;
    result.push_back(annotation_at(*named, file, text));
    result.back().message = line;
  }
  if (result.empty()) result.push_back({.file = file});
  for (Annotation& annotation : result) annotation.title = title;
  result.front().message = all;
  return result;
}

std::string github_command(const Annotation& annotation) {
  std::string command = "::error ";
  if (!annotation.file.empty()) command += "file=" + escaped(annotation.file, true) + ",";
  if (annotation.row > 0) command += "line=" + std::to_string(annotation.row) + ",";
  if (annotation.first_column > 0) {
    command += "col=" + std::to_string(annotation.first_column) +
               ",endColumn=" + std::to_string(annotation.last_column) + ",";
  }
  return command + "title=" + escaped(annotation.title, true) + "::" + escaped(annotation.message, false);
}

}  // namespace ppsim::planner
