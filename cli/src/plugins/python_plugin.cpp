#include "python_plugin.hpp"

#include <sys/wait.h>

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
/// The exit code of python/ppsim/plugin.py where a function of the file refuses.
constexpr int kRefused = 3;

Error no_answer(const std::string& file, const std::string& command, const std::string& why) {
  return {ErrorCode::bad_argument,
          "Python refuses: " + why,
          {.file = file,
           .found = command,
           .expected = "a file that calls ppsim.register or ppsim.register_costs, and a Python with the "
                       "module ppsim (PPSIM_PYTHON names another one)"}};
}

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
  const int status = ::pclose(pipe);
  if (status == 0 && end != std::string::npos && begin < end)
    return text.substr(begin + kBegin.size(), end - begin - kBegin.size());
  while (text.ends_with('\n')) text.pop_back();
  const std::string why = text.substr(text.rfind('\n') + 1);
  if (words.size() > 1 && WIFEXITED(status) && WEXITSTATUS(status) == kRefused)
    return make_error(ErrorCode::bad_argument, words[1] + ": " + why, {.file = file});
  return tl::unexpected(no_answer(file, command, why));
}

}  // namespace

Expected<std::vector<PythonOffer>> python_offers(const std::string& file) {
  PPSIM_ASSIGN_OR_RETURN(const auto text, asked_python(file, {}));
  std::vector<PythonOffer> offers;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t kind = line.find('\t');
    const std::size_t name = line.find('\t', kind + 1);
    if (kind == std::string::npos || name == std::string::npos) continue;
    offers.push_back({line.substr(0, kind), line.substr(kind + 1, name - kind - 1), line.substr(name + 1)});
  }
  if (!offers.empty()) return offers;
  return make_error(ErrorCode::bad_argument, "the file registers neither a schedule nor costs",
                    {.file = file,
                     .found = "",
                     .expected = "ppsim.register(name, function) or ppsim.register_costs(name, function)"});
}

Expected<std::string> text_from_python(const std::string& file, const std::string& name,
                                       const ScheduleParameters& parameters) {
  std::vector<std::string> words = {"schedule", name, "ranks=" + std::to_string(parameters.ranks),
                                    "microbatches=" + std::to_string(parameters.microbatches)};
  if (parameters.chunks) words.push_back("chunks=" + std::to_string(*parameters.chunks));
  if (parameters.slices > 1) words.push_back("slices=" + std::to_string(parameters.slices));
  for (const auto& [key, value] : parameters.settings) words.push_back(key + "=" + value);
  return asked_python(file, words);
}

Expected<std::string> costs_from_python(const std::string& file, const std::string& name,
                                        const Settings& settings, const Pipeline& pipeline) {
  std::string ranks = "rank_of_stage=";
  for (int s = 0; s < pipeline.stages(); ++s)
    ranks += (s == 0 ? "" : ",") + std::to_string(pipeline.rank_of(StageId(s)).value());
  std::vector<std::string> words = {"costs",
                                    name,
                                    "ranks=" + std::to_string(pipeline.ranks()),
                                    "microbatches=" + std::to_string(pipeline.microbatches()),
                                    "slices=" + std::to_string(pipeline.slices()),
                                    ranks};
  for (const auto& [key, value] : settings) words.push_back(key + "=" + value);
  return asked_python(file, words);
}

}  // namespace ppsim::cli
