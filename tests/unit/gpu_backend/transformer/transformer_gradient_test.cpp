#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "support/transformer_run.hpp"

namespace ppsim {
namespace {

using test::chain_of_stages;
using test::tiny_transformer;
using test::TransformerRun;

template <class T>
std::span<T> elements(std::span<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

/// The loss of microbatch 0 with `step` added to one parameter.
template <class T, class Loss>
Loss loss_beside(TransformerRun& run, T& parameter, T step) {
  const T before = parameter;
  parameter += step;
  run.clear_gradients();
  run.run(0);
  parameter = before;
  return run.loss<Loss>();
}

TEST(TransformerGradient, IsTheCentralDifferenceOfTheLossInFloat64) {
  TransformerRun run(tiny_transformer(Arithmetic::float64), chain_of_stages(1));
  run.run(0);
  const std::vector<std::byte> bytes = run.gradients();
  const auto* gradient = reinterpret_cast<const double*>(bytes.data());
  const auto parameters = elements<double>(run.tensor(TensorKind::parameters, 0));
  constexpr double kStep = 1e-5;
  double largest = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto above = loss_beside<double, double>(run, parameters[i], kStep);
    const auto below = loss_beside<double, double>(run, parameters[i], -kStep);
    EXPECT_NEAR(gradient[i], (above - below) / (2 * kStep), 1e-8) << "parameter " << i;
    largest = std::max(largest, std::abs(gradient[i]));
  }
  EXPECT_GT(largest, 1e-2);
}

TEST(TransformerGradient, Float32FollowsFloat64) {
  TransformerRun wide(tiny_transformer(Arithmetic::float64), chain_of_stages(1));
  TransformerRun narrow(tiny_transformer(Arithmetic::float32), chain_of_stages(1));
  wide.run(0);
  narrow.run(0);
  EXPECT_NEAR(narrow.loss<double>(), wide.loss<double>(), 1e-5);
  const auto expected = elements<double>(wide.tensor(TensorKind::gradients, 0));
  const auto found = elements<float>(narrow.tensor(TensorKind::gradients, 0));
  double norm = 0;
  for (std::size_t i = 0; i < narrow.gradients().size() / sizeof(float); ++i) {
    EXPECT_NEAR(found[i], expected[i], 1e-5) << "parameter " << i;
    norm += std::abs(expected[i]);
  }
  EXPECT_GT(norm, 0.1);
  EXPECT_NEAR(narrow.model().squared_norm(narrow.tensor(TensorKind::gradients, 0)),
              wide.model().squared_norm(wide.tensor(TensorKind::gradients, 0)), 1e-4);
}

/// For a polynomial f with integer coefficients f(p + h) = f(p) + h f'(p) modulo h^2, and h^2 = 2^64 is 0
/// here.
TEST(TransformerGradient, IsTheExactDerivativeInTheRing) {
  TransformerRun run(tiny_transformer(Arithmetic::integer_exact), chain_of_stages(1));
  run.run(0);
  const auto at = run.loss<std::uint64_t>();
  const std::vector<std::byte> bytes = run.gradients();
  const auto* gradient = reinterpret_cast<const std::uint64_t*>(bytes.data());
  const auto parameters = elements<std::uint64_t>(run.tensor(TensorKind::parameters, 0));
  constexpr std::uint64_t kStep = std::uint64_t{1} << 32;
  std::size_t odd = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto beside = loss_beside<std::uint64_t, std::uint64_t>(run, parameters[i], kStep);
    EXPECT_EQ(beside - at, kStep * gradient[i]) << "parameter " << i;
    odd += gradient[i] % 2;
  }
  EXPECT_GT(odd, parameters.size() / 20) << "gradients must keep their low bits to tell anything";
}

/// Stages that read one tensor together: an output, or the weights of tokens.
struct Shared {
  std::string name;
  int stages = 1;
  bool tied = false;
  std::vector<StageEdge> edges = {};  ///< beside the chain
};
Pipeline pipeline_of(const Shared& shared) {
  PipelineSpec spec = chain_of_stages(shared.stages).spec();
  for (const StageEdge& edge : shared.edges) spec.edges.push_back(edge);
  ParameterBlock ends{{StageId(0)}};
  if (shared.stages > 1) ends.stages.emplace_back(shared.stages - 1);
  if (shared.tied) spec.blocks.push_back(std::move(ends));
  return Pipeline::make(std::move(spec)).value();
}
StageEdge edge(int from, int to) { return {StageId(from), StageId(to)}; }

class SharedTensors : public testing::TestWithParam<Shared> {};
INSTANTIATE_TEST_SUITE_P(Transformer, SharedTensors,
                         testing::Values(Shared{"tied_in_one_stage", 1, true}, Shared{"tied", 3, true},
                                         Shared{"skip", 4, false, {edge(0, 3)}},
                                         Shared{"tied_skips", 6, true, {edge(0, 5), edge(1, 4)}},
                                         Shared{"encoder_decoder", 5, false, {edge(1, 3), edge(1, 4)}}),
                         [](const auto& one) { return one.param.name; });

TEST_P(SharedTensors, HaveTheExactDerivativeInTheRing) {
  TransformerRun run(tiny_transformer(Arithmetic::integer_exact), pipeline_of(GetParam()));
  run.run(0);
  const auto at = run.loss<std::uint64_t>();
  constexpr std::uint64_t kStep = std::uint64_t{1} << 32;
  std::size_t odd = 0;
  for (int b = 0; b < run.pipeline().blocks(); ++b) {
    const auto memory = elements<std::uint64_t>(run.tensor(TensorKind::gradients, b));
    const std::vector<std::uint64_t> gradient(memory.begin(), memory.end());
    const auto parameters = elements<std::uint64_t>(run.tensor(TensorKind::parameters, b));
    for (std::size_t i = 0; i < parameters.size(); i += 5) {
      const auto beside = loss_beside<std::uint64_t, std::uint64_t>(run, parameters[i], kStep);
      ASSERT_EQ(beside - at, kStep * gradient[i]) << "parameter " << i << " of block " << b;
      odd += gradient[i] % 2;
    }
    run.clear_gradients();
    run.run(0);
  }
  EXPECT_GT(odd, 10U);
}

/// However the model is cut, tied weights have one gradient, and so does the rest.
TEST(TransformerGradient, OfTiedWeightsDoesNotDependOnTheNumberOfStages) {
  TransformerRun whole(tiny_transformer(Arithmetic::integer_exact), pipeline_of({"", 1, true}));
  whole.run(0);
  const auto expected = elements<std::uint64_t>(whole.tensor(TensorKind::gradients, 1));
  for (const int stages : {2, 3, 5}) {
    TransformerRun cut(tiny_transformer(Arithmetic::integer_exact), pipeline_of({"", stages, true}));
    cut.run(0);
    const auto found = elements<std::uint64_t>(cut.tensor(TensorKind::gradients, stages));
    EXPECT_TRUE(std::equal(found.begin(), found.end(), expected.begin(), expected.end()));
    EXPECT_EQ(cut.loss<std::uint64_t>(), whole.loss<std::uint64_t>());
  }
}

class EveryArithmetic : public testing::TestWithParam<Arithmetic> {};
INSTANTIATE_TEST_SUITE_P(Transformer, EveryArithmetic,
                         testing::Values(Arithmetic::float32, Arithmetic::float64,
                                         Arithmetic::integer_exact));

TEST_P(EveryArithmetic, BackwardIsInputGradientThenWeightGradient) {
  for (const int stages : {1, 2, 5}) {
    TransformerRun whole(tiny_transformer(GetParam()), chain_of_stages(stages, 2));
    TransformerRun split(tiny_transformer(GetParam()), chain_of_stages(stages, 2));
    for (const int mb : {0, 1}) {
      whole.forward(mb);
      whole.backward(mb);
      split.forward(mb);
      split.backward(mb, true);
    }
    EXPECT_EQ(whole.gradients(), split.gradients()) << stages << " stages";
    EXPECT_EQ(whole.loss<std::uint64_t>(), split.loss<std::uint64_t>());
  }
}

TEST_P(EveryArithmetic, WeightGradientsMayComeLate) {
  TransformerRun whole(tiny_transformer(GetParam()), chain_of_stages(2, 2));
  TransformerRun late(tiny_transformer(GetParam()), chain_of_stages(2, 2));
  for (const int mb : {0, 1}) {
    whole.run(mb);
    late.forward(mb);
  }
  for (const int mb : {0, 1}) {
    for (const int stage : {1, 0}) late.compute(OpKind::backward_input, stage, mb);
  }
  for (const int mb : {0, 1}) {
    for (const int stage : {0, 1}) late.compute(OpKind::backward_weight, stage, mb);
  }
  EXPECT_EQ(whole.gradients(), late.gradients());
}

TEST_P(EveryArithmetic, RecomputeSavesWhatForwardSaves) {
  for (const int stages : {1, 2, 5}) {
    TransformerRun kept(tiny_transformer(GetParam()), chain_of_stages(stages));
    TransformerRun again(tiny_transformer(GetParam()), chain_of_stages(stages));
    kept.forward(0);
    for (int s = 0; s < stages; ++s) again.forward_without_saving(s, 0);
    for (int s = 0; s < stages; ++s) {
      again.compute(OpKind::recompute, s, 0);
      for (const TensorKind kind :
           {TensorKind::boundary_output, TensorKind::saved_for_input, TensorKind::saved_for_weight}) {
        const std::span<std::byte> expected = kept.tensor(kind, s, 0);
        const std::span<std::byte> found = again.tensor(kind, s, 0);
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(), found.begin(), found.end()))
            << info(kind).name << " of stage " << s << " of " << stages;
      }
    }
    kept.backward(0);
    again.backward(0);
    EXPECT_EQ(kept.gradients(), again.gradients());
  }
}

TEST_P(EveryArithmetic, GradientsDoNotDependOnTheNumberOfStages) {
  TransformerRun whole(tiny_transformer(GetParam()), chain_of_stages(1, 2));
  whole.run(0);
  whole.run(1);
  for (const int stages : {2, 3, 4, 7}) {
    TransformerRun cut(tiny_transformer(GetParam()), chain_of_stages(stages, 2));
    cut.run(0);
    cut.run(1);
    EXPECT_EQ(whole.gradients(), cut.gradients()) << stages << " stages";
    EXPECT_EQ(whole.loss<std::uint64_t>(), cut.loss<std::uint64_t>()) << stages << " stages";
  }
}

TEST_P(EveryArithmetic, GradientsDoNotDependOnAddresses) {
  TransformerRun here(tiny_transformer(GetParam()), chain_of_stages(2));
  here.run(0);
  for (const std::size_t shift : {1, 2, 3, 13}) {
    TransformerRun there(tiny_transformer(GetParam()), chain_of_stages(2), shift);
    there.run(0);
    EXPECT_EQ(here.gradients(), there.gradients()) << "shifted by " << shift;
  }
}

TEST_P(EveryArithmetic, EveryMicrobatchMatters) {
  TransformerRun all(tiny_transformer(GetParam()), chain_of_stages(2, 3));
  TransformerRun without(tiny_transformer(GetParam()), chain_of_stages(2, 3));
  for (const int mb : {0, 1, 2}) all.run(mb);
  for (const int mb : {0, 2}) without.run(mb);
  for (const int block : {0, 1}) {
    EXPECT_GT(all.model().max_abs_difference(all.tensor(TensorKind::gradients, block),
                                             without.tensor(TensorKind::gradients, block)),
              0);
  }
}

TEST(TransformerGradient, DoesNotDependOnTheOrderOfMicrobatchesInTheRing) {
  const auto config = tiny_transformer(Arithmetic::integer_exact);
  TransformerRun ascending(config, chain_of_stages(3, 4));
  TransformerRun shuffled(config, chain_of_stages(3, 4));
  for (const int mb : {0, 1, 2, 3}) ascending.run(mb);
  for (const int mb : {2, 0, 3, 1}) shuffled.run(mb);
  EXPECT_EQ(ascending.gradients(), shuffled.gradients());
  EXPECT_EQ(ascending.loss<std::uint64_t>(), shuffled.loss<std::uint64_t>());
}

/// Two chains in opposite directions over two ranks, each stage's block shared with its twin of the other
/// chain.
Pipeline bidirectional(int microbatches) {
  PipelineSpec spec;
  spec.ranks = 2;
  spec.stages = 4;
  spec.microbatches = microbatches;
  spec.placement = {RankId(0), RankId(1), RankId(1), RankId(0)};
  spec.routes = {{StageId(0), StageId(1)}, {StageId(2), StageId(3)}};
  for (int m = 0; m < microbatches; ++m) spec.route.push_back(RouteId(m < microbatches / 2 ? 0 : 1));
  spec.blocks = {ParameterBlock{{StageId(0), StageId(2)}}, ParameterBlock{{StageId(1), StageId(3)}}};
  return Pipeline::make(std::move(spec)).value();
}

TEST_P(EveryArithmetic, StagesOfTwoRoutesShareTheirBlocks) {
  TransformerRun both(tiny_transformer(GetParam()), bidirectional(4));
  TransformerRun single(tiny_transformer(GetParam()), chain_of_stages(2, 4));
  for (const int mb : {0, 1, 2, 3}) {
    both.run(mb);
    single.run(mb);
  }
  EXPECT_EQ(both.gradients(), single.gradients());
}

TEST_P(EveryArithmetic, ReducedGradientsAreTheSumOverReplicas) {
  TransformerRun together(tiny_transformer(GetParam()), chain_of_stages(1, 2));
  TransformerRun first(tiny_transformer(GetParam()), chain_of_stages(1, 2));
  TransformerRun second(tiny_transformer(GetParam()), chain_of_stages(1, 2));
  together.run(0);
  together.run(1);
  first.run(0);
  second.run(1);
  first.model().accumulate(first.tensor(TensorKind::gradients, 0), second.tensor(TensorKind::gradients, 0));
  const double apart = first.model().max_abs_difference(first.tensor(TensorKind::gradients, 0),
                                                        together.tensor(TensorKind::gradients, 0));
  EXPECT_LE(apart, GetParam() == Arithmetic::integer_exact ? 0 : 1e-5);
  if (GetParam() != Arithmetic::integer_exact) {
    EXPECT_DOUBLE_EQ(first.loss<double>(), together.loss<double>());
  }
}

}  // namespace
}  // namespace ppsim
