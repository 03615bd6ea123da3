#include "config_file.hpp"

#include <algorithm>
#include <map>
#include <sstream>

#include "ppsim/core/text/nearest.hpp"
#include "ppsim/planner/files.hpp"

namespace ppsim::cli {
namespace {

std::string file_of(const ParsedLine& line) {
  const auto config = std::ranges::find(line.options, "--config", &ParsedOption::name);
  return config == line.options.end() || config->values.empty() ? "" : config->values.front();
}

/// A line without the blanks around it and around its first '='.
std::string without_blanks(std::string text) {
  std::erase_if(text, [](char letter) { return letter == ' ' || letter == '\t' || letter == '\r'; });
  return text;
}

/// "simulate" of `[simulate]`; nothing of another row, without its blanks.
std::optional<std::string> section_in(const std::string& row) {
  if (!row.starts_with('[')) return std::nullopt;
  return row.substr(1, row.find(']') - 1);
}

/// The row of `key = ...` below `[section]`, or of the section; 0: it is not found.
int row_of(const std::string& text, const std::string& section, const std::string& key) {
  std::istringstream rows(text);
  std::string current, row;
  for (int number = 1; std::getline(rows, row); ++number) {
    row = without_blanks(row);
    if (const auto begun = section_in(row)) current = *begun;
    const bool is_header = key.empty() && row.starts_with('[');
    const bool is_key = !key.empty() && row.substr(0, row.find('=')) == key;
    if (current == section && (is_header || is_key)) return number;
  }
  return 0;
}

/// `[simulat]`, where a command is meant.
Error unknown_section(const ParsedLine& line, const std::string& section) {
  const std::vector<std::string_view> commands(line.subcommands.begin(), line.subcommands.end());
  return {ErrorCode::bad_file,
          "a section of no command" + suggestion(section, commands),
          {.found = "[" + section + "]", .expected = "one of " + joined(commands)}};
}

/// A key before any section, of an option that the command has.
Error outside_of_section(const ParsedLine& line, const std::string& key) {
  return {ErrorCode::bad_file,
          key + " is an option of a command, and in no section",
          {.found = key, .expected = "[" + line.subcommand + "] above it"}};
}

/// A key of all commands in the section of one.
Error inside_of_section(const std::string& section, const std::string& key) {
  return {ErrorCode::bad_file,
          key + " is an option of all commands, and in the section of one",
          {.found = key + " in [" + section + "]", .expected = key + " above the first section"}};
}

Error unknown_key(const ParsedLine& line, const std::string& section, const std::string& key) {
  const std::string help = section.empty() ? "ppsim --help" : "ppsim " + section + " --help-all";
  std::vector<std::string_view> known;
  if (section == line.subcommand || section.empty()) {
    for (const ParsedOption& option : line.options) {
      for (const std::string& name : option.long_names) known.push_back(std::string_view(name).substr(2));
    }
  }
  if (std::ranges::find(known, key) != known.end())
    return section.empty() ? outside_of_section(line, key) : inside_of_section(section, key);
  return {ErrorCode::bad_file,
          "unknown key" + suggestion(key, known),
          {.found = key, .expected = "the name of an option of " + help + ", without its dashes"}};
}

}  // namespace

std::optional<Error> repeated_section(const ParsedLine& line) {
  const std::string file = file_of(line);
  const auto text = file.empty() ? std::string() : read_text_file(file).value_or("");
  const std::vector<std::string>& commands = line.subcommands;
  std::map<std::string, int> rows;
  std::istringstream all(text);
  std::string row;
  for (int number = 1; std::getline(all, row); ++number) {
    const auto section = section_in(without_blanks(row));
    if (!section || std::ranges::find(commands, *section) == commands.end()) continue;
    const auto [first, is_new] = rows.emplace(*section, number);
    if (is_new) continue;
    return Error{ErrorCode::bad_file,
                 "a section is there twice",
                 {.file = file,
                  .row = number,
                  .found = "[" + *section + "], as in row " + std::to_string(first->second),
                  .expected = "one section with all keys of " + *section}};
  }
  return std::nullopt;
}

std::optional<Error> config_error(const ParsedLine& line) {
  constexpr std::string_view kUnparsed = "INI was not able to parse ", kSectionEnd = ".++";
  const std::string file = file_of(line);
  if (file.empty() || !line.error) return std::nullopt;
  auto text = read_text_file(file);
  if (!text) return std::move(text).error();
  if (!line.error->starts_with(kUnparsed)) return std::nullopt;
  std::string name = line.error->substr(kUnparsed.size());
  const bool is_section = name.ends_with(kSectionEnd);
  if (is_section) name.resize(name.size() - kSectionEnd.size());
  const std::size_t dot = is_section ? name.size() : name.rfind('.');
  const std::string section = dot == std::string::npos ? "" : name.substr(0, dot);
  const std::string key = is_section ? "" : name.substr(dot == std::string::npos ? 0 : dot + 1);
  Error error = is_section ? unknown_section(line, section) : unknown_key(line, section, key);
  error.place.file = file;
  error.place.row = row_of(*text, section, key);
  return error;
}

}  // namespace ppsim::cli
