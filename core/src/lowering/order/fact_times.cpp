#include "fact_times.hpp"

#include <algorithm>
#include <limits>

#include "lowering/cells.hpp"
#include "ppsim/core/ir/check.hpp"

namespace ppsim::lowering {
namespace {

std::size_t count(int n) { return static_cast<std::size_t>(n); }

/// Updates, or microbatches as well where some block has a sum for each of them.
std::size_t reductions_of(const Pipeline& pipeline) {
  const auto& blocks = pipeline.spec().blocks;
  const bool some = std::any_of(blocks.begin(), blocks.end(),
                                [](const ParameterBlock& block) { return block.reduced_each_microbatch; });
  return count(some ? std::max(pipeline.updates(), pipeline.microbatches()) : pipeline.updates());
}

}  // namespace

FactTimes::FactTimes(const Pipeline& pipeline)
    : pipeline_(pipeline), edges_(pipeline), reductions_(reductions_of(pipeline)) {}

FactTimes::Place FactTimes::place_of(const Fact& fact, RankId rank) const {
  const std::size_t microbatches = count(pipeline_.microbatches());
  const std::size_t cells = microbatches * count(pipeline_.slices());
  // Facts of an update or a collective have no slice and perhaps no microbatch.
  const auto cell = [&] {
    return static_cast<std::size_t>(fact.microbatch) * count(pipeline_.slices()) +
           static_cast<std::size_t>(fact.slice);
  };
  const auto subject = static_cast<std::size_t>(fact.subject);
  const auto place = [&](std::size_t index) {
    return Place{static_cast<std::uint32_t>(fact.kind), static_cast<std::uint32_t>(index)};
  };
  switch (fact.kind) {
    case FactKind::forward_done:
    case FactKind::backward_done:
    case FactKind::weight_done:
    case FactKind::recomputed:
    case FactKind::loaded:
    case FactKind::offloaded:
    case FactKind::reloaded:
    case FactKind::activations_sent:
      return place(subject * cells + cell());
    case FactKind::received_forward:
      return place(edges_(StageId(fact.peer), StageId(fact.subject)) * cells + cell());
    case FactKind::received_backward:
      return place(edges_(StageId(fact.subject), StageId(fact.peer)) * cells + cell());
    case FactKind::activations_received: {
      const std::size_t at_owner = pipeline_.rank_of(StageId(fact.subject)) == rank ? 1 : 0;
      return place((2 * subject + at_owner) * cells + cell());
    }
    case FactKind::reduced:
      return place((rank.index() * count(pipeline_.blocks()) + subject) * reductions_ +
                   static_cast<std::size_t>(fact.microbatch));
    case FactKind::updated:
      return place((rank.index() * count(pipeline_.blocks()) + subject) * count(pipeline_.updates()) +
                   static_cast<std::size_t>(fact.microbatch));
    case FactKind::collected:
      return place((rank.index() * pipeline_.spec().collectives.size() + subject) * (microbatches + 1) +
                   static_cast<std::size_t>(fact.microbatch + 1));
  }
  PPSIM_CHECK(false, "unknown kind of fact");
}

std::size_t FactTimes::size_of(FactKind kind) const {
  const std::size_t cells = count(pipeline_.microbatches()) * count(pipeline_.slices());
  switch (kind) {
    case FactKind::forward_done:
    case FactKind::backward_done:
    case FactKind::weight_done:
    case FactKind::recomputed:
    case FactKind::loaded:
    case FactKind::offloaded:
    case FactKind::reloaded:
    case FactKind::activations_sent:
      return count(pipeline_.stages()) * cells;
    case FactKind::received_forward:
    case FactKind::received_backward:
      return edges_.count() * cells;
    case FactKind::activations_received:
      return 2 * count(pipeline_.stages()) * cells;
    case FactKind::reduced:
      return count(pipeline_.ranks()) * count(pipeline_.blocks()) * reductions_;
    case FactKind::updated:
      return count(pipeline_.ranks()) * count(pipeline_.blocks()) * count(pipeline_.updates());
    case FactKind::collected:
      return count(pipeline_.ranks()) * pipeline_.spec().collectives.size() *
             (count(pipeline_.microbatches()) + 1);
  }
  PPSIM_CHECK(false, "unknown kind of fact");
}

void FactTimes::set(Place place, Nanoseconds time) {
  std::vector<Nanoseconds>& times = times_[place.kind];
  if (times.empty()) {
    const std::size_t size = size_of(static_cast<FactKind>(place.kind));
    PPSIM_CHECK(size <= std::numeric_limits<std::uint32_t>::max(), "too many facts of one kind");
    times.assign(size, kNever);
  }
  times[place.index] = time;
}

}  // namespace ppsim::lowering
