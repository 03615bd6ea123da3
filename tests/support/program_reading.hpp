#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "ppsim/core/ir/capabilities.hpp"
#include "support/reachable_states.hpp"

namespace ppsim::test {

/// The rules of a Program, read one by one from its lists.
struct ProgramReading {
  struct Operation {
    RankId rank;
    bool communicates = false;
    bool never = false;
    std::vector<std::size_t> before;  ///< operations of its rank
    std::vector<std::size_t> sends;   ///< messages
    std::vector<std::size_t> receives;
    int launched_after = -1;  ///< operation that must have started
    int event = -1;           ///< its work, or its end of a collective
    int begin = -1;           ///< event, under a residency limit
  };

  struct Transfer {
    int send = -1;  ///< operation
    int receive = -1;
    Action sent;
    Action received;
    int previous = -1;
    int credit = -1;
    int out = -1;  ///< event
    int in = -1;   ///< event, where a receipt takes a time of its own
  };

  struct Gathering {
    std::vector<std::size_t> members;
    bool complete = true;
  };

  ListRules lists;
  std::size_t events = 0;
  std::vector<Operation> operations;  ///< by instruction
  std::vector<Transfer> transfers;
  std::map<int, Gathering> gatherings;  ///< by event: each member ends by itself once all have started
};

[[nodiscard]] ProgramReading read_rules(const Program& program, const TransportCapabilities& capabilities);

}  // namespace ppsim::test
