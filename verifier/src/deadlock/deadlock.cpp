#include "ppsim/verifier/deadlock/deadlock.hpp"

#include <algorithm>

#include "ppsim/core/ir/check.hpp"

namespace ppsim::verifier {
namespace {

/// Breadth-first search for shortest cycles of the wait-for relation of a stuck state.
class CycleSearch {
 public:
  explicit CycleSearch(const WaitAnalysis& state)
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
      for (const InstructionWait& wait : waits_) {
        if (!wait.waits_for.valid()) continue;
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
    std::ranges::reverse(best_);
  }

  const WaitAnalysis& state_;
  std::vector<std::size_t> seen_;
  std::vector<InstructionId> parent_;
  std::size_t stamp_ = 0;
  std::vector<InstructionId> level_;
  std::vector<InstructionId> next_;
  std::vector<InstructionWait> waits_;
  std::vector<InstructionId> best_;
};

std::vector<Wait> cycle_of(const Program& program, const ExecutionGraph& graph, const WaitAnalysis& state) {
  const std::vector<InstructionId> ids = CycleSearch(state).shortest();
  std::vector<Wait> cycle;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::vector<InstructionWait> waits = state.waits_of(ids[i]);
    const auto wait = std::ranges::find(waits, ids[(i + 1) % ids.size()], &InstructionWait::waits_for);
    PPSIM_CHECK(wait != waits.end(), "a cycle along waits");
    cycle.push_back(in_words(program, graph, *wait));
  }
  return cycle;
}

}  // namespace

Deadlock explain_deadlock(const Program& program, const ExecutionGraph& graph, const RunOrder& order) {
  const WaitAnalysis state(program, graph, state_after(order, graph.size()));
  Deadlock deadlock;
  deadlock.cycle = cycle_of(program, graph, state);
  for (std::size_t i = 0; i < state.size(); ++i) {
    const InstructionId id(static_cast<std::int32_t>(i));
    if (state.complete(id)) continue;
    ++deadlock.blocked;
    const std::vector<InstructionWait> waits = state.waits_of(id);
    const auto absent = std::ranges::find(waits, InstructionId(), &InstructionWait::waits_for);
    if (absent != waits.end()) deadlock.culprits.push_back(in_words(program, graph, *absent));
  }
  PPSIM_CHECK(!deadlock.cycle.empty() || !deadlock.culprits.empty(), "a stuck state without a reason");
  return deadlock;
}

}  // namespace ppsim::verifier
