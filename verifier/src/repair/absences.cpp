#include <algorithm>

#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/core/io/text.hpp"
#include "ppsim/core/ir/concatenated.hpp"
#include "ppsim/core/ir/sequences.hpp"
#include "ppsim/verifier/repair/repair.hpp"
#include "repair/channels.hpp"

namespace ppsim::verifier {
namespace {

using Lines = std::vector<std::string>;
using repairing::channel_ends;
using repairing::ChannelEnds;
using repairing::ChannelKey;

/// The entries that the first list has more often than the second.
std::vector<Action> surplus(std::vector<Action> of, std::vector<Action> over) {
  std::ranges::sort(of);
  std::ranges::sort(over);
  std::vector<Action> result;
  std::ranges::set_difference(of, over, std::back_inserter(result));
  return result;
}

Lines lines_of(const Program& program, const ChannelKey& key, const ChannelEnds& ends) {
  const Pipeline& pipeline = program.pipeline();
  const std::string& communicator = program.communicator(key.communicator).name;
  const auto name = [&](const Action& action) { return action_text(pipeline, action); };
  Lines lines;
  for (const Action& send : surplus(ends.sent, ends.received)) {
    lines.push_back(concatenated("rank ", key.source, " has ", name(send), ", and rank ", key.destination,
                                 " lacks its ", name(counterpart(send, key.source)), " on communicator ",
                                 communicator));
  }
  for (const Action& send : surplus(ends.received, ends.sent)) {
    lines.push_back(concatenated("rank ", key.destination, " has ", name(counterpart(send, key.source)),
                                 ", and rank ", key.source, " lacks its ", name(send), " on communicator ",
                                 communicator));
  }
  if (!lines.empty() || ends.sent == ends.received) return lines;
  const auto [sent, received] = std::ranges::mismatch(ends.sent, ends.received);
  return {concatenated("rank ", key.source, " sends ", name(*sent), " where rank ", key.destination,
                       " expects ", name(counterpart(*received, key.source)), " on communicator ",
                       communicator, ": both name the same messages, in different orders")};
}

}  // namespace

std::vector<std::string> absences(const Program& program) {
  Lines lines;
  for (const auto& [key, ends] : channel_ends(program)) {
    const Lines of_channel = lines_of(program, key, ends);
    append_all(lines, of_channel);
  }
  const AnalyzedProgram analyzed(program, rendezvous());
  const ExecutionGraph& graph = analyzed.graph();
  for (const Unsatisfiable& u : graph.unsatisfiable)
    lines.push_back(concatenated("rank ", program.rank_of(u.instruction), ": ", u.why));
  for (const CollectiveMatch& match : graph.matches) {
    if (match.complete && match.matched) continue;
    const InstructionId first = graph.members_of(match).front();
    lines.push_back(concatenated("rank ", program.rank_of(first), ": ", actions_text(program, first),
                                 " meets ", match.complete ? "other collectives" : "not all members",
                                 " of communicator ", program.communicator(match.communicator).name));
  }
  return lines;
}

}  // namespace ppsim::verifier
