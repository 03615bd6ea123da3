#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ppsim/core/error.hpp"
#include "ppsim/core/execution_graph.hpp"
#include "ppsim/core/program.hpp"

namespace ppsim {

/// An instruction as a person finds it: rank, position in the rank's list, text of its actions.
struct Place {
  InstructionId instruction;
  RankId rank;
  int index = 0;
  std::string action;
  friend bool operator==(const Place&, const Place&) = default;
};
[[nodiscard]] Place place_of(const Program& program, InstructionId id);

/// One edge of the wait-for relation of a state in which nothing moves.
struct Wait {
  /// What `who` cannot do: start, because `waits_for` is not complete; or, once started, complete, because
  /// `waits_for` has not started.
  enum class Blocked : std::uint8_t { start, completion };

  Place who;
  Place waits_for;
  Blocked blocked = Blocked::start;
  std::string why;
  friend bool operator==(const Wait&, const Wait&) = default;
};

/// An instruction that waits for something that the Program does not hold.
struct Culprit {
  Place place;
  std::string why;
  friend bool operator==(const Culprit&, const Culprit&) = default;
};

/// Why a Program cannot finish. At least one of the two lists is not empty.
struct Deadlock {
  std::vector<Wait> cycle;        ///< a shortest one; the last item waits for the first
  std::vector<Culprit> culprits;  ///< ascending by instruction
  std::size_t blocked = 0;        ///< instructions that never complete
  friend bool operator==(const Deadlock&, const Deadlock&) = default;
};

/// Why a Program that finishes without a residency limit can hang with one: a state that some choice of which
/// ready operation takes a place leads to.
struct ResidencyHang {
  int residency = 0;            ///< places of a rank
  std::vector<Place> resident;  ///< by rank: communication that holds a place of a rank that has none left
  /// From an operation without a place on: what it waits for, which are all that hold a place of its rank,
  /// and what these wait for in turn. Nothing in it waits for anything else, so none of it ever goes on.
  std::vector<Wait> waits;
  std::size_t blocked = 0;  ///< instructions that never complete
  friend bool operator==(const ResidencyHang&, const ResidencyHang&) = default;
};

/// "rank 0: 0SEND_F1 waits for rank 1: 1RECV_F1 (why)".
[[nodiscard]] std::string to_string(const Wait& wait);
[[nodiscard]] std::string to_string(const Culprit& culprit);

/// Explains the state in which a run stopped. Without residency limit that state is the same in every timing,
/// since all waits are conjunctions. The cycle is a shortest one among the waits of that state.
/// Requires: `order` is run_order(graph) and not complete, and every message and meeting is matched.
[[nodiscard]] Deadlock explain_deadlock(const Program& program, const ExecutionGraph& graph,
                                        const RunOrder& order);

/// Looks at a reported cycle from outside: each edge is a genuine wait of the graph, each item waits for the
/// next one, and a wait for a start is followed by what keeps that instruction from starting.
/// Errors: refused, naming the first edge that does not hold.
[[nodiscard]] Expected<void> recheck_cycle(const Program& program, const ExecutionGraph& graph,
                                           const std::vector<Wait>& cycle);

}  // namespace ppsim
