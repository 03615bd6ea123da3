#include "lowering/build_program.hpp"

#include <algorithm>
#include <array>

#include "communicator_assignment.hpp"
#include "program_writer.hpp"

namespace ppsim::lowering {
namespace {

InstructionForm form_of(const LineRow& row, const Line& line) {
  if (row.second_of(line) == nullptr) return InstructionForm::single;
  return is_transfer(line.action.kind) ? InstructionForm::group : InstructionForm::overlap;
}

/// The `after` of a row by places instead of ids, ascending, each once.
std::vector<AfterEdge> edges_of_places(const LineRow& row) {
  if (row.after.empty()) return {};
  std::vector<std::int32_t> place_of;
  for (std::size_t i = 0; i < row.lines.size(); ++i) {
    const auto id = static_cast<std::size_t>(row.lines[i].id);
    if (place_of.size() <= id) place_of.resize(id + 1, -1);
    place_of[id] = static_cast<std::int32_t>(i);
  }
  std::vector<AfterEdge> edges;
  for (const AfterEdge& edge : row.after) {
    edges.push_back(
        {place_of[static_cast<std::size_t>(edge.later)], place_of[static_cast<std::size_t>(edge.earlier)]});
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  return edges;
}

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

Expected<Program> build_program(const Pipeline& pipeline, CommunicatorPolicy policy, LineRows rows) {
  CommunicatorAssignment assignment(pipeline, policy);
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
  writer.reserve(lines, actions);
  for (int r = 0; r < pipeline.ranks(); ++r) {
    write_row(RankId(r), rows[RankId(r)], assignment, writer);
    rows[RankId(r)] = {};
  }
  return writer.finish();
}

}  // namespace ppsim::lowering
