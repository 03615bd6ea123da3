// The transformer's code for GPUs against the CPU's, on kernels that the processor runs.

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "support/gradient_distance.hpp"
#include "support/host_gpu_model.hpp"
#include "support/transformer_run.hpp"
#include "transformer/kernels/numbers.hpp"

namespace ppsim {

using namespace gpu_backend;
namespace {

using test::chain_of_stages;
using test::distance;
using test::floats;
using test::host_gpu_model;
using test::tiny_transformer;
using test::TransformerRun;

struct Pair {
  Pair(Arithmetic arithmetic, int stages, int microbatches)
      : cpu(tiny_transformer(arithmetic), chain_of_stages(stages, microbatches)),
        gpu(host_gpu_model(tiny_transformer(arithmetic)), chain_of_stages(stages, microbatches)) {}
  TransformerRun cpu, gpu;
};

/// Every cut: all on one stage, ends of their own, stages without layers.
class EveryCut : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(GpuTransformer, EveryCut, testing::Values(1, 2, 3, 5));

TEST_P(EveryCut, HasTheGradientsOfTheCpuBitByBitInExactArithmetic) {
  Pair pair(Arithmetic::integer_exact, GetParam(), 2);
  for (TransformerRun* run : {&pair.cpu, &pair.gpu}) {
    run->run(0);
    run->forward(1);
    run->backward(1, true);
  }
  EXPECT_EQ(pair.cpu.gradients(), pair.gpu.gradients());
  EXPECT_EQ(pair.cpu.loss<std::uint64_t>(), pair.gpu.loss<std::uint64_t>());
}

/// Tokens and targets are drawn on the device, from the number of the step that is in its memory.
TEST_P(EveryCut, DrawsTheBatchesOfTheCpuInEveryStep) {
  Pair pair(Arithmetic::integer_exact, GetParam(), 2);
  std::set<std::uint64_t> losses;
  for (const int step : {0, 1, 2, 1'000'000'000}) {
    for (TransformerRun* run : {&pair.cpu, &pair.gpu}) {
      run->begin_step(step);
      run->clear_gradients();
      run->run(0);
      run->run(1);
    }
    EXPECT_EQ(pair.cpu.gradients(), pair.gpu.gradients()) << "step " << step;
    EXPECT_EQ(pair.cpu.loss<std::uint64_t>(), pair.gpu.loss<std::uint64_t>()) << "step " << step;
    losses.insert(pair.cpu.loss<std::uint64_t>());
  }
  EXPECT_EQ(losses.size(), 4U);
}

TEST_P(EveryCut, RecomputesWhatItDidNotSave) {
  for (const Arithmetic arithmetic : {Arithmetic::integer_exact, Arithmetic::float32, Arithmetic::bf16}) {
    TransformerRun kept(host_gpu_model(tiny_transformer(arithmetic)), chain_of_stages(GetParam()));
    TransformerRun again(host_gpu_model(tiny_transformer(arithmetic)), chain_of_stages(GetParam()));
    kept.run(0);
    for (int s = 0; s < GetParam(); ++s) again.forward_without_saving(s, 0);
    for (int s = 0; s < GetParam(); ++s) again.compute(OpKind::recompute, s, 0);
    again.backward(0);
    EXPECT_EQ(kept.gradients(), again.gradients());
  }
}

TEST_P(EveryCut, FollowsTheCpuInFloat32) {
  Pair pair(Arithmetic::float32, GetParam(), 2);
  for (TransformerRun* run : {&pair.cpu, &pair.gpu}) {
    run->run(0);
    run->run(1);
  }
  EXPECT_LT(distance(floats(pair.cpu.gradients()), floats(pair.gpu.gradients())), 1e-5);
  EXPECT_NEAR(pair.cpu.loss<double>(), pair.gpu.loss<float>(), 1e-5);
}

TEST_P(EveryCut, FollowsFloat32InBf16) {
  TransformerRun wide(tiny_transformer(Arithmetic::float32), chain_of_stages(GetParam()));
  TransformerRun narrow(host_gpu_model(tiny_transformer(Arithmetic::bf16)), chain_of_stages(GetParam()));
  wide.run(0);
  narrow.run(0);
  const double apart = distance(floats(wide.gradients()), floats(narrow.gradients()));
  EXPECT_LT(apart, 0.1);
  EXPECT_GT(apart, 1e-5) << "bf16 has 8 bits";
  EXPECT_NEAR(wide.loss<double>(), narrow.loss<float>(), 0.05);
}

TEST(GpuTransformer, UpdatesAsTheCpuDoesInExactArithmetic) {
  Pair pair(Arithmetic::integer_exact, 2, 1);
  for (TransformerRun* run : {&pair.cpu, &pair.gpu}) {
    for (int step = 0; step < 3; ++step) {
      run->clear_gradients();
      run->run(0);
      run->update();
    }
  }
  for (int b = 0; b < 2; ++b) {
    const auto expected = pair.cpu.tensor(TensorKind::parameters, b);
    const auto found = pair.gpu.tensor(TensorKind::parameters, b);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), found.begin(), found.end())) << "block " << b;
  }
}

/// Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019, algorithm 2: the first step
/// moves every parameter by the learning rate against the sign of its gradient.
TEST(GpuTransformer, MovesEveryParameterByTheLearningRateInTheFirstStepOfAdam) {
  TransformerConfig config = tiny_transformer(Arithmetic::float32);
  config.optimizer = Optimizer::adamw;
  config.weight_decay = 0;
  TransformerRun run(host_gpu_model(config), chain_of_stages(1));
  run.run(0);
  const auto parameters = run.tensor(TensorKind::parameters, 0);
  const std::vector<float> before = floats({parameters.begin(), parameters.end()});
  const std::vector<float> gradients = floats(run.gradients());
  run.update();
  const std::vector<float> after = floats({parameters.begin(), parameters.end()});
  int moved = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (std::abs(gradients[i]) < 1e-4) continue;
    ++moved;
    const double step = gradients[i] > 0 ? -config.learning_rate : config.learning_rate;
    EXPECT_NEAR(after[i] - before[i], step, 1e-4) << "parameter " << i;
  }
  EXPECT_GT(moved, 100);
}

TEST(GpuTransformer, UpdatesAsTheCpuDoesInFloat32) {
  for (const Optimizer optimizer : {Optimizer::momentum, Optimizer::adamw}) {
    TransformerConfig config = tiny_transformer(Arithmetic::float32);
    config.optimizer = optimizer;
    config.learning_rate = 0.01;
    TransformerRun cpu(config, chain_of_stages(2));
    TransformerRun gpu(host_gpu_model(config), chain_of_stages(2));
    for (TransformerRun* run : {&cpu, &gpu}) {
      for (int step = 0; step < 3; ++step) {
        run->clear_gradients();
        run->run(0);
        run->update(0.5);
      }
    }
    for (int b = 0; b < 2; ++b) {
      const auto expected = cpu.tensor(TensorKind::parameters, b);
      const auto found = gpu.tensor(TensorKind::parameters, b);
      EXPECT_LT(distance(floats({expected.begin(), expected.end()}), floats({found.begin(), found.end()})),
                1e-4)
          << "block " << b;
    }
  }
}

TEST(GpuTransformer, LearnsInBf16) {
  TransformerConfig config = tiny_transformer(Arithmetic::bf16);
  config.optimizer = Optimizer::adamw;
  config.learning_rate = 0.01;
  TransformerRun run(host_gpu_model(config), chain_of_stages(2));
  run.run(0);
  const auto first = run.loss<float>();
  for (int step = 0; step < 30; ++step) {
    run.update();
    run.clear_gradients();
    run.run(0);
  }
  EXPECT_LT(run.loss<float>(), first / 2);
}

TEST(GpuTransformer, NormOfGradientsIsTheCpus) {
  Pair pair(Arithmetic::float32, 1, 1);
  for (TransformerRun* run : {&pair.cpu, &pair.gpu}) run->run(0);
  const auto norm_of = [](TransformerRun& run) {
    return run.model().squared_norm(run.tensor(TensorKind::gradients, 0));
  };
  EXPECT_NEAR(norm_of(pair.cpu), norm_of(pair.gpu), 1e-5 * norm_of(pair.cpu));
}

TEST(Bf16, RoundsToNearestEven) {
  using cuda::to_bf16;
  using cuda::to_float;
  EXPECT_EQ(to_float(to_bf16(1.0F)), 1.0F);
  EXPECT_EQ(to_float(to_bf16(1.00390625F)), 1.0F) << "a tie goes to the even neighbour below";
  EXPECT_EQ(to_float(to_bf16(1.01171875F)), 1.015625F) << "and to the one above";
  EXPECT_EQ(to_float(to_bf16(1.00390637F)), 1.0078125F);
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::nanf("")))));
  EXPECT_TRUE(std::isinf(to_float(to_bf16(3.4e38F))));
}

}  // namespace
}  // namespace ppsim
