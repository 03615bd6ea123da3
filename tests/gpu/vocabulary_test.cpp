// The kernels for shards of the vocabulary on a device, against the CPU's model.

#include <gtest/gtest.h>

#include "gpu/device_model.hpp"
#include "ppsim/gpu_backend/stage_model/reference.hpp"
#include "support/gradient_distance.hpp"
#include "support/vocabulary_cases.hpp"

namespace ppsim {
namespace {

using test::device_model;
using Case = test::VocabularyCase;

class VocabularyOnDevice : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (const auto why = test::why_no_gpu()) GTEST_SKIP() << "NOT RUN, needs a GPU: " << *why;
  }
  /// Rows that are longer than a block of threads, and widths that are no multiple of anything.
  [[nodiscard]] static TransformerConfig config_of(Arithmetic arithmetic) {
    TransformerConfig config = test::vocabulary_transformer(arithmetic);
    config.layers = 2, config.hidden = 272, config.ffn = 40, config.vocab = 823, config.sequence = 19;
    return config;
  }
  [[nodiscard]] static std::vector<BlockGradients> gradients(const CpuStageModel& model) {
    const Schedule schedule = test::schedule_of(GetParam());
    return reference_gradients(schedule.pipeline(), model).value();
  }
  /// Without the losses, whose type is the model's.
  [[nodiscard]] static std::vector<float> numbers(const CpuStageModel& model) {
    std::vector<float> all;
    for (const BlockGradients& block : gradients(model)) {
      const std::vector<float> own = test::floats(block.values);
      all.insert(all.end(), own.begin(), own.end() - 16);
    }
    return all;
  }
};
INSTANTIATE_TEST_SUITE_P(Shards, VocabularyOnDevice,
                         testing::Values(Case{"vocab-1", "first", 1, 2}, Case{"vocab-1", "sharded", 3, 2},
                                         Case{"vocab-2", "first", 1, 2}, Case{"vocab-2", "sharded", 3, 2}));

TEST_P(VocabularyOnDevice, HasTheGradientsAndLossesOfTheCpuBitByBitInExactArithmetic) {
  const TransformerConfig config = config_of(Arithmetic::integer_exact);
  EXPECT_EQ(gradients(*make_transformer(config).value()), gradients(*device_model(config)));
}

TEST_P(VocabularyOnDevice, FollowsTheCpuInFloat32AndBf16) {
  const std::vector<float> expected = numbers(*make_transformer(config_of(Arithmetic::float32)).value());
  for (const auto& [arithmetic, tolerance] :
       {std::pair(Arithmetic::float32, 1e-3), std::pair(Arithmetic::bf16, 0.1)}) {
    EXPECT_LT(test::distance(expected, numbers(*device_model(config_of(arithmetic)))), tolerance);
  }
}

TEST_P(VocabularyOnDevice, GivesTheSameBitsAgain) {
  const TransformerConfig config = config_of(Arithmetic::bf16);
  EXPECT_EQ(gradients(*device_model(config)), gradients(*device_model(config)));
}

}  // namespace
}  // namespace ppsim
