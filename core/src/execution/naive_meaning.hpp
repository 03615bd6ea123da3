#pragma once

#include <vector>

#include "ppsim/core/ir/capabilities.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/tables.hpp"

namespace ppsim {

/// The rules that concern one instruction before it runs.
struct NaiveInstruction {
  RankId rank;
  bool never = false;  ///< needs a fact that no action of the rank provides, or is on a wrong rank
  bool communication = false;
  std::vector<InstructionId> waits;  ///< must be complete before it starts
  InstructionId launched_after;      ///< must have started before it starts; invalid: none
  std::vector<std::size_t> sends;    ///< messages
  std::vector<std::size_t> receives;
  int match = -1;
  Nanoseconds duration = 0;  ///< of compute and copy
};

struct NaiveMessage {
  InstructionId send;     ///< invalid: the RECV has no counterpart
  InstructionId receive;  ///< invalid: the SEND has none
  int previous = -1;      ///< the message before it on its channel
  Nanoseconds duration = 0;
};

struct NaiveMatch {
  std::vector<InstructionId> members;
  std::size_t expected = 0;  ///< members of the communicator
  Nanoseconds duration = 0;
};

/// The static meaning of a Program, E1 to E4, E7 and E9: written apart from the execution graph on purpose.
struct NaiveMeaning {
  std::vector<NaiveInstruction> instructions;
  std::vector<NaiveMessage> messages;  ///< channel by channel, in order
  std::vector<NaiveMatch> matches;
  bool mismatch = false;  ///< two ends of a message, or two members of a match, name different things
};

[[nodiscard]] NaiveMeaning naive_meaning(const Program& program, const TransportCapabilities& capabilities,
                                         const CostTable& costs);

}  // namespace ppsim
