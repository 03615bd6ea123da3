#include "rank_recompute.hpp"

#include <algorithm>
#include <set>

namespace ppsim::planner {
namespace {

std::size_t index_of(Recompute choice) { return static_cast<std::size_t>(choice); }

std::int64_t microbatches_of(const Pipeline& pipeline, StageId stage) {
  std::int64_t count = 0;
  for (const MicrobatchId mb : pipeline.microbatch_ids()) count += pipeline.on_route(stage, mb) ? 1 : 0;
  return count;
}

}  // namespace

RankRecompute::RankRecompute(const Schedule& schedule, RankId rank, const RecomputeTables& tables)
    : stages_(schedule.pipeline().stages_of(rank).begin(), schedule.pipeline().stages_of(rank).end()) {
  add_moments(schedule.row(rank));
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    options_.emplace_back();
    for (const Recompute choice : kRecomputeChoices)
      options_.back()[index_of(choice)] = option(schedule.pipeline(), s, choice, tables);
  }
}

/// Every different state that the rank is in during a step, read in the order of its row.
void RankRecompute::add_moments(std::span<const Cell> row) {
  std::vector<Live> live(stages_.size());
  std::set<std::vector<Live>> different;
  const auto of = [&](const Action& action) -> Live& {
    const auto at = std::ranges::find(stages_, action.stage());
    return live[as_size(at - stages_.begin())];
  };
  const auto start = [&](const Action& a) {
    of(a).for_input += a.kind == OpKind::forward ? 1 : 0;
    of(a).for_weight += a.kind == OpKind::forward ? 1 : 0;
    of(a).begun_input += gives_input_gradient(a.kind) ? 1 : 0;
    of(a).begun_weight += gives_input_gradient(a.kind) ? 1 : 0;
  };
  const auto end = [&](const Action& a) {
    of(a).for_input -= gives_input_gradient(a.kind) ? 1 : 0;
    of(a).begun_input -= gives_input_gradient(a.kind) ? 1 : 0;
    of(a).for_weight -= gives_weight_gradient(a.kind) ? 1 : 0;
    of(a).begun_weight -= gives_weight_gradient(a.kind) ? 1 : 0;
  };
  for (const Cell& cell : row) {
    const auto actions = cell.actions();
    if (actions.empty() || info(actions.front().kind).resource != Resource::compute ||
        info(actions.front().kind).microbatch != MicrobatchUse::required)
      continue;
    for (const Action& action : actions) start(action);
    different.insert(live);
    for (const Action& action : actions) end(action);
  }
  moments_.assign(different.begin(), different.end());
}

RankRecompute::Option RankRecompute::option(const Pipeline& pipeline, std::size_t stage, Recompute choice,
                                            const RecomputeTables& tables) const {
  const std::int32_t s = stages_[stage].value();
  const Tables& none = tables[index_of(Recompute::none)];
  const Tables& own = tables[index_of(choice)];
  Option result;
  result.time = own.costs({OpKind::backward, s}) - none.costs({OpKind::backward, s});
  if (choice == Recompute::full) result.time += own.costs({OpKind::recompute, s});
  result.time *= microbatches_of(pipeline, stages_[stage]);
  const Bytes for_input = own.sizes({TensorKind::saved_for_input, s});
  const Bytes for_weight = own.sizes({TensorKind::saved_for_weight, s});
  for (const std::vector<Live>& moment : moments_) {
    const Live& live = moment[stage];
    result.memory.push_back(choice == Recompute::full
                                ? live.begun_input * for_input + live.begun_weight * for_weight
                                : live.for_input * for_input + live.for_weight * for_weight);
  }
  return result;
}

/// Branch and bound over the stages of a rank.
class RankRecompute::Search {
 public:
  Search(const RankRecompute& rank, Bytes budget)
      : rank_(rank), budget_(budget), memory_(rank.moments_.size(), 0) {
    min_.assign(rank.options_.size() + 1, std::vector<Bytes>(memory_.size(), 0));
    for (std::size_t s = rank.options_.size(); s-- > 0;) {
      for (std::size_t t = 0; t < memory_.size(); ++t) {
        Bytes least = rank.options_[s][0].memory[t];
        for (const Option& option : rank.options_[s]) least = std::min(least, option.memory[t]);
        min_[s][t] = min_[s + 1][t] + least;
      }
    }
  }

  std::optional<std::vector<Recompute>> run() {
    descend(0, 0);
    return best_;
  }

 private:
  [[nodiscard]] bool fits(std::size_t stage) const {
    for (std::size_t t = 0; t < memory_.size(); ++t) {
      if (memory_[t] + min_[stage][t] > budget_) return false;
    }
    return true;
  }

  void descend(std::size_t stage, Nanoseconds time) {
    if (!fits(stage) || (best_ && time > best_time_)) return;
    if (stage == rank_.options_.size()) return keep(time);
    for (const Recompute choice : kRecomputeChoices) {
      const Option& option = rank_.options_[stage][index_of(choice)];
      for (std::size_t t = 0; t < memory_.size(); ++t) memory_[t] += option.memory[t];
      chosen_.push_back(choice);
      descend(stage + 1, time + option.time);
      chosen_.pop_back();
      for (std::size_t t = 0; t < memory_.size(); ++t) memory_[t] -= option.memory[t];
    }
  }

  void keep(Nanoseconds time) {
    const Bytes peak = memory_.empty() ? 0 : *std::ranges::max_element(memory_);
    if (best_ && std::pair(time, peak) >= std::pair(best_time_, best_peak_)) return;
    best_ = chosen_;
    best_time_ = time;
    best_peak_ = peak;
  }

  const RankRecompute& rank_;
  Bytes budget_;
  std::vector<Bytes> memory_;            ///< of the stages chosen for, by moment
  std::vector<std::vector<Bytes>> min_;  ///< of the stages from one on, by stage and moment
  std::vector<Recompute> chosen_;
  std::optional<std::vector<Recompute>> best_;
  Nanoseconds best_time_ = 0;
  Bytes best_peak_ = 0;
};

std::optional<std::vector<Recompute>> RankRecompute::cheapest(Bytes budget) const {
  return Search(*this, budget).run();
}

Bytes RankRecompute::peak(const std::vector<Recompute>& choice) const {
  Bytes most = 0;
  for (std::size_t t = 0; t < moments_.size(); ++t) {
    Bytes memory = 0;
    for (std::size_t s = 0; s < choice.size(); ++s) memory += options_[s][index_of(choice[s])].memory[t];
    most = std::max(most, memory);
  }
  return most;
}

}  // namespace ppsim::planner
