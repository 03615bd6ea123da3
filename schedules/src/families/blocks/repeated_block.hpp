#pragma once

#include <vector>

#include "building_block.hpp"

namespace ppsim::schedules {

/// The actions of a block that is repeated for each microbatch, in slots.
///
/// An F or a backward is a node: F of stage s and microbatch i is s m + i, its backward (S + s) m + i. The W
/// of a rank are a queue: where the block does not place them, the k-th belongs to the k-th I.
class RepeatedBlock {
 public:
  RepeatedBlock(const BuildingBlock& block, int microbatches);

  /// Lets the W of every rank take its idle slots, as early as they can.
  void fill_weights();
  void drop_weights();

  /// Moves every action of the warm-up and of the cool-down, with whole backwards every action, to the
  /// earliest slots that do not raise the peak. The warm-up is before the first microbatch's end on the first
  /// stage, the cool-down after the last one's begin.
  void compact(Reordering within);
  /// The same for the cool-down alone, where the W are gone and follow in the slots that are left.
  void compact_cooldown(Reordering within);
  /// Starts every action when its rank and what it needs allow it, in the order that there is.
  void squeeze();

  [[nodiscard]] Expected<Schedule> schedule(const std::string& name) const;

 private:
  /// An action by the slot in which it starts: a node, or the k-th W of a rank as -1 - k.
  struct Event {
    int slot = 0;
    int rank = 0;
    int item = 0;
  };
  struct Weight {
    int slot = 0;
    int owner = -1;  ///< node of its I; -1 where it belongs to the I of the same place in the queue
  };
  struct Lane;
  /// Actions that start between the first microbatch's end and the last one's begin on the first stage stay.
  struct Steady {
    int begin = 0;
    int end = 0;
    int last = 0;  ///< node of the last microbatch's first F, which stays too
    [[nodiscard]] bool holds(const Event& event) const {
      return event.slot >= begin && (event.slot < end || event.item == last);
    }
  };

  [[nodiscard]] int forward_of(int stage, int microbatch) const { return stage * microbatches_ + microbatch; }
  [[nodiscard]] int backward_of(int stage, int microbatch) const {
    return (stages_ + stage) * microbatches_ + microbatch;
  }
  [[nodiscard]] bool is_backward(int node) const { return node >= stages_ * microbatches_; }
  [[nodiscard]] int stage_of(int node) const { return node / microbatches_ % stages_; }
  [[nodiscard]] int rank_of(int node) const;
  [[nodiscard]] int slots_of(int node) const { return is_backward(node) ? backward_slots_ : 1; }
  [[nodiscard]] int slot_of(int node) const { return slots_[as_size(node)]; }
  [[nodiscard]] int end_of(int node) const { return slot_of(node) + slots_of(node); }
  [[nodiscard]] Action action_of(int node, OpKind kind) const;
  /// The first slot that what a node needs allows.
  [[nodiscard]] int earliest(int node) const;
  [[nodiscard]] Weight& weight_of(const Event& event);
  [[nodiscard]] int horizon() const;
  [[nodiscard]] Steady steady() const;
  [[nodiscard]] std::vector<Event> events() const;
  [[nodiscard]] std::vector<Lane> lanes() const;
  void compact_forward(const Event& event, Lane& lane, int limit);
  void compact_backward(const Event& event, Lane& lane);
  void compact_weight(const Event& event, Lane& lane);

  int ranks_;
  int stages_;
  int microbatches_;
  int backward_slots_;
  std::vector<RankId> placement_;
  std::vector<int> slots_;                    ///< of nodes
  std::vector<std::vector<Weight>> weights_;  ///< of each rank, ascending
};

}  // namespace ppsim::schedules
