#include "conflict_graph.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ppsim {

ConflictGraph::ConflictGraph(const TensorOrder& order, std::vector<std::uint32_t> by_birth,
                             const SlotLimits& limits)
    : order_(order), tensors_(std::move(by_birth)) {
  compress(find_pairs(limits));
}

/// Walks along the births: a tensor stays active until it is dead for all that are still to come.
std::vector<ConflictGraph::Pair> ConflictGraph::find_pairs(const SlotLimits& limits) {
  constexpr std::uint32_t kBetweenLooks = 256;
  const std::vector<std::int32_t> min_born = min_born_from();
  std::vector<std::uint32_t> active;
  std::vector<Pair> pairs;
  for (std::uint32_t b = 0; b < size() && complete_; ++b) {
    const std::span<const std::int32_t> least{min_born.data() + b * tracks(), tracks()};
    std::erase_if(active, [&](std::uint32_t a) {
      const auto dead = order_.dead(tensor(a));
      return std::ranges::equal(dead, least, std::ranges::less_equal());
    });
    for (const std::uint32_t a : active) {
      if (!order_.before(tensor(a), tensor(b))) pairs.push_back({a, b});
    }
    active.push_back(b);
    const bool late = b % kBetweenLooks == 0 && limits.stopped && limits.stopped();
    complete_ = pairs.size() <= limits.max_conflicts && !late;
  }
  return pairs;
}

/// Row b: per track, the least of born(b), born(b + 1), ...
std::vector<std::int32_t> ConflictGraph::min_born_from() const {
  std::vector<std::int32_t> rows(size() * tracks());
  for (std::uint32_t b = size(); b-- > 0;) {
    const auto born = order_.born(tensor(b));
    for (std::size_t track = 0; track < tracks(); ++track) {
      const std::size_t at = b * tracks() + track;
      rows[at] = b + 1 < size() ? std::min(born[track], rows[at + tracks()]) : born[track];
    }
  }
  return rows;
}

void ConflictGraph::compress(const std::vector<Pair>& pairs) {
  begin_.assign(size() + 1, 0);
  for (const Pair& pair : pairs) {
    ++begin_[pair.a + 1];
    ++begin_[pair.b + 1];
  }
  std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  items_.resize(begin_.back());
  std::vector<std::size_t> fill(begin_.begin(), begin_.end() - 1);
  for (const Pair& pair : pairs) {
    items_[fill[pair.a]++] = pair.b;
    items_[fill[pair.b]++] = pair.a;
  }
}

}  // namespace ppsim
