// Attention by cuDNN against attention by products, on a stand-in for cuDNN that runs its graphs one
// operation after the other.

#include <gtest/gtest.h>

#include <cmath>

#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "support/gradient_distance.hpp"
#include "support/host_gpu_model.hpp"
#include "support/transformer_run.hpp"
#include "transformer/gpu/attention/attention_choice.hpp"

namespace ppsim {

using namespace gpu_backend;
namespace {

using test::chain_of_stages;
using test::distance;
using test::floats;
using test::host_cudnn;
using test::host_gpu_model;
using test::HostCudnnOptions;
using test::TransformerRun;

/// Two sequences in a microbatch, two heads.
TransformerConfig config_of(AttentionKernels attention) {
  return {.layers = 2,
          .hidden = 16,
          .heads = 2,
          .ffn = 24,
          .vocab = 13,
          .sequence = 20,
          .microbatch_size = 2,
          .arithmetic = Arithmetic::bf16,
          .attention = attention};
}

TransformerRun run_of(AttentionKernels attention, int stages, const HostCudnnOptions& cudnn = {}) {
  return {host_gpu_model(config_of(attention), cudnn), chain_of_stages(stages, 2)};
}

class EveryFlashCut : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(FlashAttention, EveryFlashCut, testing::Values(1, 2, 4));

/// Numbers of 8 bits are 2^-8 off at most, a fraction of that on average, and differ in the roundings of
/// scores and probabilities of a layer, of which there are two: gradients differ by a few times 2^-9.
TEST_P(EveryFlashCut, HasTheGradientsOfProductsUpToTheRoundingOfBf16) {
  TransformerRun flash = run_of(AttentionKernels::automatic, GetParam());
  TransformerRun products = run_of(AttentionKernels::gemm, GetParam());
  flash.run(0);
  products.run(0);
  EXPECT_EQ(flash.model().on_gpu()->kernels_text(chain_of_stages(1)), "attention by cuDNN 9.19.0");
  EXPECT_EQ(products.model().on_gpu()->kernels_text(chain_of_stages(1)),
            "attention by GEMMs: they were asked for");
  const double apart = distance(floats(products.gradients()), floats(flash.gradients()));
  EXPECT_LT(apart, 8.0 / 512);
  EXPECT_GT(apart, 0) << "they do not round at the same places";
  EXPECT_NEAR(flash.loss<float>(), products.loss<float>(), 0.01);
}

TEST_P(EveryFlashCut, HasTheSameBitsWholeAndSplitSavedAndRecomputed) {
  TransformerRun whole = run_of(AttentionKernels::cudnn, GetParam());
  TransformerRun split = run_of(AttentionKernels::cudnn, GetParam());
  TransformerRun again = run_of(AttentionKernels::cudnn, GetParam());
  whole.run(0);
  split.forward(0);
  split.backward(0, true);
  for (int s = 0; s < GetParam(); ++s) again.forward_without_saving(s, 0);
  for (int s = 0; s < GetParam(); ++s) again.compute(OpKind::recompute, s, 0);
  again.backward(0);
  EXPECT_EQ(whole.gradients(), split.gradients());
  EXPECT_EQ(whole.gradients(), again.gradients());
}

TEST(FlashAttention, SavesStatisticsAndNotScoresAndSaysWhatItsPlansNeed) {
  const TransformerRun flash = run_of(AttentionKernels::cudnn, 2);
  const TransformerRun products = run_of(AttentionKernels::gemm, 2);
  const auto size = [](const TransformerRun& run, TensorKind kind, OpKind of) {
    return run.sizes()({kind, 0, -1, -1, of});
  };
  const auto saved = [&](const TransformerRun& run) {
    return size(run, TensorKind::saved_for_input, OpKind::forward);
  };
  // 2 sequences x 2 heads x 20 rows: a float32 each instead of 20 numbers of two bytes.
  EXPECT_EQ(saved(products) - saved(flash), 80 * 20 * 2 - 80 * 4);
  const auto workspace = [&](const TransformerRun& run, OpKind of) {
    return size(run, TensorKind::workspace, of);
  };
  EXPECT_EQ(workspace(flash, OpKind::forward) - workspace(products, OpKind::forward),
            256 - (80 * 20 * 2 - 80 * 4));
  // The sums, and a plan for all scores, but none of one sequence.
  EXPECT_EQ(workspace(flash, OpKind::backward_input) - workspace(products, OpKind::backward_input),
            80 * 4 + 256 + 2 * 80 * 20 - 2 * 40 * 20);
  EXPECT_EQ(workspace(flash, OpKind::backward_weight), workspace(products, OpKind::backward_weight));
}

TEST(FlashAttention, RecomputesInBf16WithManyTokens) {
  TransformerConfig config = config_of(AttentionKernels::gemm);
  config.sequence = 48;
  TransformerRun kept(host_gpu_model(config), chain_of_stages(1));
  TransformerRun again(host_gpu_model(config), chain_of_stages(1));
  kept.run(0);
  again.forward_without_saving(0, 0);
  again.compute(OpKind::recompute, 0, 0);
  again.backward(0);
  EXPECT_EQ(kept.gradients(), again.gradients());
}

/// The reason why a stand-in with these properties cannot be used.
std::string why_not(const TransformerConfig& config, const std::optional<HostCudnnOptions>& cudnn) {
  const auto model = host_gpu_model(config, cudnn);
  const std::string text = model->on_gpu()->kernels_text(chain_of_stages(1));
  const Pipeline pipeline = chain_of_stages(1);
  EXPECT_TRUE(model->check(pipeline)) << "products do as well";
  TransformerConfig demanding = config;
  demanding.attention = AttentionKernels::cudnn;
  const auto refused = host_gpu_model(demanding, cudnn)->check(pipeline);
  EXPECT_FALSE(refused);
  if (refused) return "";
  EXPECT_EQ(refused.error().code, ErrorCode::bad_argument);
  EXPECT_EQ("attention by " + refused.error().place.found, text);
  EXPECT_EQ(refused.error().message, "attention by cuDNN was asked for and cannot be had");
  return text;
}

TEST(FlashAttention, SaysWhyItIsNotUsed) {
  const TransformerConfig config = config_of(AttentionKernels::automatic);
  EXPECT_EQ(why_not(config, std::nullopt), "attention by GEMMs: this machine has no cuDNN");
  EXPECT_EQ(why_not(config, HostCudnnOptions{.version = 91501}),
            "attention by GEMMs: cuDNN 9.15.1 is too old: attention needs cuDNN 9.16.0 or later");
  const std::string what =
      "attention by GEMMs: attention of 2 sequences of 20 tokens, 2 heads of 8 by cuDNN 9.19.0: ";
  EXPECT_EQ(why_not(config, HostCudnnOptions{.engines = 0}), what + "cuDNN has no engine for it");
  EXPECT_EQ(why_not(config, HostCudnnOptions{.deterministic = false}), what + "cuDNN has no engine for it");
  EXPECT_EQ(why_not(config, HostCudnnOptions{.engines = 1, .unplannable = 1}),
            what + "CUDNN_STATUS_NOT_SUPPORTED, engine 0 does not know the graph");
  TransformerConfig narrow = config;
  narrow.hidden = 24;
  EXPECT_EQ(why_not(narrow, HostCudnnOptions{}),
            "attention by GEMMs: cuDNN's attention needs heads of a multiple of 8 numbers, not of 12");
  TransformerConfig exact = config;
  exact.arithmetic = Arithmetic::integer_exact;
  EXPECT_EQ(why_not(exact, HostCudnnOptions{}), "attention by GEMMs: cuDNN's attention is of bf16");
}

TEST(FlashAttention, TakesTheNextEngineWhereOneDoesNotKnowTheGraph) {
  const auto model = host_gpu_model(config_of(AttentionKernels::automatic),
                                    HostCudnnOptions{.engines = 3, .unplannable = 2});
  EXPECT_EQ(model->on_gpu()->kernels_text(chain_of_stages(1)), "attention by cuDNN 9.19.0");
}

TEST(FlashAttention, RefusesADeviceThatNeedsMoreWorkspaceThanTheOneThatWasAsked) {
  const cuda::AttentionSizes d(config_of(AttentionKernels::cudnn));
  const CudnnTable cudnn = host_cudnn(test::immediately());
  const cuda::AttentionWorkspace needed = cuda::attention_workspace(cudnn, d);
  EXPECT_EQ(needed.forward, 256U);
  EXPECT_NO_THROW(cuda::FlashAttention(cudnn, d, needed));
  EXPECT_THROW(cuda::FlashAttention(cudnn, d, {needed.forward, needed.backward - 1}), BackendError);
}

/// The stand-in refuses wrong uses, so the tests above can fail.
TEST(HostCudnn, HoldsItsUserToTheRulesOfTheLibrary) {
  const auto books = std::make_shared<test::HostCudnnBooks>();
  const CudnnTable cudnn = host_cudnn(test::immediately(), {}, books);
  void* tensor = nullptr;
  ASSERT_EQ(cudnn.object_create(cudnn_object::kTensor, &tensor), kCudnnSuccess);
  const std::int64_t four[] = {1, 1, 1, 1};
  namespace attribute = cudnn_attribute;
  EXPECT_EQ(cudnn.object_set(tensor, attribute::kMatmulA, cudnn_type::kObject, 1, four), 2000);
  EXPECT_EQ(cudnn.object_set(tensor, attribute::kTensorStrides, cudnn_type::kChar, 4, four), 2010);
  EXPECT_EQ(cudnn.object_set(tensor, attribute::kTensorStrides, cudnn_type::kInt64, 3, four), 2000);
  EXPECT_EQ(cudnn.object_set(tensor, attribute::kTensorStrides, cudnn_type::kInt64, 4, four), 0);
  EXPECT_EQ(cudnn.object_finish(tensor), 2000) << "no shape";
  void* reshape = nullptr;
  ASSERT_EQ(cudnn.object_create(cudnn_object::kReshapeOperation, &reshape), kCudnnSuccess);
  EXPECT_EQ(cudnn.object_set(reshape, attribute::kReshapeX, cudnn_type::kObject, 1, &tensor), 2004);
  EXPECT_EQ(books->live, 2);
  EXPECT_EQ(cudnn.object_destroy(tensor), 0);
  EXPECT_NE(cudnn.object_destroy(tensor), 0);
  EXPECT_EQ(cudnn.object_destroy(reshape), 0);
  EXPECT_EQ(books->live, 0);
  EXPECT_EQ(books->double_free, 1);
}

}  // namespace
}  // namespace ppsim
