#pragma once

#include <cstdint>
#include <vector>

#include "ppsim/core/execution_graph.hpp"
#include "ppsim/verifier/deadlock.hpp"

namespace ppsim {

/// Why one instruction waits for another one in a stuck state.
enum class WaitCause : std::uint8_t {
  data,
  queue,
  after,
  host,
  rendezvous,
  credit,
  unsent,
  collective,
  place
};

/// One wait of a stuck state. The first four causes and `place`, of a residency limit, keep an instruction
/// from starting, the others from completing.
struct StuckWait {
  InstructionId waits_for;
  WaitCause cause = WaitCause::data;
};

/// The state in which a run stopped, and what each instruction waits for in it.
class StuckState {
 public:
  StuckState(const ExecutionGraph& graph, const RunOrder& order);
  /// By instruction.
  StuckState(const ExecutionGraph& graph, std::vector<char> started, std::vector<char> complete);

  [[nodiscard]] bool started(InstructionId id) const { return started_[id.index()] != 0; }
  [[nodiscard]] bool complete(InstructionId id) const { return complete_[id.index()] != 0; }
  [[nodiscard]] bool running(InstructionId id) const { return started(id) && !complete(id); }
  [[nodiscard]] std::size_t size() const { return started_.size(); }

  /// Appends the waits of an incomplete instruction to `out`: for the completion of what it needs before it
  /// starts or, once it runs, for the start of other ends.
  void waits(InstructionId id, std::vector<StuckWait>& out) const;

  /// The messages that keep a running instruction from completing and that lack an end which alone could
  /// change that: no RECV or no SEND stands in the Program. Appends their indexes.
  void orphans(InstructionId id, std::vector<std::uint32_t>& out) const;

 private:
  [[nodiscard]] bool rendezvous() const { return !graph_.capabilities.credits.has_value(); }
  [[nodiscard]] bool has_started(InstructionId id) const { return id.valid() && started(id); }
  [[nodiscard]] bool done_for(InstructionId id, std::uint32_t message) const;
  /// The message at the end of the chain of earlier messages on which `message` waits, and which end it
  /// lacks.
  struct Blocker {
    std::uint32_t message = 0;
    bool lacks_send = false;
    bool lacks_receive = false;
    bool by_credit = false;
  };
  [[nodiscard]] Blocker blocker_of(InstructionId id, std::uint32_t message) const;
  [[nodiscard]] Blocker blocker_of_transfer(std::uint32_t message) const;
  [[nodiscard]] Blocker blocker_of_departure(std::uint32_t message) const;
  [[nodiscard]] Blocker blocker_of_receipt(std::uint32_t message) const;

  const ExecutionGraph& graph_;
  std::vector<char> started_;
  std::vector<char> complete_;
  std::vector<char> out_;       ///< per message: transferred (rendezvous), on its way (credits)
  std::vector<char> received_;  ///< per message
};

/// In words.
[[nodiscard]] Wait wait_of(const Program& program, InstructionId who, const StuckWait& wait);

}  // namespace ppsim
