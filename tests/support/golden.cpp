#include "support/golden.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "ppsim/core/io/text.hpp"
#include "ppsim/core/lowering/earliest_times.hpp"
#include "support/tests_folder.hpp"

namespace ppsim::test {
namespace {

/// Wide enough for every action of a schedule and a blank.
std::size_t column_width(const Schedule& schedule) {
  std::size_t width = 0;
  for (int r = 0; r < schedule.pipeline().ranks(); ++r) {
    for (const Cell& cell : schedule.row(RankId(r))) {
      width = std::max(width, cell_text(schedule.pipeline(), cell).size());
    }
  }
  return width + 1;
}

}  // namespace

std::string time_grid(const Schedule& schedule, const CostTable& costs, Nanoseconds unit) {
  const auto times = earliest_times(schedule, costs);
  if (!times) throw std::runtime_error(to_string(times.error()));
  const auto columns = static_cast<std::size_t>(times->makespan / unit);
  const std::size_t width = column_width(schedule);
  std::string idle;
  for (std::size_t i = 0; i < columns; ++i) idle += "." + std::string(width - 1, ' ');
  std::vector<std::string> lines(static_cast<std::size_t>(schedule.pipeline().ranks()), idle);
  for (const EarliestTimes::Item& item : times->walk) {
    std::string& line = lines[item.rank.index()];
    const Cell& cell = schedule.row(item.rank)[static_cast<std::size_t>(item.position)];
    const std::size_t first = static_cast<std::size_t>(item.start / unit) * width;
    std::string text = cell_text(schedule.pipeline(), cell);
    text.resize(static_cast<std::size_t>((item.end - item.start) / unit) * width, ' ');
    line.replace(first, text.size(), text);
  }
  std::string text;
  for (std::string& line : lines) {
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

std::string golden_difference(const std::string& name, const std::string& text) {
  const std::filesystem::path path = tests_folder() / "golden" / name;
  if (const char* update = std::getenv("PPSIM_UPDATE_GOLDEN");
      update != nullptr && std::string(update) == "1") {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return "";
  }
  std::ifstream file(path);
  if (!file) return path.string() + " is missing; PPSIM_UPDATE_GOLDEN=1 writes it";
  std::ostringstream expected;
  expected << file.rdbuf();
  if (expected.str() == text) return "";
  return path.string() + " differs; PPSIM_UPDATE_GOLDEN=1 rewrites it. Expected:\n" + expected.str() +
         "Found:\n" + text;
}

}  // namespace ppsim::test
