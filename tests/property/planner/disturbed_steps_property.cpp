// The times that a run with jitter is given, against the steps that are simulated.

#include "ppsim/planner/effects/disturbed_steps.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "ppsim/core/ir/transports.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/random_program.hpp"

namespace ppsim {
namespace {

/// With groups, collectives and copies, some of the time.
Program draw_program(const CostTable& costs) {
  const auto name = *rc::gen::element<std::string>("1f1b", "gpipe", "zb-h1", "zb-v", "chimera");
  LoweringOptions options;
  options.grouping = *rc::gen::element(Grouping::none, Grouping::paired);
  options.reduce_grad = options.optimizer = *rc::gen::arbitrary<bool>();
  options.offload.percent = *rc::gen::element(0, 50);
  return lower(generate(name, {.ranks = 4, .microbatches = 8}).value(), options, &costs).value();
}

SimulatedStep draw_step(const TransportCapabilities& capabilities) {
  CostBinding binding;
  const CostTable costs = test::random_costs(4, *rc::gen::arbitrary<std::uint64_t>());
  for (const auto& [key, cost] : costs.entries()) binding.tables.costs.set(key, cost * 1000);
  binding.tables.costs.set({.kind = OpKind::reduce_grad}, 5000);
  return evaluate("drawn", draw_program(binding.tables.costs), binding, capabilities).value();
}

Disturbances draw_disturbances() {
  Disturbances disturbances;
  disturbances.varying.push_back({std::nullopt, {.deviation = 0.2, .correlation = 0.5}});
  disturbances.varying.push_back(
      {cost_group_from_text("transfers").value(), {.shape = FactorSpread::Shape::gamma, .deviation = 0.7}});
  disturbances.ranks = FactorSpread{.shape = FactorSpread::Shape::list, .values = {1, 1, 1.3}};
  disturbances.slow_ranks.push_back({RankId(*rc::gen::inRange(0, 4)), 1.5});
  disturbances.slow_links.push_back({RankId(1), RankId(2), 3});
  return disturbances;
}

/// The step in which each action takes its time, by the rules of ExecutionGraph and nothing else.
class PlainStep {
 public:
  PlainStep(const SimulatedStep& step, const std::vector<Nanoseconds>& times)
      : program_(step.program()),
        graph_(step.analyzed.timed_graph()),
        times_(times),
        starts_(program_.size(), 0),
        ends_(program_.size(), 0) {
    for (const std::uint32_t event : step.analyzed.timed_order().items) {
      const InstructionId id(static_cast<std::int32_t>(event >> 1));
      if ((event & 1U) == 0) {
        for (const InstructionId before : graph_.predecessors_of(id))
          starts_[id.index()] = std::max(starts_[id.index()], ends_[before.index()]);
      } else {
        ends_[id.index()] = end_of(id);
      }
    }
  }

  [[nodiscard]] Nanoseconds makespan() const { return std::ranges::max(ends_); }

 private:
  [[nodiscard]] Nanoseconds end_of(InstructionId id) const {
    if (const std::int32_t match = graph_.match_of[id.index()]; match >= 0) {
      Nanoseconds begin = 0;
      for (const InstructionId member : graph_.members_of(graph_.matches[static_cast<std::size_t>(match)]))
        begin = std::max(begin, starts_[member.index()]);
      return begin + times_[program_.instruction(id).first_action];
    }
    Nanoseconds end = starts_[id.index()];
    if (graph_.messages_of(id).empty()) return end + times_[program_.instruction(id).first_action];
    for (const std::uint32_t message : graph_.messages_of(id)) {
      EXPECT_EQ(times_[graph_.messages[message].send_action],
                times_[graph_.messages[message].receive_action]);
      end = std::max(end, out(graph_.messages[message]));
    }
    return end;
  }

  [[nodiscard]] Nanoseconds out(const Message& message) const {
    Nanoseconds begin = std::max(starts_[message.send.index()], starts_[message.receive.index()]);
    if (message.previous >= 0)
      begin = std::max(begin, out(graph_.messages[static_cast<std::size_t>(message.previous)]));
    return begin + times_[message.send_action];
  }

  const Program& program_;
  const ExecutionGraph& graph_;
  const std::vector<Nanoseconds>& times_;
  std::vector<Nanoseconds> starts_;
  std::vector<Nanoseconds> ends_;
};

Nanoseconds end_of(const TimedTrace& trace) {
  Nanoseconds last = 0;
  for (const Span& span : trace.spans) last = std::max(last, span.end.time);
  return last;
}

RC_GTEST_PROP(DisturbedStepsProperty, TimesAndTracesAreThoseOfTheSimulatedSteps, ()) {
  const SimulatedStep step = draw_step(rendezvous());
  SpreadOptions options{.disturbances = draw_disturbances(), .samples = 3};
  options.seed = *rc::gen::arbitrary<std::uint64_t>();
  const StepSpread spread = step_spread(step, options).value();
  const DisturbedSteps steps = DisturbedSteps::make(step, options.disturbances, options.seed).value();
  const std::vector<Nanoseconds> simulated = steps.steps(options.samples);
  for (std::size_t sample = 0; sample < simulated.size(); ++sample) {
    RC_ASSERT(spread.steps_ns[sample] == static_cast<double>(simulated[sample]));
    RC_ASSERT(end_of(steps.trace(sample)) == simulated[sample]);
    RC_ASSERT(PlainStep(step, steps.action_times(sample)).makespan() == simulated[sample]);
  }
}

/// The drawn times depend on the Program alone, and so does the step where launches are not counted.
RC_GTEST_PROP(DisturbedStepsProperty, EveryTransportDrawsTheSame, ()) {
  const SimulatedStep step = draw_step(rendezvous());
  const Disturbances disturbances = draw_disturbances();
  const DisturbedSteps steps = DisturbedSteps::make(step, disturbances, 7).value();
  const auto name = *rc::gen::element<std::string>("any", "nccl", "mpi");
  const auto other_step = evaluate(name, step.program(), step.costs, transport(name, false).value());
  RC_PRE(other_step.has_value());  // NCCL launches in order, which not every Program survives
  const DisturbedSteps others = DisturbedSteps::make(*other_step, disturbances, 7).value();
  RC_ASSERT(others.action_times(4) == steps.action_times(4));
  if (name != "nccl") RC_ASSERT(others.steps(5) == steps.steps(5));
}

/// The end of a step is no part of a run, and changes no drawn time.
TEST(DisturbedSteps, TheEndOfAStepIsLeftOut) {
  const Schedule schedule = generate("1f1b", {.ranks = 2, .microbatches = 4}).value();
  CostBinding costs;
  costs.tables.costs.set({OpKind::forward}, 1'000'000);
  costs.tables.costs.set({OpKind::backward}, 2'000'000);
  const auto steps = [&] {
    const SimulatedStep step = evaluate("1f1b", lower(schedule, {}).value(), costs).value();
    Disturbances disturbances;
    disturbances.varying.push_back({std::nullopt, {.deviation = 0.2}});
    disturbances.ranks = FactorSpread{.deviation = 0.1};
    return DisturbedSteps::make(step, disturbances, 1).value().steps(10);
  };
  const std::vector<Nanoseconds> without = steps();
  costs.ends = IdVector<RankId, StepEnd>(2, StepEnd{.reduction = 3'000'000, .update = 1'000'000});
  EXPECT_EQ(steps(), without);
}

}  // namespace
}  // namespace ppsim
