#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "ppsim/gpu_backend/executor/measured_costs.hpp"
#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "ppsim/gpu_backend/stage_model/reference.hpp"
#include "support/hand_program.hpp"
#include "support/linear_model.hpp"
#include "support/programs.hpp"

namespace ppsim::test {
namespace {

TEST(ExecutorSteps, EveryStepHasATraceAndADuration) {
  const Program program = deferred_receives(true);
  RunOptions options = unverified();
  options.steps = 5;
  const RunResult result = run(program, LinearModel(), options);
  ASSERT_EQ(result.traces.size(), 5U);
  ASSERT_EQ(result.step_ns.size(), 5U);
  for (const Nanoseconds step : result.step_ns) EXPECT_GT(step, 0);
  EXPECT_EQ(result.trace(), result.traces[4]);
}

TEST(ExecutorSteps, EveryStepHasBatchesOfItsOwn) {
  const Program program = deferred_receives(true);
  RunOptions options = unverified();
  const RunResult one = run(program, LinearModel(), options);
  options.steps = 6;
  const RunResult six = run(program, LinearModel(), options);
  EXPECT_NE(one.gradients, six.gradients);
  EXPECT_EQ(one.pool_bytes, six.pool_bytes);
  EXPECT_EQ(against_reference(program, options), "equal");
}

/// Notes which steps the actions of each kind are told.
class Asking final : public CpuStageModel {
 public:
  /// Kind of action and number of the step: how often.
  using Told = std::map<std::pair<OpKind, std::int64_t>, int>;
  [[nodiscard]] Told told() const { return told_; }

  Expected<void> check(const Pipeline&) const override { return {}; }
  SizeTable sizes(const Pipeline& pipeline) const override { return NullModel().sizes(pipeline); }
  void initialize(const Pipeline&, BlockId, std::span<std::byte>, std::span<std::byte>) const override {}
  void load(const Pipeline&, MicrobatchId, const ActionBuffers& buffers) const override {
    note(OpKind::load, buffers);
  }
  void compute(const Pipeline&, const Action& action, const ActionBuffers& buffers) const override {
    note(action.kind, buffers);
  }
  void update(std::span<std::byte>, std::span<std::byte>, std::span<std::byte>, double) const override {}
  void accumulate(std::span<std::byte>, std::span<const std::byte>) const override {}
  double squared_norm(std::span<const std::byte>) const override { return 0; }
  double max_abs_difference(std::span<const std::byte>, std::span<const std::byte>) const override {
    return 0;
  }

 private:
  void note(OpKind kind, const ActionBuffers& buffers) const {
    const std::lock_guard lock(mutex_);
    ++told_[{kind, *buffers.step}];
  }
  mutable std::mutex mutex_;
  mutable Told told_;
};

TEST(ExecutorSteps, EveryActionOnAMicrobatchIsToldItsStep) {
  const Program program = HandProgram{
      .pipeline = chain_spec(1, 1, 2),
      .rows = {{"0LOAD0", "0F0", "0R0", "0I0", "0W0", "0LOAD1", "0F1",
                "0B1"}}}.build();
  RunOptions options = unverified();
  options.steps = 3;
  const Asking model;
  run(program, model, options);
  Asking::Told expected;
  for (std::int64_t step = 0; step < 3; ++step) {
    expected[{OpKind::load, step}] = expected[{OpKind::forward, step}] = 2;
    for (const OpKind kind :
         {OpKind::recompute, OpKind::backward_input, OpKind::backward_weight, OpKind::backward})
      expected[{kind, step}] = 1;
  }
  EXPECT_EQ(model.told(), expected);
}

TEST(ExecutorSteps, ACreditSurvivesNoStep) {
  // The message that nobody receives must not be taken for the first of the next step.
  const Program program = HandProgram{.pipeline = chain_spec(2, 2, 1),
                                      .communicators = communicators({{0, 1}, {0, 1}}),
                                      .rows = {{"0F0", "0SEND_F0@0", "0SEND_F0@0", "0RECV_B0@1", "0B0"},
                                               {"1RECV_F0@0", "1F0", "1B0", "1SEND_B0@1"}}}
                              .build();
  RunOptions options = unverified(2);
  options.steps = 3;
  EXPECT_EQ(against_reference(program, options), "equal");
}

TEST(ExecutorSteps, TheReferenceUpdatesBetweenItsSteps) {
  const Pipeline pipeline = chain(1, 2, 2);
  const LinearModel model;
  const auto once = reference_gradients(pipeline, model);
  const auto again = reference_gradients(pipeline, model, {.steps = 3});
  const auto updated = reference_gradients(pipeline, model, {.steps = 3, .update = true});
  ASSERT_TRUE(once && again && updated);
  EXPECT_GT(max_gradient_difference(model, *again, *once), 0) << "the third step has batches of its own";
  EXPECT_GT(max_gradient_difference(model, *updated, *again), 0);
}

TEST(ExecutorSteps, ThereIsNoReferenceOfWhatItCannotRun) {
  PipelineSpec disordered = chain_spec(1, 1, 2);
  disordered.update = {1, 0};
  PipelineSpec ahead = chain_spec(1, 1, 2);
  ahead.update = {0, 1};
  ahead.version = {0, 2};
  PipelineSpec shared = chain_spec(1, 2, 1);
  shared.blocks = {{{StageId(0), StageId(1)}}, {{StageId(1)}}, {{StageId(1)}}};
  for (const PipelineSpec& spec : {disordered, ahead, shared}) {
    const auto reference = reference_gradients(Pipeline::make(spec).value(), NullModel());
    ASSERT_FALSE(reference);
    EXPECT_EQ(reference.error().code, ErrorCode::bad_argument);
  }
}

TEST(ExecutorSteps, AsynchronousStepsReadTheirVersions) {
  HandProgram hand{.pipeline = chain_spec(1, 1, 3),
                   .rows = {{"0F0", "0F1", "0B0", "0OPT0", "0F2", "0B1", "0OPT1", "0B2", "0OPT2"}}};
  hand.pipeline.update = {0, 1, 2};
  hand.pipeline.version = {0, 1, 2};
  hand.pipeline.lag = {1};
  for (const int steps : {1, 3}) {
    RunOptions options = unverified();
    options.steps = steps;
    EXPECT_EQ(against_reference(hand.build(), options), "equal") << steps << " steps";
  }
  const LinearModel model;
  const auto stale = reference_gradients(Pipeline::make(hand.pipeline).value(), model);
  hand.pipeline.lag = {0};
  const auto newest = reference_gradients(Pipeline::make(hand.pipeline).value(), model);
  ASSERT_TRUE(stale && newest);
  EXPECT_GT(max_gradient_difference(model, *stale, *newest), 0) << "which version is read tells";
}

TEST(ExecutorSteps, BlocksWithoutMicrobatchesHaveNoGradients) {
  PipelineSpec spec = chain_spec(1, 2, 1);
  spec.edges = {};
  spec.routes = {{StageId(0)}, {StageId(1)}};
  spec.route = {RouteId(0)};
  const Program program = HandProgram{.pipeline = spec, .rows = {{"0F0", "0B0"}}}.build();
  EXPECT_EQ(run(program, LinearModel(), unverified()).gradients.size(), 1U);
  EXPECT_EQ(against_reference(program, unverified()), "equal");
  const auto reference = reference_gradients(program.pipeline(), LinearModel());
  ASSERT_TRUE(reference);
  EXPECT_GT(max_gradient_difference(LinearModel(), {}, *reference), 0) << "stage 0 has gradients";
}

/// Whose B wait until somebody lets them go on.
class Held final : public CpuStageModel {
 public:
  explicit Held(const std::atomic<bool>& released) : released_(released) {}
  Expected<void> check(const Pipeline&) const override { return {}; }
  SizeTable sizes(const Pipeline& pipeline) const override { return NullModel().sizes(pipeline); }
  void initialize(const Pipeline&, BlockId, std::span<std::byte>, std::span<std::byte>) const override {}
  void load(const Pipeline&, MicrobatchId, const ActionBuffers&) const override {}
  void compute(const Pipeline&, const Action& action, const ActionBuffers&) const override {
    if (action.kind == OpKind::backward) released_.wait(false);
  }
  void update(std::span<std::byte>, std::span<std::byte>, std::span<std::byte>, double) const override {}
  void accumulate(std::span<std::byte>, std::span<const std::byte>) const override {}
  double squared_norm(std::span<const std::byte>) const override { return 0; }
  double max_abs_difference(std::span<const std::byte>, std::span<const std::byte>) const override {
    return 0;
  }

 private:
  const std::atomic<bool>& released_;
};

TEST(ExecutorSteps, ADeadlineEndsAStepThatTakesTooLong) {
  std::atomic<bool> released = false;
  RunOptions options = unverified();
  options.when_late = [&](const Error&) {
    released = true;
    released.notify_all();
  };
  bool told = false;
  // On a busy machine a short deadline may be over before the first B has begun.
  for (double deadline_s = 0.001; deadline_s < 100 && !told; deadline_s *= 2) {
    released = false;
    options.deadline_s = deadline_s;
    const auto result = execute(two_rank_step(), Held(released), options);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::io);
    const std::string& text = result.error().message;
    EXPECT_TRUE(text.starts_with("a step did not finish within its deadline of ")) << text;
    told = text.find("1B0 is running") != std::string::npos;
  }
  EXPECT_TRUE(told);
  options.deadline_s = 1e300;
  EXPECT_TRUE(execute(two_rank_step(), Held(released), options));
}

TEST(MeasuredCosts, CountTransfersFromTheLaterStart) {
  const Program program = two_rank_step();
  const InstructionId f0 = at(program, 0, {0})[0];
  const auto trace = [&](Nanoseconds forward) {
    TimedTrace result{TimedTrace::Spans(program.size(), Span{{0, 0}, {5, 0}})};
    result.spans[f0] = {{10, 0}, {10 + forward, 0}};
    result.spans[at(program, 0, {1})[0]] = {{20, 0}, {107, 0}};   // 0SEND_F0
    result.spans[at(program, 1, {0})[0]] = {{100, 0}, {107, 0}};  // 1RECV_F0
    return result;
  };
  const std::vector<TimedTrace> traces = {trace(900), trace(35), trace(20), trace(30), trace(25)};
  const CostTable costs = mean_costs(measured_durations({program, rendezvous()}, traces));
  EXPECT_EQ(costs({OpKind::forward, 0, -1, 0}), 30);
  EXPECT_EQ(costs({OpKind::forward, 1, -1, 0}), 5);
  EXPECT_EQ(costs({OpKind::send_forward, 0, 1, 0}), 7);
}

TEST(MeasuredCosts, AreMeansWithoutTheTwentiethAtEitherEnd) {
  const auto of = [](std::vector<Nanoseconds> values) {
    const CostClass key{OpKind::forward, 0, -1, 0};
    const Durations durations = {{key, std::move(values)}};
    return std::pair(mean_costs(durations)(key), cost_spreads(durations).at(key));
  };
  EXPECT_EQ(of({7}).first, 7);
  EXPECT_EQ(of({3, 1}).second.median, 2) << "the mean of both";
  EXPECT_EQ(of({5, 1, 9}).second.median, 5);
  EXPECT_EQ(of({4, 1, 3, 2, 5}).second.lower_quartile, 2);
  EXPECT_EQ(of({4, 1, 3, 2, 5}).second.upper_quartile, 4);
  EXPECT_EQ(of({1, 2, 3, 90}).first, 24) << "of four all count";
  EXPECT_EQ(of({90, 1, 2, 3, 4}).first, 3);
  const CostClass key{OpKind::forward, 0, -1, 0};
  EXPECT_EQ(mean_costs({{key, {90, 1, 2, 3, 4}}}, 0)(key), 20) << "nothing is left out";
  std::vector<Nanoseconds> values(40, 10);
  for (const std::size_t slow : {5, 6, 7, 8, 9, 10, 11, 12, 13, 14}) values[slow] = 50;
  values[20] = 0;
  values[30] = 1'000'000;
  const auto [mean, spread] = of(values);
  EXPECT_EQ(mean, 20) << "9 of the 36 in the middle take 50: a step has its share of them";
  EXPECT_EQ(spread, (CostSpread{.samples = 40, .lower_quartile = 10, .median = 10, .upper_quartile = 50}));
}

TEST(MeasuredCosts, LeaveOutWhatDidNotHappen) {
  const Program program = deferred_receives(false);
  const RunResult result = run(program, NullModel(), unverified());
  const CostTable costs = mean_costs(measured_durations({program, rendezvous()}, result.traces));
  for (const auto& [key, duration] : costs.entries()) EXPECT_NE(key.kind, OpKind::send_backward);
  EXPECT_GT(costs({OpKind::forward, 0, -1, 0}), 0);
}

}  // namespace
}  // namespace ppsim::test
