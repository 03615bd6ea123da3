#include "stage_transfers.hpp"

#include "analytic_work.hpp"
#include "ppsim/core/ir/overflow.hpp"

namespace ppsim::workload {
namespace {

Nanoseconds transfer_ns(double seconds) { return checked_round(seconds * 1e9); }

}  // namespace

double StageTransfers::blocked_by(const SizeTable& sizes, StageId stage, bool forward) const {
  if (stack_.overlap_pipeline) return 0;
  double sum = 0;
  for (const StageEdge& edge : pipeline_.spec().edges) {
    if ((forward ? edge.from : edge.to) != stage) continue;
    sum += seconds(sizes, edge);
  }
  return sum;
}

/// With tensor but no sequence parallelism every GPU of a group sends its part of a state that all have,
/// and the receivers gather it (2104.04473, section 4.1).
double StageTransfers::seconds(const SizeTable& sizes, const StageEdge& edge) const {
  const RankId from = pipeline_.rank_of(edge.from);
  const RankId to = pipeline_.rank_of(edge.to);
  if (from == to) return 0;
  const auto size = static_cast<double>(sizes({TensorKind::boundary_output, edge.from.value()}));
  if (stack_.sequence_parallel || spread_.tensor == 1) return timer_.network().between(from, to, size);
  return timer_.network().between(from, to, size / spread_.tensor) +
         timer_.network().collective(CollectiveKind::all_gather, timer_.network().tensor(), size);
}

void StageTransfers::price(Tables& tables) const {
  for (const StageEdge& edge : pipeline_.spec().edges) {
    const Nanoseconds cost = stack_.overlap_pipeline ? transfer_ns(seconds(tables.sizes, edge)) : 0;
    tables.costs.set({OpKind::send_forward, edge.from.value(), edge.to.value()}, cost);
    tables.costs.set({OpKind::send_backward, edge.to.value(), edge.from.value()}, cost);
  }
}

void StageTransfers::price_collectives(double hidden_state, CostTable& costs) const {
  for (std::size_t c = 0; c < pipeline_.spec().collectives.size(); ++c) {
    const CollectiveId id(static_cast<std::int32_t>(c));
    const Collective& collective = pipeline_.spec().collectives[id];
    const auto members = static_cast<double>(collective.members.size());
    if (!collective.per_microbatch() || members == 1) continue;
    const bool sums = collective.gradient_of.valid() || collective.input_of.valid();
    const double softmax =
        collective.before.stages.empty() ? 0 : 3 * kFloat32 * timer_.tokens() / spread_.tensor;
    const double size = (softmax + (sums ? hidden_state : 0)) * (members - 1) / members;
    const double way = timer_.network().between(collective.members.front(), collective.members.back(), size);
    costs.set({OpKind::collective, id.value()}, transfer_ns(2 * way));
  }
}

}  // namespace ppsim::workload
