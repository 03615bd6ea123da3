#pragma once

#include <algorithm>

#include "program_writer.hpp"

namespace ppsim {

/// Where an instruction stands, for messages.
struct InstructionPlace {
  RankId rank;
  std::size_t position;
  std::size_t row_size;
};
std::ostream& operator<<(std::ostream& out, const InstructionPlace& place);

/// The ids that instructions may refer to.
struct InstructionContext {
  const Pipeline& pipeline;
  const std::vector<Communicator>& communicators;
};

/// Reports communicators without members, with unordered ones, or outside the pipeline.
void check_communicators(const InstructionContext& context, Rules& rules);

/// Whether two ranks are the members, of which the smaller stands first.
[[nodiscard]] inline bool are_members(const Communicator& communicator, RankId a, RankId b) {
  const std::vector<RankId>& members = communicator.members;
  return members.size() == 2 && members[0] == std::min(a, b) && members[1] == std::max(a, b);
}

/// Whether a pass, or a transfer between two stages by a communicator of their ranks, breaks no rule of its
/// own: nearly all actions. False for others, of which the rules are asked one by one.
[[nodiscard]] inline bool is_plainly_good(const InstructionContext& context, RankId rank,
                                          const Action& action, CommunicatorId communicator) {
  const Pipeline& pipeline = context.pipeline;
  const auto below = [](std::int32_t value, int limit) { return value >= 0 && value < limit; };
  const bool in_range = below(action.subject, pipeline.stages()) &&
                        below(action.microbatch, pipeline.microbatches()) && action.slice < pipeline.slices();
  if (!in_range) return false;
  if (is_pass(action.kind)) return action.peer == -1 && !communicator.valid();
  return names_peer_stage(action.kind) && below(action.peer, pipeline.stages()) && communicator.valid() &&
         communicator.index() < context.communicators.size() &&
         are_members(context.communicators[communicator.index()], rank,
                     pipeline.rank_of(action.peer_stage()));
}

/// Reports what makes an instruction no part of any Program: its form, ids, communicators and `after`.
void check_instruction(const InstructionContext& context, const InstructionPlace& place,
                       const InstructionView& instruction, Rules& rules);

}  // namespace ppsim
