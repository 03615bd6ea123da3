#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/ir/program.hpp"

namespace ppsim {

/// How far a run has come: which instructions have started and which are complete, by instruction.
struct RunState {
  std::vector<char> started;
  std::vector<char> complete;
  friend bool operator==(const RunState&, const RunState&) = default;
};
/// The state when everything in `order` has happened.
[[nodiscard]] RunState state_after(const RunOrder& order, std::size_t instructions);

/// "data", "queue" and so on, as JSON and CSV have it.
[[nodiscard]] std::string_view wait_reason_name(WaitReason reason);
/// Whether the reason keeps an instruction from starting, and not from completing once it has started.
[[nodiscard]] bool delays_start(WaitReason reason);

/// One thing that an incomplete instruction waits for: the completion of another one where that delays its
/// start, else the start of another one.
struct InstructionWait {
  InstructionId waiter;
  InstructionId waits_for;  ///< invalid: nothing in the Program will bring it about; `running`: the waiter
  WaitReason reason = WaitReason::data;
  std::int32_t message = -1;  ///< for `counterpart`, the message that lacks an end
  friend bool operator==(const InstructionWait&, const InstructionWait&) = default;
};

/// The waits of each instruction in one state of a run, by rules E1 to E9. The naive executor, the check of
/// a reported cycle and the certificate's checker read the rules for themselves, so that they can contradict
/// it.
///
/// Of messages, the state is taken to be what the ends allow: what could go out is out. So what an
/// instruction waits for is named exactly where nothing moves any more.
class WaitAnalysis {
 public:
  /// Requires: Program and graph outlive it.
  WaitAnalysis(const Program& program, const ExecutionGraph& graph, RunState state);

  [[nodiscard]] std::size_t size() const { return state_.started.size(); }
  [[nodiscard]] bool started(InstructionId id) const { return state_.started[id.index()] != 0; }
  [[nodiscard]] bool complete(InstructionId id) const { return state_.complete[id.index()] != 0; }
  [[nodiscard]] bool running(InstructionId id) const { return started(id) && !complete(id); }

  /// Appends everything that an incomplete instruction waits for, nothing twice. Nothing is appended where it
  /// could start or complete at once.
  void waits(InstructionId id, std::vector<InstructionWait>& out) const;
  [[nodiscard]] std::vector<InstructionWait> waits_of(InstructionId id) const;
  /// Whether anything that is incomplete can start or complete.
  [[nodiscard]] bool can_move() const;
  /// The communication of a rank that has started and is not complete, ascending.
  [[nodiscard]] std::vector<InstructionId> holders(RankId rank) const;

 private:
  /// The ends that have not started and so keep a message from going out or from being received.
  struct Blocker {
    std::uint32_t message = 0;
    bool lacks_send = false;
    bool lacks_receive = false;
    WaitReason reason = WaitReason::rendezvous;
  };

  [[nodiscard]] bool rendezvous() const { return !graph_.capabilities.credits.has_value(); }
  [[nodiscard]] bool has_started(InstructionId id) const { return id.valid() && started(id); }
  [[nodiscard]] bool is_out(std::int32_t message) const;
  [[nodiscard]] bool is_received(std::int32_t message) const;
  [[nodiscard]] bool is_done(InstructionId id, std::uint32_t message) const;
  [[nodiscard]] Blocker blocker_of(std::uint32_t message) const;
  [[nodiscard]] Blocker blocker_of_transfer(std::uint32_t message) const;
  void settle(std::size_t message);
  void waits_to_start(InstructionId id, std::vector<InstructionWait>& out) const;
  void waits_for_place(InstructionId id, std::vector<InstructionWait>& out) const;
  void waits_for_messages(InstructionId id, std::vector<InstructionWait>& out) const;
  void waits_for_members(InstructionId id, std::vector<InstructionWait>& out) const;

  const Program& program_;
  const ExecutionGraph& graph_;
  RunState state_;
  std::vector<char> out_;       ///< per message: transferred (rendezvous), in flight (credits)
  std::vector<char> received_;  ///< per message
};

/// An instruction as a person finds it: rank, position in the rank's list, text of its actions.
struct NamedInstruction {
  InstructionId instruction;
  RankId rank;
  int index = 0;
  std::string action;
  friend bool operator==(const NamedInstruction&, const NamedInstruction&) = default;
};
[[nodiscard]] NamedInstruction named_instruction(const Program& program, InstructionId id);

/// One wait in words.
struct Wait {
  NamedInstruction who;
  NamedInstruction waits_for;  ///< without valid instruction: nothing in the Program will bring it about
  WaitReason reason = WaitReason::data;
  std::string why;
  friend bool operator==(const Wait&, const Wait&) = default;
};
[[nodiscard]] Wait in_words(const Program& program, const ExecutionGraph& graph, const InstructionWait& wait);
/// "rank 0: 0SEND_F1 waits for rank 1: 1RECV_F1 (why)", "rank 0: 0SEND_F1 never completes (why)" or
/// "rank 0: 0F0 is running".
[[nodiscard]] std::string to_string(const Wait& wait);

}  // namespace ppsim
