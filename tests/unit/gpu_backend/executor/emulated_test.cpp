#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/execution/naive_executor.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/executor/backends.hpp"
#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "ppsim/schedules/registry.hpp"
#include "ppsim/simulator/engine/simulate.hpp"
#include "support/hand_program.hpp"
#include "support/linear_model.hpp"
#include "support/programs.hpp"

namespace ppsim::test {
namespace {

constexpr Nanoseconds kUnit = 2'000'000;  // long enough to tell waiting from not waiting

RunOptions emulated(double transfer, std::optional<int> credits = std::nullopt) {
  CostTable costs = unit_cost_table({.c = transfer});
  CostTable scaled;
  for (const auto& [key, cost] : costs.entries()) scaled.set(key, cost * (kUnit / 1'000'000));
  scaled.set({.kind = OpKind::collective}, kUnit);
  RunOptions options = unverified(credits);
  options.backend = EmulatedOptions{scaled};
  return options;
}

const CostTable& costs_of(const RunOptions& options) {
  return std::get<EmulatedOptions>(options.backend).costs;
}

Program lowered(const std::string& name, const ScheduleParameters& parameters) {
  return lower(generate(name, parameters).value(), {}).value();
}

/// "fine", or the first instruction that started before what it waits for had ended, or took less than its
/// cost.
std::string against_rules(const Program& program, const RunOptions& options, const TimedTrace& trace) {
  const ExecutionGraph graph = build_execution_graph(program, options.capabilities);
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(program.size()); ++i) {
    const InstructionId id(i);
    const Span& span = trace.spans[id];
    std::ostringstream name;
    name << "instruction " << i << " of rank " << program.rank_of(id).value();
    for (const InstructionId before : graph.predecessors_of(id)) {
      if (span.start.time < trace.spans[before].end.time) return name.str() + " is too early";
    }
    const auto actions = program.actions(id);
    if (is_communication(actions[0].kind)) continue;
    const Nanoseconds cost = costs_of(options)(cost_class_of(actions, program.instruction(id).form));
    if (span.end.time - span.start.time < cost) return name.str() + " is too short";
  }
  for (const Message& message : graph.messages) {
    const Span& send = trace.spans[message.send];
    const Span& receive = trace.spans[message.receive];
    const Nanoseconds begin =
        options.capabilities.credits ? send.start.time : std::max(send.start.time, receive.start.time);
    const Nanoseconds cost = costs_of(options)(cost_class_of(program.all_actions()[message.send_action]));
    if (receive.end.time - begin < cost) return "a message is too fast";
  }
  return "fine";
}

Nanoseconds simulated_step(const Program& program, const RunOptions& options) {
  Nanoseconds last = 0;
  const TimedTrace trace = simulate_program(program, options.capabilities, costs_of(options)).value().value();
  for (const Span& span : trace.spans) last = std::max(last, span.end.time);
  return last;
}

/// Runs a Program for its costs and checks all that does not depend on how busy the machine is, and that the
/// step takes neither less than simulated nor many times more.
void expect_emulated(const Program& program, const RunOptions& options) {
  const RunResult result = run(program, NullModel(), options);
  ASSERT_EQ(result.outcome, RunOutcome::finished);
  EXPECT_EQ(against_rules(program, options, result.trace()), "fine");
  EXPECT_EQ(memory_figures(program, NullModel(), result), "exact");
  const Nanoseconds simulated = simulated_step(program, options);
  EXPECT_GE(result.step_ns[0], simulated);
  EXPECT_LE(result.step_ns[0], 10 * simulated + 2'000'000'000);
}

TEST(Emulated, TakesWhatTheCostsSayInTheOrderOfTheProgram) {
  for (const char* name : {"gpipe", "1f1b", "zb-h1", "zb-v", "dualpipe-v", "chimera"}) {
    SCOPED_TRACE(name);
    expect_emulated(lowered(name, {.ranks = 4, .microbatches = 8}), emulated(0.25));
  }
}

TEST(Emulated, SixteenRanksRunInOneProcess) {
  expect_emulated(lowered("1f1b", {.ranks = 16, .microbatches = 16}), emulated(0));
}

TEST(Emulated, CreditsLetASendGoBeforeItsReceive) {
  expect_emulated(lowered("1f1b", {.ranks = 3, .microbatches = 6}), emulated(0.5, 1));
  EXPECT_EQ(run(deferred_receives(false), NullModel(), emulated(0.5, 1)).outcome, RunOutcome::finished);
}

TEST(Emulated, AHangIsFoundThoughTransfersAreInFlight) {
  const RunResult hung = run(deferred_receives(false), NullModel(), emulated(0.5));
  const RunResult hung_on_cpu = run(deferred_receives(false), NullModel(), unverified());
  EXPECT_EQ(hung.outcome, RunOutcome::deadlock);
  EXPECT_EQ(hung.hang, hung_on_cpu.hang);
}

TEST(Emulated, ADeadlineEndsAnActionThatTakesTooLong) {
  RunOptions options = emulated(0);
  CostTable costs;
  costs.set({.kind = OpKind::forward}, 3'600'000'000'000);
  options.backend = EmulatedOptions{costs};
  options.deadline_s = 0.05;
  const auto result = execute(two_rank_step(), NullModel(), options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::io);
}

TEST(Emulated, NeedsNoMemoryForItsTensors) {
  SizeTable sizes;
  sizes.set({.kind = TensorKind::saved_for_weight}, Bytes{1} << 50);
  const RunResult result = run(two_rank_step(), NullModel(sizes), emulated(0));
  EXPECT_GE(result.pool_bytes[RankId(0)], Bytes{1} << 50);
  EXPECT_EQ(result.high_water_bytes[RankId(0)], Bytes{1} << 50);
  EXPECT_TRUE(result.gradients.empty());
}

TEST(Emulated, RefusesAPoolAboveTheLimit) {
  const NullModel model;
  RunOptions options = emulated(0);
  const Bytes largest = std::ranges::max(run(two_rank_step(), model, options).pool_bytes.items());
  options.memory_limit = largest;
  EXPECT_EQ(run(two_rank_step(), model, options).outcome, RunOutcome::finished);
  options.memory_limit = largest - 1;
  const auto refused = execute(two_rank_step(), model, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::does_not_fit);
  EXPECT_NE(refused.error().message.find("the pool of rank 0 takes " + std::to_string(largest) + " of " +
                                         std::to_string(largest - 1) + " bytes"),
            std::string::npos)
      << refused.error().message;
  EXPECT_EQ(run(deferred_receives(false), model, options).outcome, RunOutcome::deadlock);
}

TEST(Emulated, StepsComeOneAfterAnother) {
  RunOptions options = emulated(0.25);
  options.steps = 3;
  options.kept_traces = 2;
  const RunResult result = run(two_rank_step(), NullModel(), options);
  EXPECT_EQ(result.step_ns.size(), 3U);
  EXPECT_EQ(result.traces.size(), 2U);
}

TEST(Backends, ThoseOfThisProcessAreAlwaysThere) {
  const auto statuses = backend_statuses();
  ASSERT_GE(statuses.size(), 2U);
  EXPECT_EQ(statuses[0].name, backend_name(CpuOptions{}));
  EXPECT_EQ(statuses[1].name, backend_name(EmulatedOptions{}));
  EXPECT_TRUE(statuses[0].available && statuses[1].available);
  for (const BackendStatus& status : statuses) EXPECT_FALSE(status.detail.empty()) << status.name;
}

}  // namespace
}  // namespace ppsim::test
