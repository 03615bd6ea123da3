#include "folded_pipes.hpp"

#include <algorithm>
#include <vector>

#include "families/placements.hpp"

// Take F and B as one slot each and a chain of L stages. The microbatches of a direction go in units of R,
// the number of ranks before the pipe turns or meets the other. The i-th of a unit runs its F of the chain's
// s-th stage in slot 2i + s and its B in slot 2i + 2L - 1 - s. On every rank the slots of one parity are then
// taken by its chunks in turn (of both directions, where there are two), first their F, then their B, without
// a gap and without two actions in one slot; the next unit follows 2L slots later, again without a gap. A
// last unit of fewer microbatches leaves gaps.
//
// Doubled, a unit has 2R microbatches in pairs. The two F of a pair share a slot, 2 floor(i/2) + s, which
// takes as long as a slot of B where B takes twice an F; B runs in slot 2i + 2L - 1 - s and the next unit
// follows 3L slots later.
//
// The rows keep the order of the slots; when an action starts is the matter of its inputs.

namespace ppsim::schedules {
namespace {

/// Microbatches of one direction that enter their pipe one after another.
struct Unit {
  int first = 0;
  int size = 0;
  int start = 0;  ///< its first slot
  bool doubled = false;
};

int length_of(const FoldedPipes& pipes) { return pipes.ranks * pipes.chunks; }

std::vector<Unit> units_of(const FoldedPipes& pipes) {
  const int total = per_direction(pipes);
  std::vector<Unit> units;
  int start = 0;
  for (int first = 0; first < total; first += units.back().size) {
    const bool doubled = pipes.doubled && total - first > reach(pipes);
    const int most = doubled ? 2 * reach(pipes) : reach(pipes);
    units.push_back({first, std::min(most, total - first), start, doubled});
    start += (doubled ? 3 : 2) * length_of(pipes);
  }
  return units;
}

/// The actions of one rank by halves of slots; no microbatch where nothing runs.
class SlotTable {
 public:
  SlotTable(const FoldedPipes& pipes, const std::vector<Unit>& units)
      : length_(length_of(pipes)),
        per_direction_(per_direction(pipes)),
        units_(units),
        cells_(as_size(2 * (units.back().start + 2 * length_ + 2 * units.back().size))) {}

  void add(StageId stage) {
    const int position = stage.value() % length_;
    const int before = stage.value() / length_ * per_direction_;
    for (const Unit& unit : units_) {
      for (int i = 0; i < unit.size; ++i) {
        const int microbatch = before + unit.first + i;
        put(forward_half(unit, i) + 2 * position, make_action(OpKind::forward, stage.value(), microbatch));
        put(2 * (unit.start + 2 * i + 2 * length_ - 1 - position),
            make_action(OpKind::backward, stage.value(), microbatch));
      }
    }
  }

  [[nodiscard]] const std::vector<Action>& cells() const { return cells_; }

 private:
  static int forward_half(const Unit& unit, int i) {
    return unit.doubled ? 2 * (unit.start + i / 2 * 2) + i % 2 : 2 * (unit.start + 2 * i);
  }

  void put(int half, const Action& action) { cells_[as_size(half)] = action; }

  int length_;
  int per_direction_;
  const std::vector<Unit>& units_;
  std::vector<Action> cells_;
};

Expected<Pipeline> pipeline_of(const FoldedPipes& pipes) {
  const std::vector<RankId> down = folded_placement(pipes.ranks, pipes.chunks);
  if (pipes.directions == 1) return make_chain(pipes.ranks, length_of(pipes), pipes.microbatches, down);
  return make_bidirectional(pipes.ranks, pipes.microbatches, down);
}

}  // namespace

int reach(const FoldedPipes& pipes) { return pipes.ranks / pipes.directions; }

int per_direction(const FoldedPipes& pipes) { return pipes.microbatches / pipes.directions; }

Expected<Schedule> generate_folded(std::string_view name, const FoldedPipes& pipes) {
  PPSIM_ASSIGN_OR_RETURN(const auto pipeline, pipeline_of(pipes));
  ScheduleBuilder builder{std::string(name), pipeline};
  const std::vector<Unit> units = units_of(pipes);
  for (int r = 0; r < pipes.ranks; ++r) {
    SlotTable table(pipes, units);
    for (const StageId stage : pipeline.stages_of(RankId(r))) table.add(stage);
    for (const Action& action : table.cells()) {
      if (action.microbatch >= 0) builder.add(RankId(r), action);
    }
  }
  return std::move(builder).build();
}

Nanoseconds folded_work(const FoldedPipes& pipes, const StageCosts& costs) {
  return Nanoseconds{pipes.microbatches} * pipes.chunks * (costs.forward + costs.backward);
}

bool has_doubled_units(const FoldedPipes& pipes) {
  return pipes.doubled && per_direction(pipes) > reach(pipes);
}

// Filling and draining the pipes costs the shorter of F and B on each way; wherever F stand beside B, which
// happens twice a unit, the ranks wait for the longer. The last unit, fewer than R by `missing`, leaves the
// gaps of the chunks that follow each other on a rank; where B is the longer, some of it goes on while the
// unit before still runs its B.
std::optional<Nanoseconds> folded_makespan(const FoldedPipes& pipes, const StageCosts& costs) {
  if (costs.transfer > 0 && pipes.ranks > 1) return std::nullopt;
  const Nanoseconds shorter = std::min(costs.forward, costs.backward);
  const Nanoseconds longer = std::max(costs.forward, costs.backward);
  const Nanoseconds unit = reach(pipes);
  const Nanoseconds units = (per_direction(pipes) + unit - 1) / unit;
  const Nanoseconds missing = units * unit - per_direction(pipes);
  const Nanoseconds held = Nanoseconds{pipes.chunks} * pipes.directions;
  Nanoseconds bubble = 2 * (unit - 1) * (shorter + units * (longer - shorter)) +
                       missing * (2 * shorter + (held - 2) * (shorter + longer));
  if (units > 1 && costs.backward > costs.forward) {
    bubble -= std::min(costs.forward, missing * (costs.backward - costs.forward));
  }
  return folded_work(pipes, costs) + bubble;
}

// Before its first B a rank has run a whole unit through all chunks but the first of its nearer entry, and
// through that one chunk as many more as the rank is away from the entry.
int folded_peak(const FoldedPipes& pipes, RankId rank) {
  const int unit = std::min(reach(pipes), per_direction(pipes));
  const int held = pipes.chunks * pipes.directions;
  const int away =
      pipes.directions == 1 ? rank.value() : std::min(rank.value(), pipes.ranks - 1 - rank.value());
  return std::min(held * unit, (held - 1) * unit + 1 + away);
}

}  // namespace ppsim::schedules
