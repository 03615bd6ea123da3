#pragma once

#include <cstdint>
#include <vector>

#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/ir/program.hpp"

namespace ppsim::verifier::repairing {

using Event = std::uint32_t;

/// Starts and completions of instructions, messages and matches as numbered events, and what must happen
/// before what, with credits for each channel. The Program hangs if and only if the events have a cycle.
///
/// Events: start 2i and completion 2i + 1 of instruction i; then message k leaves, k is received, match c.
class WaitEvents {
 public:
  /// `credits` of each message's channel, 0: rendezvous.
  /// Requires: `graph` was built without credits, and every message and match is complete.
  WaitEvents(const ExecutionGraph& graph, const std::vector<int>& credits);

  /// Short cycles, each from its lowest event: none if and only if there is no cycle. For each rank two
  /// shortest ones, through the first and the last of its events that lie on cycles.
  [[nodiscard]] std::vector<std::vector<Event>> cycles(const Program& program) const;

  [[nodiscard]] bool is_instruction(Event e) const { return e < 2 * instructions_; }
  [[nodiscard]] bool is_start(Event e) const { return is_instruction(e) && e % 2 == 0; }
  [[nodiscard]] InstructionId instruction(Event e) const {
    return InstructionId(static_cast<std::int32_t>(e / 2));
  }
  [[nodiscard]] bool leaves(Event e) const { return e >= 2 * instructions_ && e < first_received_; }
  [[nodiscard]] bool received(Event e) const { return e >= first_received_ && e < first_match_; }
  [[nodiscard]] std::uint32_t message(Event e) const {
    return e - (leaves(e) ? 2 * instructions_ : first_received_);
  }

 private:
  struct Precedence {
    Event before;
    Event after;
  };
  void instruction_waits(const ExecutionGraph& graph, std::vector<Precedence>& all) const;
  void message_waits(const ExecutionGraph& graph, const std::vector<int>& credits,
                     std::vector<Precedence>& all) const;
  [[nodiscard]] std::vector<int> components() const;
  [[nodiscard]] std::vector<Event> shortest_through(Event source, const std::vector<int>& component) const;
  [[nodiscard]] std::vector<char> on_or_behind_cycles() const;

  Event instructions_ = 0;
  Event first_received_ = 0;
  Event first_match_ = 0;
  std::vector<std::uint32_t> begin_;  ///< successors of an event, compressed rows
  std::vector<Event> successors_;
};

}  // namespace ppsim::verifier::repairing
