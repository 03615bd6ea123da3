// Run by mpirun on 2 to 4 processes, all of which run the same tests in the same order.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <limits>
#include <memory>
#include <sstream>

#include "ppsim/core/ir/tied_ends.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "ppsim/gpu_backend/executor/measured_costs.hpp"
#include "ppsim/gpu_backend/process_group/bootstrap.hpp"
#include "ppsim/planner/verified_run.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/linear_model.hpp"
#include "support/registered_programs.hpp"
#include "support/small_transformer.hpp"
#include "support/watching_model.hpp"

namespace ppsim {
namespace {

/// MPI is initialised once for all tests.
Bootstrap* world = nullptr;

bool leads() { return world->process() == 0; }

/// As many ranks as there are processes, or so many times more, of one chunk, two, and four.
std::vector<ScheduleParameters> shapes_of(std::initializer_list<int> ranks_of_a_process) {
  std::vector<ScheduleParameters> shapes;
  for (const int each : ranks_of_a_process) {
    const int ranks = each * world->size();
    for (const int chunks : {1, 2, 4})
      shapes.push_back({.ranks = ranks, .microbatches = 2 * ranks, .chunks = chunks});
    shapes.push_back({.ranks = ranks, .microbatches = ranks, .slices = 3});
  }
  return shapes;
}

VerifiedRunOptions on_all_processes(std::optional<int> credits = std::nullopt) {
  VerifiedRunOptions options;
  options.run.processes = world;
  options.run.poison = true;
  options.run.capabilities.credits = credits;
  options.compare = true;
  return options;
}

TEST(SeveralProcesses, GiveTheGradientsOfTheUnpipelinedModel) {
  const auto model = test::exact_transformer(3);
  const auto check = [&](const std::string& name, const Program& program) {
    const auto result = verify_then_run(program, *model, on_all_processes());
    ASSERT_TRUE(result.has_value()) << name << ": " << to_string(result.error());
    ASSERT_EQ(result->run.outcome, RunOutcome::finished) << name;
    if (!leads()) return;
    EXPECT_EQ(result->max_abs_difference, 0.0) << name;
    for (std::size_t r = 0; r < result->proved_bytes.size(); ++r) {
      const RankId rank(static_cast<std::int32_t>(r));
      EXPECT_LE(result->run.high_water_bytes[rank], result->proved_bytes[r]) << name;
      EXPECT_GT(result->run.high_water_bytes[rank], 0) << name;
    }
  };
  const auto found = test::for_each_registered(*model, shapes_of({1, 2}), {}, check);
  EXPECT_EQ(test::surprises(found, test::not_computed()), "");
}

TEST(SeveralProcesses, ShareOneVocabularyBitByBitInFloat32) {
  const auto model = make_transformer(test::small_transformer(3, Arithmetic::float32)).value();
  for (const char* name : {"vocab-1", "vocab-2"}) {
    for (const char* input : {"first", "sharded"}) {
      ScheduleParameters parameters{.ranks = 2 * world->size(), .microbatches = 5};
      parameters.settings = {{"input", input}};
      const Program program = lower(generate(name, parameters).value(), {}).value();
      const auto result = verify_then_run(program, *model, on_all_processes(2));
      ASSERT_TRUE(result.has_value()) << name << ": " << to_string(result.error());
      const auto alone = execute(program, *model, test::unverified()).value();
      if (!leads()) continue;
      EXPECT_EQ(result->max_abs_difference, 0.0) << name << ' ' << input;
      EXPECT_EQ(result->run.losses, alone.losses) << name << ' ' << input;
    }
  }
}

TEST(SeveralProcesses, ReduceClipAndUpdateAsOne) {
  const auto model = test::exact_transformer(3);
  LoweringOptions lowering;
  lowering.load = lowering.unshard = lowering.reduce_grad = lowering.optimizer = lowering.clip = true;
  const auto check = [&](const std::string& name, const Program& program) {
    VerifiedRunOptions options = on_all_processes(2);
    options.run.steps = 3;
    const auto result = verify_then_run(program, *model, options);
    ASSERT_TRUE(result.has_value()) << name << ": " << to_string(result.error());
    if (leads()) {
      EXPECT_EQ(result->max_abs_difference, 0.0) << name;
    }
  };
  const int even =
      world->size() % 2 == 0 ? 1 : 2;  // schedules of two directions have an even number of ranks
  const auto found = test::for_each_registered(*model, shapes_of({even}), lowering, check);
  EXPECT_EQ(test::surprises(found, test::not_updated()), "");
}

TEST(SeveralProcesses, SumTiedWeightsOfEveryMicrobatch) {
  const auto model = test::exact_transformer(3);
  LoweringOptions lowering;
  lowering.reduce_grad = lowering.reduce_each_microbatch = lowering.optimizer = true;
  for (const char* name : {"1f1b", "zb-h1"}) {
    const Schedule plain = generate(name, {.ranks = 2 * world->size(), .microbatches = 5}).value();
    const Program program = lower(with_tied_ends(plain).value(), lowering).value();
    VerifiedRunOptions options = on_all_processes(2);
    options.run.steps = 2;
    const auto result = verify_then_run(program, *model, options);
    ASSERT_TRUE(result.has_value()) << name << ": " << to_string(result.error());
    if (leads()) {
      EXPECT_EQ(result->max_abs_difference, 0.0) << name;
    }
  }
}

TEST(SeveralProcesses, SendWhatHasNoGradient) {
  const auto model = test::exact_transformer(3);
  ScheduleParameters parameters{.ranks = 2 * world->size(), .microbatches = 5};
  if (parameters.ranks < 3) parameters.ranks = 4;
  parameters.settings = {{"graph", "index"}};
  const Program program = lower(generate("1f1b", parameters).value(), {}).value();
  const auto result = verify_then_run(program, *model, on_all_processes(2));
  ASSERT_TRUE(result.has_value()) << to_string(result.error());
  if (leads()) {
    EXPECT_EQ(result->max_abs_difference, 0.0);
  }
}

/// Receives directly before their consumers, all of a rank in one order.
Program hanging_program() {
  const auto schedule = generate("1f1b", {.ranks = world->size(), .microbatches = 2 * world->size()}).value();
  LoweringOptions options;
  options.order = IssueOrder::early;
  options.early = 0;
  options.communicators = CommunicatorPolicy::per_rank;
  return lower(schedule, options).value();
}

TEST(SeveralProcesses, AHangIsFoundWithoutAClockAndReportedAsInOneProcess) {
  const Program program = hanging_program();
  const test::LinearModel model;
  RunOptions options = test::unverified();
  const auto alone = execute(program, model, options).value();
  ASSERT_EQ(alone.outcome, RunOutcome::deadlock);
  options.processes = world;
  for (int round = 0; round < 3; ++round) {
    const auto together = execute(program, model, options);
    ASSERT_TRUE(together.has_value()) << to_string(together.error());
    ASSERT_EQ(together->outcome, RunOutcome::deadlock);
    if (leads()) {
      EXPECT_EQ(together->hang, alone.hang);
    }
  }
}

TEST(SeveralProcesses, TracesAreMergedOnOneClock) {
  const auto model = test::exact_transformer(3);
  const auto schedule = generate("1f1b", {.ranks = world->size(), .microbatches = 4}).value();
  VerifiedRunOptions options = on_all_processes();
  options.run.steps = 2;
  const auto result = verify_then_run(lower(schedule, {}).value(), *model, options).value();
  if (!leads()) return;
  ASSERT_EQ(result.run.traces.size(), 2U);
  for (const TimedTrace& trace : result.run.traces) {
    for (const Span& span : trace.spans) {
      EXPECT_GE(span.start.time, 0);
      EXPECT_GT(span.end.time, span.start.time);
    }
  }
  ASSERT_EQ(result.run.processes.size(), static_cast<std::size_t>(world->size()));
  for (const ProcessFigures& process : result.run.processes)
    EXPECT_LE(std::abs(process.clock.offset_ns), process.clock.uncertainty_ns);  // one machine, one clock
}

TEST(SeveralProcesses, AllKeepTheTracesOfTheSameNewestSteps) {
  const auto schedule = generate("1f1b", {.ranks = world->size(), .microbatches = 4}).value();
  const Program program = lower(schedule, {}).value();
  RunOptions options = test::unverified();
  options.processes = world;
  options.steps = 7;
  options.kept_traces = 3;
  const auto result = execute(program, test::LinearModel(), options);
  ASSERT_TRUE(result) << to_string(result.error());
  EXPECT_EQ(result->step_ns.size(), 7U);
  ASSERT_EQ(result->traces.size(), 3U);
  if (!leads()) return;
  for (std::size_t kept = 0; kept < 3; ++kept) {
    Nanoseconds first = std::numeric_limits<Nanoseconds>::max();
    Nanoseconds last = 0;
    for (const Span& span : result->traces[kept].spans) {
      EXPECT_GE(span.start.time, 0);
      first = std::min(first, span.start.time);
      last = std::max(last, span.end.time);
    }
    EXPECT_EQ(result->step_ns[4 + kept], last - first);
  }
}

TEST(SeveralProcesses, ResidentMemoryStaysAsItIs) {
  constexpr int kSteps = 200;
  const ScheduleParameters parameters{.ranks = world->size(), .microbatches = 32};
  LoweringOptions lowering;
  lowering.load = true;
  const Program program = lower(generate("zb-v", parameters).value(), lowering).value();
  const test::WatchingModel model(test::exact_transformer(3), 20, kSteps);
  RunOptions options = test::unverified();
  options.processes = world;
  options.steps = kSteps;
  options.kept_traces = 1;
  const auto result = execute(program, model, options);
  ASSERT_TRUE(result) << to_string(result.error());
  EXPECT_LT(model.growth(), 1 << 20);  // the traces of all steps are several times as much
}

TEST(SeveralProcesses, WhoIsAboutToRunSomethingElseIsNamed) {
  const auto schedule = generate("1f1b", {.ranks = world->size(), .microbatches = 4}).value();
  const test::LinearModel model;
  RunOptions options = test::unverified();
  options.processes = world;
  options.steps = world->process() == 1 ? 2 : 1;
  const auto result = execute(lower(schedule, {}).value(), model, options);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::refused);
  EXPECT_NE(result.error().message.find("process 1 is about to run with other options"), std::string::npos);
}

/// Nobody waits for it, and nobody proves anything for a run that cannot be.
TEST(SeveralProcesses, OneThatCannotRunStopsAllBeforeTheProof) {
  const auto schedule = generate("1f1b", {.ranks = world->size(), .microbatches = 4}).value();
  VerifiedRunOptions options = on_all_processes();
  if (world->process() == 1) options.run.steps = 0;
  const auto result = verify_then_run(lower(schedule, {}).value(), test::LinearModel(), options);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::bad_argument);
  EXPECT_NE(result.error().message.find("a run has at least 1 step"), std::string::npos);
}

TEST(SeveralProcesses, OneThatCannotCompareTellsAll) {
  const auto schedule = generate("1f1b", {.ranks = world->size(), .microbatches = 4}).value();
  VerifiedRunOptions options = on_all_processes();
  if (world->process() == 1) options.run.backend = EmulatedOptions{};
  const auto result = verify_then_run(lower(schedule, {}).value(), test::LinearModel(), options);
  ASSERT_FALSE(result.has_value());
  EXPECT_NE(result.error().message.find("an emulated run has no gradients to compare"), std::string::npos);
}

TEST(SeveralProcesses, WhoIsAboutToComputeAnotherModelIsNamed) {
  const auto schedule = generate("1f1b", {.ranks = world->size(), .microbatches = 4}).value();
  const Program program = lower(schedule, {}).value();
  const std::function<void(TransformerConfig&)> changes[] = {
      [](TransformerConfig& config) { config.seed = 2; },
      [](TransformerConfig& config) { config.learning_rate = 0.9; },
      [](TransformerConfig& config) { config.optimizer = Optimizer::adamw; },
      [](TransformerConfig& config) { config.attention = AttentionKernels::gemm; }};
  RunOptions options = test::unverified();
  options.processes = world;
  for (const auto& change : changes) {
    TransformerConfig config{.layers = world->size(), .hidden = 8, .heads = 2, .ffn = 8, .vocab = 11};
    config.sequence = 4;
    if (world->process() == 1) change(config);
    const auto result = execute(program, *make_transformer(config).value(), options);
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, ErrorCode::refused);
    EXPECT_NE(result.error().message.find("process 1 is about to run with another model than process 0: "),
              std::string::npos)
        << result.error().message;
  }
}

TEST(SeveralProcesses, WhoHandsOutOtherResultsIsNamed) {
  const auto schedule = generate("1f1b", {.ranks = world->size(), .microbatches = 4}).value();
  const std::function<void(RunOptions&)> changes[] = {[](RunOptions& options) { options.gradients = false; },
                                                      [](RunOptions& options) { options.kept_traces = 2; }};
  for (const auto& change : changes) {
    RunOptions options = test::unverified();
    options.processes = world;
    if (world->process() == 1) change(options);
    const auto result = execute(lower(schedule, {}).value(), test::LinearModel(), options);
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, ErrorCode::refused);
  }
}

/// Throws in the middle of a run, on one rank.
class Failing final : public CpuStageModel {
 public:
  Expected<void> check(const Pipeline& pipeline) const override { return model_.check(pipeline); }
  SizeTable sizes(const Pipeline& pipeline) const override { return model_.sizes(pipeline); }
  void initialize(const Pipeline& pipeline, BlockId block, std::span<std::byte> parameters,
                  std::span<std::byte> state) const override {
    model_.initialize(pipeline, block, parameters, state);
  }
  void load(const Pipeline& pipeline, MicrobatchId mb, const ActionBuffers& buffers) const override {
    model_.load(pipeline, mb, buffers);
  }
  void compute(const Pipeline& pipeline, const Action& action, const ActionBuffers& buffers) const override {
    if (action.subject == 1 && action.microbatch == 2)
      throw BackendError(ErrorCode::io, "an uncorrectable memory error");
    model_.compute(pipeline, action, buffers);
  }
  void update(std::span<std::byte> parameters, std::span<std::byte> gradients, std::span<std::byte> state,
              double scale) const override {
    model_.update(parameters, gradients, state, scale);
  }
  void accumulate(std::span<std::byte> into, std::span<const std::byte> from) const override {
    model_.accumulate(into, from);
  }
  double squared_norm(std::span<const std::byte> gradients) const override {
    return model_.squared_norm(gradients);
  }
  double max_abs_difference(std::span<const std::byte> a, std::span<const std::byte> b) const override {
    return model_.max_abs_difference(a, b);
  }

 private:
  test::LinearModel model_;
};

TEST(SeveralProcesses, AFailureOfOneStopsAllAndIsNamed) {
  const auto schedule = generate("1f1b", {.ranks = world->size(), .microbatches = 6}).value();
  RunOptions options = test::unverified();
  options.processes = world;
  const auto result = execute(lower(schedule, {}).value(), Failing(), options);
  ASSERT_FALSE(result.has_value());
  EXPECT_NE(result.error().message.find("process 1 (rank 1): an uncorrectable memory error"),
            std::string::npos);
  EXPECT_EQ(result.error().message.find(" waits for ") != std::string::npos, leads());
}

TEST(SeveralProcesses, AnEmulatedTransferTakesItsCostAtBothEnds) {
  constexpr Nanoseconds kCost = 10'000'000;
  const auto schedule = generate("1f1b", {.ranks = world->size(), .microbatches = 4}).value();
  const Program program = lower(schedule, {}).value();
  RunOptions options = test::unverified();
  options.processes = world;
  CostTable costs;
  costs.set({.kind = OpKind::send_forward}, kCost);
  costs.set({.kind = OpKind::send_backward}, kCost);
  options.backend = EmulatedOptions{costs};
  const auto result = execute(program, test::LinearModel(), options);
  ASSERT_TRUE(result) << to_string(result.error());
  if (!leads()) return;
  // Half of it is more than clocks of one machine can be apart.
  const ExecutionGraph graph = build_execution_graph(program, rendezvous());
  for (const auto& [key, times] : measured_durations({program, graph.capabilities}, result->traces)) {
    if (!is_communication(key.kind)) continue;
    EXPECT_GE(*std::min_element(times.begin(), times.end()), kCost / 2) << key;
  }
}

TEST(SeveralProcesses, AStepThatIsLateStopsAll) {
  const auto schedule = generate("1f1b", {.ranks = world->size(), .microbatches = 4}).value();
  const Program program = lower(schedule, {}).value();
  RunOptions options = test::unverified();
  options.processes = world;
  CostTable costs;
  costs.set({.kind = OpKind::forward}, 3'600'000'000'000);  // an hour
  options.backend = EmulatedOptions{costs};
  options.deadline_s = world->process() == 1 ? 0.2 : 0;
  const auto result = execute(program, test::LinearModel(), options);
  ASSERT_FALSE(result.has_value());
  EXPECT_NE(result.error().message.find("process 1 (rank 1): a step did not finish within its deadline"),
            std::string::npos);
}

}  // namespace
}  // namespace ppsim

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const auto bootstrap = ppsim::mpi_bootstrap();
  if (!bootstrap) {
    std::cerr << to_string(bootstrap.error()) << '\n';
    return 1;
  }
  ppsim::world = bootstrap->get();
  if (!ppsim::leads()) {
    // One report is enough, but for what fails.
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    class Quiet final : public testing::EmptyTestEventListener {
      void OnTestPartResult(const testing::TestPartResult& result) override {
        if (result.failed()) std::cerr << "process " << ppsim::world->process() << ": " << result << '\n';
      }
    };
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new Quiet);
  }
  return RUN_ALL_TESTS();
}
