// Attention by cuDNN on a device against attention by products, which the CPU's model is the measure of.

#include <gtest/gtest.h>

#include <cmath>

#include "gpu/device_model.hpp"
#include "support/transformer_run.hpp"

namespace ppsim {
namespace {

using test::chain_of_stages;
using test::device_model;
using test::TransformerRun;

/// Heads of 64 and of 136 numbers, sequences that are a multiple of 128 tokens and not.
TransformerConfig config_of(int sequence, int head_size, AttentionKernels attention) {
  return {.layers = 2,
          .hidden = 2 * head_size,
          .heads = 2,
          .ffn = 192,
          .vocab = 128,
          .sequence = sequence,
          .microbatch_size = 3,
          .arithmetic = Arithmetic::bf16,
          .attention = attention};
}

struct Sizes {
  int sequence;
  int head_size;
};

class FlashAttentionOnDevice : public testing::TestWithParam<Sizes> {
 protected:
  void SetUp() override {
    if (const auto why = test::why_no_gpu()) GTEST_SKIP() << "NOT RUN, needs a GPU: " << *why;
    if (const auto good = flash()->check(chain_of_stages(1)); !good)
      GTEST_SKIP() << "NOT RUN, needs cuDNN: " << good.error().place.found;
  }
  static TransformerConfig config(AttentionKernels attention) {
    return config_of(GetParam().sequence, GetParam().head_size, attention);
  }
  static std::unique_ptr<CpuStageModel> flash() { return device_model(config(AttentionKernels::cudnn)); }
};
INSTANTIATE_TEST_SUITE_P(Sizes, FlashAttentionOnDevice,
                         testing::Values(Sizes{256, 64}, Sizes{264, 136}, Sizes{20, 8}), [](const auto& one) {
                           return std::to_string(one.param.sequence) + "_tokens_" +
                                  std::to_string(one.param.head_size);
                         });

std::vector<float> gradients_of(TransformerRun run) {
  run.run(0);
  const std::vector<std::byte> bytes = run.gradients();
  std::vector<float> numbers(bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}
double norm_of(const std::vector<float>& numbers) {
  double squares = 0;
  for (const float number : numbers) squares += static_cast<double>(number) * number;
  return std::sqrt(squares);
}

TEST_P(FlashAttentionOnDevice, HasTheGradientsOfProductsUpToTheRoundingOfBf16) {
  std::vector<float> found = gradients_of({flash(), chain_of_stages(2)});
  const std::vector<float> expected =
      gradients_of({device_model(config(AttentionKernels::gemm)), chain_of_stages(2)});
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) found[i] -= expected[i];
  EXPECT_LT(norm_of(found), norm_of(expected) * 8 / 512);
}

TEST_P(FlashAttentionOnDevice, GivesTheSameBitsAgainAndSplit) {
  const std::vector<float> first = gradients_of({flash(), chain_of_stages(2)});
  for (int again = 0; again < 5; ++again)
    EXPECT_EQ(gradients_of({flash(), chain_of_stages(2)}), first) << "run " << again;
  TransformerRun split(flash(), chain_of_stages(2));
  TransformerRun whole(flash(), chain_of_stages(2));
  whole.run(0);
  split.forward(0);
  split.backward(0, true);
  EXPECT_EQ(split.gradients(), whole.gradients());
}

}  // namespace
}  // namespace ppsim
