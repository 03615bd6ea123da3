#include "fact_times.hpp"

#include <algorithm>
#include <limits>

#include "execution/fact_rules.hpp"
#include "ppsim/core/execution/large_vector.hpp"
#include "ppsim/core/ir/check.hpp"

namespace ppsim::lowering {
namespace {

/// Updates, or microbatches as well where some block has a sum for each of them.
std::size_t reductions_of(const Pipeline& pipeline) {
  const auto& blocks = pipeline.spec().blocks;
  const bool some =
      std::ranges::any_of(blocks, [](const ParameterBlock& block) { return block.reduced_each_microbatch; });
  return as_size(some ? std::max(pipeline.updates(), pipeline.microbatches()) : pipeline.updates());
}

/// False for passes: the facts that they make true are always required.
bool provides_what_may_be_absent(OpKind kind) { return !is_pass(kind); }

}  // namespace

FactTimes::FactTimes(const Pipeline& pipeline)
    : pipeline_(pipeline),
      edges_(pipeline),
      slices_(as_size(pipeline.slices())),
      cells_(as_size(pipeline.microbatches()) * slices_),
      reductions_(reductions_of(pipeline)) {}

std::size_t FactTimes::size_of(FactKind kind) const {
  switch (kind) {
    case FactKind::forward_done:
    case FactKind::backward_done:
    case FactKind::weight_done:
    case FactKind::recomputed:
    case FactKind::loaded:
    case FactKind::offloaded:
    case FactKind::reloaded:
    case FactKind::activations_sent:
      return as_size(pipeline_.stages()) * cells_;
    case FactKind::received_forward:
    case FactKind::received_backward:
      return edges_.count() * cells_;
    case FactKind::activations_received:
      return 2 * as_size(pipeline_.stages()) * cells_;
    case FactKind::reduced:
      return as_size(pipeline_.ranks()) * as_size(pipeline_.blocks()) * reductions_;
    case FactKind::updated:
      return as_size(pipeline_.ranks()) * as_size(pipeline_.blocks()) * as_size(pipeline_.updates());
    case FactKind::collected:
      return as_size(pipeline_.ranks()) * pipeline_.spec().collectives.size() *
             (as_size(pipeline_.microbatches()) + 1);
  }
  PPSIM_CHECK(false, "unknown kind of fact");
}

void FactTimes::make_table(std::uint32_t kind) {
  const std::size_t size = size_of(static_cast<FactKind>(kind));
  PPSIM_CHECK(size <= std::numeric_limits<std::uint32_t>::max(), "too many facts of one kind");
  times_[kind] = vector_by_all_processors(size, kNever);
}

std::int32_t* FactTimes::sweeps_from(Place place) {
  std::vector<std::int32_t>& sweeps = sweeps_[place.kind];
  if (sweeps.empty()) sweeps = vector_by_all_processors(size_of(static_cast<FactKind>(place.kind)), 0);
  return sweeps.data() + place.index;
}

void FactTimes::announce(const CellRows& rows) {
  for (const RankId rank : rows.rank_ids()) {
    if (!rows.kinds(rank).any_of(provides_what_may_be_absent)) continue;
    for (const Cell& cell : rows[rank]) {
      for (const Action& action : cell.actions()) {
        for_each_provided(pipeline_, action, rank, [&](const Fact& fact) {
          if (!is_always_required(fact.kind)) set(place_of(fact, rank), kNotYet);
        });
      }
    }
  }
}

FactTimes::Place FactTimes::rare_place_of(const Fact& fact, RankId rank) const {
  const auto subject = as_size(fact.subject);
  const auto microbatch = as_size(fact.microbatch);
  const std::size_t block = rank.index() * as_size(pipeline_.blocks()) + subject;
  if (fact.kind == FactKind::reduced) return place(fact.kind, block * reductions_ + microbatch);
  if (fact.kind == FactKind::updated)
    return place(fact.kind, block * as_size(pipeline_.updates()) + microbatch);
  PPSIM_CHECK(fact.kind == FactKind::collected, "unknown kind of fact");
  const std::size_t collective = rank.index() * pipeline_.spec().collectives.size() + subject;
  return place(fact.kind,
               collective * (as_size(pipeline_.microbatches()) + 1) + as_size(fact.microbatch + 1));
}

}  // namespace ppsim::lowering
