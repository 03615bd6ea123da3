#include "ppsim/planner/verified_run.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/transformer/transformer.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/programs.hpp"
#include "support/timing.hpp"

namespace ppsim {
namespace {

TEST(DefaultDeadline, IsTenTimesTheSimulatedStepAndHalfAMinute) {
  using enum OpKind;
  // 0F0 1 s, 1F0 1 s, 1B0 2 s, 0B0 2 s
  const CostTable costs = test::cost_table({{forward, -1, 1'000'000'000}, {backward, -1, 2'000'000'000}});
  EXPECT_DOUBLE_EQ(default_deadline_s({test::two_rank_step(), rendezvous()}, costs).value(), 10 * 6 + 30);
  EXPECT_EQ(default_deadline_s({test::deferred_receives(false), rendezvous()}, costs).value(), 0)
      << "a hang is found without a deadline";
}

TEST(GradientVerdict, BoundsWhatRoundingExplains) {
  const double unit = std::numeric_limits<float>::epsilon() / 2;
  EXPECT_EQ(judge_gradients(0, 3, unit), GradientVerdict::equal);
  EXPECT_EQ(judge_gradients(0, 3, 0), GradientVerdict::equal);
  EXPECT_EQ(judge_gradients(1e-6, 3, unit), GradientVerdict::rounded);
  EXPECT_EQ(judge_gradients(3.0 / 1024, 3, unit), GradientVerdict::rounded) << "2^14 roundoffs";
  EXPECT_EQ(judge_gradients(3.1 / 1024, 3, unit), GradientVerdict::wrong);
  EXPECT_EQ(judge_gradients(1, 3, 0), GradientVerdict::wrong) << "integers are exact";
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(judge_gradients(infinite, 3, unit), GradientVerdict::wrong) << "not a number";
  EXPECT_EQ(judge_gradients(infinite, infinite, unit), GradientVerdict::unjudged);
  EXPECT_EQ(judge_gradients(0, infinite, unit), GradientVerdict::unjudged) << "NaNs are alike";
}

/// A transformer whose first backward of a run adds something else.
class Erring final : public CpuStageModel {
 public:
  explicit Erring(std::unique_ptr<CpuStageModel> model) : model_(std::move(model)) {}

  Expected<void> check(const Pipeline& pipeline) const override { return model_->check(pipeline); }
  SizeTable sizes(const Pipeline& pipeline) const override { return model_->sizes(pipeline); }
  void initialize(const Pipeline& pipeline, BlockId block, std::span<std::byte> parameters,
                  std::span<std::byte> state) const override {
    model_->initialize(pipeline, block, parameters, state);
  }
  void load(const Pipeline& pipeline, MicrobatchId mb, const ActionBuffers& buffers) const override {
    model_->load(pipeline, mb, buffers);
  }
  void compute(const Pipeline& pipeline, const Action& action, const ActionBuffers& buffers) const override {
    model_->compute(pipeline, action, buffers);
    const bool errs = action.kind == OpKind::backward && !erred_.exchange(true);
    if (errs) model_->compute(pipeline, action, buffers);
  }
  void update(std::span<std::byte> parameters, std::span<std::byte> gradients, std::span<std::byte> state,
              double scale) const override {
    model_->update(parameters, gradients, state, scale);
  }
  void accumulate(std::span<std::byte> into, std::span<const std::byte> from) const override {
    model_->accumulate(into, from);
  }
  double squared_norm(std::span<const std::byte> gradients) const override {
    return model_->squared_norm(gradients);
  }
  double max_abs_difference(std::span<const std::byte> a, std::span<const std::byte> b) const override {
    return model_->max_abs_difference(a, b);
  }
  double unit_roundoff() const override { return model_->unit_roundoff(); }

 private:
  std::unique_ptr<CpuStageModel> model_;
  mutable std::atomic<bool> erred_ = false;
};

std::optional<GradientVerdict> verdict_on(const std::string& name, Arithmetic arithmetic, bool errs) {
  const Program program = lower(generate(name, {.ranks = 2, .microbatches = 4}).value(), {}).value();
  TransformerConfig config{.layers = 2, .hidden = 8, .heads = 2, .ffn = 8, .vocab = 11, .sequence = 4};
  config.arithmetic = arithmetic;
  std::unique_ptr<CpuStageModel> model = make_transformer(config).value();
  if (errs) model = std::make_unique<Erring>(std::move(model));
  VerifiedRunOptions options;
  options.compare = true;
  return verify_then_run(program, *model, options).value().gradients;
}

TEST(VerifiedRun, TellsWrongGradientsFromRoundedOnes) {
  EXPECT_EQ(verdict_on("1f1b", Arithmetic::integer_exact, false), GradientVerdict::equal);
  EXPECT_EQ(verdict_on("1f1b", Arithmetic::integer_exact, true), GradientVerdict::wrong);
  EXPECT_EQ(verdict_on("1f1b", Arithmetic::float32, false), GradientVerdict::equal);
  EXPECT_EQ(verdict_on("1f1b", Arithmetic::float32, true), GradientVerdict::wrong);
  EXPECT_EQ(verdict_on("chimera", Arithmetic::float32, false), GradientVerdict::rounded);
}

}  // namespace
}  // namespace ppsim
