// Slowdowns from steps that the simulator made with known ones.

#include "ppsim/planner/calibration/slowdown_fit.hpp"

#include <gtest/gtest.h>

#include <random>

#include "ppsim/core/ir/transports.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"
#include "ppsim/simulator/metrics/metrics.hpp"

namespace ppsim::slowdown_fit_test {
namespace {

using enum OpKind;

constexpr int kRanks = 4;

Program program_of(std::string_view name, int microbatches) {
  return lower(generate(name, {.ranks = kRanks, .microbatches = microbatches}).value(), {}).value();
}

/// Stages differ by 5 %.
CostTable costs() {
  CostTable table;
  for (int stage = 0; stage < kRanks; ++stage) {
    const Nanoseconds more = 50'000 * stage;
    table.set({forward, stage}, 1'000'000 + more);
    table.set({backward, stage}, 2'000'000 + more);
    table.set({backward_input, stage}, 1'100'000 + more);
    table.set({backward_weight, stage}, 900'000 + more);
  }
  table.set({send_forward}, 40'000);
  table.set({send_backward}, 40'000);
  return table;
}

SharedDevices devices(int undisturbed = 0) {
  return {.ranks = kRanks,
          .undisturbed = undisturbed,
          .slowdowns = {
              {forward, 60'000}, {backward, 90'000}, {backward_input, 30'000}, {backward_weight, 120'000}}};
}

TimedTrace step(const AnalyzedProgram& analyzed, const CostTable& alone, const SharedDevices& shared) {
  return simulate_on_devices(analyzed, {alone, CostTable()}, shared).value().value();
}

Nanoseconds makespan(const AnalyzedProgram& analyzed, const CostTable& alone, const SharedDevices& shared) {
  return step_times(analyzed.program(), step(analyzed, alone, shared)).makespan;
}

/// The fit of a step of 1f1b and one of zb-h1 at 8 microbatches, whose ends `disturb` changes.
template <class Disturb>
SlowdownFit fit(const SharedDevices& shared, Disturb disturb) {
  const AnalyzedProgram one(program_of("1f1b", 8), rendezvous());
  const AnalyzedProgram other(program_of("zb-h1", 8), rendezvous());
  std::vector<TimedTrace> first, second;
  for (int i = 0; i < 5; ++i) {
    first.push_back(disturb(step(one, costs(), shared)));
    second.push_back(disturb(step(other, costs(), shared)));
  }
  const std::vector<MeasuredRuns> runs = {{one, first}, {other, second}};
  return fit_slowdowns(runs, kRanks);
}

void expect_found(const SlowdownFit& found, const SharedDevices& shared, double tolerance) {
  EXPECT_EQ(found.devices.undisturbed, shared.undisturbed);
  for (const auto& [kind, slowdown] : shared.slowdowns) {
    const auto known = static_cast<double>(slowdown);
    EXPECT_NEAR(static_cast<double>(found.devices.slowdowns.at(kind)), known, tolerance * known)
        << info(kind).text;
  }
  const CostTable table = costs();
  for (const auto& [key, cost] : table.entries()) {
    if (key.subject < 0) continue;
    const auto known = static_cast<double>(cost);
    const CostClass measured{key.kind, key.subject, -1, 0};
    EXPECT_NEAR(static_cast<double>(found.alone(measured)), known, 0.01 * known) << key;
  }
}

TimedTrace untouched(TimedTrace trace) { return trace; }

TEST(SlowdownFit, FindsWhatTheStepsWereMadeWith) { expect_found(fit(devices(), untouched), devices(), 0.01); }

TEST(SlowdownFit, FindsThoseThatSlowNobodyDown) {
  expect_found(fit(devices(1), untouched), devices(1), 0.01);
}

TEST(SlowdownFit, PredictsOtherSchedulesAndLengthsWithinATenthOfAPercent) {
  const SlowdownFit found = fit(devices(), untouched);
  for (const char* name : {"gpipe", "1f1b", "zb-h1", "zb-h2"}) {
    for (const int microbatches : {4, 8, 16, 32}) {
      const AnalyzedProgram analyzed(program_of(name, microbatches), rendezvous());
      const auto known = static_cast<double>(makespan(analyzed, costs(), devices()));
      const auto foretold = static_cast<double>(makespan(analyzed, found.alone, found.devices));
      EXPECT_NEAR(foretold, known, 0.001 * known) << name << ' ' << microbatches;
    }
  }
}

TEST(SlowdownFit, OutliersDecideNothing) {
  // One action in thirty takes twice as long as it did.
  std::mt19937 random(1);
  const auto disturb = [&](TimedTrace trace) {
    for (Span& span : trace.spans) {
      if (random() % 30 == 0) span.end.time += span.end.time - span.start.time;
    }
    return trace;
  };
  const SlowdownFit found = fit(devices(), disturb);
  for (const auto& [kind, slowdown] : devices().slowdowns) {
    const auto known = static_cast<double>(slowdown);
    EXPECT_NEAR(static_cast<double>(found.devices.slowdowns.at(kind)), known, 0.1 * known) << info(kind).text;
  }
}

TEST(SlowdownFit, ASpeedUpIsNoSlowdown) {
  // Actions among many take less than alone.
  const auto disturb = [](TimedTrace trace) {
    for (Span& span : trace.spans) {
      const Nanoseconds time = span.end.time - span.start.time;
      if (span.start.time > 8'000'000) span.end.time -= time / 10;
    }
    return trace;
  };
  SharedDevices none = devices();
  for (auto& one : none.slowdowns) one.second = 0;
  const SlowdownFit found = fit(none, disturb);
  for (const auto& [kind, slowdown] : found.devices.slowdowns) EXPECT_GE(slowdown, 0) << info(kind).text;
}

TEST(SlowdownFit, ARankOfItsOwnIsNotSlowedDown) {
  const AnalyzedProgram analyzed(program_of("1f1b", 8), rendezvous());
  const std::vector<TimedTrace> traces(3, step(analyzed, costs(), {}));
  const std::vector<MeasuredRuns> runs = {{analyzed, traces}};
  const SlowdownFit found = fit_slowdowns(runs, 1);
  for (const auto& [kind, slowdown] : found.devices.slowdowns) EXPECT_EQ(slowdown, 0);
  EXPECT_EQ(found.alone({forward, 2, -1, 0}), 1'100'000);
}

}  // namespace
}  // namespace ppsim::slowdown_fit_test
