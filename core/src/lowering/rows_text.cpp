#include "lowering/rows_text.hpp"

#include "ppsim/core/io/text.hpp"

namespace ppsim::lowering {
namespace {

/// Adds to each cell the places that it comes after.
void append_after(const std::vector<AfterEdge>& edges, std::vector<std::string>& row) {
  std::int32_t last = -1;
  for (const AfterEdge& edge : edges) {
    row[as_size(edge.later)] += (edge.later == last ? "," : " after ") + std::to_string(edge.earlier);
    last = edge.later;
  }
}

std::string line_text(const Pipeline& pipeline, const LineRow& row, const Line& line) {
  std::vector<Action> actions;
  row.for_each_action(line, [&](const Action& action) { actions.push_back(action); });
  return actions_text(pipeline, form_of(row, line), actions);
}

}  // namespace

PassRows rows_text(const Pipeline& pipeline, const CellRows& rows) {
  PassRows text(as_size(rows.ranks()));
  for (const RankId rank : rows.rank_ids()) {
    std::vector<std::string>& row = text[rank];
    for (const Cell& cell : rows[rank]) row.push_back(cell_text(pipeline, cell));
    append_after(rows.after(rank), row);
  }
  return text;
}

PassRows rows_text(const Pipeline& pipeline, const LineRows& rows) {
  PassRows text(rows.size());
  for (const RankId rank : pipeline.rank_ids()) {
    std::vector<std::string>& row = text[rank];
    const LineRow& lines = rows[rank];
    for (std::size_t i = 0; i < lines.size(); ++i) row.push_back(line_text(pipeline, lines, lines.line(i)));
    append_after(edges_of_places(lines), row);
  }
  return text;
}

PassRows rows_text(const Pipeline& pipeline, const Program& program) {
  PassRows text(as_size(pipeline.ranks()));
  for (const RankId rank : pipeline.rank_ids()) {
    for (const InstructionId id : program.ids_of(rank)) text[rank].push_back(instruction_text(program, id));
  }
  return text;
}

}  // namespace ppsim::lowering
