#include "plan/bounds.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <set>

namespace ppsim::planner {
namespace {

constexpr std::array<OpKind, 4> kPasses = {OpKind::forward, OpKind::backward, OpKind::backward_input,
                                           OpKind::backward_weight};

/// Costs are rounded to nanoseconds: a few of every stage, however many there are.
Nanoseconds rounding(const Workload& work) {
  return 8 * (2 * work.model.layers + std::int64_t{4} * work.parallelism.pipeline + 8);
}

Bytes per_rank(Bytes sum, int ranks) { return std::max<Bytes>(0, sum / ranks - 8); }

}  // namespace

bool pairs_save(const Workload& work) {
  return work.model.experts > 0 || work.calibration.factors.contains(OpKind::overlap);
}

Workload with_min_factors(Workload work, bool overlaps) {
  if (work.calibration.factors.empty()) return work;
  std::map<OpKind, double>& factors = work.calibration.factors;
  const auto given = [&](OpKind kind, double otherwise) {
    const auto found = factors.find(kind);
    return found == factors.end() ? otherwise : found->second;
  };
  const double forward = given(OpKind::forward, 1);
  const double input = given(OpKind::backward_input, given(OpKind::backward, 1));
  const double weight = given(OpKind::backward_weight, given(OpKind::backward, 1));
  const double backward = given(OpKind::backward, std::max(input, weight));
  const double pair = overlaps ? given(OpKind::overlap, workload::kMaxFactor) : workload::kMaxFactor;
  factors[OpKind::forward] = std::min(forward, pair);
  // The F of a part of the vocabulary layers has their I.
  factors[OpKind::backward_input] = std::min({forward, input, backward, pair});
  factors[OpKind::backward_weight] = std::min({weight, backward, pair});
  return work;
}

PlacedCosts::PlacedCosts(const Workload& work, std::shared_ptr<const Placement> placement,
                         AnalyticCosts costs)
    : placement_(std::move(placement)),
      costs_(std::move(costs)),
      whole_step_(work.whole_step),
      has_experts_(work.model.experts > 0),
      rounding_(rounding(work)) {
  const Pipeline& pipeline = placement_->pipeline;
  stages_.resize(as_size(pipeline.stages()));
  for (const StageId stage : pipeline.stage_ids())
    read_stage(stage, work.parallelism.recompute(stage) == Recompute::full);
  if (has_experts_ || !work.calibration.factors.empty()) read_pairs();  // by rounding, at least
  read_sizes();
}

void PlacedCosts::read_stage(StageId stage, bool recomputes) {
  const CostTable& table = costs_.tables.costs;
  const SizeTable& sizes = costs_.tables.sizes;
  const std::int32_t s = stage.value();
  StageCost& cost = stages_[stage.index()];
  cost.plain_forward = table({OpKind::forward, s});
  cost.plain_backward =
      std::min(table({OpKind::backward, s}),
               checked_add(table({OpKind::backward_input, s}), table({OpKind::backward_weight, s})));
  if (recomputes) cost.plain_backward = checked_add(cost.plain_backward, table({OpKind::recompute, s}));
  cost.plain = checked_add(cost.plain_forward, cost.plain_backward);
  cost.forward = cost.plain_forward;
  cost.backward = cost.plain_backward;
  cost.both = cost.plain;
  cost.recomputes = recomputes;
  cost.for_input = sizes({TensorKind::saved_for_input, s});
  cost.for_weight = sizes({TensorKind::saved_for_weight, s});
  cost.input = placement_->sums_inputs ? 0 : sizes({TensorKind::boundary_input, s});
  for (std::size_t k = 0; k < kPasses.size(); ++k)
    cost.workspace[k] = sizes({TensorKind::workspace, s, -1, -1, kPasses[k]});
}

/// The most that F of a stage saves when it overlaps a B of its rank.
void PlacedCosts::read_pairs() {
  const Pipeline& pipeline = placement_->pipeline;
  for (const RankId rank : pipeline.rank_ids()) {
    for (const StageId f : pipeline.stages_of(rank)) {
      StageCost& forward = stages_[f.index()];
      for (const StageId b : pipeline.stages_of(rank)) {
        StageCost& backward = stages_[b.index()];
        const Nanoseconds pair = costs_.tables.costs({OpKind::overlap, f.value(), b.value()});
        const Nanoseconds saved = forward.plain_forward + backward.plain_backward - pair;
        forward.both = std::min(forward.both, std::max<Nanoseconds>(0, forward.plain - saved));
        forward.forward = std::min(forward.forward, pair);
        backward.backward = std::min(backward.backward, pair);
      }
    }
  }
}

void PlacedCosts::read_sizes() {
  const Pipeline& pipeline = placement_->pipeline;
  const SizeTable& sizes = costs_.tables.sizes;
  for (const RankId r : pipeline.rank_ids()) {
    RankSize rank;
    std::set<BlockId> seen;
    for (const StageId stage : pipeline.stages_of(r)) {
      StageCost& cost = stages_[stage.index()];
      for (const BlockId block : pipeline.blocks_of(stage)) {
        if (!seen.insert(block).second) continue;
        rank.kept += sizes({TensorKind::parameters, block.value()});
        rank.kept += sizes({TensorKind::optimizer_state, block.value()});
        cost.gradients += sizes({TensorKind::gradients, block.value()});
      }
      rank.gradients += cost.gradients;
      if (cost.recomputes) continue;
      const Bytes saved = cost.for_input + cost.for_weight;
      // Where the last F of a microbatch ends, all stages of its route have saved for it.
      const bool together = placement_->any_microbatches && !placement_->sums_inputs;
      rank.saved = together ? rank.saved + saved : std::max(rank.saved, saved);
    }
    ranks_.push_back(rank);
  }
}

Nanoseconds PlacedCosts::transfer(StageId from, StageId to, OpKind kind) const {
  if (placement_->sums_inputs) return 0;
  const Pipeline& pipeline = placement_->pipeline;
  if (pipeline.rank_of(from) == pipeline.rank_of(to)) return 0;
  return costs_.tables.costs({kind, from.value(), to.value()});
}

/// Time on the way to each stage, and on the way back from it.
std::vector<PlacedCosts::Way> PlacedCosts::ways(const RowForm& form) const {
  std::vector<Way> ways(stages_.size());
  const std::function<const Way&(StageId)> way_to = [&](StageId stage) -> const Way& {
    Way& way = ways[stage.index()];
    if (way.known) return way;
    way.known = true;
    for (const StageId before : placement_->producers[stage]) {
      const Way& earlier = way_to(before);
      const StageCost& cost = stages_[before.index()];
      way.head = std::max(way.head, earlier.head + (form.overlaps ? cost.forward : cost.plain_forward) +
                                        transfer(before, stage, OpKind::send_forward));
      way.tail = std::max(way.tail, earlier.tail + (form.overlaps ? cost.backward : cost.plain_backward) +
                                        transfer(stage, before, OpKind::send_backward));
    }
    return way;
  };
  for (std::size_t s = 0; s < ways.size(); ++s) way_to(StageId(static_cast<std::int32_t>(s)));
  return ways;
}

LowerBound PlacedCosts::of_form(const RowForm& form, int microbatches) const {
  const Pipeline& pipeline = placement_->pipeline;
  const std::vector<Way> all = ways(form);
  StepTimes times;
  for (const RankId r : pipeline.rank_ids()) {
    RankTimes rank;
    Nanoseconds head = std::numeric_limits<Nanoseconds>::max();
    Nanoseconds tail = head;
    for (const StageId stage : pipeline.stages_of(r)) {
      const StageCost& cost = stages_[stage.index()];
      const Nanoseconds each = form.overlaps ? cost.both : cost.plain;
      rank.busy = checked_add(rank.busy, checked_multiply(each, placement_->count(stage, microbatches)));
      head = std::min(head, all[stage.index()].head);
      tail = std::min(tail, all[stage.index()].tail);
    }
    rank.start = pipeline.stages_of(r).empty() ? 0 : head;
    rank.end = checked_add(rank.start, rank.busy);
    const bool returns = !form.splits && !placement_->sums_inputs && rank.busy > 0;
    times.makespan = std::max(times.makespan, checked_add(rank.end, returns ? tail : 0));
    times.ranks.push_back(rank);
  }
  return {step_of(times), peak_of_form(form)};
}

Bytes PlacedCosts::peak_of_form(const RowForm& form) const {
  Bytes peak = 0;
  Bytes kept = 0;
  Bytes saved = 0;
  for (const RankSize& rank : ranks_) {
    peak = std::max(peak, rank.kept + rank.gradients);
    if (!form.lends) peak = std::max(peak, rank.kept + rank.saved);
    kept += rank.kept;
    saved += rank.saved;
  }
  return std::max(peak, per_rank(kept + saved, static_cast<int>(ranks_.size())));
}

Nanoseconds PlacedCosts::step_of(const StepTimes& times) const {
  if (!whole_step_) return times.makespan;
  Nanoseconds reduced = times.makespan;
  Nanoseconds update = 0;
  for (const RankId rank : times.ranks.ids()) {
    reduced = std::max(reduced, checked_add(times.ranks[rank].end, costs_.ends[rank].reduction));
    update = std::max(update, costs_.ends[rank].update);
  }
  return checked_add(reduced, update);
}

LowerBound PlacedCosts::of_any_placement(int microbatches, bool overlaps) const {
  Nanoseconds forward = 0;
  Nanoseconds backward = 0;
  for (const StageCost& cost : stages_) {
    forward = checked_add(forward, cost.plain_forward);
    backward = checked_add(backward, cost.plain_backward);
  }
  const bool hides = overlaps && has_experts_;
  Nanoseconds sum = hides ? std::max(forward, backward) : checked_add(forward, backward);
  sum = std::max<Nanoseconds>(0, sum - rounding_);
  Bytes kept = 0;
  Bytes gradients = 0;
  Bytes saved = 0;
  for (const RankSize& rank : ranks_) {
    kept += rank.kept;
    gradients += rank.gradients;
    saved += rank.saved;
  }
  const auto ranks = static_cast<int>(ranks_.size());
  return {checked_multiply(sum, microbatches) / ranks, per_rank(kept + std::max(gradients, saved), ranks)};
}

Bytes PlacedCosts::bytes_at(const RowMoment& moment, RankId rank) const {
  const auto stages = placement_->pipeline.stages_of(rank);
  Bytes bytes = ranks_[rank.index()].kept;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const StageLoad& load = moment.stages[s];
    const StageCost& cost = stages_[stages[s].index()];
    const int input = cost.recomputes ? load.begun_input : load.for_input;
    const int weight = cost.recomputes ? load.begun_weight : load.for_weight;
    bytes += input * cost.for_input + weight * cost.for_weight + load.inputs * cost.input;
    if (load.gradients) bytes += cost.gradients;
  }
  const auto at = as_size(std::ranges::find(kPasses, moment.kind) - kPasses.begin());
  return bytes + stages_[moment.running.index()].workspace[at];
}

Bytes PlacedCosts::peak_of(const RowMoments& moments) const {
  Bytes peak = peak_of_form({.lends = moments.lends});
  if (moments.lends) return peak;
  for (const RankId rank : placement_->pipeline.rank_ids()) {
    for (const RowMoment& moment : moments.rows[rank]) peak = std::max(peak, bytes_at(moment, rank));
  }
  return peak;
}

}  // namespace ppsim::planner
