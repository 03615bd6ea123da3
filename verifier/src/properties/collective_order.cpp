#include <algorithm>

#include "ppsim/core/io/text.hpp"
#include "ppsim/core/ir/concatenated.hpp"
#include "properties.hpp"

namespace ppsim::verifier {
namespace {

using Index = std::size_t;

/// Which matches directly follow which on some rank, in issue order across all communicators.
struct MatchOrder {
  std::vector<std::vector<Index>> after;  ///< successors of each match
  std::vector<Index> before_count;
};

MatchOrder order_of(const Program& program, const ExecutionGraph& graph) {
  MatchOrder order{std::vector<std::vector<Index>>(graph.matches.size()),
                   std::vector<Index>(graph.matches.size(), 0)};
  for (const RankId rank : program.pipeline().rank_ids()) {
    std::int32_t previous = -1;
    for (const InstructionId id : program.ids_of(rank)) {
      const std::int32_t match = graph.match_of[id.index()];
      if (match < 0) continue;
      if (previous >= 0) {
        order.after[static_cast<Index>(previous)].push_back(static_cast<Index>(match));
        ++order.before_count[static_cast<Index>(match)];
      }
      previous = match;
    }
  }
  return order;
}

/// The matches that no linear order can place: those left when all that can be placed are.
std::vector<Index> unplaced(MatchOrder order) {
  std::vector<Index> ready;
  for (Index m = 0; m < order.before_count.size(); ++m) {
    if (order.before_count[m] == 0) ready.push_back(m);
  }
  for (Index head = 0; head < ready.size(); ++head) {
    for (const Index next : order.after[ready[head]]) {
      if (--order.before_count[next] == 0) ready.push_back(next);
    }
  }
  std::vector<Index> rest;
  for (Index m = 0; m < order.before_count.size(); ++m) {
    if (order.before_count[m] > 0) rest.push_back(m);
  }
  return rest;
}

Violation incomplete(const Program& program, const ExecutionGraph& graph, const CollectiveMatch& match) {
  const InstructionId first = graph.members_of(match).front();
  const Communicator& communicator = program.communicator(match.communicator);
  return {first, concatenated("rank ", program.rank_of(first), ": ", actions_text(program, first), " meets ",
                              match.member_count - 1, " of ", communicator.members.size() - 1,
                              " other members of ", communicator.name)};
}

Violation misplaced(const Program& program, const ExecutionGraph& graph, Index match) {
  const InstructionId first = graph.members_of(graph.matches[match]).front();
  return {first, concatenated(
                     "rank ", program.rank_of(first), ": ", actions_text(program, first),
                     " has no place in a common order: the ranks issue it before and after the same others")};
}

}  // namespace

Answer check_collective_order(const AnalyzedProgram& analyzed) {
  const Program& program = analyzed.program();
  const ExecutionGraph& graph = analyzed.graph();
  std::vector<Violation> found;
  for (const CollectiveMatch& match : graph.matches) {
    if (!match.complete) found.push_back(incomplete(program, graph, match));
  }
  for (const Violation& violation : match_violations(program, graph)) {
    if (graph.match_of[violation.instruction.index()] >= 0) found.push_back(violation);
  }
  for (const Index match : unplaced(order_of(program, graph))) {
    found.push_back(misplaced(program, graph, match));
  }
  return {proved_unless(std::move(found))};
}

}  // namespace ppsim::verifier
