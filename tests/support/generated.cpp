#include "support/generated.hpp"

#include <algorithm>
#include <stdexcept>

namespace ppsim::test {

ProgramFor programs_of(const std::string& name, ScheduleParameters parameters, LoweringOptions options) {
  return [=](int microbatches) -> Expected<Program> {
    ScheduleParameters of_number = parameters;
    of_number.microbatches = microbatches;
    const auto schedule = generate(name, of_number);
    if (!schedule) return tl::unexpected(schedule.error());
    return lower(*schedule, options);
  };
}

ProgramFor changed(ProgramFor programs, ChangeDraft change) {
  return [programs = std::move(programs), change = std::move(change)](int microbatches) -> Expected<Program> {
    const auto program = programs(microbatches);
    if (!program) return program;
    ProgramDraft draft = to_draft(*program);
    change(draft, microbatches);
    return ProgramBuilder::build(program->pipeline(), draft);
  };
}

bool swap_neighbours(std::vector<InstructionDraft>& row, const Action& first, const Action& second) {
  const auto found =
      std::adjacent_find(row.begin(), row.end(), [&](const InstructionDraft& a, const InstructionDraft& b) {
        return a.actions.front() == first && b.actions.front() == second;
      });
  if (found == row.end()) return false;
  std::iter_swap(found, found + 1);
  return true;
}

}  // namespace ppsim::test
