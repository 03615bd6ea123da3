#include "ppsim/simulator/effects/shared_devices.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "ppsim/core/ir/transports.hpp"
#include "ppsim/simulator/metrics/metrics.hpp"
#include "support/random_program.hpp"
#include "support/random_schedule.hpp"

namespace ppsim::shared_devices_property {
namespace {

struct Case {
  Program program;
  CostTable costs;
};

Case draw_case() {
  const Schedule schedule = *test::schedules(test::general_shapes());
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  Case c{test::random_program(schedule, 0, seed), test::random_costs(schedule.pipeline().stages(), seed + 1)};
  RC_PRE(simulate_program(c.program, rendezvous(), c.costs).value().has_value());
  return c;
}

SharedDevices all_slowed(int ranks, std::int64_t slowdown) {
  SharedDevices devices{.ranks = ranks};
  for (const OpInfo& row : kOpTable) {
    if (row.resource == Resource::compute) devices.slowdowns[row.kind] = slowdown;
  }
  return devices;
}

TimedTrace run(const Case& c, const SharedDevices& devices) {
  return simulate_on_devices({c.program, rendezvous()}, {c.costs, CostTable()}, devices).value().value();
}

bool computes(const Program& program, InstructionId id) {
  return info(program.actions(id)[0].kind).resource == Resource::compute;
}

RC_GTEST_PROP(SharedDevices, WithoutSlowdownsTimesAreThoseOfSimulate, ()) {
  const Case c = draw_case();
  const TimedTrace alone = simulate_program(c.program, rendezvous(), c.costs).value().value();
  const int ranks = *rc::gen::inRange(1, 9);
  RC_ASSERT(run(c, all_slowed(ranks, 0)) == alone);
  RC_ASSERT(run(c, all_slowed(1, SharedDevices::kWhole)) == alone);
  // Through the events that slowdowns need, though none is large enough to be felt.
  SharedDevices felt_by_nobody = all_slowed(8, 0);
  felt_by_nobody.slowdowns[OpKind::overlap] = 1;
  const bool has_pairs = std::ranges::any_of(
      c.program.instructions(), [](const Instruction& one) { return one.form == InstructionForm::overlap; });
  if (!has_pairs) RC_ASSERT(run(c, felt_by_nobody) == alone);
}

/// Nothing is lost or made: the work that all rates do is the cost of the action, to a nanosecond.
RC_GTEST_PROP(SharedDevices, RatesAddUpToTheWork, ()) {
  const Case c = draw_case();
  const int ranks = c.program.pipeline().ranks();
  const std::int64_t slowdown = *rc::gen::inRange<std::int64_t>(1, 2 * SharedDevices::kWhole);
  const TimedTrace trace = run(c, all_slowed(ranks, slowdown));
  const double s = static_cast<double>(slowdown) / static_cast<double>(SharedDevices::kWhole);
  for (InstructionId id(0); id.index() < c.program.size(); id = next(id)) {
    if (!computes(c.program, id)) continue;
    const Span& span = trace.spans[id];
    double work = 0;
    for (Nanoseconds at = span.start.time; at < span.end.time; ++at) {
      int others = 0;
      for (InstructionId other(0); other.index() < c.program.size(); other = next(other)) {
        const Span& beside = trace.spans[other];
        if (other != id && computes(c.program, other) && beside.start.time <= at && at < beside.end.time)
          ++others;
      }
      work += 1 / (1 + s * others);
    }
    const auto cost =
        static_cast<double>(c.costs(cost_class_of(c.program.actions(id), c.program.instruction(id).form)));
    RC_ASSERT(work > cost - 1e-3);
    RC_ASSERT(work < cost + 1);
  }
}

/// The same of what communication of its own rank leaves: the larger slowdown beside both kinds.
RC_GTEST_PROP(SharedDevices, OwnCommunicationLeavesTheWorkWhole, ()) {
  const Case c = draw_case();
  const SharedDevices devices{
      .own_transfers = *rc::gen::inRange<std::int64_t>(0, 2 * SharedDevices::kWhole),
      .own_collectives = *rc::gen::inRange<std::int64_t>(0, 2 * SharedDevices::kWhole)};
  const TimedTrace trace = run(c, devices);
  const AnalyzedProgram analyzed(c.program, rendezvous());
  const ExecutionGraph& graph = analyzed.guaranteed_graph();
  const auto slowdown_at = [&](RankId rank, Nanoseconds at) {
    std::int64_t slowdown = 0;
    for (InstructionId id = c.program.first(rank); id < c.program.last(rank); id = next(id)) {
      const Span& span = trace.spans[id];
      if (!is_communication(c.program.actions(id)[0].kind) || at < span.start.time || at >= span.end.time)
        continue;
      const std::int32_t match = graph.match_of[id.index()];
      if (match >= 0 && graph.matches[static_cast<std::size_t>(match)].member_count < 2) continue;
      slowdown = std::max(slowdown, match >= 0 ? devices.own_collectives : devices.own_transfers);
    }
    return static_cast<double>(slowdown) / static_cast<double>(SharedDevices::kWhole);
  };
  for (InstructionId id(0); id.index() < c.program.size(); id = next(id)) {
    if (!computes(c.program, id)) continue;
    double work = 0;
    for (Nanoseconds at = trace.spans[id].start.time; at < trace.spans[id].end.time; ++at)
      work += 1 / (1 + slowdown_at(c.program.rank_of(id), at));
    const auto cost =
        static_cast<double>(c.costs(cost_class_of(c.program.actions(id), c.program.instruction(id).form)));
    RC_ASSERT(work > cost - 1e-3);
    RC_ASSERT(work < cost + 1);
  }
}

Nanoseconds makespan(const TimedTrace& trace) {
  Nanoseconds end = 0;
  for (const Span& span : trace.spans) end = std::max(end, span.end.time);
  return end;
}

/// Bounds that hold for every Program: nobody is faster than alone, or slower than among all others at all
/// times.
RC_GTEST_PROP(SharedDevices, StepsAreBetweenThoseOfNoneAndAllDisturbedAtAllTimes, ()) {
  const Case c = draw_case();
  const int ranks = c.program.pipeline().ranks();
  const std::int64_t slowdown = SharedDevices::kWhole * *rc::gen::inRange<std::int64_t>(1, 3);
  const TimedTrace alone = simulate_program(c.program, rendezvous(), c.costs).value().value();
  const TimedTrace shared = run(c, all_slowed(ranks, slowdown));
  CostTable all_at_once;
  for (const auto& [key, cost] : c.costs.entries()) {
    const bool slowed = info(key.kind).resource == Resource::compute;
    all_at_once.set(key, slowed ? cost + cost * (ranks - 1) * slowdown / SharedDevices::kWhole : cost);
  }
  const TimedTrace worst = simulate_program(c.program, rendezvous(), all_at_once).value().value();
  for (InstructionId id(0); id.index() < c.program.size(); id = next(id)) {
    RC_ASSERT(shared.spans[id].end.time >= alone.spans[id].end.time);
    RC_ASSERT(shared.spans[id].end.time <= worst.spans[id].end.time);
  }
  RC_ASSERT(makespan(shared) >= makespan(alone));
}

}  // namespace
}  // namespace ppsim::shared_devices_property
