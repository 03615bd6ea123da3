// Slowdowns from steps that the simulator made with known ones.

#include "ppsim/planner/calibration/slowdown_fit.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ppsim/core/ir/transports.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/planner/prediction.hpp"
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

/// Costs of computation, longer by a factor.
CostTable scaled(double factor) {
  CostTable table;
  const CostTable plain = costs();
  for (const auto& [key, cost] : plain.entries())
    table.set(key, is_compute(key.kind) ? std::llround(static_cast<double>(cost) * factor) : cost);
  return table;
}

/// A step whose computation takes a time in proportion to the busy share to a power; 0.7 is the share at
/// which it takes its costs.
TimedTrace loaded_step(const AnalyzedProgram& analyzed, double exponent, const SharedDevices& shared) {
  TimedTrace trace = step(analyzed, costs(), shared);
  for (int i = 0; i < 5; ++i) {
    const double share = busy_share(analyzed.program(), trace);
    trace = step(analyzed, scaled(std::pow(share / 0.7, exponent)), shared);
  }
  return trace;
}

TEST(LoadFit, FindsThePowerOfTheLoadAndPredictsOtherLoads) {
  for (const double exponent : {0.25, 0.33, 0.45}) {
    const AnalyzedProgram one(program_of("1f1b", 8), rendezvous());
    const AnalyzedProgram other(program_of("zb-h1", 8), rendezvous());
    const AnalyzedProgram more(program_of("1f1b", 24), rendezvous());
    const std::vector<TimedTrace> first = {loaded_step(one, exponent, devices())};
    const std::vector<TimedTrace> second = {loaded_step(other, exponent, devices())};
    const std::vector<TimedTrace> third = {loaded_step(more, exponent, devices())};
    const std::vector<MeasuredRuns> runs = {{one, first}, {other, second}, {more, third}};
    const SlowdownFit found = fit_slowdowns(runs, kRanks, true);
    EXPECT_NEAR(found.load.exponent, exponent, 0.01);
    EXPECT_DOUBLE_EQ(found.load.share, busy_share(one.program(), first.front()));
    for (const int microbatches : {4, 16, 32}) {
      const AnalyzedProgram analyzed(program_of("zb-h1", microbatches), rendezvous());
      const auto known = static_cast<double>(
          step_times(analyzed.program(), loaded_step(analyzed, exponent, devices())).makespan);
      const auto foretold = simulate_under_load(analyzed, found);
      ASSERT_TRUE(foretold);
      EXPECT_NEAR(static_cast<double>(step_times(analyzed.program(), foretold->trace).makespan), known,
                  0.005 * known)
          << exponent << ' ' << microbatches;
    }
  }
}

/// Times of four classes in Programs of these shares, each of them off as a whole.
LoadFit load_of(const std::vector<double>& shares, double exponent, const std::vector<double>& off) {
  std::vector<LoadedTime> times;
  for (std::size_t program = 0; program < shares.size(); ++program) {
    for (int stage = 0; stage < 4; ++stage) {
      const double time = (1e6 + 1e4 * stage) * std::pow(shares[program], exponent) * (1 + off[program]);
      times.push_back({program, {forward, stage, -1, 0}, time, 100});
    }
  }
  return fit_load(shares, times);
}

TEST(LoadFit, FindsThePowerWithinItsBounds) {
  const std::vector<double> shares = {0.5, 0.6, 0.7};
  const std::vector<double> none = {0, 0, 0};
  EXPECT_NEAR(load_of(shares, 0.4, none).exponent, 0.4, 1e-9);
  EXPECT_NEAR(load_of(shares, 0.4, none).factor(0.6), std::pow(0.6 / 0.5, 0.4), 1e-9);
  EXPECT_EQ(load_of(shares, 0.15, none).exponent, 0);
  EXPECT_EQ(load_of(shares, -0.4, none).exponent, 0);
  EXPECT_EQ(load_of(shares, 0.9, none).exponent, 0.5);
  EXPECT_EQ(load_of({0.5, 0.7}, 0.4, none).exponent, 0) << "two runs say nothing about chance";
  EXPECT_EQ(load_of({0.6, 0.6, 0.6}, 0.4, none).exponent, 0);
  EXPECT_EQ(load_of({0.5, 0, 0.7}, 0, none).exponent, 0);
  EXPECT_EQ(fit_load(shares, {}).factor(0.9), 1);
}

/// A machine that is a little slower for one run than for another looks like a load, but seldom like much.
TEST(LoadFit, ProgramsThatAreOffAsAWholeSeldomHaveALoad) {
  const std::vector<double> shares = {0.67, 0.78, 0.82};
  std::mt19937 random(1);
  std::normal_distribution<double> noise(0, 0.01);
  int found = 0;
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries; ++i) {
    const std::vector<double> off = {noise(random), noise(random), noise(random)};
    if (load_of(shares, 0, off).exponent > 0) ++found;
  }
  EXPECT_LT(found, kTries / 20);
}

/// Where nobody asks for it, Programs are held against each other as before.
TEST(LoadFit, IsLeftOutUnlessAskedFor) {
  const AnalyzedProgram one(program_of("1f1b", 8), rendezvous());
  const AnalyzedProgram other(program_of("gpipe", 12), rendezvous());
  const AnalyzedProgram more(program_of("1f1b", 24), rendezvous());
  const std::vector<TimedTrace> first = {loaded_step(one, 0.4, devices())};
  const std::vector<TimedTrace> second = {loaded_step(other, 0.4, devices())};
  const std::vector<TimedTrace> third = {loaded_step(more, 0.4, devices())};
  const std::vector<MeasuredRuns> runs = {{one, first}, {other, second}, {more, third}};
  EXPECT_EQ(fit_slowdowns(runs, kRanks).load.exponent, 0);
  EXPECT_GT(fit_slowdowns(runs, kRanks, true).load.exponent, 0.3);
}

}  // namespace
}  // namespace ppsim::slowdown_fit_test
