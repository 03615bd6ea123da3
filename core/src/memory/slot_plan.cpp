#include "ppsim/core/memory/slot_plan.hpp"

#include <algorithm>
#include <utility>

#include "conflict_graph.hpp"
#include "placement.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/memory/tensor_order.hpp"

namespace ppsim {
namespace {

constexpr std::uint64_t kMaxWork = std::uint64_t{1} << 25U;  // of all ranks: some tenths of a second

class SlotPlanner {
 public:
  SlotPlanner(const AnalyzedProgram& analyzed, const std::vector<Bytes>& sizes, Bytes alignment)
      : table_(analyzed.tensors()),
        sizes_(sizes),
        alignment_(alignment),
        work_(kMaxWork / static_cast<std::uint64_t>(analyzed.program().pipeline().ranks())),
        started_(analyzed.program().size(), 0),
        ended_(analyzed.program().size(), 0) {
    const std::vector<std::uint32_t>& items = analyzed.guaranteed_order().items;
    for (std::size_t i = 0; i < items.size(); ++i)
      (items[i] % 2 == 0 ? started_ : ended_)[items[i] / 2] = static_cast<std::uint32_t>(i) + 1;
  }

  /// Offsets of the rank's tensors into `plan`. Returns: how many pairs of them conflict; where the limits do
  /// not suffice, nothing, and no offsets.
  std::optional<std::size_t> plan_rank(const TensorOrder& order, const SlotLimits& limits,
                                       SlotPlan& plan) const {
    const ConflictGraph graph(order, nodes(order), limits);
    if (!graph.complete()) return std::nullopt;
    std::vector<Bytes> rounded(graph.size());
    for (std::uint32_t n = 0; n < graph.size(); ++n) {
      rounded[n] =
          checked_multiply(checked_add(sizes_[graph.tensor(n)], alignment_ - 1) / alignment_, alignment_);
    }
    const Placement best = find_placement(graph, rounded, {peak_of_run(graph, rounded), work_});
    for (std::uint32_t n = 0; n < graph.size(); ++n) plan.offset[graph.tensor(n)] = best.offset[n];
    if (graph.size() > 0) plan.pool_bytes[table_.tensors[graph.tensor(0)].rank] = best.pool;
    return graph.pairs();
  }

 private:
  /// The rank's tensors that take room, in order of birth.
  [[nodiscard]] std::vector<std::uint32_t> nodes(const TensorOrder& order) const {
    std::vector<std::uint32_t> tensors;
    for (std::uint32_t t = order.first(); t < order.last(); ++t) {
      if (sizes_[t] > 0) tensors.push_back(t);
    }
    std::ranges::stable_sort(tensors, [&](std::uint32_t a, std::uint32_t b) { return birth(a) < birth(b); });
    return tensors;
  }

  /// The peak of this one run, which every plan needs.
  [[nodiscard]] Bytes peak_of_run(const ConflictGraph& graph, const std::vector<Bytes>& sizes) const {
    std::vector<std::pair<std::uint32_t, Bytes>> changes;
    for (std::uint32_t n = 0; n < graph.size(); ++n) {
      changes.emplace_back(birth(graph.tensor(n)), sizes[n]);
      changes.emplace_back(death(graph.tensor(n)), -sizes[n]);
    }
    std::ranges::sort(changes);
    Bytes now = 0;
    Bytes peak = 0;
    for (const auto& [when, change] : changes) {
      now = checked_add(now, change);
      peak = std::max(peak, now);
    }
    return peak;
  }

  /// Of the writer issued first: where one on another queue starts sooner, the search begins elsewhere, and
  /// the peak counts less.
  [[nodiscard]] std::uint32_t birth(std::uint32_t tensor) const {
    const Tensor& t = table_.tensors[tensor];
    return t.from_start ? 0 : started_[table_.writers_of(t).front().index()];
  }

  [[nodiscard]] std::uint32_t death(std::uint32_t tensor) const {
    const Tensor& t = table_.tensors[tensor];
    if (t.to_end) return ~std::uint32_t{0};
    std::uint32_t last = 0;
    for (const InstructionId user : table_.users_of(t)) last = std::max(last, ended_[user.index()]);
    return last;
  }

  const TensorTable& table_;
  const std::vector<Bytes>& sizes_;
  Bytes alignment_;
  std::uint64_t work_;                  ///< of a rank
  std::vector<std::uint32_t> started_;  ///< per instruction: 1 + where it starts in the run
  std::vector<std::uint32_t> ended_;    ///< per instruction: 1 + where it is complete
};

}  // namespace

std::optional<SlotPlan> plan_slots_within(const AnalyzedProgram& analyzed, const std::vector<Bytes>& sizes,
                                          const SlotLimits& limits, Bytes alignment) {
  PPSIM_CHECK(alignment > 0, "an alignment is at least one byte");
  PPSIM_CHECK(analyzed.guaranteed_order().complete,
              "a Program that cannot finish has no order to share bytes by");
  const TensorTable& table = analyzed.tensors();
  const auto ranks = as_size(analyzed.program().pipeline().ranks());
  SlotPlan plan{.offset = std::vector<Bytes>(table.tensors.size(), 0),
                .pool_bytes = IdVector<RankId, Bytes>(ranks, 0)};
  const SlotPlanner planner(analyzed, sizes, alignment);
  const ExecutionGraph& graph = analyzed.guaranteed_graph();
  const ClockPlan clock_plan(graph, analyzed.guaranteed_order());
  SlotLimits left = limits;
  for (std::size_t r = 0; r < ranks; ++r) {
    if (left.stopped && left.stopped()) return std::nullopt;
    const RankId rank(static_cast<std::int32_t>(r));
    const HappensBefore clocks = HappensBefore::of_rank(analyzed.program(), graph, clock_plan, rank);
    const auto conflicts = planner.plan_rank(TensorOrder(table, clocks, rank), left, plan);
    if (!conflicts) return std::nullopt;
    left.max_conflicts -= *conflicts;
  }
  return plan;
}

SlotPlan plan_slots(const AnalyzedProgram& analyzed, const std::vector<Bytes>& sizes) {
  auto plan = plan_slots_within(analyzed, sizes, {});
  PPSIM_CHECK(plan.has_value(), "without a limit there is a plan");
  return *std::move(plan);
}

}  // namespace ppsim
