#include "lowering/build_program.hpp"

#include <algorithm>
#include <array>

#include "communicator_assignment.hpp"
#include "ir/program_writer.hpp"

namespace ppsim::lowering {
namespace {

void write_row(RankId rank, const LineRow& row, CommunicatorAssignment& assignment,
               ProgramWriter::Part& part) {
  const std::vector<AfterEdge> edges = edges_of_places(row);
  auto edge = edges.begin();
  std::vector<int> after;
  part.begin_row(rank);
  const auto communicator_of = [&](const Action& action) {
    return is_communication(action.kind) ? assignment.of(action, rank) : CommunicatorId();
  };
  if (row.seconds.empty() && edges.empty()) {  // nearly all
    std::vector<CommunicatorId> communicators(row.size());
    std::ranges::transform(row.actions(), communicators.begin(), communicator_of);
    return part.append(row.actions(), communicators);
  }
  for (std::size_t i = 0; i < row.size(); ++i) {
    const Line line = row.line(i);
    const bool waits = edge != edges.end() && edge->later == static_cast<std::int32_t>(i);
    if (line.second < 0 && !waits) {
      part.append(line.action, communicator_of(line.action));
      continue;
    }
    std::array<Action, 2> actions;
    std::array<CommunicatorId, 2> communicators;
    std::size_t count = 0;
    row.for_each_action(line, [&](const Action& action) {
      actions[count] = action;
      communicators[count++] = communicator_of(action);
    });
    after.clear();
    for (; edge != edges.end() && edge->later == static_cast<std::int32_t>(i); ++edge)
      after.push_back(edge->earlier);
    part.append({.actions = {actions.data(), count},
                 .communicators = {communicators.data(), count},
                 .after = after,
                 .form = form_of(row, line)});
  }
}

/// Some ranks that follow each other: what their rows will hold, and their communicators.
struct Counted {
  std::vector<RowSize> sizes;
  CommunicatorAssignment assignment;
};

Counted counted(const LineRows& rows, const RankRange& ranks, CommunicatorAssignment assignment) {
  Counted part{{}, std::move(assignment)};
  for (RankId rank = ranks.first; rank < ranks.last; rank = next(rank)) {
    const LineRow& row = rows[rank];
    const auto use = [&](const Action& action) {
      if (is_communication(action.kind)) part.assignment.use(action, rank);
    };
    for (std::size_t i = 0; i < row.size(); ++i) use(row.action(i));
    for (const Action& action : row.seconds) use(action);
    const std::size_t actions = row.size() + row.seconds.size();
    part.sizes.push_back({row.size(), actions, row.seconds.empty() && row.after.empty()});
  }
  return part;
}

}  // namespace

Expected<Program> build_program(const Pipeline& pipeline, const LoweringOptions& options, LineRows rows) {
  const std::vector<RankRange> ranges = ranges_of(rows);
  std::vector<Counted> parts = all_at_once(ranges.size(), [&](std::size_t i) {
    return counted(rows, ranges[i], CommunicatorAssignment(pipeline, options.communicators));
  });
  CommunicatorAssignment assignment(pipeline, options.communicators);
  IdVector<RankId, RowSize> sizes;
  for (const Counted& part : parts) {
    assignment.use(part.assignment);
    for (const RowSize& size : part.sizes) sizes.push_back(size);
  }
  ProgramWriter writer(pipeline, assignment.number(), sizes);
  writer.set_send_done_delay(options.send_done_delay);
  return writer.finish(all_at_once(parts.size(), [&](std::size_t i) {
    ProgramWriter::Part written = writer.part();
    parts[i].assignment.number_as(assignment);
    for (RankId rank = ranges[i].first; rank < ranges[i].last; rank = next(rank)) {
      write_row(rank, rows[rank], parts[i].assignment, written);
      rows[rank] = {};
    }
    return written;
  }));
}

}  // namespace ppsim::lowering
