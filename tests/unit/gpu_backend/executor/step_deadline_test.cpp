#include "executor/watch/step_deadline.hpp"

#include <gtest/gtest.h>

#include <latch>
#include <memory>
#include <string_view>
#include <thread>

#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "support/fake_gpu/run.hpp"
#include "support/linear_model.hpp"
#include "support/programs.hpp"

namespace ppsim::test {

using namespace gpu_backend;
namespace {

using namespace std::chrono_literals;

TEST(StepDeadline, FollowsFromTheFirstStep) {
  const RunOptions options;
  StepDeadline deadline(options);
  EXPECT_EQ(deadline.limit(), std::optional<std::chrono::nanoseconds>(600s));
  deadline.took(2'000'000'000);
  EXPECT_EQ(deadline.limit(), std::optional<std::chrono::nanoseconds>(50s));
  deadline.took(1);
  EXPECT_EQ(deadline.limit(), std::optional<std::chrono::nanoseconds>(50s)) << "the first step counts";
  EXPECT_EQ(deadline.late().message, "a step did not finish within its deadline of 50 s");
}

TEST(StepDeadline, IsTheGivenOneForEveryStepAndNoneFor0) {
  RunOptions options;
  StepDeadline deadline(options);
  options.deadline_s = 0.5;
  deadline.took(2'000'000'000);
  EXPECT_EQ(deadline.limit(), std::optional<std::chrono::nanoseconds>(500ms));
  for (const double endless : {0.0, 1e300}) {
    options.deadline_s = endless;
    EXPECT_FALSE(deadline.limit());
  }
}

TEST(StepDeadline, BoundsWaitsOutsideOfStepsByMoreThanAMoment) {
  RunOptions options;
  EXPECT_EQ(timeout_of(options), Timeout(600s));
  options.deadline_rule = {.first_s = 30, .times = 0, .more_s = 30};
  EXPECT_EQ(timeout_of(options), Timeout(600s)) << "of steps";
  for (const auto& [deadline_s, timeout] :
       {std::pair(0.0, 600s), std::pair(0.005, 10s), std::pair(3600.0, 3600s)}) {
    options.deadline_s = deadline_s;
    EXPECT_EQ(timeout_of(options), Timeout(timeout));
  }
}

/// A null model whose actions stall in the second step: for half a second, or for what they are told to.
class Stalling final : public CpuStageModel {
 public:
  explicit Stalling(std::latch* until = nullptr) : until_(until) {}
  Expected<void> check(const Pipeline& pipeline) const override { return null_.check(pipeline); }
  SizeTable sizes(const Pipeline& pipeline) const override { return null_.sizes(pipeline); }
  void initialize(const Pipeline&, BlockId, std::span<std::byte>, std::span<std::byte>) const override {}
  void load(const Pipeline&, MicrobatchId, const ActionBuffers&) const override {}
  void compute(const Pipeline&, const Action&, const ActionBuffers& buffers) const override {
    if (buffers.step == nullptr || *buffers.step != 1) return;
    if (until_ != nullptr) {
      until_->wait();
    } else {
      std::this_thread::sleep_for(500ms);
    }
  }
  void update(std::span<std::byte>, std::span<std::byte>, std::span<std::byte>, double) const override {}
  void accumulate(std::span<std::byte>, std::span<const std::byte>) const override {}
  double squared_norm(std::span<const std::byte>) const override { return 0; }
  double max_abs_difference(std::span<const std::byte>, std::span<const std::byte>) const override {
    return 0;
  }

 private:
  std::latch* until_;
  NullModel null_;
};

TEST(StepDeadline, IsToldBeforeAnActionThatStillComputesIsWaitedFor) {
  std::string text;
  // On a busy machine a short deadline may be over before the action has begun.
  for (double s = 0.05; s < 100 && text.find("0F0 is running") == std::string::npos; s *= 2) {
    std::latch told(1);
    RunOptions options = unverified();
    options.steps = 2;
    options.deadline_rule = {.first_s = 600, .times = 0, .more_s = s};
    options.when_late = [&](const Error& late) {
      text = late.message;
      told.count_down();
    };
    EXPECT_FALSE(execute(two_rank_step(), Stalling(&told), options));
    EXPECT_TRUE(text.starts_with("a step did not finish within its deadline of ")) << text;
  }
  EXPECT_NE(text.find("0F0 is running"), std::string::npos) << text;
}

TEST(StepDeadline, EndsAStallAfterTheFirstStepOnACpu) {
  RunOptions options = unverified();
  options.steps = 2;
  options.deadline_rule = {.first_s = 600, .times = 0, .more_s = 0.1};
  std::latch told(1);
  options.when_late = [&](const Error&) { told.count_down(); };
  const auto result = execute(two_rank_step(), Stalling(&told), options);
  ASSERT_FALSE(result);
  EXPECT_TRUE(result.error().message.starts_with("a step did not finish within its deadline of 0.1 s"))
      << result.error().message;
  options.steps = 1;
  EXPECT_TRUE(execute(two_rank_step(), Stalling(), options)) << "the first step has its own";
  options.steps = 2;
  options.deadline_s = 0;
  EXPECT_TRUE(execute(two_rank_step(), Stalling(), options)) << "0 is none";
}

/// Whether a run of two steps on the fake finishes where every kernel of the second one takes `stall`.
bool finishes_on_fake(Nanoseconds stall, std::optional<double> deadline_s) {
  const Program program = two_rank_step();
  FakeGpu gpu(devices_for(program));
  FakeRunOptions options{.steps = 2, .deadline_s = deadline_s};
  auto steps = std::make_shared<int>(0);
  options.tamper = [steps](GpuApi& api) {
    api.marks.push = [steps, push = api.marks.push](const char* name) {
      if (std::string_view(name) == "PP:step") ++*steps;
      push(name);
    };
  };
  options.duration = [steps, stall](const Action&) { return *steps < 2 ? 1000 : stall; };
  const auto result = run_on_fake(gpu, program, NullModel(), options);
  return result && result->outcome == RunOutcome::finished;
}

TEST(StepDeadline, EndsAStallAfterTheFirstStepOnAGpu) {
  constexpr Nanoseconds kStall = 100'000'000'000;  // ends within the ten minutes of the first step
  EXPECT_FALSE(finishes_on_fake(kStall, std::nullopt));
  EXPECT_TRUE(finishes_on_fake(kStall, 1000));
  EXPECT_TRUE(finishes_on_fake(10 * kStall, 0)) << "0 is none";
}

}  // namespace
}  // namespace ppsim::test
