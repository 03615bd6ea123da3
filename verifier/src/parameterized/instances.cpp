#include "instances.hpp"

#include <algorithm>

#include "ppsim/core/execution/clock_plan.hpp"
#include "ppsim/core/io/text.hpp"
#include "ppsim/core/ir/check.hpp"

namespace ppsim::verifier {
namespace {

/// Which part of an instruction's occurrences the n-th of `count` is, and which instance of that part.
struct Slot {
  int part = 0;
  int index = 0;
};

Slot slot_of(int n, int count, const SeriesRule& rule, int split) {
  if (n < rule.head) return {n, 0};
  const int from_end = count - n;
  if (from_end <= rule.tail) return {rule.head + split + rule.tail - from_end, 0};
  return {rule.head + (n - rule.head) % split, (n - rule.head) / split};
}

int queue_of(const Program& program, InstructionId id) {
  return program.queue_of(program.actions(id).front(), program.communicators_of(id).front());
}

}  // namespace

int SeriesTable::add(const SeriesKey& key) { return number_.try_emplace(key, size()).first->second; }

int SeriesTable::find(const SeriesKey& key) const {
  const auto found = number_.find(key);
  return found == number_.end() ? -1 : found->second;
}

int SeriesTable::split(const SeriesKey& key) const {
  const auto found = split_.find(key);
  return found == split_.end() ? 1 : found->second;
}

SeriesKey key_of(RankId rank, std::span<const Action> actions, int part) {
  PPSIM_CHECK(actions.size() <= 2, "an instruction that is no member of a series");
  SeriesKey key;
  key.fill(-1);
  key[0] = rank.value();
  key[1] = part;
  std::size_t at = 2;
  for (const Action& a : actions) {
    for (const std::int32_t number : {static_cast<std::int32_t>(a.kind), std::int32_t{a.subject},
                                      std::int32_t{a.peer}, std::int32_t{a.slice}})
      key[at++] = number;
  }
  return key;
}

std::map<SeriesKey, int> occurrences_of(const Program& program) {
  std::map<SeriesKey, int> count;
  for (const InstructionId id : program.ids()) {
    ++count[key_of(program.rank_of(id), program.actions(id), 0)];
  }
  return count;
}

Instances instances_of(const Program& program, const SeriesRule& rule, SeriesTable& table, bool may_add) {
  Instances result;
  result.series.assign(program.size(), -1);
  result.index.assign(program.size(), 0);
  for (const RankId rank : program.pipeline().rank_ids()) {
    std::map<SeriesKey, std::vector<InstructionId>> occurrences;
    for (const InstructionId id : program.ids_of(rank)) {
      occurrences[key_of(rank, program.actions(id), 0)].push_back(id);
    }
    for (const auto& [key, ids] : occurrences) {
      SeriesKey of_part = key;
      const int split = table.split(key);
      int series = -1;  // of the part of_part[1]; 0 is that of the first
      of_part[1] = -1;
      for (std::size_t n = 0; n < ids.size(); ++n) {
        const Slot slot = slot_of(static_cast<int>(n), static_cast<int>(ids.size()), rule, split);
        if (of_part[1] != slot.part) {
          of_part[1] = slot.part;
          series = may_add ? table.add(of_part) : table.find(of_part);
        }
        if (series < 0) {
          result.lost.push_back(ids[n].value());
          continue;
        }
        result.series[ids[n].index()] = series;
        result.index[ids[n].index()] = slot.index;
        if (result.of_series.size() <= as_size(series)) result.of_series.resize(as_size(series) + 1);
        result.of_series[as_size(series)].push_back(ids[n]);
      }
    }
  }
  return result;
}

LocalOrder::LocalOrder(const Program& program, const ExecutionGraph& graph)
    : track_(program.size()), position_(program.size()) {
  std::vector<std::int32_t> filled;
  for (const RankId rank : program.pipeline().rank_ids()) {
    std::vector<int> track_of_queue(as_size(program.queue_count()), -1);
    filled.clear();
    for (const InstructionId id : program.ids_of(rank)) {
      int& track = track_of_queue[as_size(queue_of(program, id))];
      if (track < 0) {
        track = static_cast<int>(filled.size());
        filled.push_back(0);
      }
      track_[id.index()] = static_cast<std::uint32_t>(track);
      position_[id.index()] = filled[as_size(track)]++;
    }
    tracks_ = std::max(tracks_, filled.size());
  }
  // Within one rank and in list order: no messages to follow, so ClockPlan has nothing to do here.
  clock_.assign(program.size() * tracks_, 0);
  const auto clock_of = [this](InstructionId id) {
    return std::span(clock_).subspan(id.index() * tracks_, tracks_);
  };
  for (const InstructionId id : program.ids()) {
    const std::span<std::int32_t> clock = clock_of(id);
    for (const InstructionId p : graph.predecessors_of(id)) {
      merge_clock(clock, clock_of(p));
      std::int32_t& own = clock[track_[p.index()]];
      own = std::max(own, position_[p.index()] + 1);
    }
  }
}

Expected<void> check_plain(const Program& program, const ExecutionGraph& graph) {
  const auto refuse = [](const std::string& why) { return make_error(ErrorCode::refused, why); };
  for (const InstructionId id : program.ids()) {
    if (program.instruction(id).form == InstructionForm::group)
      return refuse("groups of messages are not followed over all microbatches");
    for (const InstructionId p : graph.predecessors_of(id)) {
      if (p >= id) return refuse(actions_text(program, id) + " waits for what stands later in its list");
    }
  }
  if (!graph.unsatisfiable.empty()) return refuse(graph.unsatisfiable.front().why);
  return {};
}

}  // namespace ppsim::verifier
