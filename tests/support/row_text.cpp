#include "support/row_text.hpp"

#include <sstream>
#include <stdexcept>

#include "ppsim/core/io/text.hpp"

namespace ppsim::test {

std::string row_text(const Schedule& schedule, int rank) {
  std::string text;
  for (const Cell& cell : schedule.row(RankId(rank))) {
    text += (text.empty() ? "" : " ") + cell_text(schedule.pipeline(), cell);
  }
  return text;
}

std::string row_text(const Program& program, int rank) {
  std::string text;
  for (auto id = program.first(RankId(rank)); id < program.last(RankId(rank));
       id = InstructionId(id.value() + 1)) {
    text += (text.empty() ? "" : " ") + actions_text(program, id);
  }
  return text;
}

Schedule schedule_of(const Pipeline& pipeline, const std::vector<std::string>& rows) {
  ScheduleBuilder builder("hand-made", pipeline);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::istringstream cells(rows[r]);
    for (std::string text; cells >> text;) {
      const auto cell = parse_cell(pipeline, text);
      if (!cell) throw std::runtime_error(to_string(cell.error()));
      builder.add(RankId(static_cast<std::int32_t>(r)), *cell);
    }
  }
  auto schedule = builder.build();
  if (!schedule) throw std::runtime_error(to_string(schedule.error()));
  return *std::move(schedule);
}

}  // namespace ppsim::test
