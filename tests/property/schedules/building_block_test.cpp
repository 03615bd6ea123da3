#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

#include "support/closed_forms.hpp"
#include "support/expect_forms.hpp"

// Random building blocks of the user's own. Peaks are at most the bound of Qi et al., Pipeline parallelism
// with controllable memory (arXiv 2405.15362), section 2: the sum over a rank's stages of ceil(lifespan /
// interval), where a lifespan runs from the start of F to the end of W or B.

namespace ppsim {
namespace {

using test::between;

/// A block under construction: slots by stage, and which slots of the interval each rank has left.
struct RandomBlock {
  int ranks = 1;
  int chunks = 1;
  int interval = 3;
  bool folded = false;
  bool whole = false;
  std::vector<int> forward, backward, weight;  // by stage
  std::vector<std::vector<char>> used;         // by rank

  [[nodiscard]] int stages() const { return ranks * chunks; }
  [[nodiscard]] int rank_of(int stage) const {
    const bool up = folded && stage / ranks % 2 == 1;
    return up ? ranks - 1 - stage % ranks : stage % ranks;
  }
  [[nodiscard]] int backward_slots() const { return whole ? 2 : 1; }
  [[nodiscard]] int end(int stage) const {
    return whole ? backward[static_cast<std::size_t>(stage)] + 2
                 : weight[static_cast<std::size_t>(stage)] + 1;
  }
  /// The paper's bound for a rank.
  [[nodiscard]] int bound(int rank) const {
    int sum = 0;
    for (int s = 0; s < stages(); ++s) {
      const int lifespan = end(s) - forward[static_cast<std::size_t>(s)];
      if (rank_of(s) == rank) sum += (lifespan + interval - 1) / interval;
    }
    return sum;
  }
};

bool is_free(const RandomBlock& block, int rank, int slot, int count) {
  const std::vector<char>& used = block.used[static_cast<std::size_t>(rank)];
  for (int i = 0; i < count; ++i) {
    if (used[static_cast<std::size_t>((slot + i) % block.interval)] != 0) return false;
  }
  return true;
}

/// A slot from `from` on, for a few intervals' waiting, that the rank has free; nothing where it has none.
std::optional<int> draw_slot(RandomBlock& block, int rank, int from, int count) {
  int slot = from + between(0, block.interval);
  for (int tries = 0; !is_free(block, rank, slot, count); ++tries, ++slot) {
    if (tries > block.interval) return std::nullopt;
  }
  for (int i = 0; i < count; ++i) {
    block.used[static_cast<std::size_t>(rank)][static_cast<std::size_t>((slot + i) % block.interval)] = 1;
  }
  return slot;
}

bool place(RandomBlock& block) {
  int free = 0;
  for (int s = 0; s < block.stages(); ++s) {
    const auto slot = draw_slot(block, block.rank_of(s), free, 1);
    if (!slot) return false;
    block.forward.push_back(*slot);
    free = *slot + 1;
  }
  block.backward.resize(block.forward.size());
  block.weight.resize(block.forward.size());
  for (int s = block.stages() - 1; s >= 0; --s) {
    const auto slot = draw_slot(block, block.rank_of(s), free, block.backward_slots());
    if (!slot) return false;
    block.backward[static_cast<std::size_t>(s)] = *slot;
    free = *slot + block.backward_slots();
    if (block.whole) continue;
    const auto weight = draw_slot(block, block.rank_of(s), free, 1);
    if (!weight) return false;
    block.weight[static_cast<std::size_t>(s)] = *weight;
  }
  return true;
}

RandomBlock draw_block() {
  RandomBlock block{.ranks = between(1, 6), .chunks = between(1, 3)};
  block.interval = 3 * block.chunks + between(0, 5);
  block.folded = between(0, 1) == 1;
  block.whole = between(0, 1) == 1;
  block.used.assign(static_cast<std::size_t>(block.ranks),
                    std::vector<char>(static_cast<std::size_t>(block.interval)));
  RC_PRE(place(block));
  return block;
}

std::string list_of(const RandomBlock& block, char kind, int chunk, const std::vector<int>& slots) {
  std::vector<int> by_rank(static_cast<std::size_t>(block.ranks));
  for (int i = 0; i < block.ranks; ++i) {
    const int stage = chunk * block.ranks + i;
    by_rank[static_cast<std::size_t>(block.rank_of(stage))] = slots[static_cast<std::size_t>(stage)];
  }
  std::string text = kind + std::to_string(chunk) + ": [";
  for (const int slot : by_rank) text += std::to_string(slot) + ' ';
  return text + "]; ";
}

ScheduleParameters parameters_of(const RandomBlock& block, int microbatches) {
  std::string offsets;
  for (int c = 0; c < block.chunks; ++c) {
    offsets +=
        list_of(block, 'F', c, block.forward) + list_of(block, block.whole ? 'B' : 'I', c, block.backward);
    if (!block.whole) offsets += list_of(block, 'W', c, block.weight);
  }
  return {.ranks = block.ranks,
          .microbatches = microbatches,
          .chunks = block.chunks,
          .settings = {{"placement", block.folded ? "v" : "loop"},
                       {"interval", std::to_string(block.interval)},
                       {"offsets", offsets}}};
}

std::vector<int> peaks_of(const ScheduleParameters& parameters) {
  const Schedule schedule = test::generated("building-block", parameters);
  std::vector<int> peaks;
  for (int r = 0; r < parameters.ranks; ++r) {
    peaks.push_back(test::peak_live_activations(schedule, RankId(r)));
  }
  return peaks;
}

RC_GTEST_PROP(BuildingBlock, HoldsAtMostThePapersBound, ()) {
  const RandomBlock block = draw_block();
  ScheduleParameters parameters = parameters_of(block, between(1, 20));
  std::vector<int> bounds;
  for (int r = 0; r < block.ranks; ++r) bounds.push_back(block.bound(r));
  for (const char* reorder : {"none", "ranks"}) {
    parameters.settings["reorder"] = reorder;
    RC_LOG() << parameters << '\n';
    const std::vector<int> peaks = peaks_of(parameters);
    for (std::size_t r = 0; r < peaks.size(); ++r) RC_ASSERT(peaks[r] <= bounds[r]);
  }
  parameters.settings["reorder"] = "peak";
  const std::vector<int> peaks = peaks_of(parameters);
  RC_ASSERT(*std::max_element(peaks.begin(), peaks.end()) <= *std::max_element(bounds.begin(), bounds.end()));
}

// Reordering moves actions to earlier slots only; squeezing never delays one.
RC_GTEST_PROP(BuildingBlock, TakesNoMoreTimeThanItsSlots, ()) {
  const RandomBlock block = draw_block();
  const int m = between(1, 20);
  ScheduleParameters parameters = parameters_of(block, m);
  int last = 0;
  for (int s = 0; s < block.stages(); ++s) last = std::max(last, block.end(s));
  const int slots = last - block.forward.front() + (m - 1) * block.interval;
  for (const char* reorder : {"none", "ranks", "peak"}) {
    parameters.settings["reorder"] = reorder;
    RC_LOG() << parameters << '\n';
    const Schedule schedule = test::generated("building-block", parameters);
    RC_ASSERT(test::step_time(schedule, unit_cost_table({})).makespan <= slots * kUnitTime);
  }
}

/// Expects a refusal whose text has both words.
void expect_refused(const RandomBlock& block, const std::string& word, const std::string& other) {
  const ScheduleParameters parameters = parameters_of(block, 4);
  RC_LOG() << parameters << '\n';
  const auto schedule = generate("building-block", parameters);
  RC_ASSERT_FALSE(schedule.has_value());
  RC_ASSERT(schedule.error().code == ErrorCode::bad_argument);
  RC_ASSERT(schedule.error().message.find(word) != std::string::npos);
  RC_ASSERT(schedule.error().message.find(other) != std::string::npos);
}

RC_GTEST_PROP(BuildingBlock, RefusesAnActionBeforeWhatItNeeds, ()) {
  RandomBlock block = draw_block();
  const auto s = static_cast<std::size_t>(between(0, block.stages() - 1));
  block.backward[s] = s + 1 < block.backward.size() ? block.backward[s + 1] : block.forward[s];
  expect_refused(block, "before", "of stage " + std::to_string(s) + " starts in slot");
}

RC_GTEST_PROP(BuildingBlock, RefusesTwoActionsInOneSlotOfTheInterval, ()) {
  RandomBlock block = draw_block();
  const int s = between(0, block.stages() - 1);
  const auto at = static_cast<std::size_t>(s);
  // Later by whole intervals, so that nothing but the slot is wrong.
  const int slot = block.forward[at] + (block.end(s) / block.interval + 1) * block.interval;
  RC_PRE(!block.whole || s == 0);
  (block.whole ? block.backward : block.weight)[at] = slot;
  expect_refused(block, "rank " + std::to_string(block.rank_of(s)) + ": ", "share slot");
}

}  // namespace
}  // namespace ppsim
