#include "synthesis/greedy_rows.hpp"

#include <algorithm>

#include "ppsim/core/ir/check.hpp"

namespace ppsim::verifier::synthesis {
namespace {

constexpr Slot kNever = -1;

/// An action that a rank could start next, and when.
struct Candidate {
  int phase = 0;
  Slot start = kNever;
};

class Greedy {
 public:
  Greedy(const ChainModel& model, const Preference& preference)
      : model_(model),
        preference_(preference),
        next_(static_cast<std::size_t>(model.ranks())),
        free_(next_.size(), 0),
        candidates_(next_.size()),
        ends_(static_cast<std::size_t>(model.tasks()), kNever),
        rows_(next_.size()) {}

  PhaseRows run() {
    for (int r = 0; r < model_.ranks(); ++r) look(r);
    for (int left = model_.tasks(); left > 0; --left) {
      const int rank = earliest();
      start(rank);
      for (int r = std::max(0, rank - 1); r <= std::min(model_.ranks() - 1, rank + 1); ++r) look(r);
    }
    return std::move(rows_);
  }

 private:
  [[nodiscard]] int next(int rank, int phase) const {
    return next_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(phase)];
  }

  /// Whether the order that is kept has the other one of F and I next.
  [[nodiscard]] bool out_of_turn(int rank, int phase) const {
    if (model_.kept_order().empty() || phase > 1) return false;
    const int position = next(rank, 0) + next(rank, 1);
    const std::vector<bool>& order = model_.kept_order()[static_cast<std::size_t>(rank)];
    return order[static_cast<std::size_t>(position)] != (phase == 0);
  }

  /// When the inputs of a phase's next task are there; kNever when that is not known yet.
  [[nodiscard]] Slot ready(int rank, int phase) const {
    const int i = next(rank, phase);
    const int last = model_.phases() - 1;
    if (i == model_.microbatches()) return kNever;
    if (phase == 0 && i - next(rank, last) >= model_.limit()) return kNever;
    if (phase > 0 && i == next(rank, phase - 1)) return kNever;
    if (out_of_turn(rank, phase)) return kNever;
    const int from = phase == 0 ? rank - 1 : phase == 1 ? rank + 1 : -1;
    if (from < 0 || from == model_.ranks()) return 0;
    const Slot end = ends_[static_cast<std::size_t>(model_.task(from, phase, i))];
    return end == kNever ? kNever : end + model_.transfer(from, rank);
  }

  void look(int rank) {
    Candidate& best = candidates_[static_cast<std::size_t>(rank)];
    best.start = kNever;
    for (int at = 0; at < model_.phases(); ++at) {
      const int phase = preference_[static_cast<std::size_t>(at)];
      const Slot input = ready(rank, phase);
      if (input == kNever) continue;
      const Slot start = std::max(input, free_[static_cast<std::size_t>(rank)]);
      if (best.start == kNever || start < best.start) best = {phase, start};
    }
  }

  [[nodiscard]] int earliest() const {
    int best = -1;
    for (int r = 0; r < model_.ranks(); ++r) {
      const Slot start = candidates_[static_cast<std::size_t>(r)].start;
      if (start == kNever) continue;
      if (best < 0 || start < candidates_[static_cast<std::size_t>(best)].start) best = r;
    }
    PPSIM_CHECK(best >= 0, "no rank can go on");
    return best;
  }

  void start(int rank) {
    const auto [phase, begin] = candidates_[static_cast<std::size_t>(rank)];
    const Slot end = begin + model_.duration(rank, phase);
    int& microbatch = next_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(phase)];
    ends_[static_cast<std::size_t>(model_.task(rank, phase, microbatch++))] = end;
    free_[static_cast<std::size_t>(rank)] = end;
    rows_[static_cast<std::size_t>(rank)].push_back(phase);
  }

  const ChainModel& model_;
  const Preference preference_;
  std::vector<std::array<int, 3>> next_;  // by rank and phase: the microbatch
  std::vector<Slot> free_;
  std::vector<Candidate> candidates_;
  std::vector<Slot> ends_;  // by task
  PhaseRows rows_;
};

}  // namespace

std::vector<Preference> preferences(const ChainModel& model) {
  Preference phases = {0, 1, 2};
  const auto end = phases.begin() + model.phases();
  std::vector<Preference> result;
  do result.push_back(phases);
  while (std::next_permutation(phases.begin(), end));
  return result;
}

PhaseRows greedy_rows(const ChainModel& model, const Preference& preference) {
  return Greedy(model, preference).run();
}

}  // namespace ppsim::verifier::synthesis
