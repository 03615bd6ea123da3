#include "lowering/build_program.hpp"

#include <algorithm>

#include "ppsim/core/communicators.hpp"

namespace ppsim::lowering {
namespace {

InstructionForm form_of(const LineRow& row, const Line& line) {
  if (row.second_of(line) == nullptr) return InstructionForm::single;
  return is_transfer(line.action.kind) ? InstructionForm::group : InstructionForm::overlap;
}

std::vector<InstructionDraft> drafts_of(LineRow row) {
  std::vector<InstructionDraft> drafts(row.lines.size());
  std::vector<std::size_t> place_of;
  for (std::size_t i = 0; i < row.lines.size(); ++i) {
    const Line& line = row.lines[i];
    drafts[i].form = form_of(row, line);
    row.for_each_action(line, [&](const Action& action) { drafts[i].actions.push_back(action); });
    const auto id = static_cast<std::size_t>(line.id);
    if (place_of.size() <= id) place_of.resize(id + 1);
    place_of[id] = i;
  }
  std::sort(row.after.begin(), row.after.end());
  row.after.erase(std::unique(row.after.begin(), row.after.end()), row.after.end());
  for (const AfterEdge& edge : row.after) {
    drafts[place_of[static_cast<std::size_t>(edge.later)]].after.push_back(
        static_cast<int>(place_of[static_cast<std::size_t>(edge.earlier)]));
  }
  return drafts;
}

}  // namespace

Expected<Program> build_program(Pipeline pipeline, CommunicatorPolicy policy, LineRows rows) {
  ProgramDraft draft;
  for (LineRow& row : rows) draft.rows.push_back(drafts_of(std::move(row)));
  assign_communicators(pipeline, draft, policy);
  return ProgramBuilder::build(std::move(pipeline), draft);
}

}  // namespace ppsim::lowering
