#include "ppsim/simulator/engine/stuck.hpp"

#include <algorithm>
#include <sstream>

#include "ppsim/core/io/text.hpp"
#include "ppsim/core/ir/check.hpp"

namespace ppsim::simulator {
namespace {

Mismatch mismatch_of(const Program& program, std::span<const InstructionId> members) {
  const Action& first = program.actions(members.front())[0];
  const auto other = std::find_if(members.begin(), members.end(),
                                  [&](InstructionId id) { return program.actions(id)[0] != first; });
  PPSIM_CHECK(other != members.end(), "a match of different collectives whose members agree");
  return {members.front(), *other};
}

void write_instruction(std::ostream& out, const Program& program, InstructionId id) {
  out << "rank " << program.rank_of(id) << ": " << actions_text(program, id);
}

/// The first thing that an instruction waits for; of those that hold a place, the last one in the list.
InstructionWait stall_of(const WaitAnalysis& state, InstructionId id) {
  const std::vector<InstructionWait> waits = state.waits_of(id);
  PPSIM_CHECK(!waits.empty(), "a stall without a reason");
  return waits.front().reason == WaitReason::place ? waits.back() : waits.front();
}

std::vector<InstructionWait> culprits(const std::vector<InstructionWait>& stalls) {
  std::vector<InstructionWait> chain;
  constexpr std::size_t kNotSeen = SIZE_MAX;
  std::vector<std::size_t> place_in_chain(stalls.size(), kNotSeen);
  std::size_t at = 0;
  while (place_in_chain[at] == kNotSeen) {
    place_in_chain[at] = chain.size();
    chain.push_back(stalls[at]);
    const InstructionId next = stalls[at].waits_for;
    if (!next.valid()) return chain;
    const auto stall = std::ranges::lower_bound(stalls, next, {}, &InstructionWait::waiter);
    PPSIM_CHECK(stall != stalls.end() && stall->waiter == next, "a stall on a complete instruction");
    at = static_cast<std::size_t>(stall - stalls.begin());
  }
  return {chain.begin() + static_cast<std::ptrdiff_t>(place_in_chain[at]), chain.end()};
}

}  // namespace

std::optional<Stuck> find_mismatches(const Program& program, const ExecutionGraph& graph) {
  Stuck stuck;
  for (const Message& message : graph.messages) {
    if (!message.matched) stuck.mismatches.push_back({message.send, message.receive});
  }
  for (const CollectiveMatch& match : graph.matches) {
    if (!match.matched) stuck.mismatches.push_back(mismatch_of(program, graph.members_of(match)));
  }
  if (stuck.mismatches.empty()) return std::nullopt;
  return stuck;
}

Stuck explain_stalls(const Program& program, const ExecutionGraph& graph, const RunState& state) {
  const WaitAnalysis analysis(program, graph, state);
  Stuck stuck;
  for (const InstructionId id : program.ids()) {
    if (!analysis.complete(id)) stuck.stalls.push_back(stall_of(analysis, id));
  }
  for (const InstructionWait& wait : culprits(stuck.stalls))
    stuck.culprits.push_back(in_words(program, graph, wait));
  return stuck;
}

Error to_error(const Program& program, const Stuck& stuck) {
  std::ostringstream text;
  if (!stuck.mismatches.empty()) {
    text << "the two ends of a transfer or collective name different things";
    for (const Mismatch& mismatch : stuck.mismatches) {
      text << '\n';
      write_instruction(text, program, mismatch.first);
      text << " meets ";
      write_instruction(text, program, mismatch.second);
    }
    return {ErrorCode::ill_formed, text.str()};
  }
  text << "deadlock: " << stuck.stalls.size() << " of " << program.size() << " instructions never complete";
  for (const Wait& wait : stuck.culprits) text << '\n' << to_string(wait);
  return {ErrorCode::deadlock, text.str()};
}

}  // namespace ppsim::simulator
