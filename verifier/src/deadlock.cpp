#include "ppsim/verifier/deadlock.hpp"

#include <algorithm>
#include <limits>
#include <sstream>

#include "ppsim/core/check.hpp"
#include "ppsim/core/text.hpp"
#include "stuck_state.hpp"

namespace ppsim {
namespace {

/// Breadth-first search for shortest cycles of the wait-for relation of a stuck state.
class CycleSearch {
 public:
  explicit CycleSearch(const StuckState& state)
      : state_(state), seen_(state.size(), 0), parent_(state.size()) {}

  /// Every cycle of a well-formed Program passes through a running instruction: waits for a start lead back
  /// in the list of one rank. Only where lists are out of order are the others tried as well.
  std::vector<InstructionId> shortest() {
    for (std::size_t i = 0; i < state_.size(); ++i) search_from(i, true);
    if (!best_.empty()) return best_;
    for (std::size_t i = 0; i < state_.size(); ++i) search_from(i, false);
    return best_;
  }

 private:
  void search_from(std::size_t index, bool running) {
    const InstructionId source(static_cast<std::int32_t>(index));
    if (state_.complete(source) || state_.started(source) != running) return;
    ++stamp_;
    level_.assign(1, source);
    // A cycle of `length` instructions closes from its last level; only shorter ones than the best count.
    for (std::size_t length = 1; !level_.empty() && (best_.empty() || length < best_.size()); ++length) {
      if (expand(source)) return;
    }
  }

  /// Visits what the current level waits for. Returns: whether that closed a cycle.
  bool expand(InstructionId source) {
    next_.clear();
    for (const InstructionId id : level_) {
      waits_.clear();
      state_.waits(id, waits_);
      for (const StuckWait& wait : waits_) {
        if (wait.waits_for == source) {
          remember(source, id);
          return true;
        }
        if (seen_[wait.waits_for.index()] == stamp_) continue;
        seen_[wait.waits_for.index()] = stamp_;
        parent_[wait.waits_for.index()] = id;
        next_.push_back(wait.waits_for);
      }
    }
    level_.swap(next_);
    return false;
  }

  void remember(InstructionId source, InstructionId last) {
    best_.clear();
    for (InstructionId id = last; id != source; id = parent_[id.index()]) best_.push_back(id);
    best_.push_back(source);
    std::reverse(best_.begin(), best_.end());
  }

  const StuckState& state_;
  std::vector<std::size_t> seen_;
  std::vector<InstructionId> parent_;
  std::size_t stamp_ = 0;
  std::vector<InstructionId> level_;
  std::vector<InstructionId> next_;
  std::vector<StuckWait> waits_;
  std::vector<InstructionId> best_;
};

/// The name of the first queue that two instructions share.
std::string shared_queue(const Program& program, InstructionId a, InstructionId b) {
  const std::vector<int> of_a = program.queues_of(a);
  const std::vector<int> of_b = program.queues_of(b);
  for (const int queue : of_a) {
    if (std::ranges::find(of_b, queue) != of_b.end()) return program.queue_name(queue);
  }
  return "none";
}

std::string why_text(const Program& program, InstructionId who, const StuckWait& wait) {
  switch (wait.cause) {
    case WaitCause::data:
      return "needs its result";
    case WaitCause::queue:
      return "stands behind it on queue " + shared_queue(program, who, wait.waits_for);
    case WaitCause::after:
      return "has it in its after list";
    case WaitCause::host:
      return "the host waits for it before it issues more";
    case WaitCause::rendezvous:
      return "a transfer begins when both ends have started";
    case WaitCause::credit:
      return "no credit is left before it receives";
    case WaitCause::unsent:
      return "nothing arrives before it sends";
    case WaitCause::collective:
      return "a collective begins when all members have started";
    case WaitCause::place:
      return "holds a place of the rank, which has no more";
  }
  PPSIM_CHECK(false, "unknown cause");
}

Wait::Blocked blocked_at(WaitCause cause) {
  switch (cause) {
    case WaitCause::data:
    case WaitCause::queue:
    case WaitCause::after:
    case WaitCause::host:
    case WaitCause::place:
      return Wait::Blocked::start;
    case WaitCause::rendezvous:
    case WaitCause::credit:
    case WaitCause::unsent:
    case WaitCause::collective:
      return Wait::Blocked::completion;
  }
  PPSIM_CHECK(false, "unknown cause");
}

}  // namespace

Wait wait_of(const Program& program, InstructionId who, const StuckWait& wait) {
  return {place_of(program, who), place_of(program, wait.waits_for), blocked_at(wait.cause),
          why_text(program, who, wait)};
}

namespace {

std::vector<Wait> cycle_of(const Program& program, const StuckState& state) {
  const std::vector<InstructionId> ids = CycleSearch(state).shortest();
  std::vector<Wait> cycle;
  std::vector<StuckWait> waits;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const InstructionId next = ids[(i + 1) % ids.size()];
    waits.clear();
    state.waits(ids[i], waits);
    const auto wait = std::ranges::find(waits, next, &StuckWait::waits_for);
    PPSIM_CHECK(wait != waits.end(), "a cycle along waits");
    cycle.push_back(wait_of(program, ids[i], *wait));
  }
  return cycle;
}

std::string orphan_text(const Program& program, const Message& message) {
  const Action& present =
      program.all_actions()[message.send.valid() ? message.send_action : message.receive_action];
  return action_text(program.pipeline(), present) +
         (message.send.valid() ? " meets no RECV on its channel" : " meets no SEND on its channel");
}

std::string meeting_text(const Program& program, const CollectiveMeeting& meeting) {
  const Communicator& communicator = program.communicator(meeting.communicator);
  return "only " + std::to_string(meeting.member_count) + " of " +
         std::to_string(communicator.members.size()) + " members of communicator " + communicator.name +
         " take part";
}

/// What a stuck instruction waits for without an instruction that could bring it.
std::string absence(const Program& program, const ExecutionGraph& graph, const StuckState& state,
                    InstructionId id) {
  if (!state.started(id)) {
    const auto row = std::ranges::lower_bound(graph.unsatisfiable, id, {}, &Unsatisfiable::instruction);
    return row != graph.unsatisfiable.end() && row->instruction == id ? row->why : "";
  }
  if (const std::int32_t meeting = graph.meeting_of[id.index()]; meeting >= 0) {
    const CollectiveMeeting& m = graph.meetings[static_cast<std::size_t>(meeting)];
    return m.complete ? "" : meeting_text(program, m);
  }
  std::vector<std::uint32_t> orphans;
  state.orphans(id, orphans);
  return orphans.empty() ? "" : orphan_text(program, graph.messages[orphans.front()]);
}

}  // namespace

Place place_of(const Program& program, InstructionId id) {
  return {id, program.rank_of(id), program.position(id), actions_text(program, id)};
}

std::string to_string(const Wait& wait) {
  std::ostringstream out;
  out << "rank " << wait.who.rank << ": " << wait.who.action << " waits for rank " << wait.waits_for.rank
      << ": " << wait.waits_for.action << " (" << wait.why << ")";
  return out.str();
}

std::string to_string(const Culprit& culprit) {
  std::ostringstream out;
  out << "rank " << culprit.place.rank << ": " << culprit.place.action << " never completes (" << culprit.why
      << ")";
  return out.str();
}

Deadlock explain_deadlock(const Program& program, const ExecutionGraph& graph, const RunOrder& order) {
  const StuckState state(graph, order);
  Deadlock deadlock;
  deadlock.cycle = cycle_of(program, state);
  for (std::size_t i = 0; i < state.size(); ++i) {
    const InstructionId id(static_cast<std::int32_t>(i));
    if (state.complete(id)) continue;
    ++deadlock.blocked;
    if (std::string why = absence(program, graph, state, id); !why.empty()) {
      deadlock.culprits.push_back({place_of(program, id), std::move(why)});
    }
  }
  PPSIM_CHECK(!deadlock.cycle.empty() || !deadlock.culprits.empty(), "a stuck state without a reason");
  return deadlock;
}

}  // namespace ppsim
