#include "repeated_block.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "families/orders/filled_lane.hpp"

namespace ppsim::schedules {
namespace {

/// The limits of the ranks, from their peaks.
void widen(std::vector<int>& limits, Reordering within) {
  if (within != Reordering::peak) return;
  std::ranges::fill(limits, *std::ranges::max_element(limits));
}

}  // namespace

/// Occupied slots and the activations held after each.
struct RepeatedBlock::Lane {
  explicit Lane(int slots) : used(as_size(slots)), live(as_size(slots)) {}

  std::vector<char> used;
  std::vector<int> live;
  std::vector<int> backward_ends;  ///< of the backwards met so far, ascending

  void meet_backward(int end) { backward_ends.insert(std::ranges::upper_bound(backward_ends, end), end); }
  [[nodiscard]] bool is_free(int slot, int count) const {
    return std::none_of(used.begin() + slot, used.begin() + slot + count, [](char c) { return c != 0; });
  }
  void occupy(int slot, int count, bool is_used) {
    std::fill_n(used.begin() + slot, count, static_cast<char>(is_used));
  }
  /// Holds `change` activations more in [from, to).
  void hold(int from, int to, int change) {
    for (int slot = from; slot < to; ++slot) live[as_size(slot)] += change;
  }
  /// The first of `count` free slots in a row in [from, to + count), where `to` is one.
  [[nodiscard]] int first_free(int from, int to, int count) const {
    while (from < to && !is_free(from, count)) ++from;
    return std::min(from, to);
  }
};

RepeatedBlock::RepeatedBlock(const BuildingBlock& block, int microbatches)
    : ranks_(block.ranks),
      stages_(static_cast<int>(block.stages.size())),
      microbatches_(microbatches),
      backward_slots_(block.backward_slots()),
      slots_(2 * block.stages.size() * as_size(microbatches)),
      weights_(as_size(block.ranks)) {
  int first = block.stages.front().forward;
  for (const BlockStage& stage : block.stages) {
    placement_.push_back(stage.rank);
    first = std::min(first, stage.forward);
  }
  for (int s = 0; s < stages_; ++s) {
    const BlockStage& stage = block.stages[as_size(s)];
    for (int i = 0; i < microbatches; ++i) {
      const int start = i * block.interval - first;
      slots_[as_size(forward_of(s, i))] = start + stage.forward;
      slots_[as_size(backward_of(s, i))] = start + stage.backward;
      if (stage.weight) weights_[stage.rank.index()].push_back({start + *stage.weight, backward_of(s, i)});
    }
  }
  for (std::vector<Weight>& queue : weights_) {
    std::ranges::sort(queue, {}, &Weight::slot);
  }
}

int RepeatedBlock::rank_of(int node) const { return placement_[as_size(stage_of(node))].value(); }

Action RepeatedBlock::action_of(int node, OpKind kind) const {
  return make_action(kind, stage_of(node), node % microbatches_);
}

int RepeatedBlock::earliest(int node) const {
  const bool backward = is_backward(node);
  const int stage = stage_of(node);
  int slot = 0;
  if (node % microbatches_ > 0) slot = end_of(node - 1);
  if (!backward && stage > 0) slot = std::max(slot, end_of(node - microbatches_));
  if (backward) {
    const int before = stage + 1 < stages_ ? node + microbatches_ : node - stages_ * microbatches_;
    slot = std::max(slot, end_of(before));
  }
  return slot;
}

RepeatedBlock::Weight& RepeatedBlock::weight_of(const Event& event) {
  return weights_[as_size(event.rank)][as_size(-1 - event.item)];
}

int RepeatedBlock::horizon() const {
  int end = *std::ranges::max_element(slots_) + backward_slots_;
  for (const std::vector<Weight>& queue : weights_) {
    if (!queue.empty()) end = std::max(end, queue.back().slot + 1);
  }
  return end;
}

RepeatedBlock::Steady RepeatedBlock::steady() const {
  const int last = forward_of(0, microbatches_ - 1);
  // With I and W the steady state is the block's own; with whole backwards its idle slots are worth a move.
  const bool kept = backward_slots_ == 1;
  return {.begin = kept ? slot_of(backward_of(0, 0)) : horizon(), .end = slot_of(last), .last = last};
}

std::vector<RepeatedBlock::Event> RepeatedBlock::events() const {
  std::vector<std::size_t> begin(as_size(horizon()) + 1);
  const auto each = [&](const auto& visit) {
    for (std::size_t node = 0; node < slots_.size(); ++node) {
      const int item = static_cast<int>(node);
      visit(Event{slots_[node], rank_of(item), item});
    }
    for (int r = 0; r < ranks_; ++r) {
      int item = -1;
      for (const Weight& weight : weights_[as_size(r)]) visit(Event{weight.slot, r, item--});
    }
  };
  each([&](const Event& event) { ++begin[as_size(event.slot) + 1]; });
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<Event> sorted(begin.back());
  each([&](const Event& event) { sorted[begin[as_size(event.slot)]++] = event; });
  return sorted;
}

std::vector<RepeatedBlock::Lane> RepeatedBlock::lanes() const {
  std::vector<Lane> result(as_size(ranks_), Lane(horizon()));
  for (std::size_t node = 0; node < slots_.size(); ++node) {
    const int item = static_cast<int>(node);
    Lane& lane = result[as_size(rank_of(item))];
    lane.occupy(slots_[node], slots_of(item), true);
    if (!is_backward(item)) ++lane.live[as_size(slots_[node])];
    if (is_backward(item) && backward_slots_ > 1) --lane.live[as_size(end_of(item) - 1)];
  }
  for (int r = 0; r < ranks_; ++r) {
    Lane& lane = result[as_size(r)];
    for (const Weight& weight : weights_[as_size(r)]) {
      lane.occupy(weight.slot, 1, true);
      --lane.live[as_size(weight.slot)];
    }
    std::partial_sum(lane.live.begin(), lane.live.end(), lane.live.begin());
  }
  return result;
}

void RepeatedBlock::drop_weights() {
  for (std::vector<Weight>& queue : weights_) queue.clear();
}

void RepeatedBlock::fill_weights() {
  struct Rank {
    int free = 0;  // first slot after what it has done
    int owed = 0;  // I without W
  };
  std::vector<Rank> state(as_size(ranks_));
  const auto fill = [&](int rank, int to) {
    Rank& now = state[as_size(rank)];
    for (; now.owed > 0 && now.free < to; --now.owed) weights_[as_size(rank)].push_back({now.free++});
  };
  for (const Event& event : events()) {
    fill(event.rank, event.slot);
    state[as_size(event.rank)].free = event.slot + 1;
    if (is_backward(event.item)) ++state[as_size(event.rank)].owed;
  }
  for (int r = 0; r < ranks_; ++r) fill(r, std::numeric_limits<int>::max());
}

void RepeatedBlock::compact(Reordering within) {
  std::vector<Lane> lane_of = lanes();
  std::vector<int> limits;
  for (const Lane& lane : lane_of) limits.push_back(*std::ranges::max_element(lane.live));
  widen(limits, within);
  const Steady still = steady();
  for (const Event& event : events()) {
    Lane& lane = lane_of[as_size(event.rank)];
    const bool moves = !still.holds(event);
    if (event.item < 0) {
      if (moves) compact_weight(event, lane);
    } else if (is_backward(event.item)) {
      if (moves) compact_backward(event, lane);
      lane.meet_backward(end_of(event.item));
    } else if (moves) {
      compact_forward(event, lane, limits[as_size(event.rank)]);
    }
  }
}

// An F is one more activation from its slot on.
void RepeatedBlock::compact_forward(const Event& event, Lane& lane, int limit) {
  int best = event.slot;
  const int from = earliest(event.item);
  for (int slot = event.slot - 1; slot >= from && lane.live[as_size(slot)] < limit; --slot) {
    if (lane.used[as_size(slot)] == 0) best = slot;
  }
  lane.occupy(event.slot, 1, false);
  lane.occupy(best, 1, true);
  lane.hold(best, event.slot, 1);
  slots_[as_size(event.item)] = best;
}

void RepeatedBlock::compact_backward(const Event& event, Lane& lane) {
  lane.occupy(event.slot, backward_slots_, false);
  const int best = lane.first_free(earliest(event.item), event.slot, backward_slots_);
  lane.occupy(best, backward_slots_, true);
  if (backward_slots_ > 1) lane.hold(best + backward_slots_ - 1, event.slot + backward_slots_ - 1, -1);
  slots_[as_size(event.item)] = best;
}

void RepeatedBlock::compact_weight(const Event& event, Lane& lane) {
  Weight& weight = weight_of(event);
  const int place = -1 - event.item;
  int from = weight.owner >= 0 ? end_of(weight.owner) : lane.backward_ends[as_size(place)];
  if (place > 0) from = std::max(from, weights_[as_size(event.rank)][as_size(place - 1)].slot + 1);
  lane.occupy(event.slot, 1, false);
  weight.slot = lane.first_free(from, event.slot, 1);
  lane.occupy(weight.slot, 1, true);
  lane.hold(weight.slot, event.slot, -1);
}

void RepeatedBlock::compact_cooldown(Reordering within) {
  std::vector<FilledLane> lane_of(as_size(ranks_), FilledLane(horizon()));
  for (std::size_t node = 0; node < slots_.size(); ++node) {
    const int item = static_cast<int>(node);
    lane_of[as_size(rank_of(item))].put(slots_[node], is_backward(item));
  }
  std::vector<int> limits;
  for (FilledLane& lane : lane_of) {
    lane.fill_to(horizon());
    limits.push_back(lane.peak());
  }
  widen(limits, within);
  const Steady still = steady();
  for (const Event& event : events()) {
    if (event.slot < still.end || event.item == still.last) continue;
    FilledLane& lane = lane_of[as_size(event.rank)];
    lane.fill_to(event.slot);
    int& slot = slots_[as_size(event.item)];
    slot = lane.earliest(earliest(event.item), event.slot, limits[as_size(event.rank)]);
    if (slot < event.slot) lane.move(event.slot, slot);
  }
}

void RepeatedBlock::squeeze() {
  std::vector<int> free(as_size(ranks_));
  for (const Event& event : events()) {
    int& now = free[as_size(event.rank)];
    if (event.item < 0) {
      // Its I stands before it on the rank.
      weight_of(event).slot = now++;
    } else {
      slots_[as_size(event.item)] = std::max(now, earliest(event.item));
      now = end_of(event.item);
    }
  }
}

Expected<Schedule> RepeatedBlock::schedule(const std::string& name) const {
  PPSIM_ASSIGN_OR_RETURN(auto pipeline, make_chain(ranks_, stages_, microbatches_, placement_));
  ScheduleBuilder builder(name, std::move(pipeline));
  std::vector<std::vector<int>> met(as_size(ranks_));  // backwards of each rank
  for (const Event& event : events()) {
    const RankId rank(event.rank);
    if (event.item < 0) {
      const auto place = as_size(-1 - event.item);
      const int owner = weights_[rank.index()][place].owner;
      const int node = owner >= 0 ? owner : met[rank.index()][place];
      builder.add(rank, action_of(node, OpKind::backward_weight));
    } else if (!is_backward(event.item)) {
      builder.add(rank, action_of(event.item, OpKind::forward));
    } else {
      met[rank.index()].push_back(event.item);
      builder.add(rank,
                  action_of(event.item, backward_slots_ == 1 ? OpKind::backward_input : OpKind::backward));
    }
  }
  return std::move(builder).build();
}

}  // namespace ppsim::schedules
