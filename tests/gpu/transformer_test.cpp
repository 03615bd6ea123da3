// The transformer's kernels on a device against the CPU's model.

#include <gtest/gtest.h>

#include "gpu/device_model.hpp"
#include "support/gradient_distance.hpp"
#include "support/transformer_run.hpp"

namespace ppsim {
namespace {

using test::chain_of_stages;
using test::device_model;
using test::distance;
using test::floats;
using test::tiny_transformer;
using test::TransformerRun;

class OnDevice : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (const auto why = test::why_no_gpu()) GTEST_SKIP() << "NOT RUN, needs a GPU: " << *why;
  }
};
/// Numbers of stages: all on one, ends of their own, stages without layers.
INSTANTIATE_TEST_SUITE_P(Transformer, OnDevice, testing::Values(1, 2, 3, 5));

/// Sizes that are no multiple of a block, and rows that are longer than one.
TransformerConfig odd_sizes(Arithmetic arithmetic) {
  TransformerConfig config = tiny_transformer(arithmetic);
  config.hidden = 272;
  config.heads = 2;
  config.ffn = 328;
  config.vocab = 616;
  config.sequence = 264;
  return config;
}

TEST_P(OnDevice, HasTheGradientsOfTheCpuBitByBitInExactArithmetic) {
  TransformerRun cpu(tiny_transformer(Arithmetic::integer_exact), chain_of_stages(GetParam(), 2));
  TransformerRun gpu(device_model(tiny_transformer(Arithmetic::integer_exact)),
                     chain_of_stages(GetParam(), 2));
  for (TransformerRun* run : {&cpu, &gpu}) {
    run->run(0);
    run->forward(1);
    run->backward(1, true);
    run->update();
  }
  EXPECT_EQ(cpu.gradients(), gpu.gradients());
  EXPECT_EQ(cpu.loss<std::uint64_t>(), gpu.loss<std::uint64_t>());
  const auto expected = cpu.tensor(TensorKind::parameters, 0);
  const auto found = gpu.tensor(TensorKind::parameters, 0);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), found.begin(), found.end()));
}

TEST_P(OnDevice, HasThemAtOddSizesToo) {
  TransformerRun cpu(odd_sizes(Arithmetic::integer_exact), chain_of_stages(GetParam()));
  TransformerRun gpu(device_model(odd_sizes(Arithmetic::integer_exact)), chain_of_stages(GetParam()));
  cpu.run(0);
  gpu.run(0);
  EXPECT_EQ(cpu.gradients(), gpu.gradients());
}

TEST_P(OnDevice, FollowsTheCpuInFloat32AndBf16) {
  TransformerRun cpu(odd_sizes(Arithmetic::float32), chain_of_stages(GetParam()));
  cpu.run(0);
  for (const auto& [arithmetic, tolerance] :
       {std::pair(Arithmetic::float32, 1e-3), std::pair(Arithmetic::bf16, 0.1)}) {
    TransformerRun gpu(device_model(odd_sizes(arithmetic)), chain_of_stages(GetParam()));
    gpu.run(0);
    EXPECT_LT(distance(floats(cpu.gradients()), floats(gpu.gradients())), tolerance);
    EXPECT_NEAR(cpu.loss<double>(), gpu.loss<float>(), tolerance);
  }
}

TEST_P(OnDevice, FollowsTheCpuInFp8) {
  TransformerConfig config = odd_sizes(Arithmetic::float32);
  config.ffn = 336;
  config.sequence = 272;
  TransformerRun cpu(config, chain_of_stages(GetParam()));
  cpu.run(0);
  config.arithmetic = Arithmetic::fp8;
  TransformerRun gpu(device_model(config), chain_of_stages(GetParam()));
  gpu.run(0);
  EXPECT_LT(distance(floats(cpu.gradients()), floats(gpu.gradients())), 0.3);
  EXPECT_NEAR(cpu.loss<double>(), gpu.loss<float>(), 0.1);
}

TEST_P(OnDevice, HasTheGradientsOfWholeSequencesInSlices) {
  const Pipeline sliced = test::sliced_chain_of_stages(GetParam(), 1, 3);
  TransformerConfig config = odd_sizes(Arithmetic::integer_exact);
  TransformerRun whole(config, chain_of_stages(GetParam()));
  config.slice_lengths = {129, 7, 128};
  TransformerRun exact(device_model(config), sliced);
  whole.run(0);
  exact.run(0);
  EXPECT_EQ(whole.gradients(), exact.gradients());
  config.arithmetic = Arithmetic::float32;
  TransformerRun cpu(config, sliced);
  cpu.run(0);
  for (const auto& [arithmetic, tolerance] :
       {std::pair(Arithmetic::float32, 1e-3), std::pair(Arithmetic::bf16, 0.1)}) {
    config.arithmetic = arithmetic;
    TransformerRun gpu(device_model(config), sliced);
    gpu.run(0);
    EXPECT_LT(distance(floats(cpu.gradients()), floats(gpu.gradients())), tolerance);
    EXPECT_NEAR(cpu.loss<double>(), gpu.loss<float>(), tolerance);
  }
}

TEST_P(OnDevice, GivesTheSameBitsAgain) {
  std::vector<std::vector<std::byte>> found;
  for (int i = 0; i < 2; ++i) {
    TransformerRun gpu(device_model(odd_sizes(Arithmetic::bf16)), chain_of_stages(GetParam()));
    gpu.run(0);
    found.push_back(gpu.gradients());
  }
  EXPECT_EQ(found[0], found[1]);
}

TEST_P(OnDevice, LearnsInBf16) {
  TransformerConfig config = tiny_transformer(Arithmetic::bf16);
  config.optimizer = Optimizer::adamw;
  config.learning_rate = 0.01;
  TransformerRun run(device_model(config), chain_of_stages(GetParam()));
  run.run(0);
  const auto first = run.loss<float>();
  for (int step = 0; step < 30; ++step) {
    run.update();
    run.clear_gradients();
    run.run(0);
  }
  EXPECT_LT(run.loss<float>(), first / 2);
}

}  // namespace
}  // namespace ppsim
