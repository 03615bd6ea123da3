#include "ppsim/core/slot_plan.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ppsim/core/check.hpp"
#include "ppsim/core/tensor_order.hpp"

namespace ppsim {
namespace {

/// Tensors of one rank in order of birth in one run, and which of them may be alive at once in some timing.
class ConflictGraph {
 public:
  ConflictGraph(const TensorOrder& order, std::vector<std::uint32_t> by_birth)
      : order_(order), tensors_(std::move(by_birth)) {
    find_conflicts();
  }

  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(tensors_.size()); }
  [[nodiscard]] std::uint32_t tensor(std::uint32_t node) const { return tensors_[node]; }
  [[nodiscard]] std::span<const std::uint32_t> neighbours(std::uint32_t node) const {
    return {items_.data() + begin_[node], begin_[node + 1] - begin_[node]};
  }

 private:
  struct Pair {
    std::uint32_t a;
    std::uint32_t b;
  };

  /// Walks along the births: a tensor stays active until it is dead for all that are still to come.
  void find_conflicts() {
    const std::vector<std::int32_t> least_born = least_born_from();
    std::vector<std::uint32_t> active;
    std::vector<Pair> pairs;
    for (std::uint32_t b = 0; b < size(); ++b) {
      const std::span<const std::int32_t> least{least_born.data() + b * lanes(), lanes()};
      std::erase_if(active, [&](std::uint32_t a) {
        const auto dead = order_.dead(tensor(a));
        return std::equal(dead.begin(), dead.end(), least.begin(),
                          [](std::int32_t d, std::int32_t l) { return d <= l; });
      });
      for (const std::uint32_t a : active) {
        if (!order_.before(tensor(a), tensor(b))) pairs.push_back({a, b});
      }
      active.push_back(b);
    }
    compress(pairs);
  }

  /// Row b: per lane, the least of born(b), born(b + 1), ...
  [[nodiscard]] std::vector<std::int32_t> least_born_from() const {
    std::vector<std::int32_t> rows(size() * lanes());
    for (std::uint32_t b = size(); b-- > 0;) {
      const auto born = order_.born(tensor(b));
      for (std::size_t lane = 0; lane < lanes(); ++lane) {
        const std::size_t at = b * lanes() + lane;
        rows[at] = b + 1 < size() ? std::min(born[lane], rows[at + lanes()]) : born[lane];
      }
    }
    return rows;
  }

  void compress(const std::vector<Pair>& pairs) {
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

  [[nodiscard]] std::size_t lanes() const { return tensors_.empty() ? 1 : order_.born(tensors_[0]).size(); }

  const TensorOrder& order_;
  std::vector<std::uint32_t> tensors_;
  std::vector<std::size_t> begin_;
  std::vector<std::uint32_t> items_;
};

/// The distinct blocks that tensors have been put into, by address: few, however many tensors share them.
class Blocks {
 public:
  /// Starts looking for room afresh: nothing is in the way.
  void clear() { ++round_; }
  void obstruct(std::uint32_t block) { obstructed_[block] = round_; }

  /// The lowest of the tightest gaps between obstructing blocks that holds `size` bytes; above them all if
  /// none does.
  [[nodiscard]] Bytes best_fit(Bytes size) const {
    Bytes best = -1;
    Bytes best_gap = 0;
    Bytes top = 0;
    for (const Block& block : by_address_) {
      if (obstructed_[block.number] != round_) continue;
      const Bytes gap = block.begin - top;
      if (gap >= size && (best < 0 || gap < best_gap)) {
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

struct Placement {
  std::vector<Bytes> offset;  ///< per node
  Bytes pool = 0;
};

/// Places nodes one after another in the given order; `sizes` per node.
Placement place(const ConflictGraph& graph, const std::vector<Bytes>& sizes,
                const std::vector<std::uint32_t>& order) {
  constexpr std::uint32_t kNotPlaced = ~std::uint32_t{0};
  Placement result{.offset = std::vector<Bytes>(graph.size(), 0)};
  std::vector<std::uint32_t> block(graph.size(), kNotPlaced);
  Blocks blocks;
  for (const std::uint32_t node : order) {
    blocks.clear();
    for (const std::uint32_t other : graph.neighbours(node)) {
      if (block[other] != kNotPlaced) blocks.obstruct(block[other]);
    }
    const Bytes begin = blocks.best_fit(sizes[node]);
    const Bytes end = checked_add(begin, sizes[node]);
    result.offset[node] = begin;
    result.pool = std::max(result.pool, end);
    block[node] = blocks.number_of(begin, end);
  }
  return result;
}

class Planner {
 public:
  explicit Planner(const SlotRequest& request)
      : table_(request.table),
        sizes_(request.sizes),
        alignment_(request.alignment),
        started_(request.program.size(), 0) {
    const std::vector<std::uint32_t>& items = request.order.items;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (items[i] % 2 == 0) started_[items[i] / 2] = static_cast<std::uint32_t>(i) + 1;
    }
  }

  /// Offsets of the rank's tensors into `plan`.
  void plan_rank(const TensorOrder& order, RankId rank, SlotPlan& plan) const {
    const ConflictGraph graph(order, nodes(order));
    std::vector<Bytes> rounded(graph.size());
    for (std::uint32_t n = 0; n < graph.size(); ++n) {
      rounded[n] =
          checked_multiply(checked_add(sizes_[graph.tensor(n)], alignment_ - 1) / alignment_, alignment_);
    }
    // Neither order is always the better one: large tensors first pack tightly, births in order leave no
    // holes where all is alike.
    std::vector<std::uint32_t> visit(graph.size());
    std::iota(visit.begin(), visit.end(), 0U);
    const Placement by_birth = place(graph, rounded, visit);
    std::stable_sort(visit.begin(), visit.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return rounded[a] > rounded[b]; });
    const Placement by_size = place(graph, rounded, visit);
    const Placement& best = by_birth.pool < by_size.pool ? by_birth : by_size;
    for (std::uint32_t n = 0; n < graph.size(); ++n) plan.offset[graph.tensor(n)] = best.offset[n];
    plan.pool_bytes[rank] = best.pool;
  }

 private:
  /// The rank's tensors that take room, in order of birth.
  [[nodiscard]] std::vector<std::uint32_t> nodes(const TensorOrder& order) const {
    std::vector<std::uint32_t> tensors;
    for (std::uint32_t t = order.first(); t < order.last(); ++t) {
      if (sizes_[t] > 0) tensors.push_back(t);
    }
    std::stable_sort(tensors.begin(), tensors.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return birth(a) < birth(b); });
    return tensors;
  }

  [[nodiscard]] std::uint32_t birth(std::uint32_t tensor) const {
    const Tensor& t = table_.tensors[tensor];
    if (t.from_start) return 0;
    std::uint32_t first = started_[table_.writers_of(t).front().index()];
    for (const InstructionId writer : table_.writers_of(t)) first = std::min(first, started_[writer.index()]);
    return first;
  }

  const TensorTable& table_;
  const std::vector<Bytes>& sizes_;
  Bytes alignment_;
  std::vector<std::uint32_t> started_;  ///< per instruction: 1 + where it starts in the run
};

}  // namespace

SlotPlan plan_slots(const SlotRequest& request) {
  PPSIM_CHECK(request.alignment > 0, "an alignment is at least one byte");
  const auto ranks = static_cast<std::size_t>(request.program.pipeline().ranks());
  SlotPlan plan{.offset = std::vector<Bytes>(request.table.tensors.size(), 0),
                .pool_bytes = IdVector<RankId, Bytes>(ranks, 0)};
  const Planner planner(request);
  for (std::size_t r = 0; r < ranks; ++r) {
    const RankId rank(static_cast<std::int32_t>(r));
    const HappensBefore clocks = HappensBefore::of_rank(request.program, request.graph, request.order, rank);
    planner.plan_rank(TensorOrder(request.table, clocks, rank), rank, plan);
  }
  return plan;
}

}  // namespace ppsim
