#include "warmup_order.hpp"

#include <algorithm>

namespace ppsim::schedules {
namespace {

/// How many times a transfer is waited for, for m >= p >= 2: a steady state pays nearly two per microbatch.
Nanoseconds exposed_transfers(Nanoseconds p, Nanoseconds m) {
  const Nanoseconds rounds = (m - p) / p;
  const Nanoseconds rest = (m - p) % p;
  const Nanoseconds of_rest = rest < 2 ? 2 * rest : 2 * (rest - 1);
  return 4 * p - 6 + 2 * (p - 1) * rounds + of_rest;
}

}  // namespace

void add_row(ScheduleBuilder& builder, const WarmupOrder& order, int microbatches) {
  const int cells = microbatches * order.slices;
  const auto add = [&](OpKind kind, int cell) {
    const int slice = cell % order.slices;
    builder.add(kind, order.stage, MicrobatchId(cell / order.slices),
                SliceId(kind == OpKind::forward ? slice : order.slices - 1 - slice));
  };
  const OpKind backward = order.weight_delay ? OpKind::backward_input : OpKind::backward;
  int forwards = 0;
  int weights = 0;
  while (forwards < std::min(order.warmup, cells)) add(OpKind::forward, forwards++);
  for (int k = 0; k < cells; ++k) {
    add(backward, k);
    if (order.weight_delay && k >= *order.weight_delay) add(OpKind::backward_weight, weights++);
    if (forwards < cells) add(OpKind::forward, forwards++);
  }
  while (order.weight_delay && weights < cells) add(OpKind::backward_weight, weights++);
}

std::optional<Nanoseconds> one_f_one_b_makespan(const ScheduleParameters& parameters,
                                                const StageCosts& costs) {
  const Nanoseconds p = parameters.ranks;
  const Nanoseconds m = parameters.microbatches;
  const Nanoseconds c = costs.transfer;
  const Nanoseconds computed = (m + p - 1) * (costs.forward + costs.backward);
  if (c == 0 || p == 1) return computed;
  if (m < p || c >= std::min(costs.forward, costs.backward)) return std::nullopt;
  return computed + c * exposed_transfers(p, m);
}

std::optional<int> one_f_one_b_peak(const ScheduleParameters& parameters, RankId rank) {
  return std::min(parameters.ranks - rank.value(), parameters.microbatches);
}

}  // namespace ppsim::schedules
