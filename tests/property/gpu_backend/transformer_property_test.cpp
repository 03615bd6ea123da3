#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

#include "support/transformer_run.hpp"

namespace ppsim {
namespace {

using test::chain_of_stages;
using test::TransformerRun;

TransformerConfig random_config(Arithmetic arithmetic) {
  TransformerConfig config;
  config.layers = *rc::gen::inRange(1, 5);
  config.heads = *rc::gen::inRange(1, 4);
  config.hidden = config.heads * *rc::gen::inRange(1, 10);
  config.ffn = *rc::gen::inRange(1, 40);
  config.vocab = *rc::gen::inRange(2, 40);
  config.sequence = *rc::gen::inRange(1, 20);
  config.microbatch_size = *rc::gen::inRange(1, 4);
  config.arithmetic = arithmetic;
  config.seed = *rc::gen::arbitrary<std::uint64_t>();
  return config;
}

Arithmetic random_arithmetic() {
  return *rc::gen::element(Arithmetic::float32, Arithmetic::float64, Arithmetic::integer_exact);
}

/// A permutation of [0, count).
std::vector<int> random_order(int count) {
  std::vector<std::pair<std::uint32_t, int>> keyed;
  for (int i = 0; i < count; ++i) keyed.emplace_back(*rc::gen::arbitrary<std::uint32_t>(), i);
  std::sort(keyed.begin(), keyed.end());
  std::vector<int> order;
  for (const auto& [key, item] : keyed) order.push_back(item);
  return order;
}

/// Any way to run a microbatch: recomputed or not, the backward split or not.
void run_somehow(TransformerRun& run, int mb) {
  const bool recomputes = *rc::gen::arbitrary<bool>();
  for (const int stage : run.chain_of(mb)) {
    if (recomputes) {
      run.forward_without_saving(stage, mb);
      run.compute(OpKind::recompute, stage, mb);
    } else {
      run.compute(OpKind::forward, stage, mb);
    }
  }
  run.backward(mb, *rc::gen::arbitrary<bool>());
}

RC_GTEST_PROP(TransformerProperty, GradientsDependOnNeitherCutNorSplitNorRecomputeNorAddress, ()) {
  const TransformerConfig config = random_config(random_arithmetic());
  const int microbatches = *rc::gen::inRange(1, 4);
  TransformerRun whole(config, chain_of_stages(1, microbatches));
  TransformerRun cut(config, chain_of_stages(*rc::gen::inRange(2, 8), microbatches),
                     *rc::gen::inRange<std::size_t>(0, 20));
  for (int mb = 0; mb < microbatches; ++mb) {
    whole.run(mb);
    run_somehow(cut, mb);
  }
  RC_ASSERT(whole.gradients() == cut.gradients());
  RC_ASSERT(whole.loss<std::uint64_t>() == cut.loss<std::uint64_t>());
}

RC_GTEST_PROP(TransformerProperty, RingGradientsDoNotDependOnOrder, ()) {
  const TransformerConfig config = random_config(Arithmetic::integer_exact);
  const int microbatches = *rc::gen::inRange(2, 6);
  TransformerRun ascending(config, chain_of_stages(1, microbatches));
  TransformerRun shuffled(config, chain_of_stages(*rc::gen::inRange(1, 4), microbatches));
  for (int mb = 0; mb < microbatches; ++mb) ascending.run(mb);
  for (const int mb : random_order(microbatches)) run_somehow(shuffled, mb);
  RC_ASSERT(ascending.gradients() == shuffled.gradients());
}

/// With h = 2^32 every power of h but the first is 0 modulo 2^64, so that a difference quotient is exact.
RC_GTEST_PROP(TransformerProperty, RingGradientIsTheDerivativeInEveryDirection, ()) {
  const TransformerConfig config = random_config(Arithmetic::integer_exact);
  TransformerRun run(config, chain_of_stages(1));
  run.run(0);
  const auto loss = run.loss<std::uint64_t>();
  const std::vector<std::byte> bytes = run.gradients();
  const auto* gradient = reinterpret_cast<const std::uint64_t*>(bytes.data());
  const std::span<std::byte> block = run.tensor(TensorKind::parameters, 0);
  auto* parameter = reinterpret_cast<std::uint64_t*>(block.data());
  std::uint64_t direction = *rc::gen::arbitrary<std::uint64_t>();
  std::uint64_t slope = 0;
  for (std::size_t i = 0; i < block.size() / sizeof(std::uint64_t); ++i) {
    direction = direction * 6364136223846793005U + 1442695040888963407U;
    parameter[i] += (direction >> 33) << 32;
    slope += ((direction >> 33) << 32) * gradient[i];
  }
  run.clear_gradients();
  run.run(0);
  RC_ASSERT(run.loss<std::uint64_t>() - loss == slope);
}

}  // namespace
}  // namespace ppsim
