#include "stage_transfers.hpp"

#include "analytic_work.hpp"
#include "ppsim/core/ir/overflow.hpp"

namespace ppsim::workload {
namespace {

constexpr Bytes kIndexBytes = 4;  // the number of a microbatch, as JaxPP sends it

Nanoseconds transfer_ns(double seconds) { return checked_round(seconds * 1e9); }

}  // namespace

double StageTransfers::blocked_by(const SizeTable& sizes, StageId stage, bool forward) const {
  if (stack_.overlap_pipeline) return 0;
  double sum = 0;
  for (const StageEdge& edge : pipeline_.spec().edges) {
    if ((forward ? edge.from : edge.to) != stage || (forward && !is_received(edge))) continue;
    sum += seconds(sizes, edge);
  }
  return sum;
}

bool StageTransfers::is_received(const StageEdge& edge) const {
  for (const MicrobatchId mb : pipeline_.microbatch_ids()) {
    if (!pipeline_.on_route(edge.from, mb) || !pipeline_.on_route(edge.to, mb)) continue;
    if (pipeline_.receiver(edge.from, edge.to, mb) == edge.to) return true;
  }
  return false;
}

/// With tensor but no sequence parallelism every GPU of a group sends its part of a state that all have,
/// and the receivers gather it (2104.04473, section 4.1).
double StageTransfers::seconds(const SizeTable& sizes, const StageEdge& edge) const {
  const RankId from = pipeline_.rank_of(edge.from);
  const RankId to = pipeline_.rank_of(edge.to);
  if (from == to) return 0;
  const auto size =
      static_cast<double>(sizes({TensorKind::boundary_output, edge.from.value(), edge.to.value()}));
  if (stack_.sequence_parallel || parallelism_.tensor == 1) return timer_.network().between(from, to, size);
  return timer_.network().between(from, to, size / parallelism_.tensor) +
         timer_.network().collective(CollectiveKind::all_gather, timer_.network().tensor(), size);
}

void StageTransfers::price(Tables& tables) const {
  for (const StageEdge& edge : pipeline_.spec().side_edges) {
    tables.sizes.set({TensorKind::boundary_output, edge.from.value(), edge.to.value()}, kIndexBytes);
    tables.sizes.set({TensorKind::boundary_input, edge.to.value(), edge.from.value()}, kIndexBytes);
    const Nanoseconds cost = stack_.overlap_pipeline ? transfer_ns(seconds(tables.sizes, edge)) : 0;
    tables.costs.set({OpKind::send_forward, edge.from.value(), edge.to.value()}, cost);
  }
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
        collective.before.stages.empty() ? 0 : 3 * kFloat32 * timer_.tokens() / parallelism_.tensor;
    const double size = (softmax + (sums ? hidden_state : 0)) * (members - 1) / members;
    const double way = timer_.network().between(collective.members.front(), collective.members.back(), size);
    costs.set({OpKind::collective, id.value()}, transfer_ns(2 * way));
  }
}

}  // namespace ppsim::workload
