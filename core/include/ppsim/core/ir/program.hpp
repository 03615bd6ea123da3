#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "ppsim/core/execution/large_vector.hpp"
#include "ppsim/core/ir/pipeline.hpp"

namespace ppsim {

/// A set of ranks that send to each other in one order. Operations of one communicator run one after another
/// on each rank, in issue order; communicators with the same `queue` share that order.
struct Communicator {
  std::string name;
  std::vector<RankId> members;  ///< ascending
  int queue = -1;               ///< communication queue; -1: a queue for it alone
  friend bool operator==(const Communicator&, const Communicator&) = default;
};

enum class InstructionForm : std::uint8_t {
  single,   ///< one action
  overlap,  ///< F and B run as one
  group,    ///< sends and receives that start together, at most kMaxGroup
};

inline constexpr std::size_t kMaxGroup = 64;

/// A send-done delay of more sends than any channel has: sent tensors stay in use to the end of the step.
inline constexpr int kUntilStepEnd = std::numeric_limits<int>::max();

/// One instruction of a rank: an action, an overlapped pair, or a group. Offsets point into the Program's
/// arrays.
struct Instruction {
  std::uint32_t first_action = 0;
  std::uint32_t first_after = 0;
  std::uint16_t action_count = 1;
  std::uint16_t after_count = 0;
  InstructionForm form = InstructionForm::single;
  bool blocking = false;  ///< the host waits for its completion before it issues the next one

  friend bool operator==(const Instruction&, const Instruction&) = default;
};

/// Per rank a list of instructions in issue order, ready to run. Any list whose actions parse and whose ids
/// are in range is a Program, however wrong; the verifier says what it means.
///
/// Instructions are numbered rank by rank: those of rank r are [first(r), first(r) + size(r)).
class Program {
 public:
  [[nodiscard]] const Pipeline& pipeline() const { return pipeline_; }
  [[nodiscard]] const std::vector<Communicator>& communicators() const { return communicators_; }
  [[nodiscard]] const Communicator& communicator(CommunicatorId id) const {
    return communicators_[id.index()];
  }
  /// A copy of all of them.
  [[nodiscard]] std::vector<Instruction> instructions() const;
  [[nodiscard]] Instruction instruction(InstructionId id) const {
    return is_plain_ ? Instruction{.first_action = first_action(id)} : instructions_[id.index()];
  }
  /// Into all_actions().
  [[nodiscard]] std::uint32_t first_action(InstructionId id) const {
    return is_plain_ ? static_cast<std::uint32_t>(id.value()) : instructions_[id.index()].first_action;
  }
  [[nodiscard]] std::size_t size() const { return as_size(rank_begin_.back()); }
  [[nodiscard]] IdRange<InstructionId> ids() const {
    return {InstructionId(0), InstructionId(static_cast<std::int32_t>(size()))};
  }
  /// Those of a rank, in issue order.
  [[nodiscard]] IdRange<InstructionId> ids_of(RankId rank) const { return {first(rank), last(rank)}; }
  /// Number of single actions over all instructions.
  [[nodiscard]] std::size_t action_count() const { return actions_.size(); }
  [[nodiscard]] std::span<const Action> all_actions() const { return actions_; }
  /// Whether any rank does an action of this kind.
  [[nodiscard]] bool has(OpKind kind) const {
    return std::ranges::find(actions_, kind, &Action::kind) != actions_.end();
  }

  [[nodiscard]] InstructionId first(RankId rank) const { return InstructionId(rank_begin_[rank.index()]); }
  [[nodiscard]] InstructionId last(RankId rank) const {  ///< one past the end
    return InstructionId(rank_begin_[rank.index() + 1]);
  }
  [[nodiscard]] RankId rank_of(InstructionId id) const;
  /// Position in the list of its rank.
  [[nodiscard]] int position(InstructionId id) const { return id.value() - first(rank_of(id)).value(); }

  [[nodiscard]] std::span<const Action> actions(InstructionId id) const {
    if (is_plain_) return {actions_.data() + id.index(), 1};
    const Instruction& i = instructions_[id.index()];
    return {actions_.data() + i.first_action, i.action_count};
  }
  /// The communicator of each action of actions(id); invalid for compute and copy actions.
  [[nodiscard]] std::span<const CommunicatorId> communicators_of(InstructionId id) const {
    if (is_plain_) return {action_communicator_.data() + id.index(), 1};
    const Instruction& i = instructions_[id.index()];
    return {action_communicator_.data() + i.first_action, i.action_count};
  }
  /// Earlier instructions of the same rank that must complete first, beyond the data dependencies.
  [[nodiscard]] std::span<const InstructionId> after(InstructionId id) const {
    if (is_plain_) return {};
    const Instruction& i = instructions_[id.index()];
    return {after_.data() + i.first_after, i.after_count};
  }

  /// Queues of a rank: 0 compute, 1 copy, 2 + n communication queue n.
  static constexpr int kComputeQueue = 0;
  static constexpr int kCopyQueue = 1;
  static constexpr int kFirstCommunicationQueue = 2;
  /// One more than the largest queue number of any rank.
  [[nodiscard]] int queue_count() const { return queue_count_; }
  /// The queue of the i-th action of an instruction.
  [[nodiscard]] int queue_of(const Action& action, CommunicatorId communicator) const;
  /// The distinct queues of an instruction, ascending.
  [[nodiscard]] std::vector<int> queues_of(InstructionId id) const;
  /// "compute", "copy" or the name of a communication queue.
  [[nodiscard]] std::string queue_name(int queue) const;

  /// The tensor that a SEND_F or SEND_B takes stays until so many later ones of its channel are complete, or,
  /// where there are fewer, to the end of the step. 0: until it is complete itself.
  [[nodiscard]] int send_done_delay() const { return send_done_delay_; }

  friend bool operator==(const Program&, const Program&) = default;

 private:
  friend class ProgramWriter;
  explicit Program(Pipeline pipeline) : pipeline_(std::move(pipeline)) {}
  void number_queues();

  Pipeline pipeline_;
  std::vector<Communicator> communicators_;
  std::vector<std::int32_t> rank_begin_;
  bool is_plain_ = false;  ///< instruction i is action i and nothing else: most Programs of any size
  LargeVector<Instruction> instructions_;  ///< none where it is plain
  LargeVector<Action> actions_;
  LargeVector<CommunicatorId> action_communicator_;
  std::vector<InstructionId> after_;
  std::vector<int> communicator_queue_;
  int queue_count_ = kFirstCommunicationQueue;
  int send_done_delay_ = 0;
};

std::ostream& operator<<(std::ostream& out, const Program& program);

/// The rank at the other end of a transfer.
/// Requires: is_transfer(transfer.kind), ids in range.
[[nodiscard]] RankId peer_rank(const Pipeline& pipeline, const Action& transfer);

/// One instruction in the making; `after` holds positions in the list of its rank.
struct InstructionDraft {
  std::vector<Action> actions;
  std::vector<CommunicatorId> communicators;  ///< parallel to actions; invalid for computation
  InstructionForm form = InstructionForm::single;
  std::vector<int> after = {};
  bool blocking = false;

  friend bool operator==(const InstructionDraft&, const InstructionDraft&) = default;
};

/// Rows of drafts, as passes and files hold them before they become a Program.
struct ProgramDraft {
  std::vector<Communicator> communicators;
  IdVector<RankId, std::vector<InstructionDraft>> rows;
  int send_done_delay = 0;
};

/// The only way to make a Program.
class ProgramBuilder {
 public:
  /// Errors: bad_argument naming every id out of range, every group that is empty, larger than kMaxGroup or
  /// holds something else than communication, every communication without a communicator that has its rank
  /// and peer as members, every `after` out of range, a pair that is not F and B,
  /// a negative send-done delay.
  [[nodiscard]] static Expected<Program> build(Pipeline pipeline, const ProgramDraft& draft);
};

/// The way back, for passes that edit a Program.
[[nodiscard]] ProgramDraft to_draft(const Program& program);

}  // namespace ppsim
