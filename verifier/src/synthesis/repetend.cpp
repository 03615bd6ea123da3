#include "synthesis/repetend.hpp"

#include <algorithm>

namespace ppsim::verifier::synthesis {
namespace {

constexpr int kMaxRepeated = 6;    // microbatches of one period
constexpr int kSlowerPeriods = 4;  // periods that are tried for each number of microbatches
constexpr Slot kFineness = 24;     // of the steps between them

Slot divided_up(Slot a, Slot b) { return (a + b - 1) / b; }

/// The work of a stage for one microbatch.
Slot work_of(const ChainModel& model, int stage) {
  Slot work = 0;
  for (int phase = 0; phase < model.phases(); ++phase) work += model.duration(stage, phase);
  return work;
}

/// Microbatches that are in the pipeline at once when it is full.
int full(const ChainModel& model) {
  Slot most = 1;
  for (int s = 0; s < model.stages(); ++s)
    most = std::max(most, std::min<Slot>(divided_up(model.round_trip(s), work_of(model, s)), model.limit(s)));
  return static_cast<int>(most);
}

Slot min_period(const ChainModel& model, int microbatches) {
  Slot period = 1;
  for (int s = 0; s < model.stages(); ++s) {
    period = std::max(period, work_of(model, s) * microbatches);
    period = std::max(period, divided_up(model.round_trip(s) * microbatches, model.limit(s)));
  }
  return period;
}

}  // namespace

std::vector<Rate> possible_rates(const ChainModel& model) {
  std::vector<Rate> rates;
  for (int k = 1; k <= kMaxRepeated; ++k) {
    const Slot least = min_period(model, k);
    const Slot step = std::max<Slot>(1, least / kFineness);
    for (Slot i = 0; i < kSlowerPeriods; ++i) rates.push_back({k, least + i * step});
  }
  std::ranges::stable_sort(rates, [](const Rate& a, const Rate& b) {
    return a.period * b.microbatches < b.period * a.microbatches;
  });
  return rates;
}

int short_length(const ChainModel& model, const Rate& rate) {
  const int least = 2 * full(model) + rate.microbatches;
  if (2 * least >= model.microbatches()) return 0;
  return least + (model.microbatches() - least) % rate.microbatches;
}

std::vector<Slot> unrolled(const Repetend& repetend, const ChainModel& whole) {
  const ChainModel& model = repetend.model;
  const Repetition& repetition = repetend.repetition;
  const int rounds = (whole.microbatches() - model.microbatches()) / repetition.microbatches;
  std::vector<Slot> result(as_size(whole.tasks()));
  for (int task = 0; task < model.tasks(); ++task) {
    const Slot start = repetend.starts[as_size(task)];
    const int first = start < repetition.cut + repetition.period ? 0 : rounds;
    const int last = start < repetition.cut ? 0 : rounds;
    for (int round = first; round <= last; ++round) {
      const int microbatch = model.microbatch_of(task) + round * repetition.microbatches;
      const int target = whole.task(model.stage_of(task), model.phase_of(task), microbatch);
      result[as_size(target)] = start + round * repetition.period;
    }
  }
  return result;
}

}  // namespace ppsim::verifier::synthesis
