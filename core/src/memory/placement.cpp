#include "placement.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "ppsim/core/ir/sequences.hpp"

namespace ppsim {
namespace {

enum class Fit : std::uint8_t {
  tightest,  ///< the lowest of the smallest gaps that are large enough
  lowest,
};

/// The distinct blocks that tensors have been put into, by address: few, however many tensors share them.
class Blocks {
 public:
  /// Starts looking for room afresh: nothing is in the way.
  void clear() { ++round_; }
  void obstruct(std::uint32_t block) { obstructed_[block] = round_; }
  [[nodiscard]] std::size_t size() const { return by_address_.size(); }

  /// A gap between obstructing blocks that holds `size` bytes; above them all if none does.
  [[nodiscard]] Bytes room_for(Bytes size, Fit fit) const {
    Bytes best = -1;
    Bytes best_gap = 0;
    Bytes top = 0;
    for (const Block& block : by_address_) {
      if (obstructed_[block.number] != round_) continue;
      const Bytes gap = block.begin - top;
      if (gap >= size && (best < 0 || gap < best_gap)) {
        if (fit == Fit::lowest) return top;
        best = top;
        best_gap = gap;
      }
      top = std::max(top, block.end);
    }
    return best < 0 ? top : best;
  }

  /// The number of the block [begin, end).
  std::uint32_t number_of(Bytes begin, Bytes end) {
    const Block wanted{begin, end, static_cast<std::uint32_t>(by_address_.size())};
    const auto at = std::lower_bound(
        by_address_.begin(), by_address_.end(), wanted,
        [](const Block& a, const Block& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
    if (at != by_address_.end() && at->begin == begin && at->end == end) return at->number;
    by_address_.insert(at, wanted);
    obstructed_.push_back(0);
    return wanted.number;
  }

 private:
  struct Block {
    Bytes begin;
    Bytes end;
    std::uint32_t number;
  };
  std::vector<Block> by_address_;
  std::vector<std::uint64_t> obstructed_;  ///< per number: the round in which it was in the way
  std::uint64_t round_ = 0;
};

using Order = std::vector<std::uint32_t>;

/// Nodes by falling key, those with the same in order of birth.
Order by_falling(const std::vector<double>& key) {
  Order order(key.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, [&](std::uint32_t a, std::uint32_t b) { return key[a] > key[b]; });
  return order;
}

class PlacementSearch {
 public:
  PlacementSearch(const ConflictGraph& graph, const std::vector<Bytes>& sizes, const SearchLimits& limits)
      : graph_(graph), sizes_(sizes), limits_(limits) {}

  /// Neither of the first two orders is always the better one: large tensors first pack tightly, births in
  /// order leave no holes where all is alike. What lies between them is often better than both.
  Placement run() {
    best_ = place(starting_order(0), Fit::tightest);
    keep(place(starting_order(1), Fit::tightest));
    const std::vector<Bytes> large = goes_on() ? thresholds() : std::vector<Bytes>();
    for (const Fit fit : {Fit::tightest, Fit::lowest}) {
      for (std::size_t i = 0; i < kPlainOrders && goes_on(); ++i) settle(place(starting_order(i), fit));
      for (std::size_t i = 0; i < large.size() && goes_on(); ++i) settle(place(larger_first(large[i]), fit));
    }
    improve();
    return std::move(best_);
  }

 private:
  [[nodiscard]] bool goes_on() const { return best_.pool > limits_.enough && work_ < limits_.work; }

  void keep(const Placement& found) {
    if (found.pool < best_.pool) best_ = found;
  }

  static constexpr std::size_t kPlainOrders = 3;
  /// By birth, by size, and by size times conflicts.
  [[nodiscard]] Order starting_order(std::size_t number) const {
    std::vector<double> key(sizes_.size(), 0);
    if (number > 0) key.assign(sizes_.begin(), sizes_.end());
    for (std::uint32_t n = 0; number > 1 && n < graph_.size(); ++n)
      key[n] *= static_cast<double>(graph_.neighbours(n).size());
    return by_falling(key);
  }

  /// All tensors that are as large before the others.
  [[nodiscard]] Order larger_first(Bytes threshold) const {
    std::vector<double> key(sizes_.size());
    std::ranges::transform(sizes_, key.begin(), [&](Bytes size) { return size >= threshold ? 1 : 0; });
    return by_falling(key);
  }

  /// Sizes above the smallest one: all, or some from all over.
  [[nodiscard]] std::vector<Bytes> thresholds() const {
    constexpr std::size_t kMax = 12;
    std::vector<Bytes> distinct(sizes_);
    sort_unique(distinct);
    if (distinct.size() <= kMax + 1) return {distinct.begin() + (distinct.empty() ? 0 : 1), distinct.end()};
    std::vector<Bytes> some;
    for (std::size_t i = 1; i <= kMax; ++i) some.push_back(distinct[i * (distinct.size() - 1) / kMax]);
    return some;
  }

  /// Places nodes one after another.
  Placement place(const Order& order, Fit fit) {
    constexpr std::uint32_t kNotPlaced = ~std::uint32_t{0};
    Placement result{.offset = std::vector<Bytes>(graph_.size(), 0)};
    std::vector<std::uint32_t> block(graph_.size(), kNotPlaced);
    Blocks blocks;
    for (const std::uint32_t node : order) {
      blocks.clear();
      for (const std::uint32_t other : graph_.neighbours(node)) {
        if (block[other] != kNotPlaced) blocks.obstruct(block[other]);
      }
      work_ += graph_.neighbours(node).size() + blocks.size();
      const Bytes begin = blocks.room_for(sizes_[node], fit);
      const Bytes end = checked_add(begin, sizes_[node]);
      result.offset[node] = begin;
      result.pool = std::max(result.pool, end);
      block[node] = blocks.number_of(begin, end);
    }
    return result;
  }

  /// The same placement upside down, in which everything falls as far as it can: no pool grows by that, since
  /// whatever lies below a node has fallen before it and left it the room that it had.
  Placement turned(const Placement& placed) {
    std::vector<double> end(graph_.size());
    for (std::uint32_t n = 0; n < graph_.size(); ++n)
      end[n] = static_cast<double>(placed.offset[n] + sizes_[n]);
    return place(by_falling(end), Fit::lowest);
  }

  void settle(Placement placed) {
    constexpr int kTurns = 2;
    keep(placed);
    for (int turn = 0; turn < kTurns && goes_on(); ++turn) {
      placed = turned(placed);
      keep(placed);
    }
  }

  /// From the best placement on: something that ends at the top is placed earlier, wherever chance says.
  void improve() {
    constexpr int kRounds = 100;
    std::mt19937 random(1);
    Placement current = best_;
    for (int round = 0; round < kRounds && goes_on(); ++round) {
      Placement next = place(with_top_earlier(current, random), Fit::lowest);
      if (next.pool > current.pool) next = turned(next);
      keep(next);
      if (next.pool <= current.pool) current = std::move(next);
    }
  }

  [[nodiscard]] Order with_top_earlier(const Placement& placed, std::mt19937& random) const {
    Order order(graph_.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::stable_sort(
        order, [&](std::uint32_t a, std::uint32_t b) { return placed.offset[a] < placed.offset[b]; });
    std::vector<std::size_t> top;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (placed.offset[order[i]] + sizes_[order[i]] == placed.pool) top.push_back(i);
    }
    const auto chosen = order.begin() + static_cast<std::ptrdiff_t>(top[random() % top.size()]);
    const auto earlier =
        order.begin() + static_cast<std::ptrdiff_t>(random() % (as_size(chosen - order.begin()) + 1));
    std::rotate(earlier, chosen, chosen + 1);
    return order;
  }

  const ConflictGraph& graph_;
  const std::vector<Bytes>& sizes_;
  SearchLimits limits_;
  std::uint64_t work_ = 0;
  Placement best_;
};

}  // namespace

Placement find_placement(const ConflictGraph& graph, const std::vector<Bytes>& sizes,
                         const SearchLimits& limits) {
  return PlacementSearch(graph, sizes, limits).run();
}

}  // namespace ppsim
