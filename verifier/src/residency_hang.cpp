#include "residency_hang.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "ppsim/core/check.hpp"
#include "stuck_state.hpp"

namespace ppsim {
namespace {

/// Looks for what waits for nothing but itself.
class Knot {
 public:
  Knot(const Program& program, const ExecutionGraph& graph, const HungState& hung)
      : program_(program),
        state_(graph, {hung.started.begin(), hung.started.end()},
               {hung.complete.begin(), hung.complete.end()}) {}

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
    if (state_.started(id) || !is_communication(program_.actions(id).front().kind)) return false;
    std::vector<StuckWait> waits;
    state_.waits(id, waits);
    return waits.empty();
  }

  [[nodiscard]] std::vector<InstructionId> holders(RankId rank) const {
    std::vector<InstructionId> result;
    for (InstructionId id = program_.first(rank); id < program_.last(rank); id = next(id)) {
      if (state_.running(id) && is_communication(program_.actions(id).front().kind)) result.push_back(id);
    }
    return result;
  }

  /// One thing that keeps it back, or for a place all that hold one.
  [[nodiscard]] std::vector<StuckWait> waits_of(InstructionId id) {
    std::vector<StuckWait> waits;
    state_.waits(id, waits);
    if (!waits.empty()) return {waits.front()};
    const RankId rank = program_.rank_of(id);
    full_.insert(rank);
    for (const InstructionId holder : holders(rank)) waits.push_back({holder, WaitCause::place});
    return waits;
  }

  std::vector<Wait> from(InstructionId first) {
    full_.clear();
    std::vector<Wait> result;
    std::vector<InstructionId> found{first};
    for (std::size_t i = 0; i < found.size(); ++i) {
      for (const StuckWait& wait : waits_of(found[i])) {
        result.push_back(wait_of(program_, found[i], wait));
        if (std::ranges::find(found, wait.waits_for) == found.end()) found.push_back(wait.waits_for);
      }
    }
    return result;
  }

  /// What holds the places of the ranks of the last knot.
  [[nodiscard]] std::vector<Place> resident_places() const {
    std::vector<Place> result;
    for (const RankId rank : full_) {
      for (const InstructionId id : holders(rank)) result.push_back(place_of(program_, id));
    }
    return result;
  }

  const Program& program_;
  StuckState state_;
  std::set<RankId> full_;
};

}  // namespace

ResidencyHang explain_residency(const Program& program, const ExecutionGraph& graph, const HungState& state) {
  ResidencyHang hang = Knot(program, graph, state).smallest();
  hang.residency = graph.capabilities.residency.value_or(0);
  return hang;
}

}  // namespace ppsim
