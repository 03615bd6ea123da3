// The transformer's code for GPUs in slices of a sequence against the CPU's, whole and in slices, on kernels
// that the processor runs.

#include <gtest/gtest.h>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/executor/backends.hpp"
#include "ppsim/gpu_backend/executor/execute.hpp"
#include "ppsim/gpu_backend/stage_model/gpu_stage_model.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/gradient_distance.hpp"
#include "support/host_gpu_model.hpp"
#include "support/transformer_run.hpp"

namespace ppsim {

using namespace gpu_backend;
namespace {

using test::chain_of_stages;
using test::distance;
using test::floats;
using test::host_gpu_model;
using test::sliced_chain_of_stages;
using test::tiny_transformer;
using test::TransformerRun;

using Lengths = std::vector<int>;

/// Five tokens in slices.
TransformerConfig config_of(Arithmetic arithmetic, const Lengths& lengths) {
  TransformerConfig config = tiny_transformer(arithmetic);
  config.slice_lengths = lengths;
  return config;
}
Pipeline pipeline_of(int stages, const Lengths& lengths, int microbatches = 1) {
  return sliced_chain_of_stages(stages, microbatches, static_cast<int>(lengths.size()));
}
TransformerRun on_gpu(Arithmetic arithmetic, int stages, const Lengths& lengths) {
  return {host_gpu_model(config_of(arithmetic, lengths)), pipeline_of(stages, lengths)};
}

/// Every cut into stages: all on one, ends of their own, stages without layers.
class EverySlicedCut : public testing::TestWithParam<std::tuple<int, Lengths>> {
 protected:
  [[nodiscard]] static int stages() { return std::get<0>(GetParam()); }
  [[nodiscard]] static const Lengths& lengths() { return std::get<1>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(GpuTransformer, EverySlicedCut,
                         testing::Combine(testing::Values(1, 2, 5),
                                          testing::Values(Lengths{3, 2}, Lengths{1, 4}, Lengths{2, 1, 2},
                                                          Lengths{1, 1, 1, 1, 1})));

TEST_P(EverySlicedCut, HasTheGradientsOfWholeSequencesBitByBitInExactArithmetic) {
  TransformerRun whole(tiny_transformer(Arithmetic::integer_exact), chain_of_stages(stages(), 2));
  TransformerRun gpu(host_gpu_model(config_of(Arithmetic::integer_exact, lengths())),
                     pipeline_of(stages(), lengths(), 2));
  for (const int step : {0, 3}) {
    for (TransformerRun* run : {&whole, &gpu}) {
      run->begin_step(step);
      run->clear_gradients();
      run->forward(0);
      run->forward(1);
      run->backward(1);
      run->backward(0, true);
    }
    EXPECT_EQ(whole.gradients(), gpu.gradients()) << "step " << step;
    EXPECT_EQ(whole.loss<std::uint64_t>(), gpu.loss<std::uint64_t>()) << "step " << step;
  }
}

TEST_P(EverySlicedCut, FollowsTheCpuInFloat32) {
  TransformerRun cpu(config_of(Arithmetic::float32, lengths()), pipeline_of(stages(), lengths()));
  TransformerRun gpu = on_gpu(Arithmetic::float32, stages(), lengths());
  cpu.run(0);
  gpu.run(0);
  EXPECT_LT(distance(floats(cpu.gradients()), floats(gpu.gradients())), 1e-5);
  EXPECT_NEAR(cpu.loss<double>(), gpu.loss<float>(), 1e-5);
}

TEST_P(EverySlicedCut, FollowsWholeSequencesInBf16) {
  TransformerRun whole(tiny_transformer(Arithmetic::float32), chain_of_stages(stages()));
  TransformerRun gpu = on_gpu(Arithmetic::bf16, stages(), lengths());
  whole.run(0);
  gpu.run(0);
  const double apart = distance(floats(whole.gradients()), floats(gpu.gradients()));
  EXPECT_LT(apart, 0.1);
  EXPECT_GT(apart, 1e-5) << "bf16 has 8 bits";
  EXPECT_NEAR(whole.loss<double>(), gpu.loss<float>(), 0.05);
}

TEST_P(EverySlicedCut, HasTheSameBitsWholeAndSplit) {
  for (const Arithmetic arithmetic : {Arithmetic::float32, Arithmetic::bf16}) {
    TransformerRun whole = on_gpu(arithmetic, stages(), lengths());
    TransformerRun split = on_gpu(arithmetic, stages(), lengths());
    whole.run(0);
    split.forward(0);
    split.backward(0, true);
    EXPECT_EQ(whole.gradients(), split.gradients());
  }
}

/// Gradients of keys and values are summed in float32 over the slices, whatever is stored.
TEST(GpuTransformerSlices, HaveSizesOfTheirLengths) {
  TransformerConfig config = config_of(Arithmetic::bf16, {4, 12});
  config.layers = 6, config.hidden = 64, config.heads = 4, config.ffn = 96, config.sequence = 16;
  const auto model = host_gpu_model(config);
  const SizeTable sizes = model->sizes(sliced_chain_of_stages(3, 1, 2));
  for (const auto& [slice, tokens, keys] : {std::tuple{0, 4, 4}, {1, 12, 16}}) {
    const Bytes rows = Bytes{2} * tokens;
    EXPECT_EQ(sizes({TensorKind::boundary_input, 1, -1, slice}), 2 * rows * 64);
    EXPECT_EQ(sizes({TensorKind::incoming_gradient, 0, 1, slice}), 2 * rows * 64);
    EXPECT_EQ(sizes({TensorKind::outgoing_gradient, 1, 0, slice}), 2 * rows * 64);
    const Bytes scales = 2 * ((4 * rows + 63) / 64 * 64);
    EXPECT_EQ(sizes({TensorKind::saved_for_input, 1, -1, slice}),
              2 * (scales + 2 * rows * (3 * 64 + 4 * keys + 2 * 96)));
  }
  EXPECT_EQ(sizes({TensorKind::kv_gradient, 1}), 2 * 4 * (2 * 4) * (2 * 64));
}

std::string refusal(const Expected<void>& answer) { return answer ? "" : to_string(answer.error()); }

TEST(GpuTransformerSlices, HaveAttentionByProducts) {
  TransformerConfig config = config_of(Arithmetic::bf16, {3, 2});
  config.hidden = 16;
  const Pipeline whole = chain_of_stages(1);
  const Pipeline sliced = sliced_chain_of_stages(1, 1, 2);
  const auto model = host_gpu_model(config, test::HostCudnnOptions{});
  EXPECT_EQ(model->on_gpu()->kernels_text(whole), "attention by cuDNN 9.19.0");
  EXPECT_EQ(model->on_gpu()->kernels_text(sliced),
            "attention by GEMMs: cuDNN's attention is of whole sequences");
  config.attention = AttentionKernels::cudnn;
  const auto demanding = host_gpu_model(config, test::HostCudnnOptions{});
  EXPECT_EQ(refusal(demanding->check(whole)), "");
  EXPECT_EQ(refusal(demanding->check(sliced)),
            "attention by cuDNN was asked for and cannot be had (found GEMMs: cuDNN's attention is of whole "
            "sequences, expected cuDNN, or attention by GEMMs)");
}

TEST(GpuTransformerSlices, AreMultiplesOf16TokensInFp8) {
  TransformerConfig config = config_of(Arithmetic::fp8, {8, 24});
  config.hidden = 32, config.ffn = 48, config.sequence = 32;
  const Pipeline pipeline = sliced_chain_of_stages(2, 1, 2);
  EXPECT_EQ(refusal(host_gpu_model(config)->check(pipeline)), "");
  TransformerRun fp8(host_gpu_model(config), pipeline);
  fp8.run(0);
  config.arithmetic = Arithmetic::float32;
  TransformerRun exact(config, pipeline);
  exact.run(0);
  EXPECT_LT(distance(floats(exact.gradients()), floats(fp8.gradients())), 0.3);
  EXPECT_NEAR(exact.loss<double>(), fp8.loss<float>(), 0.05);
  config.arithmetic = Arithmetic::fp8;
  config.slice_lengths = {12, 20};
  EXPECT_EQ(refusal(host_gpu_model(config)->check(pipeline)),
            "fp8 needs the tokens of every slice of a microbatch in multiples of 16 (found a slice with 24 "
            "tokens)");
}

TEST(GpuTransformerSlices, AreRefusedAsOnTheCpu) {
  const auto model = host_gpu_model(config_of(Arithmetic::integer_exact, {3, 2}));
  EXPECT_EQ(refusal(model->check(sliced_chain_of_stages(1, 1, 3))),
            "the lengths of the slices are not those of the transformer's sequences (found 2 slices with 5 "
            "tokens, expected 3 slices with 5 tokens)");
  LoweringOptions lowering;
  lowering.recompute = Recompute::full;
  const Program program =
      lower(generate("terapipe", {.ranks = 2, .microbatches = 2, .slices = 2}).value(), lowering).value();
  RunOptions options;
  options.backend = CudaOptions{};
  options.unverified = true;
  const auto prepared = PreparedRun::make({program, capabilities_of(options)}, *model->on_gpu(), options);
  ASSERT_FALSE(prepared);
  EXPECT_EQ(to_string(prepared.error()),
            "the transformer reads the keys and values of earlier slices where their F has saved them (found "
            "0R0.1, expected neither R nor OFFLOAD nor SEND_A)");
}

}  // namespace
}  // namespace ppsim
