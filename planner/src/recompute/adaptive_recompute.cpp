#include "ppsim/planner/recompute/adaptive_recompute.hpp"

#include <algorithm>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/planner/evaluate.hpp"
#include "rank_recompute.hpp"

namespace ppsim::planner {
namespace {

using Peaks = IdVector<RankId, Bytes>;

class Chooser {
 public:
  Chooser(const Schedule& schedule, const Workload& workload)
      : schedule_(schedule), workload_(workload), limit_(workload.cluster.gpu.memory_bytes) {}

  Expected<StageRecompute> run() {
    PPSIM_RETURN_IF_ERROR(prepare());
    while (true) {
      Expected<StageRecompute> choice = choose();
      if (!choice) return choice;
      PPSIM_ASSIGN_OR_RETURN(const auto peaks, simulated_peaks(*choice));
      if (!tighten(*choice, peaks)) return choice;
    }
  }

 private:
  /// The memory that every rank has for activations: all but what the simulation of a step that recomputes in
  /// full needs beside them.
  Expected<void> prepare() {
    for (const Recompute recompute : kRecomputeChoices) {
      PPSIM_ASSIGN_OR_RETURN(auto costs, analytic_costs(recomputing(recompute), schedule_.pipeline()));
      tables_[static_cast<std::size_t>(recompute)] = std::move(costs.tables);
    }
    PPSIM_ASSIGN_OR_RETURN(const auto peaks, simulated_peaks(Recompute::full));
    for (const RankId rank : schedule_.pipeline().rank_ids()) {
      ranks_.push_back(RankRecompute(schedule_, rank, tables_));
      const std::vector<Recompute> full(schedule_.pipeline().stages_of(rank).size(), Recompute::full);
      budgets_.push_back(limit_ - (peaks[rank] - ranks_[rank].peak(full)));
      min_.push_back(peaks[rank]);
    }
    return {};
  }

  [[nodiscard]] Workload recomputing(const StageRecompute& recompute) const {
    Workload workload = workload_;
    workload.parallelism.recompute = recompute;
    return workload;
  }

  [[nodiscard]] Expected<Peaks> simulated_peaks(const StageRecompute& recompute) const {
    PPSIM_ASSIGN_OR_RETURN(auto costs, bind_cost_source(recomputing(recompute), schedule_.pipeline()));
    PPSIM_ASSIGN_OR_RETURN(
        auto program,
        lower(schedule_, {.order = IssueOrder::timed, .recompute = recompute}, &costs.tables.costs));
    PPSIM_ASSIGN_OR_RETURN(const auto step, evaluate(schedule_.name(), std::move(program), std::move(costs)));
    Peaks peaks;
    for (const RankMetrics& rank : step.metrics.ranks) peaks.push_back(rank.peak_bytes);
    return peaks;
  }

  [[nodiscard]] Expected<StageRecompute> choose() const {
    std::map<StageId, Recompute> choice;
    for (const RankId rank : schedule_.pipeline().rank_ids()) {
      const auto of_rank = ranks_[rank].cheapest(budgets_[rank]);
      if (!of_rank) return does_not_fit(rank);
      const auto stages = schedule_.pipeline().stages_of(rank);
      for (std::size_t s = 0; s < stages.size(); ++s) choice[stages[s]] = (*of_rank)[s];
    }
    return StageRecompute(choice);
  }

  [[nodiscard]] tl::unexpected<Error> does_not_fit(RankId rank) const {
    return make_error(ErrorCode::does_not_fit,
                      schedule_.name() + ": no recomputation fits on rank " + std::to_string(rank.value()),
                      {.found = std::to_string(min_[rank]) + " bytes where every stage recomputes as a whole",
                       .expected = "at most " + std::to_string(limit_) + " bytes, the memory of " +
                                   workload_.cluster.gpu.name});
  }

  /// A rank that exceeds its memory has for activations only what that step left it, which is less than they
  /// took: the same is not chosen again. Returns: whether there is such a rank.
  bool tighten(const StageRecompute& choice, const Peaks& peaks) {
    bool any = false;
    for (const RankId rank : schedule_.pipeline().rank_ids()) {
      if (peaks[rank] <= limit_) continue;
      std::vector<Recompute> of_rank;
      for (const StageId stage : schedule_.pipeline().stages_of(rank)) of_rank.push_back(choice(stage));
      budgets_[rank] = std::min(budgets_[rank], limit_ - (peaks[rank] - ranks_[rank].peak(of_rank)));
      any = true;
    }
    return any;
  }

  const Schedule& schedule_;
  const Workload& workload_;
  Bytes limit_;
  RecomputeTables tables_;
  IdVector<RankId, RankRecompute> ranks_;
  IdVector<RankId, Bytes> budgets_;
  IdVector<RankId, Bytes> min_;  ///< simulated peaks where everything recomputes in full
};

}  // namespace

Expected<StageRecompute> adaptive_recompute(const Schedule& schedule, const Workload& workload) {
  return Chooser(schedule, workload).run();
}

}  // namespace ppsim::planner
