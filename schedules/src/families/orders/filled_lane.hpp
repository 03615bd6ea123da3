#pragma once

#include <vector>

namespace ppsim::schedules {

/// The slots of a rank with F and I in places and W in those that are left, each as early as it can: how many
/// activations the rank then holds.
class FilledLane {
 public:
  explicit FilledLane(int slots);

  void put(int slot, bool backward);
  /// Fills the slots before `slot`. What is put or moved later does not stand before it.
  void fill_to(int slot);
  /// The most activations held in the slots that are filled.
  [[nodiscard]] int peak() const;

  /// The first free slot in [from, slot) to which the F or I of `slot` can move without more than `limit`
  /// activations in between; `slot` without one. Requires: fill_to(slot).
  [[nodiscard]] int earliest(int from, int slot, int limit) const;
  /// Requires: slot `to` is free or holds a W, to <= slot.
  void move(int slot, int to);

 private:
  enum class Cell : char { free, forward, backward };

  [[nodiscard]] bool idle(std::size_t slot) const {
    return cells_[slot] == Cell::free && pending_[slot] == 0;
  }
  [[nodiscard]] bool weight(std::size_t slot) const {
    return cells_[slot] == Cell::free && pending_[slot] > 0;
  }

  std::vector<Cell> cells_;
  std::vector<int> live_;     ///< activations held before a slot
  std::vector<int> pending_;  ///< I without W before a slot
  std::size_t filled_ = 0;
};

}  // namespace ppsim::schedules
