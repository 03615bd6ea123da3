// Runs whose actions are given times, other ones in each step. How long waking up takes is not asked for.

#include <gtest/gtest.h>

#include <algorithm>

#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/linear_model.hpp"
#include "support/programs.hpp"

namespace ppsim::test {
namespace {

/// Other times for each action of each step, some of them 0; the same for all ends.
class RecordedTimes {
 public:
  explicit RecordedTimes(const Program& program) : graph_(build_execution_graph(program, rendezvous())) {
    for (const InstructionId id : program.ids()) first_.push_back(program.instruction(id).first_action);
    actions_ = program.all_actions().size();
  }

  std::vector<Nanoseconds> of_step(int step) {
    asked_.push_back(step);
    std::vector<Nanoseconds> times(actions_);
    for (std::size_t a = 0; a < actions_; ++a)
      times[a] = static_cast<Nanoseconds>((a * 7 + static_cast<std::size_t>(step) * 3) % 5) * 200'000;
    for (const Message& message : graph_.messages) times[message.receive_action] = times[message.send_action];
    for (const CollectiveMatch& match : graph_.matches) {
      const auto members = graph_.members_of(match);
      for (const InstructionId member : members)
        times[first_[member.index()]] = times[first_[members[0].index()]];
    }
    return times;
  }

  [[nodiscard]] const std::vector<int>& asked() const { return asked_; }

 private:
  ExecutionGraph graph_;
  std::vector<std::uint32_t> first_;
  std::size_t actions_ = 0;
  std::vector<int> asked_;
};

/// "fine", or the first action that took less than its time.
std::string against_times(const Program& program, const RunOptions& options, const TimedTrace& trace,
                          const std::vector<Nanoseconds>& times) {
  const ExecutionGraph graph = build_execution_graph(program, options.capabilities);
  for (const InstructionId id : program.ids()) {
    const Span& span = trace.spans[id];
    if (is_communication(program.actions(id)[0].kind)) continue;
    if (span.end.time - span.start.time < times[program.instruction(id).first_action])
      return "instruction " + std::to_string(id.value()) + " is too short";
  }
  for (const Message& message : graph.messages) {
    const Span& send = trace.spans[message.send];
    const Span& receive = trace.spans[message.receive];
    const Nanoseconds begin =
        options.capabilities.credits ? send.start.time : std::max(send.start.time, receive.start.time);
    if (receive.end.time - begin < times[message.send_action]) return "a message is too fast";
  }
  for (const CollectiveMatch& match : graph.matches) {
    Nanoseconds begin = 0;
    for (const InstructionId member : graph.members_of(match))
      begin = std::max(begin, trace.spans[member].start.time);
    for (const InstructionId member : graph.members_of(match)) {
      if (trace.spans[member].end.time - begin < times[program.instruction(member).first_action])
        return "a collective is too fast";
    }
  }
  return "fine";
}

Program trained(const std::string& name) {
  LoweringOptions options;
  options.load = options.optimizer = options.clip = options.reduce_grad = true;
  options.grouping = Grouping::paired;
  return lower(generate(name, {.ranks = 3, .microbatches = 6}).value(), options).value();
}

void expect_times(const Program& program, RunOptions options) {
  RecordedTimes times(program);
  options.steps = 2;
  options.action_times = [&](int step) { return times.of_step(step); };
  const RunResult result = run(program, LinearModel(), options);
  ASSERT_EQ(result.outcome, RunOutcome::finished);
  EXPECT_EQ(times.asked(), (std::vector<int>{0, 1}));
  for (int step = 0; step < options.steps; ++step) {
    const TimedTrace& trace = result.traces[static_cast<std::size_t>(step)];
    EXPECT_EQ(against_times(program, options, trace, times.of_step(step)), "fine") << "step " << step;
  }
  EXPECT_EQ(memory_figures(program, LinearModel(), result), "exact");
}

TEST(ActionTimes, OnACpuAnActionTakesItsTimeAtLeast) {
  for (const char* name : {"1f1b", "zb-h1", "gpipe"}) {
    SCOPED_TRACE(name);
    expect_times(trained(name), unverified());
    expect_times(trained(name), unverified(1));
  }
}

TEST(ActionTimes, OnAnEmulatedDeviceThatOfTheStepAndNotOfTheTable) {
  CostTable hours;
  hours.set({.kind = OpKind::forward}, 3'600'000'000'000);
  for (const auto credits : {std::optional<int>(), std::optional<int>(2)}) {
    RunOptions options = unverified(credits);
    options.backend = EmulatedOptions{hours};
    expect_times(trained("1f1b"), options);
  }
}

/// Messages that arrive later, with credits from a buffer, still hold what was sent; sums are the same.
TEST(ActionTimes, GradientsAreThoseWithoutAPipeline) {
  for (const auto credits : {std::optional<int>(), std::optional<int>(1)}) {
    const Program program = trained("zb-h1");
    RecordedTimes times(program);
    RunOptions options = unverified(credits);
    options.steps = 2;
    options.action_times = [&](int step) { return times.of_step(step); };
    EXPECT_EQ(against_reference(program, options), "equal");
  }
}

TEST(ActionTimes, AHangIsFoundThoughMessagesTakeTime) {
  const Program program = deferred_receives(false);
  RecordedTimes times(program);
  RunOptions options = unverified();
  options.action_times = [&](int step) { return times.of_step(step); };
  const RunResult hung = run(program, NullModel(), options);
  EXPECT_EQ(hung.outcome, RunOutcome::deadlock);
  EXPECT_EQ(hung.hang, run(program, NullModel(), unverified()).hang);
}

TEST(ActionTimes, ADeadlineEndsAWait) {
  RunOptions options = unverified();
  const Program program = two_rank_step();
  options.action_times = [&](int) {
    return std::vector<Nanoseconds>(program.all_actions().size(), 3'600'000'000'000);
  };
  options.deadline_s = 0.05;
  const auto result = execute(program, NullModel(), options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::io);
}

TEST(ActionTimes, AreRefusedOnGpus) {
  RunOptions options = unverified();
  options.backend = CudaOptions{};
  options.action_times = [](int) { return std::vector<Nanoseconds>(); };
  const auto result = execute(two_rank_step(), NullModel(), options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "actions on a GPU take the time that they need");
}

}  // namespace
}  // namespace ppsim::test
