#include "ppsim/simulator/engine/batch.hpp"

#include <algorithm>
#include <cstring>

#include "ppsim/core/ir/check.hpp"

namespace ppsim::simulator {
namespace {

/// Where the end of each item lies. An item's slot is free for the next end when its last reader has run.
class SlotAssignment {
 public:
  explicit SlotAssignment(const CompiledProgram& program)
      : items_(program.items), slot_(items_.size(), 0), last_reader_(items_.size(), 0) {
    for (std::uint32_t i = 1; i < items_.size(); ++i)
      last_reader_[items_[i].first] = last_reader_[items_[i].second] = i;
    keep(0);
    for (const std::uint32_t item : program.last_items) keep(item);
    for (const ComputeRow& row : program.rows) {
      keep(row.first_item);
      keep(row.last_item);
    }
    for (std::uint32_t i = 1; i < items_.size(); ++i) assign(i);
  }

  [[nodiscard]] std::uint32_t operator[](std::uint32_t item) const { return slot_[item]; }
  [[nodiscard]] std::uint32_t count() const { return count_; }

 private:
  static constexpr std::uint32_t kKept = UINT32_MAX;  ///< read when all is over

  void keep(std::uint32_t item) { last_reader_[item] = kKept; }

  /// Gives an item's end a slot, perhaps one that this item is the last to read: it reads before it writes.
  void assign(std::uint32_t item) {
    const auto [first, second, duration] = items_[item];
    if (last_reader_[first] == item) free_.push_back(slot_[first]);
    if (second != first && last_reader_[second] == item) free_.push_back(slot_[second]);
    if (free_.empty()) {
      slot_[item] = count_++;
    } else {  // the one that was used last is in the nearest cache
      slot_[item] = free_.back();
      free_.pop_back();
    }
    if (last_reader_[item] == 0) free_.push_back(slot_[item]);
  }

  const std::vector<CompiledItem>& items_;
  std::vector<std::uint32_t> slot_;
  std::vector<std::uint32_t> last_reader_;  ///< 0: nothing reads it
  std::vector<std::uint32_t> free_;
  std::uint32_t count_ = 1;
};

/// Half of the lanes: the widest register that nearly every processor of today has.
using Half = Nanoseconds __attribute__((vector_size(sizeof(LaneTimes) / 2)));

template <class Item>
[[gnu::always_inline]] inline void run_items(const std::vector<Item>& items, const char* durations,
                                             char* ends) {
  for (const Item& item : items) {
    for (std::size_t half = 0; half < sizeof(LaneTimes); half += sizeof(Half)) {
      Half first;
      Half second;
      Half duration;
      std::memcpy(&first, ends + half + item.first, sizeof first);
      std::memcpy(&second, ends + half + item.second, sizeof second);
      std::memcpy(&duration, durations + half + item.duration, sizeof duration);
      const Half end = (first > second ? first : second) + duration;
      std::memcpy(ends + half + item.end, &end, sizeof end);
    }
  }
}

// The compiler's own dispatch, target_clones, needs indirect functions, which sanitizers do not survive.
#if defined(__x86_64__) && defined(__GNUC__)
#define PPSIM_HAS_AVX2 1
template <class Item>
[[gnu::target("avx2")]] void run_items_avx2(const std::vector<Item>& items, const char* durations,
                                            char* ends) {
  run_items(items, durations, ends);
}
#endif

}  // namespace

BatchProgram::BatchProgram(const CompiledProgram& program)
    : durations_(program.item_counts.size()), duration_counts_(program.duration_counts) {
  const SlotAssignment slot(program);
  slots_ = slot.count();
  PPSIM_CHECK(std::max(slots_, durations_) < UINT32_MAX / sizeof(LaneTimes), "more slots than 32 bits reach");
  constexpr std::uint32_t kBytes = sizeof(LaneTimes);
  items_.reserve(program.items.size() - 1);
  for (std::uint32_t i = 1; i < program.items.size(); ++i) {
    const CompiledItem& item = program.items[i];
    items_.push_back(
        {kBytes * slot[item.first], kBytes * slot[item.second], kBytes * slot[i], kBytes * item.duration});
  }
  for (const std::uint32_t item : program.last_items) last_slots_.push_back(slot[item]);
  for (const ComputeRow& row : program.rows) {
    rows_.push_back({slot[row.first_item], slot[row.last_item], program.items[row.first_item].duration,
                     row.first_count, row.count_count});
  }
}

void BatchProgram::run(std::span<const LaneTimes> durations, LaneTimes* ends) const {
  const auto* const from = reinterpret_cast<const char*>(durations.data());
  auto* const to = reinterpret_cast<char*>(ends);
#ifdef PPSIM_HAS_AVX2
  if (__builtin_cpu_supports("avx2")) return run_items_avx2(items_, from, to);
#endif
  run_items(items_, from, to);
}

RankTimes BatchProgram::rank_times(const Row& row, std::size_t lane, std::span<const LaneTimes> durations,
                                   const std::vector<LaneTimes>& ends) const {
  if (row.first_slot == 0) return {};
  RankTimes times;
  times.start = ends[row.first_slot].of[lane] - durations[row.first_duration].of[lane];
  times.end = ends[row.last_slot].of[lane];
  for (std::uint32_t i = row.first_count; i < row.first_count + row.count_count; ++i)
    times.busy += duration_counts_[i].count * durations[duration_counts_[i].duration].of[lane];
  return times;
}

void BatchProgram::simulate(std::span<const LaneTimes> durations, Scratch& scratch,
                            std::span<StepTimes> times) const {
  PPSIM_CHECK(durations.size() == durations_ && times.size() <= kLanes, "see Requires");
  scratch.ends.resize(std::max(scratch.ends.size(), slots_));
  scratch.ends[0] = {};
  run(durations, scratch.ends.data());
  for (std::size_t lane = 0; lane < times.size(); ++lane) {
    StepTimes& of_lane = times[lane];
    of_lane.makespan = 0;
    for (const std::uint32_t slot : last_slots_)
      of_lane.makespan = std::max(of_lane.makespan, scratch.ends[slot].of[lane]);
    if (of_lane.ranks.size() != rows_.size()) of_lane.ranks = IdVector<RankId, RankTimes>(rows_.size());
    for (const RankId rank : rows_.ids()) {
      of_lane.ranks[rank] = rank_times(rows_[rank], lane, durations, scratch.ends);
    }
  }
}

std::vector<StepTimes> simulate_batch(const BatchProgram& program, std::span<const BoundCosts> costs,
                                      BatchProgram::Scratch& scratch) {
  std::vector<StepTimes> times(costs.size());
  std::vector<LaneTimes> durations;
  for (std::size_t begin = 0; begin < costs.size(); begin += kLanes) {
    const std::size_t count = std::min(kLanes, costs.size() - begin);
    durations.resize(costs[begin].durations.size());
    for (std::size_t d = 0; d < durations.size(); ++d) {
      for (std::size_t lane = 0; lane < count; ++lane)
        durations[d].of[lane] = costs[begin + lane].durations[d];
    }
    program.simulate(durations, scratch, std::span(times).subspan(begin, count));
  }
  return times;
}

}  // namespace ppsim::simulator
