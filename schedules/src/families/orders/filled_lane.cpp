#include "filled_lane.hpp"

#include <algorithm>
#include <limits>

#include "ppsim/core/ir/ids.hpp"

namespace ppsim::schedules {
namespace {

/// Less than every count, with room for the sums below.
constexpr int kNone = std::numeric_limits<int>::min() / 2;

}  // namespace

FilledLane::FilledLane(int slots)
    : cells_(as_size(slots), Cell::free), live_(as_size(slots) + 1), pending_(live_) {}

void FilledLane::put(int slot, bool backward) {
  cells_[as_size(slot)] = backward ? Cell::backward : Cell::forward;
}

void FilledLane::fill_to(int slot) {
  for (; filled_ < as_size(slot); ++filled_) {
    const int freed = weight(filled_) ? 1 : 0;
    const int taken = cells_[filled_] == Cell::forward ? 1 : 0;
    const int owed = cells_[filled_] == Cell::backward ? 1 : 0;
    live_[filled_ + 1] = live_[filled_] + taken - freed;
    pending_[filled_ + 1] = pending_[filled_] + owed - freed;
  }
}

int FilledLane::peak() const {
  return *std::max_element(live_.begin(), live_.begin() + static_cast<std::ptrdiff_t>(filled_) + 1);
}

// An action that takes the slot of a W delays it, and the W after it, up to the next idle slot: one more
// activation until there. An F is one more from its slot on.
int FilledLane::earliest(int from, int slot, int limit) const {
  const bool forward = cells_[as_size(slot)] == Cell::forward;
  int best = slot;
  int all = kNone;         // held after slots [i, slot)
  int until_idle = kNone;  // held after slots [i, next idle slot)
  for (int i = slot - 1; i >= from; --i) {
    all = std::max(all, live_[as_size(i) + 1]);
    if (forward && all >= limit) break;
    until_idle = idle(as_size(i)) ? kNone : std::max(until_idle, live_[as_size(i) + 1]);
    const bool fits = until_idle + 1 + (forward ? 1 : 0) <= limit;
    if (cells_[as_size(i)] == Cell::free && fits) best = i;
  }
  return best;
}

void FilledLane::move(int slot, int to) {
  std::swap(cells_[as_size(slot)], cells_[as_size(to)]);
  filled_ = std::min(filled_, as_size(to));
}

}  // namespace ppsim::schedules
