#include "support/generated.hpp"

#include <algorithm>
#include <stdexcept>

namespace ppsim::test {
namespace {

bool alike(const Action& a, const Action& b) {
  return a.kind == b.kind && a.subject == b.subject && a.peer == b.peer;
}

void swap_kinds(const SwappedKinds& swapped, std::vector<InstructionDraft>& row) {
  if (swapped.position + 1 >= row.size()) return;
  const Action a = row[swapped.position].actions.front();
  const Action b = row[swapped.position + 1].actions.front();
  for (std::size_t i = 0; i + 1 < row.size(); ++i) {
    const Action& here = row[i].actions.front();
    if (here.microbatch < swapped.from || !alike(here, a) || !alike(row[i + 1].actions.front(), b)) continue;
    std::swap(row[i], row[i + 1]);
    ++i;
  }
}

}  // namespace

ProgramFor programs_of(const std::string& name, ScheduleParameters parameters, LoweringOptions options) {
  return [=](int microbatches) -> Expected<Program> {
    ScheduleParameters of_number = parameters;
    of_number.microbatches = microbatches;
    const auto schedule = generate(name, of_number);
    if (!schedule) return tl::unexpected(schedule.error());
    return lower(*schedule, options);
  };
}

Repetitions repetitions_of(const std::string& name, const ScheduleParameters& parameters) {
  const auto known = find_schedule(name).value()->repetitions;
  return known == nullptr ? Repetitions{} : known(parameters);
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

ProgramFor with_swapped_kinds(ProgramFor programs, const SwappedKinds& swapped) {
  return changed(std::move(programs), [swapped](ProgramDraft& draft, int) {
    for (auto& row : draft.rows) {
      for (InstructionDraft& instruction : row) instruction.after.clear();
    }
    swap_kinds(swapped, draft.rows[RankId(swapped.rank)]);
  });
}

}  // namespace ppsim::test
