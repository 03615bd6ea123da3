#include "v_block_orders.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace ppsim::schedules {
namespace {

constexpr int kSlots = 6;
constexpr int kSteepest = 5;
constexpr int kRankKinds = 4;

/// First slots of rank 0, and how what goes down the ranks moves on.
struct Slope {
  std::array<int, 3> residues = {};  ///< of F up, I down and I up on rank 0; F down has 0
  int steep = 1;                     ///< slots per rank on the first `steep_ranks` steps
  int flat = 1;
  int steep_ranks = 1;

  [[nodiscard]] int down(int rank) const {
    const int first = std::min(rank, steep_ranks);
    return first * steep + (rank - first) * flat;
  }
};

int after(int slot, int residue) { return slot + 1 + ((residue - slot - 1) % kSlots + kSlots) % kSlots; }

/// The block's slots on rank 0. What goes up has residues that fall by one from rank to rank.
std::array<int, 4> first_rank(const Slope& slope, int ranks) {
  const int last = ranks - 1;
  const int forward_up = after(slope.down(last), slope.residues[0] - last) + last;
  const int input_down = after(forward_up, slope.residues[1]);
  const int input_up = after(input_down + slope.down(last), slope.residues[2] - last) + last;
  return {0, forward_up, input_down, input_up};
}

VBlock block_of(const Slope& slope, int ranks) {
  const std::array<int, 4> first = first_rank(slope, ranks);
  VBlock block;
  for (int r = 0; r < ranks; ++r) {
    block.offsets.push_back({slope.down(r), first[1] - r, first[2] + slope.down(r), first[3] - r});
  }
  return block;
}

int whole_intervals(int a, int b) { return a / b - (a % b < 0 ? 1 : 0); }

/// Activations that a rank holds in its steady state; 0 where two actions share a slot.
int rank_peak(const std::array<int, 4>& offsets, int interval) {
  std::vector<char> used(as_size(interval));
  const auto take = [&](int slot) { return std::exchange(used[as_size(slot % interval)], char{1}) == 0; };
  for (const int slot : offsets) {
    if (!take(slot)) return 0;
  }
  std::array<int, 2> ends = {};  // W of both chunks
  for (std::size_t chunk = 0; chunk < 2; ++chunk) {
    int slot = offsets[3 - chunk] + 1;
    while (!take(slot)) ++slot;
    ends[chunk] = slot + 1;
  }
  int peak = 0;
  for (std::size_t now = 0; now < 2; ++now) {
    int live = 0;
    for (std::size_t chunk = 0; chunk < 2; ++chunk) {
      live += whole_intervals(offsets[now] - offsets[chunk], interval) -
              whole_intervals(offsets[now] - ends[chunk], interval);
    }
    peak = std::max(peak, live);
  }
  return peak;
}

/// The slots of every action of a rank, by kind and microbatch.
using Slots = std::array<std::vector<int>, kRankKinds>;

Slots slots_of(const VBlock& block, std::size_t rank, int microbatches) {
  Slots slots;
  for (std::size_t k = 0; k < slots.size(); ++k) {
    slots[k].reserve(as_size(microbatches));
    for (int i = 0; i < microbatches; ++i) slots[k].push_back(block.offsets[rank][k] + i * block.interval);
  }
  return slots;
}

/// Puts the last `count` actions of a kind two slots apart, the very last one into `last`.
void close_up(std::vector<int>& slots, int last, int count) {
  const std::size_t size = slots.size();
  for (int k = 0; k < count; ++k) slots[size - 1 - as_size(k)] = last - 2 * k;
  for (std::size_t i = 1; i < size; ++i) slots[i] = std::max(slots[i], slots[i - 1] + 1);
}

void tighten_end(Slots& slots, const VBlock& block, int rank, int peak) {
  const auto microbatches = static_cast<int>(slots[0].size());
  const auto ranks = static_cast<int>(block.offsets.size());
  const int up = std::min((peak + 1) / 2, microbatches);
  const int down = std::min({rank + 1, peak - up, microbatches});
  const int last_forward = block.offsets.front()[1] + (microbatches - 1) * block.interval;
  close_up(slots[2], last_forward + 1 + rank, down);
  close_up(slots[3], last_forward + 2 * ranks - rank, up);
}

VRow merged(const Slots& slots) {
  VRow row;
  row.reserve(kVKinds * slots[0].size());
  std::array<std::size_t, kRankKinds> next = {};
  std::vector<VKind> owed;  // W in the order of their I
  std::size_t paid = 0;
  int free = 0;
  for (std::size_t left = kRankKinds * slots[0].size(); left > 0; --left) {
    std::size_t first = kRankKinds;
    for (std::size_t k = 0; k < kRankKinds; ++k) {
      if (next[k] == slots[k].size()) continue;
      if (first == kRankKinds || slots[k][next[k]] < slots[first][next[first]]) first = k;
    }
    const int slot = slots[first][next[first]++];
    for (; free < slot && paid < owed.size(); ++free) row.push_back(owed[paid++]);
    free = std::max(free, slot) + 1;
    row.push_back(static_cast<VKind>(first));
    if (first >= 2) owed.push_back(first == 2 ? VKind::weight_down : VKind::weight_up);
  }
  row.insert(row.end(), owed.begin() + static_cast<std::ptrdiff_t>(paid), owed.end());
  return row;
}

struct RowPlace {
  int rank = 0;
  int ranks = 1;
  int peak = 2;
};

void even_begin(VRow& row, const RowPlace& at) {
  const auto end = std::ranges::find(row, VKind::input_up);
  std::array<int, kVKinds> left = {};
  for (auto i = row.begin(); i != end; ++i) ++left[static_cast<std::size_t>(*i)];
  auto put = row.begin();
  const auto take = [&](VKind kind) {
    int& count = left[static_cast<std::size_t>(kind)];
    if (count == 0) return false;
    --count;
    *put++ = kind;
    return true;
  };
  const int up = std::min(at.rank + 1, at.peak / 2);
  int down = at.peak - up;
  for (int i = 0; i < 2 * (at.ranks - 1 - at.rank) && down > 0 && take(VKind::forward_down); ++i) --down;
  for (int i = 0; i <= at.rank; ++i) {
    if (down-- > 0) take(VKind::forward_down);
    if (i < up) take(VKind::forward_up);
  }
  while (put != end) {
    take(VKind::input_down);
    take(VKind::weight_down);
    if (!take(VKind::forward_up)) take(VKind::forward_down);
  }
}

int peak_of(const VRow& row) {
  int live = 0;
  int peak = 0;
  for (const VKind kind : row) {
    if (kind <= VKind::forward_up) peak = std::max(peak, ++live);
    if (kind >= VKind::weight_down) --live;
  }
  return peak;
}

std::vector<std::array<int, 3>> distinct_residues() {
  std::vector<std::array<int, 3>> result;
  for (int a = 1; a < kSlots; ++a) {
    for (int b = 1; b < kSlots; ++b) {
      for (int c = 1; c < kSlots; ++c) {
        if (a != b && b != c && a != c) result.push_back({a, b, c});
      }
    }
  }
  return result;
}

struct PeakedBlock {
  int peak = 0;
  VBlock block;
};
struct Bounds {
  int ranks = 1;
  int limit = 2;
};

/// Adds the block if it can be repeated, is new and comes close to the limit.
void consider(const Slope& slope, const Bounds& bounds, std::vector<PeakedBlock>& found) {
  constexpr int kClose = 2;
  // Rank 0 tells for most blocks that they are of no use.
  const int first = rank_peak(first_rank(slope, bounds.ranks), kSlots);
  if (first == 0 || first > bounds.limit || first < bounds.limit - kClose) return;
  VBlock block = block_of(slope, bounds.ranks);
  const int peak = repeated_peak(block);
  const bool known = std::ranges::any_of(
      found, [&](const PeakedBlock& other) { return other.block.offsets == block.offsets; });
  if (peak > 0 && peak <= bounds.limit && !known) found.push_back({peak, std::move(block)});
}

}  // namespace

int repeated_peak(const VBlock& block) {
  int peak = 0;
  for (const std::array<int, 4>& offsets : block.offsets) {
    const int own = rank_peak(offsets, block.interval);
    if (own == 0) return 0;
    peak = std::max(peak, own);
  }
  return peak;
}

std::vector<VBlock> uniform_blocks(int ranks, int limit, int count) {
  std::vector<PeakedBlock> found;
  for (const std::array<int, 3>& residues : distinct_residues()) {
    for (int steep = 1; steep <= kSteepest; ++steep) {
      for (int flat = 1; flat <= steep; ++flat) {
        const int most = steep == flat ? 1 : ranks - 1;
        for (int n = 1; n <= most; ++n) consider({residues, steep, flat, n}, {ranks, limit}, found);
      }
    }
  }
  std::ranges::stable_sort(found, std::ranges::greater(), &PeakedBlock::peak);
  std::vector<VBlock> blocks;
  for (PeakedBlock& one : found) {
    if (static_cast<int>(blocks.size()) < count) blocks.push_back(std::move(one.block));
  }
  return blocks;
}

VBlock stretched_block(int ranks, int microbatches, int limit) {
  VBlock block;
  for (int r = 0; r < ranks; ++r) {
    block.offsets.push_back({r, 2 * ranks - 1 - r, 2 * ranks + r, 4 * ranks - 1 - r});
  }
  const auto fits = [&] {
    const VOrder order = repeated_order(block, microbatches, {});
    return std::ranges::all_of(order, [&](const VRow& row) { return peak_of(row) <= limit; });
  };
  // On average a rank holds 4p slots' worth of activations per interval.
  block.interval = std::max(kSlots, 4 * ranks / limit);
  while (!fits()) ++block.interval;
  return block;
}

VOrder repeated_order(const VBlock& block, int microbatches, const VEnds& ends) {
  VOrder order;
  const int peak = ends.tight_end || ends.even_begin ? repeated_peak(block) : 0;
  const auto ranks = static_cast<int>(block.offsets.size());
  for (int r = 0; r < ranks; ++r) {
    Slots slots = slots_of(block, as_size(r), microbatches);
    if (ends.tight_end) tighten_end(slots, block, r, peak);
    order.push_back(merged(slots));
    if (ends.even_begin) even_begin(order.back(), {r, ranks, peak});
  }
  return order;
}

}  // namespace ppsim::schedules
