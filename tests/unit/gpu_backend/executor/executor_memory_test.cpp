#include <gtest/gtest.h>

#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "support/hand_program.hpp"
#include "support/linear_model.hpp"
#include "support/programs.hpp"

namespace ppsim::test {
namespace {

TEST(ExecutorMemory, HighWaterIsTheReplayedPeakWithinThePool) {
  for (const Program& program : {two_rank_step(), deferred_receives(true)}) {
    for (const std::optional<int> credits : {std::optional<int>{}, std::optional<int>{1}}) {
      RunOptions options = unverified(credits);
      options.steps = 4;
      const RunResult result = run(program, NullModel(), options);
      EXPECT_EQ(memory_figures(program, NullModel(), result), "exact") << program;
    }
  }
}

TEST(ExecutorMemory, CountsEveryTensorOfOneStage) {
  const Program program = HandProgram{.pipeline = chain_spec(1, 1, 1), .rows = {{"0F0", "0B0"}}}.build();
  const RunResult result = run(program, NullModel(), unverified());
  // Parameters, optimizer state, batch, both saved parts; then gradients and the workspace of B.
  EXPECT_EQ(result.high_water_bytes[RankId(0)], 7 * 64);
  EXPECT_EQ(result.pool_bytes[RankId(0)], 7 * 64);
}

TEST(ExecutorMemory, MessagesOnTheWayAreOutsideThePool) {
  // The sender is done with its outputs before the receiver wants any of them.
  const HandProgram hand{.pipeline = chain_spec(2, 2, 2),
                         .communicators = communicators({{0, 1}, {0, 1}}),
                         .rows = {{"0F0", "0SEND_F0@0", "0F1 after 1", "0SEND_F1@0", "0SEND_F1@1 after 3"},
                                  {"1RECV_F1@1", "1RECV_F0@0 after 0", "1RECV_F1@0", "1F0", "1F1"}}};
  const Program program = hand.build();
  const RunResult buffered = run(program, NullModel(), unverified(2));
  EXPECT_EQ(buffered.outcome, RunOutcome::finished);
  EXPECT_EQ(memory_figures(program, NullModel(), buffered), "exact");
  EXPECT_EQ(run(program, NullModel(), unverified()).outcome, RunOutcome::deadlock);
}

TEST(ExecutorMemory, AHungProgramHasAPoolForAllItsTensors) {
  const Program program = deferred_receives(false);
  const RunResult result = run(program, NullModel(), unverified());
  const TensorTable table = tensor_table(program);
  const std::vector<Bytes> sizes = tensor_sizes(table, NullModel().sizes(program.pipeline()));
  Bytes total = 0;
  for (std::size_t t = 0; t < sizes.size(); ++t) {
    if (table.tensors[t].rank == RankId(0)) total += sizes[t];
  }
  EXPECT_EQ(result.pool_bytes[RankId(0)], total);
}

/// Sizes that put the output of a stage into too small an input.
class Misfit final : public CpuStageModel {
 public:
  Expected<void> check(const Pipeline&) const override { return {}; }
  SizeTable sizes(const Pipeline&) const override {
    SizeTable sizes;
    sizes.set({.kind = TensorKind::boundary_output}, 128);
    sizes.set({.kind = TensorKind::boundary_input}, 64);
    return sizes;
  }
  void initialize(const Pipeline&, BlockId, std::span<std::byte>, std::span<std::byte>) const override {}
  void load(const Pipeline&, MicrobatchId, const ActionBuffers&) const override {}
  void compute(const Pipeline&, const Action&, const ActionBuffers&) const override {}
  void update(std::span<std::byte>, std::span<std::byte>, std::span<std::byte>, double) const override {}
  void accumulate(std::span<std::byte>, std::span<const std::byte>) const override {}
  double squared_norm(std::span<const std::byte>) const override { return 0; }
  double max_abs_difference(std::span<const std::byte>, std::span<const std::byte>) const override {
    return 0;
  }
};

TEST(ExecutorMemory, AMessageThatDoesNotFitIsAnError) {
  const auto result = execute(two_rank_step(), Misfit(), unverified());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::bad_argument);
  EXPECT_NE(result.error().message.find("stage 1"), std::string::npos) << result.error().message;
}

}  // namespace
}  // namespace ppsim::test
