#include "residency_hang.hpp"

#include <algorithm>
#include <set>

#include "ppsim/core/execution/wait_analysis.hpp"
#include "ppsim/core/ir/check.hpp"

namespace ppsim::verifier {
namespace {

/// Looks for what waits for nothing but itself.
class BlockedSet {
 public:
  BlockedSet(const Program& program, const ExecutionGraph& graph, const HungState& hung)
      : program_(program),
        graph_(graph),
        state_(program, graph,
               {{hung.started.begin(), hung.started.end()}, {hung.complete.begin(), hung.complete.end()}}) {}

  /// The smallest one that begins with an operation that nothing but a place is missing for.
  ResidencyHang smallest() {
    ResidencyHang best;
    for (std::size_t i = 0; i < state_.size(); ++i) {
      const InstructionId id(static_cast<std::int32_t>(i));
      if (state_.complete(id)) continue;
      ++best.blocked;
      if (!lacks_place(id)) continue;
      std::vector<Wait> waits = from(id);
      if (best.waits.empty() || waits.size() < best.waits.size()) {
        best.waits = std::move(waits);
        best.resident = resident_places();
      }
    }
    PPSIM_CHECK(!best.waits.empty(), "a hang under a residency limit in which all places are free");
    return best;
  }

 private:
  [[nodiscard]] bool lacks_place(InstructionId id) const {
    return !state_.started(id) && state_.waits_of(id).front().reason == WaitReason::place;
  }

  /// One thing that keeps it back, or for a place all that hold one.
  [[nodiscard]] std::vector<InstructionWait> waits_of(InstructionId id) {
    std::vector<InstructionWait> waits = state_.waits_of(id);
    if (waits.front().reason != WaitReason::place) return {waits.front()};
    full_.insert(program_.rank_of(id));
    return waits;
  }

  std::vector<Wait> from(InstructionId first) {
    full_.clear();
    std::vector<Wait> result;
    std::vector<InstructionId> found{first};
    for (std::size_t i = 0; i < found.size(); ++i) {
      for (const InstructionWait& wait : waits_of(found[i])) {
        result.push_back(in_words(program_, graph_, wait));
        if (std::ranges::find(found, wait.waits_for) == found.end()) found.push_back(wait.waits_for);
      }
    }
    return result;
  }

  /// The operations that hold the places of the ranks of the last knot.
  [[nodiscard]] std::vector<NamedInstruction> resident_places() const {
    std::vector<NamedInstruction> result;
    for (const RankId rank : full_) {
      for (const InstructionId id : state_.holders(rank)) result.push_back(named_instruction(program_, id));
    }
    return result;
  }

  const Program& program_;
  const ExecutionGraph& graph_;
  WaitAnalysis state_;
  std::set<RankId> full_;
};

}  // namespace

ResidencyHang explain_residency(const Program& program, const ExecutionGraph& graph, const HungState& state) {
  ResidencyHang hang = BlockedSet(program, graph, state).smallest();
  hang.residency = graph.capabilities.residency.value_or(0);
  return hang;
}

}  // namespace ppsim::verifier
