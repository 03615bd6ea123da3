#include "python_plugin.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "command_line/shell_words.hpp"

namespace ppsim::cli {
namespace {

/// Around an answer, which stands among what Python and the file say on their own.
constexpr std::string_view kBegin = "<ppsim>\n";
constexpr std::string_view kEnd = "</ppsim>";

/// The answer of `python -m ppsim.plugin`; its last line where it fails, which says why.
Expected<std::string> asked_python(const std::string& file, const std::vector<std::string>& words) {
  const char* chosen = std::getenv("PPSIM_PYTHON");
  std::string command =
      shell_word(chosen == nullptr ? "python3" : chosen) + " -m ppsim.plugin " + shell_word(file);
  for (const std::string& word : words) command += ' ' + shell_word(word);
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return make_error(ErrorCode::io, "no process for Python", {.file = file});
  std::string text;
  std::array<char, 4096> part{};
  while (const std::size_t read = std::fread(part.data(), 1, part.size(), pipe))
    text.append(part.data(), read);
  const std::size_t begin = text.find(kBegin);
  const std::size_t end = text.find(kEnd);
  if (::pclose(pipe) == 0 && end != std::string::npos && begin < end)
    return text.substr(begin + kBegin.size(), end - begin - kBegin.size());
  while (text.ends_with('\n')) text.pop_back();
  return make_error(ErrorCode::bad_argument, "Python refuses: " + text.substr(text.rfind('\n') + 1),
                    {.file = file,
                     .found = command,
                     .expected = "a file that calls ppsim.register, and a Python with the module ppsim "
                                 "(PPSIM_PYTHON names another one)"});
}

}  // namespace

Expected<std::vector<std::pair<std::string, std::string>>> python_schedules(const std::string& file) {
  PPSIM_ASSIGN_OR_RETURN(const auto text, asked_python(file, {}));
  std::vector<std::pair<std::string, std::string>> schedules;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t tab = line.find('\t');
    if (tab != std::string::npos) schedules.emplace_back(line.substr(0, tab), line.substr(tab + 1));
  }
  if (!schedules.empty()) return schedules;
  return make_error(ErrorCode::bad_argument, "the file registers no schedule",
                    {.file = file, .found = "", .expected = "ppsim.register(name, function)"});
}

Expected<std::string> text_from_python(const std::string& file, const std::string& name,
                                       const ScheduleParameters& parameters) {
  std::vector<std::string> words = {name, "ranks=" + std::to_string(parameters.ranks),
                                    "microbatches=" + std::to_string(parameters.microbatches)};
  if (parameters.chunks) words.push_back("chunks=" + std::to_string(*parameters.chunks));
  if (parameters.slices > 1) words.push_back("slices=" + std::to_string(parameters.slices));
  for (const auto& [key, value] : parameters.settings) words.push_back(key + "=" + value);
  return asked_python(file, words);
}

}  // namespace ppsim::cli
