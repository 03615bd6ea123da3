#include "ppsim/planner/calibration/calibrate.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"
#include "ppsim/simulator/engine/simulate.hpp"
#include "ppsim/simulator/metrics/kind_times.hpp"

namespace ppsim {
namespace {

AnalyzedProgram one_f_one_b(int ranks = 4, int microbatches = 8) {
  const Schedule schedule = generate("1f1b", {.ranks = ranks, .microbatches = microbatches}).value();
  return {lower(schedule, {}).value(), rendezvous()};
}

TimedTrace run_of(const AnalyzedProgram& analyzed, const CostTable& costs) {
  return *simulate_beside_transfers(analyzed, {costs, CostTable()}).value();
}

const CalibrationGroup& group(const CalibrationResult& result, const std::string& name) {
  for (const CalibrationGroup& one : result.groups) {
    if (one.name == name) return one;
  }
  throw std::out_of_range(name);
}

Workload job() {
  Workload work{.model = model_from_name("llama3-8b").value(),
                .cluster = cluster_from_name("dgx-h100", 2).value()};
  work.parallelism = {.tensor = 4, .pipeline = 4, .global_batch_size = 8};
  return work;
}

TEST(Calibrate, FindsTheCostsOfASimulatedStep) {
  const AnalyzedProgram analyzed = one_f_one_b();
  const CostTable costs = unit_cost_table({.F = 1, .B = 2.5, .c = 0.125});
  const CostTable wrong = unit_cost_table({.F = 2, .B = 2.5, .c = 0});
  const auto result =
      calibrate({.program = &analyzed, .steps = {.traces = {run_of(analyzed, costs)}}, .costs = wrong})
          .value();
  EXPECT_EQ(result.measured.costs({OpKind::forward, 2, -1, 0}), 1'000'000);
  EXPECT_EQ(result.measured.costs({OpKind::send_forward, 0, 1, 0}), 125'000);
  EXPECT_DOUBLE_EQ(*group(result, "F").before, 1);
  EXPECT_DOUBLE_EQ(*group(result, "B").before, 0);
  EXPECT_DOUBLE_EQ(*group(result, "SEND_F").before, 1);
  for (const CalibrationGroup& one : result.groups) {
    EXPECT_DOUBLE_EQ(one.after, 0) << one.name;
    EXPECT_DOUBLE_EQ(*one.other_half, 0) << one.name;
  }
  EXPECT_EQ(group(result, "F").observations, 32);
  EXPECT_TRUE(result.calibration.empty()) << "without a model there is nothing that factors are of";
}

/// Of two ranks one or the other is slow: means make both alike, mixed steps have both fast and both slow,
/// too.
TEST(Calibrate, VariedStepsArePutTogetherOfRanksOfDifferentSteps) {
  const AnalyzedProgram analyzed = one_f_one_b(2, 4);
  const auto step = [&](Nanoseconds first, Nanoseconds second) {
    CostTable costs = unit_cost_table({.F = 1, .B = 2, .c = 0.1});
    costs.set({OpKind::forward, 0, -1, 0}, first);
    costs.set({OpKind::forward, 1, -1, 0}, second);
    return run_of(analyzed, costs);
  };
  constexpr Nanoseconds kFast = 1'000'000;
  constexpr Nanoseconds kSlow = 3'000'000;
  const TimedTrace a = step(kFast, kSlow);
  const TimedTrace b = step(kSlow, kFast);
  const auto varied = [&](std::vector<TimedTrace> traces) {
    return calibrate({.program = &analyzed, .steps = {.traces = std::move(traces)}}).value().varied;
  };
  // The second rank is one step ahead of the first, or two, or three.
  const double apart = static_cast<double>(trace_span(a) + trace_span(b)) / 2;
  const double alike =
      static_cast<double>(trace_span(step(kFast, kFast)) + trace_span(step(kSlow, kSlow))) / 2;
  EXPECT_NEAR(varied({a, b, a, b})->after, (apart + 2 * alike) / 3 / apart - 1, 1e-9);
  EXPECT_NEAR(varied({a, a, a, a})->after, 0, 1e-12);
  EXPECT_NEAR(*varied({a, b, a, b})->other_half,
              static_cast<double>(trace_span(a)) / static_cast<double>(trace_span(b)) - 1, 1e-9);
  EXPECT_FALSE(varied({a, b, a})) << "a half has one step";
}

/// Where forward transfers alone vary, a mixed step is the measured one whose rank 0 sends.
TEST(Calibrate, AMessageOfAVariedStepHasBothEndsFromOneStep) {
  const Schedule schedule = generate("gpipe", {.ranks = 2, .microbatches = 8}).value();
  const AnalyzedProgram analyzed(lower(schedule, {}).value(), rendezvous());
  const auto step = [&](Nanoseconds sends) {
    CostTable costs = unit_cost_table({.F = 1, .B = 2, .c = 0.1});
    costs.set({OpKind::send_forward, 0, 1, 0}, sends);
    return run_of(analyzed, costs);
  };
  const TimedTrace fast = step(100'000);
  const TimedTrace slow = step(3'000'000);
  const auto varied =
      calibrate({.program = &analyzed, .steps = {.traces = {fast, slow, fast, slow}}}).value().varied;
  EXPECT_NEAR(varied->after, 0, 1e-12);
}

TEST(Calibrate, LeavesOutStepsThatWereDisturbed) {
  const AnalyzedProgram analyzed = one_f_one_b();
  const auto left_out = [&](const std::vector<double>& forwards) {
    MeasuredSteps steps;
    for (const double F : forwards)
      steps.traces.push_back(run_of(analyzed, unit_cost_table({.F = F, .B = 2})));
    const std::size_t count = leave_out_disturbed(steps);
    return std::pair(count, steps.traces.size());
  };
  using Counts = std::pair<std::size_t, std::size_t>;
  EXPECT_EQ(left_out({1, 1, 1, 1.2, 1, 1, 1, 1, 0.8}), Counts(2, 7));
  EXPECT_EQ(left_out({1, 1, 1, 1, 1, 1, 1.01, 1, 0.99}), Counts(0, 9)) << "all are close to each other";
  EXPECT_EQ(left_out({1, 1, 1, 1, 1, 1, 5}), Counts(0, 7)) << "too few to say what most take";
  EXPECT_EQ(left_out({1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7}), Counts(0, 8)) << "none is far from the others";
  EXPECT_EQ(left_out({1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 3}), Counts(1, 8));
}

/// Of steps that differ, the other half is judged by the steps that were left out.
TEST(Calibrate, HalvesAreEveryOtherStep) {
  const AnalyzedProgram analyzed = one_f_one_b();
  const auto step = [&](double F) { return run_of(analyzed, unit_cost_table({.F = F, .B = 2})); };
  const auto result =
      calibrate({.program = &analyzed, .steps = {.traces = {step(1), step(1.1), step(1), step(1.1)}}})
          .value();
  EXPECT_NEAR(*group(result, "F").other_half, 0.1 / 1.1, 1e-9);
  EXPECT_NEAR(*group(result, "B").other_half, 0, 1e-9);
  EXPECT_LT(*group(result, "step").other_half, 0) << "the simulated step is too short";
  EXPECT_EQ(group(result, "step").observations, 4);
  EXPECT_FALSE(group(result, "step").before);
}

TEST(Calibrate, FactorsAreMeasuredOverModelled) {
  const AnalyzedProgram analyzed = one_f_one_b();
  const Workload work = job();
  Workload real = work;
  real.calibration.factors = {{OpKind::forward, 1.3}, {OpKind::backward, 0.8}, {OpKind::send_forward, 2}};
  const CostTable truth = analytic_costs(real, analyzed.program().pipeline()).value().tables.costs;
  const auto result =
      calibrate({.program = &analyzed, .steps = {.traces = {run_of(analyzed, truth)}}, .workload = work})
          .value();
  EXPECT_NEAR(result.calibration.factors.at(OpKind::forward), 1.3, 1e-6);
  EXPECT_NEAR(result.calibration.factors.at(OpKind::backward), 0.8, 1e-6);
  EXPECT_NEAR(result.calibration.factors.at(OpKind::send_forward), 2, 1e-6);
  EXPECT_NEAR(result.calibration.factors.at(OpKind::send_backward), 1, 1e-6);
  EXPECT_NEAR(*group(result, "F").before, 0.3 / 1.3, 1e-6);
  EXPECT_LT(group(result, "step").after, 1e-6);
  EXPECT_GT(std::abs(*group(result, "step").before), 0.01);
  // Calibrated again, nothing changes.
  const auto again = calibrate({.program = &analyzed,
                                .steps = {.traces = {run_of(analyzed, truth)}},
                                .workload = calibrated(work, result.calibration)})
                         .value();
  EXPECT_NEAR(again.calibration.factors.at(OpKind::forward), 1.3, 1e-6);
}

/// The constants that a step was made with are found again where computation tells them apart.
TEST(Calibrate, FindsConstants) {
  const AnalyzedProgram analyzed = one_f_one_b();
  const Workload work = job();
  Workload real = work;
  real.fitted.product_slowdown = 1.2;
  const CostTable truth = analytic_costs(real, analyzed.program().pipeline()).value().tables.costs;
  const auto result = calibrate({.program = &analyzed,
                                 .steps = {.traces = {run_of(analyzed, truth)}},
                                 .workload = work,
                                 .fit = CalibrationFit::constants})
                          .value();
  ASSERT_TRUE(result.calibration.constants);
  EXPECT_TRUE(result.calibration.factors.empty());
  EXPECT_LT(group(result, "F").after, 0.01);
  EXPECT_LT(group(result, "B").after, 0.01);
  EXPECT_GT(*group(result, "F").before, 0.02);
}

TEST(Calibrate, RefusesTracesOfAnotherModel) {
  const AnalyzedProgram analyzed = one_f_one_b();
  const auto result =
      calibrate({.program = &analyzed,
                 .steps = {.traces = {run_of(analyzed, unit_cost_table({.F = 1e4, .B = 2e4}))}},
                 .workload = job()});
  ASSERT_FALSE(result);
  EXPECT_NE(to_string(result.error()).find("not of this model"), std::string::npos);
}

TEST(Calibrate, NothingIsNoCalibration) { EXPECT_FALSE(calibrate({})); }

TEST(Calibrate, CommunicationIsComparedWithTheModelAndWithItself) {
  // Latency of 10 us and 100 GB/s.
  MeasuredCollective measured{MeasuredOperation::all_reduce, {8, 8}, {}};
  for (Bytes bytes = 1024; bytes <= (Bytes{1} << 30); bytes *= 2)
    measured.times.push_back({bytes, 10'000 + bytes / 100});
  const auto result = calibrate({.workload = job(), .collectives = {measured}}).value();
  const CalibrationGroup& one = group(result, "all_reduce of 8 GPUs, 8 a node");
  EXPECT_EQ(one.observations, 21);
  EXPECT_GT(*one.before, 0.05);
  EXPECT_NEAR(one.after, 0, 1e-9);
  EXPECT_LT(*one.other_half, 0.05);
  EXPECT_EQ(result.calibration.collectives, std::vector<MeasuredCollective>{measured});
  EXPECT_FALSE(calibrate({.collectives = {measured}})->groups.front().before);
}

TEST(Calibrate, FilesOfOneOperationAndGroupBelongTogether) {
  const auto measured = [](int gpus, std::vector<MeasuredTime> times) {
    return MeasuredCollective{MeasuredOperation::all_reduce, {gpus, gpus}, std::move(times)};
  };
  const MeasuredCollective small = measured(2, {{1, 10}, {2, 21}});
  const MeasuredCollective large = measured(2, {{2, 24}, {8, 80}});
  const MeasuredCollective other = measured(4, {{2, 50}});
  Workload work = job();
  work.calibration.collectives = {measured(2, {{4, 999}}), measured(8, {{2, 70}})};
  const auto result = calibrate({.workload = work, .collectives = {large, other, small}}).value();
  const MeasuredCollective both = measured(2, {{1, 10}, {2, 23}, {8, 80}});  // 22.5 on average
  EXPECT_EQ(result.calibration.collectives,
            (std::vector<MeasuredCollective>{measured(8, {{2, 70}}), both, other}));
  ASSERT_EQ(result.groups.size(), 2);
  EXPECT_EQ(result.groups.front().observations, 3);
}

/// Ranges of the host contain what they wait for: computation counts from when that was there.
TEST(Calibrate, WaitsWithinRangesAreNoComputation) {
  const AnalyzedProgram analyzed = one_f_one_b(2, 2);
  const TimedTrace whole = run_of(analyzed, unit_cost_table({.F = 1, .B = 2}));
  TimedTrace host = whole;
  for (std::size_t i = 0; i < host.spans.size(); ++i) {
    const InstructionId id(static_cast<std::int32_t>(i));
    if (is_communication(analyzed.program().actions(id)[0].kind)) {
      host.spans[id] = {{-1, 0}, {-1, 0}};
    } else if (id != analyzed.program().first(analyzed.program().rank_of(id))) {
      host.spans[id].start.time -= 300'000;
    }
  }
  const auto result =
      calibrate({.program = &analyzed, .steps = {.traces = {host}, .computation_alone = true}}).value();
  EXPECT_EQ(result.measured.costs({OpKind::forward, 0, -1, 0}), 1'000'000);
  EXPECT_EQ(result.measured.costs({OpKind::backward, 0, -1, 0}), 2'000'000);
  EXPECT_EQ(result.measured.costs({OpKind::backward, 1, -1, 0}), 2'000'000);
  EXPECT_TRUE(result.measured.costs.entries().contains({OpKind::send_forward})) << "free, and said so";
}

}  // namespace
}  // namespace ppsim
