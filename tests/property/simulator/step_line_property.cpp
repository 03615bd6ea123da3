// The step as a function of a factor, against simulations under costs that are changed, and break-even
// points against a scan.

#include "ppsim/simulator/effects/step_line.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <optional>

#include "ppsim/core/ir/transports.hpp"
#include "ppsim/simulator/effects/item_places.hpp"
#include "ppsim/simulator/engine/simulate.hpp"
#include "support/dice.hpp"
#include "support/random_program.hpp"
#include "support/random_schedule.hpp"

namespace ppsim {
namespace {

/// A Program whose costs are constant + slope * factor, class by class.
struct GrowingStep {
  AnalyzedProgram analyzed;
  CompiledProgram compiled;
  std::vector<TimeLine> of_class;

  [[nodiscard]] StepLine line() const {
    std::vector<TimeLine> lines;
    for (const CompiledItem& item : compiled.items) {
      const bool has_cost = item.duration >= CompiledProgram::kFirstBound;
      lines.push_back(has_cost ? of_class[item.duration - CompiledProgram::kFirstBound] : TimeLine());
    }
    return StepLine::make(compiled, std::move(lines)).value();
  }
  /// Simulated with rounds, which the line knows nothing of.
  [[nodiscard]] Nanoseconds simulated(Nanoseconds factor) const {
    CostTable costs;
    for (std::size_t i = 0; i < of_class.size(); ++i)
      costs.set(compiled.cost_classes[i], of_class[i].constant + of_class[i].slope * factor);
    const TimedTrace trace = simulate_beside_transfers(analyzed, {costs, CostTable()}).value().value();
    Nanoseconds makespan = 0;
    for (const Span& span : trace.spans) makespan = std::max(makespan, span.end.time);
    return makespan;
  }
};

/// Rendezvous, credits or one of the transports that launch in order.
TransportCapabilities draw_transport(std::uint64_t seed) {
  test::Dice dice(seed);
  if (dice.one_in(2)) return test::random_capabilities(false, seed);
  const auto all = transports();
  TransportCapabilities capabilities = all[dice.index(all.size())].capabilities;
  capabilities.residency.reset();
  return capabilities;
}

std::optional<GrowingStep> draw_step(const Schedule& schedule, std::uint64_t seed) {
  AnalyzedProgram analyzed(test::random_program(schedule, 0, seed), draw_transport(seed + 1));
  auto compiled = compile(analyzed);
  if (!compiled) return std::nullopt;
  test::Dice dice(seed + 2);
  std::vector<TimeLine> lines;
  for (std::size_t i = 0; i < compiled->cost_classes.size(); ++i)
    lines.push_back({dice.below(9), dice.one_in(2) ? 0 : dice.below(5)});
  return GrowingStep{std::move(analyzed), *std::move(compiled), std::move(lines)};
}

GrowingStep draw_step() {
  const Schedule schedule = *test::schedules(test::general_shapes());
  std::optional<GrowingStep> step = draw_step(schedule, *rc::gen::arbitrary<std::uint64_t>());
  RC_PRE(step.has_value());
  return *std::move(step);
}

/// The time of a line, which must be whole at whole factors.
Nanoseconds whole(const TimeLine& line, Nanoseconds factor) { return line.constant + line.slope * factor; }

const TimeLine& segment_at(const std::vector<StepSegment>& segments, const Ratio& factor) {
  const StepSegment* found = &segments.front();
  for (const StepSegment& segment : segments) {
    if (segment.from <= factor) found = &segment;
  }
  return found->step;
}

RC_GTEST_PROP(StepLineProperty, IsTheSimulationAtEveryFactor, ()) {
  const GrowingStep step = draw_step();
  const StepLine line = step.line();
  const std::vector<StepSegment> segments = line.segments();
  for (const Nanoseconds factor : {0, 1, 2, 3, 7, 50, 10000}) {
    const Nanoseconds expected = step.simulated(factor);
    RC_ASSERT(whole(line.steepest({factor, 1}), factor) == expected);
    RC_ASSERT(whole(line.flattest({factor, 1}), factor) == expected);
    RC_ASSERT(whole(segment_at(segments, {factor, 1}), factor) == expected);
  }
}

RC_GTEST_PROP(StepLineProperty, IsConvexAndNeverFalls, ()) {
  const std::vector<StepSegment> segments = draw_step().line().segments();
  for (std::size_t i = 0; i < segments.size(); ++i) {
    RC_ASSERT(segments[i].step.slope >= 0);
    if (i == 0) continue;
    const StepSegment& last = segments[i - 1];
    RC_ASSERT(last.from < segments[i].from);
    RC_ASSERT(last.step.slope < segments[i].step.slope);
    // They meet: both are as long where the second one begins.
    const Ratio& at = segments[i].from;
    RC_ASSERT((last.step.constant - segments[i].step.constant) * at.denominator() ==
              (segments[i].step.slope - last.step.slope) * at.numerator());
  }
}

RC_GTEST_PROP(StepLineProperty, GrowthIsTheSlopeOnBothSidesAndHowFarItHolds, ()) {
  const GrowingStep step = draw_step();
  const StepLine line = step.line();
  const std::vector<StepSegment> segments = line.segments();
  const Ratio at(*rc::gen::inRange(0, 40), *rc::gen::inRange(1, 9));
  const StepGrowth growth = line.growth(at);
  RC_ASSERT(growth.above == segment_at(segments, at));
  RC_ASSERT(growth.from <= at && at <= growth.to);
  const auto next = std::find_if(segments.begin(), segments.end(),
                                 [&](const StepSegment& segment) { return segment.from > at; });
  RC_ASSERT(growth.to == (next == segments.end() ? Ratio::infinite() : next->from));
  const auto same = std::find_if(segments.begin(), segments.end(),
                                 [&](const StepSegment& segment) { return segment.step == growth.below; });
  if (at == Ratio()) return;  // nothing is below
  RC_ASSERT(same != segments.end() && same->from == growth.from);
}

RC_GTEST_PROP(StepLineProperty, FiniteDifferencesAreSlopesWhereTheyHold, ()) {
  const GrowingStep step = draw_step();
  const Nanoseconds factor = *rc::gen::inRange(1, 30);
  const StepGrowth growth = step.line().growth({factor, 1});
  const Nanoseconds here = step.simulated(factor);
  const Nanoseconds more = step.simulated(factor + 1) - here;
  const Nanoseconds less = here - step.simulated(factor - 1);
  const bool holds_above = growth.to >= Ratio(factor + 1, 1);
  const bool holds_below = growth.from <= Ratio(factor - 1, 1);
  RC_ASSERT((holds_above ? more == growth.above.slope : more > growth.above.slope));
  RC_ASSERT((holds_below ? less == growth.below.slope : less < growth.below.slope));
}

/// Of two steps, by simulating both.
int shorter_by_simulation(const GrowingStep& a, const GrowingStep& b, Nanoseconds factor) {
  const Nanoseconds difference = a.simulated(factor) - b.simulated(factor);
  return difference < 0 ? -1 : difference > 0 ? 1 : 0;
}

RC_GTEST_PROP(BreakEvenProperty, IsWhereAScanFindsIt, ()) {
  const GrowingStep first = draw_step();
  const GrowingStep second = draw_step();
  const auto ranges = shorter_ranges(first.line().segments(), second.line().segments());
  RC_ASSERT(ranges.front().from == Ratio());
  for (Nanoseconds factor = 0; factor < 25; ++factor) {
    const Ratio at(factor, 1);
    const int shorter = shorter_by_simulation(first, second, factor);
    std::size_t i = ranges.size() - 1;
    while (ranges[i].from > at) --i;
    if (shorter == ranges[i].shorter) continue;
    // At a break-even point, and where the lines only touch, both take as long.
    RC_ASSERT(shorter == 0);
  }
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    RC_ASSERT(ranges[i - 1].from < ranges[i].from && ranges[i - 1].shorter != ranges[i].shorter);
    const Ratio& at = ranges[i].from;
    const TimeLine a = first.line().steepest(at);
    const TimeLine b = second.line().steepest(at);
    RC_ASSERT((a.constant - b.constant) * at.denominator() == (b.slope - a.slope) * at.numerator());
  }
}

}  // namespace
}  // namespace ppsim
