#include "lowering/build_program.hpp"

#include <array>

#include "communicator_assignment.hpp"
#include "ir/program_writer.hpp"

namespace ppsim::lowering {
namespace {

void write_row(RankId rank, const LineRow& row, CommunicatorAssignment& assignment, ProgramWriter& writer) {
  const std::vector<AfterEdge> edges = edges_of_places(row);
  auto edge = edges.begin();
  std::vector<int> after;
  writer.begin_row(row.lines.size());
  for (std::size_t i = 0; i < row.lines.size(); ++i) {
    std::array<Action, 2> actions;
    std::array<CommunicatorId, 2> communicators;
    std::size_t count = 0;
    row.for_each_action(row.lines[i], [&](const Action& action) {
      actions[count] = action;
      if (is_communication(action.kind)) communicators[count] = assignment.of(action, rank);
      ++count;
    });
    after.clear();
    for (; edge != edges.end() && edge->later == static_cast<std::int32_t>(i); ++edge)
      after.push_back(edge->earlier);
    writer.append({.actions = {actions.data(), count},
                   .communicators = {communicators.data(), count},
                   .after = after,
                   .form = form_of(row, row.lines[i])});
  }
}

}  // namespace

Expected<Program> build_program(const Pipeline& pipeline, const LoweringOptions& options, LineRows rows) {
  CommunicatorAssignment assignment(pipeline, options.communicators);
  std::size_t lines = 0;
  std::size_t actions = 0;
  for (int r = 0; r < pipeline.ranks(); ++r) {
    const LineRow& row = rows[RankId(r)];
    lines += row.lines.size();
    for (const Line& line : row.lines) {
      row.for_each_action(line, [&](const Action& action) {
        ++actions;
        if (is_communication(action.kind)) assignment.use(action, RankId(r));
      });
    }
  }
  ProgramWriter writer(pipeline, assignment.number());
  writer.set_send_done_delay(options.send_done_delay);
  writer.reserve(lines, actions);
  for (int r = 0; r < pipeline.ranks(); ++r) {
    write_row(RankId(r), rows[RankId(r)], assignment, writer);
    rows[RankId(r)] = {};
  }
  return writer.finish();
}

}  // namespace ppsim::lowering
