// A sequence cut into slices is the sequence: the same gradients, in whatever pieces and whatever order.

#include <gtest/gtest.h>

#include "ppsim/core/ir/replicas.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/stage_model/reference.hpp"
#include "ppsim/gpu_backend/transformer/transformer.hpp"
#include "ppsim/planner/verified_run.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/compared_run.hpp"
#include "support/sliced_programs.hpp"
#include "support/small_transformer.hpp"

namespace ppsim::slices_test {
namespace {

using test::for_each_sliced;
using test::SlicedCase;
using Lengths = test::SliceLengths;

std::unique_ptr<CpuStageModel> sliced_transformer(Arithmetic arithmetic, const Lengths& lengths) {
  return make_transformer(test::sliced_transformer(arithmetic, lengths)).value();
}

TEST(Slices, GiveTheGradientsOfWholeSequencesInExactIntegers) {
  int programs = 0;
  for_each_sliced({}, [&](const std::string& name, const Program& program, const SlicedCase& one) {
    ++programs;
    const auto model = sliced_transformer(Arithmetic::integer_exact, one.lengths);
    const VerifiedRun result = test::compared_run(program, *model);
    EXPECT_EQ(result.max_abs_difference, 0.0) << name;
    for (std::size_t r = 0; r < result.proved_bytes.size(); ++r) {
      const RankId rank(static_cast<std::int32_t>(r));
      EXPECT_LE(result.run.high_water_bytes[rank], result.proved_bytes[r]) << name;
      EXPECT_LE(result.proved_bytes[r], result.run.pool_bytes[rank]) << name;
    }
  });
  EXPECT_GE(programs, 16);
}

TEST(Slices, LoadReduceClipAndUpdateAsWholeSequences) {
  LoweringOptions lowering;
  lowering.load = lowering.unshard = lowering.reduce_grad = lowering.optimizer = lowering.clip = true;
  for_each_sliced(lowering, [&](const std::string& name, const Program& program, const SlicedCase& one) {
    const auto model = sliced_transformer(Arithmetic::integer_exact, one.lengths);
    EXPECT_EQ(test::compared_run(program, *model, 3).max_abs_difference, 0.0) << name;
  });
}

TEST(Slices, AreAsEqualAsCanBeWithoutLengths) {
  TransformerConfig config = test::small_transformer(2, Arithmetic::integer_exact);
  config.sequence = 7;
  const auto model = make_transformer(config).value();
  const auto schedule = generate("terapipe", {.ranks = 2, .microbatches = 2, .slices = 3}).value();
  EXPECT_EQ(test::compared_run(lower(schedule, {}).value(), *model).max_abs_difference, 0.0);
  const SizeTable sizes = model->sizes(schedule.pipeline());
  const auto tokens = [&](int slice) {
    return sizes({TensorKind::boundary_input, 1, -1, slice}) / static_cast<Bytes>(sizeof(std::uint64_t)) / 8;
  };
  EXPECT_EQ((std::vector<Bytes>{tokens(0), tokens(1), tokens(2)}), (std::vector<Bytes>{2, 2, 3}));
}

/// A float32 sum over tokens goes slice by slice, so it is rounded otherwise than over a whole sequence; but
/// it does not depend on the schedule.
TEST(Slices, DependInFloat32OnTheLengthsAndNotOnTheSchedule) {
  for (const SlicedCase& one : test::sliced_cases()) {
    const auto model = sliced_transformer(Arithmetic::float32, one.lengths);
    const ScheduleParameters parameters = one.parameters();
    const auto result_of = [&](const char* name) {
      return test::compared_run(lower(generate(name, parameters).value(), {}).value(), *model);
    };
    const VerifiedRun first = result_of("terapipe");
    const VerifiedRun second = result_of("seq-1f1b");
    EXPECT_LT(*first.max_abs_difference, 1e-5) << parameters;
    EXPECT_EQ(max_gradient_difference(*model, first.run.gradients, second.run.gradients), 0.0) << parameters;
    if (one.lengths.size() > 1) continue;
    EXPECT_EQ(first.max_abs_difference, 0.0) << "a whole sequence is one slice";
  }
}

TEST(Slices, AreSummedOverReplicas) {
  LoweringOptions lowering;
  lowering.reduce_grad = lowering.optimizer = true;
  const auto one = generate("seq-1f1b", {.ranks = 2, .microbatches = 3, .slices = 2}).value();
  const auto model = sliced_transformer(Arithmetic::integer_exact, {3, 2});
  EXPECT_EQ(
      test::compared_run(lower(replicated(one, 2).value(), lowering).value(), *model, 2).max_abs_difference,
      0.0);
}

/// Two ranks with I and W apart; the W of all slices of a microbatch follow in ascending order.
Schedule split_backward(int microbatches, int slices) {
  PipelineSpec spec;
  spec.ranks = spec.stages = 2;
  spec.microbatches = microbatches;
  spec.slices = slices;
  ScheduleBuilder builder("split", Pipeline::make(spec).value());
  for (int s = 0; s < 2; ++s) {
    for (int m = 0; m < microbatches; ++m) {
      const auto add = [&](OpKind kind, int slice) {
        builder.add(kind, StageId(s), MicrobatchId(m), SliceId(slice));
      };
      for (int k = 0; k < slices; ++k) add(OpKind::forward, k);
      for (int k = slices - 1; k >= 0; --k) add(OpKind::backward_input, k);
      for (int k = 0; k < slices; ++k) add(OpKind::backward_weight, k);
    }
  }
  return builder.build().value();
}

TEST(Slices, GiveThemWithTheBackwardInTwoParts) {
  const Program program = lower(split_backward(3, 3), {}).value();
  for (const Lengths& lengths : {Lengths{1, 2, 3}, Lengths{4, 1, 1}}) {
    const auto model = sliced_transformer(Arithmetic::integer_exact, lengths);
    EXPECT_EQ(test::compared_run(program, *model).max_abs_difference, 0.0);
  }
}

std::string refusal(const Program& program, const Lengths& lengths) {
  const auto result =
      test::try_compared_run(program, *sliced_transformer(Arithmetic::integer_exact, lengths));
  if (result) return "";
  EXPECT_EQ(result.error().code, ErrorCode::bad_argument);
  return to_string(result.error());
}

TEST(Slices, AreRefusedWhereTheirSavedActivationsDoNotStay) {
  const auto schedule = generate("terapipe", {.ranks = 2, .microbatches = 2, .slices = 2}).value();
  const std::string keys =
      "the transformer reads the keys and values of earlier slices where their F has saved them";
  LoweringOptions recomputed;
  recomputed.recompute = Recompute::full;
  EXPECT_EQ(refusal(lower(schedule, recomputed).value(), {1, 2}),
            keys + " (found 0R0.1, expected neither R nor OFFLOAD nor SEND_A)");
  const LoweringOptions offloaded{.offload = {.percent = 100, .stages = {}}};
  EXPECT_EQ(refusal(lower(schedule, offloaded).value(), {1, 2}),
            keys + " (found 0OFFLOAD0.0, expected neither R nor OFFLOAD nor SEND_A)");
}

TEST(Slices, HaveTheLengthsOfTheModel) {
  const Program program =
      lower(generate("terapipe", {.ranks = 2, .microbatches = 2, .slices = 2}).value(), {}).value();
  EXPECT_EQ(refusal(program, {1, 2}), "");
  EXPECT_EQ(refusal(program, {1, 1, 1}),
            "the lengths of the slices are not those of the transformer's sequences (found 3 slices with 3 "
            "tokens, expected 2 slices with 3 tokens)");
  TransformerConfig config = test::small_transformer(2, Arithmetic::integer_exact);
  config.sequence = 1;
  const auto result = test::try_compared_run(program, *make_transformer(config).value());
  ASSERT_FALSE(result);
  EXPECT_EQ(
      to_string(result.error()),
      "the transformer's sequences are too short for their slices (found 1 tokens in 2 slices, expected a "
      "token in each)");
}

}  // namespace
}  // namespace ppsim::slices_test
