#include "ppsim/gpu_backend/transformer/transformer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <set>
#include <tuple>

#include "ppsim/core/ir/check.hpp"
#include "support/transformer_run.hpp"

namespace ppsim {
namespace {

using test::AlignedBytes;
using test::chain_of_stages;
using test::tiny_transformer;
using test::TransformerRun;

std::string config_error(const std::function<void(TransformerConfig&)>& change) {
  TransformerConfig config = tiny_transformer(Arithmetic::float32);
  change(config);
  const auto made = make_transformer(config);
  if (made) return "";
  EXPECT_EQ(made.error().code, ErrorCode::bad_argument);
  return made.error().message;
}

TEST(Transformer, NamesEveryFieldOutOfItsDomain) {
  EXPECT_EQ(config_error([](auto&) {}), "");
  EXPECT_EQ(config_error([](auto& c) { c.layers = 0; }),
            "transformer: layers must be in [1, 1048576], found 0");
  EXPECT_EQ(config_error([](auto& c) { c.heads = 3; }),
            "transformer: heads must divide hidden, found 3 heads and hidden 8");
  EXPECT_EQ(config_error([](auto& c) { c.vocab = 1, c.ffn = -2; }),
            "transformer: ffn must be in [1, 1048576], found -2; vocab must be in [2, 1048576], found 1");
  EXPECT_EQ(config_error([](auto& c) {
              c.slice_lengths = {5, 0};
            }),
            "transformer: slice_lengths must be positive");
  EXPECT_EQ(config_error([](auto& c) { c.momentum = 1; }), "transformer: momentum must be in [0, 1)");
  EXPECT_EQ(config_error([](auto& c) { c.learning_rate = std::nan(""); }),
            "transformer: learning_rate must be finite and not negative");
  EXPECT_EQ(config_error([](auto& c) { c.sequence = c.microbatch_size = 1 << 20; }),
            "transformer: parameters and activations of a microbatch must be at most 10^12 numbers");
  for (auto field : {&TransformerConfig::hidden, &TransformerConfig::heads, &TransformerConfig::sequence,
                     &TransformerConfig::microbatch_size}) {
    EXPECT_NE(config_error([&](auto& c) { c.*field = 0; }), "");
    EXPECT_NE(config_error([&](auto& c) { c.*field = (1 << 20) + 8; }), "");
  }
}

TEST(Transformer, NoTwoMicrobatchesOfATrainingAreTheSame) {
  TransformerConfig config = tiny_transformer(Arithmetic::float32);
  config.sequence = 16;
  TransformerRun run(config, chain_of_stages(2, 4));
  std::set<std::vector<std::int32_t>> sequences;
  for (int step = 0; step < 5; ++step) {
    run.begin_step(step);
    for (int m = 0; m < 4; ++m) {
      const auto x = run.tensor(TensorKind::boundary_input, 0, m);
      for (int s = 0; s < config.microbatch_size; ++s) {
        std::vector<std::int32_t> tokens(16);
        std::memcpy(tokens.data(), x.data() + s * 64, 64);
        sequences.insert(tokens);
      }
    }
  }
  EXPECT_EQ(sequences.size(), static_cast<std::size_t>(5 * 4 * config.microbatch_size));
}

std::string check_error(PipelineSpec spec) {
  const auto model = make_transformer(tiny_transformer(Arithmetic::float32)).value();
  const auto result = model->check(Pipeline::make(std::move(spec)).value());
  if (result) return "";
  EXPECT_EQ(result.error().code, ErrorCode::bad_argument);
  const std::string start = "the transformer cannot run this pipeline: ";
  EXPECT_TRUE(result.error().message.starts_with(start));
  return result.error().message.substr(start.size());
}

PipelineSpec spec_of(int stages) {
  PipelineSpec spec;
  spec.ranks = 2;
  spec.stages = stages;
  spec.microbatches = 2;
  return spec;
}

TEST(Transformer, RunsPathsThroughAllStagesOnly) {
  EXPECT_EQ(check_error(spec_of(4)), "");
  PipelineSpec sharded = spec_of(2);
  sharded.collectives = IdVector<CollectiveId, Collective>(1, Collective{.name = "logits"});
  sharded.collectives[CollectiveId(0)].members = {RankId(0), RankId(1)};
  sharded.collectives[CollectiveId(0)].after.stages = {StageId(1)};
  EXPECT_EQ(check_error(sharded), "collective logits computes a part of a microbatch");
  PipelineSpec skip = spec_of(3);
  skip.edges = {{StageId(0), StageId(1)}, {StageId(1), StageId(2)}, {StageId(0), StageId(2)}};
  EXPECT_EQ(check_error(skip), "");
  PipelineSpec fork = spec_of(3);
  fork.edges = {{StageId(0), StageId(1)}, {StageId(0), StageId(2)}};
  EXPECT_EQ(check_error(fork),
            "on route 0 stages 1 and 2 both follow stage 0, expected a path through all stages, with other "
            "edges beside it");
  PipelineSpec apart = spec_of(3);
  apart.edges = {{StageId(0), StageId(1)}};
  EXPECT_EQ(check_error(apart), "route 0 is 2 chains, expected one");
  PipelineSpec idle = spec_of(3);
  idle.routes = {{StageId(0), StageId(1)}};
  EXPECT_EQ(check_error(idle), "stage 2 is visited by no microbatch");
}

TEST(Transformer, SizesOfSlicesFollowFromTheirLengths) {
  TransformerConfig config = tiny_transformer(Arithmetic::float32);
  config.hidden = 64, config.heads = 4, config.ffn = 96, config.sequence = 16, config.microbatch_size = 2;
  config.slice_lengths = {4, 12};
  PipelineSpec spec;
  spec.ranks = spec.stages = 3;
  spec.slices = 2;
  const auto pipeline = Pipeline::make(spec).value();
  const SizeTable sizes = make_transformer(config).value()->sizes(pipeline);
  constexpr Bytes kHidden = 64;
  constexpr Bytes kFfn = 96;
  for (const auto& [slice, tokens, keys] : {std::tuple{0, 4, 4}, {1, 12, 16}}) {
    const Bytes rows = 2 * tokens;
    EXPECT_EQ(sizes({TensorKind::boundary_input, 1, -1, slice}), 4 * rows * kHidden);
    EXPECT_EQ(sizes({TensorKind::incoming_gradient, 0, 1, slice}), 4 * rows * kHidden);
    EXPECT_EQ(sizes({TensorKind::outgoing_gradient, 1, 0, slice}), 4 * rows * kHidden);
    const Bytes saved = 4 * (rows * (3 * kHidden + 4 * keys + 2 * kFfn) + 2 * ((rows + 15) / 16 * 16));
    EXPECT_EQ(sizes({TensorKind::saved_for_input, 1, -1, slice}), saved);
  }
  EXPECT_EQ(sizes({TensorKind::kv_gradient, 1}), 4 * 2 * 4 * 2 * kHidden);
  for (const auto& [key, size] : sizes.entries()) EXPECT_EQ(size % 64, 0) << key;
}

TEST(Transformer, NeedsOneBlockPerStageAndOneRolePerBlockButWhereEndsAreTied) {
  PipelineSpec tied = spec_of(3);
  tied.blocks = {ParameterBlock{{StageId(0)}}, ParameterBlock{{StageId(1)}}, ParameterBlock{{StageId(2)}},
                 ParameterBlock{{StageId(0), StageId(2)}}};
  EXPECT_EQ(check_error(tied), "");
  PipelineSpec inside = tied;
  inside.blocks[BlockId(3)] = {{StageId(0), StageId(1)}};
  EXPECT_EQ(
      check_error(inside),
      "stage 1 has a share of block 3, expected one on all stages with embedding or head and on no other");
  PipelineSpec half = tied;
  half.blocks[BlockId(3)] = {{StageId(0)}};
  EXPECT_EQ(
      check_error(half),
      "stage 2 has no share of block 3, expected one on all stages with embedding or head and on no other");
  PipelineSpec twice = tied;
  twice.blocks.push_back({{StageId(0), StageId(2)}});
  EXPECT_EQ(check_error(twice), "stage 0 has 3 parameter blocks, expected one or two");
  PipelineSpec mixed = spec_of(2);
  mixed.blocks = {ParameterBlock{{StageId(0), StageId(1)}}};
  EXPECT_EQ(check_error(mixed), "stages 0 and 1 share block 0 and are different pieces of the model");
  PipelineSpec crossing = spec_of(3);
  crossing.routes = {{StageId(0), StageId(1)}, {StageId(1), StageId(2)}};
  crossing.route = {RouteId(0), RouteId(1)};
  EXPECT_EQ(check_error(crossing), "stage 1 would be different pieces of the model on different routes");
}

TEST(Transformer, SizesAreMultiplesOf64AndEmptyWhereAStageHasNone) {
  for (const Arithmetic arithmetic : {Arithmetic::float32, Arithmetic::integer_exact}) {
    const TransformerRun run(tiny_transformer(arithmetic), chain_of_stages(3));
    for (const auto& [key, size] : run.sizes().entries()) EXPECT_EQ(size % 64, 0) << key;
    EXPECT_EQ(run.sizes()({TensorKind::boundary_output, 2}), 0);
    EXPECT_EQ(run.sizes()({TensorKind::incoming_gradient, 2}), 0);
    EXPECT_EQ(run.sizes()({TensorKind::outgoing_gradient, 0}), 0);
    EXPECT_EQ(run.sizes()({TensorKind::boundary_output, 0}), run.sizes()({TensorKind::boundary_input, 1}));
    EXPECT_EQ(run.sizes()({TensorKind::lent_activations, 1}),
              run.sizes()({TensorKind::saved_for_input, 1}) + run.sizes()({TensorKind::saved_for_weight, 1}));
  }
}

TEST(Transformer, SavedActivationsOfALayerAreTheTensorsOfItsEquations) {
  const TransformerConfig config = [] {
    TransformerConfig c = tiny_transformer(Arithmetic::float32);
    c.hidden = 64, c.heads = 4, c.ffn = 96, c.sequence = 16, c.microbatch_size = 2;
    return c;
  }();
  const TransformerRun run(config, chain_of_stages(3));
  constexpr Bytes kTokens = 32;
  constexpr Bytes kHidden = 64;
  constexpr Bytes kFfn = 96;
  EXPECT_EQ(run.sizes()({TensorKind::saved_for_input, 1}),
            4 * kTokens * (3 * kHidden + 4 * 16 + 2 * kFfn + 2));
  EXPECT_EQ(run.sizes()({TensorKind::saved_for_weight, 1}), 4 * kTokens * (3 * kHidden + kFfn));
  EXPECT_EQ(run.sizes()({TensorKind::inner_gradients, 1}),
            4 * (kTokens * (4 * kHidden + 2 * kFfn) + 2 * kHidden));
  EXPECT_EQ(run.sizes()({TensorKind::parameters, 1}),
            4 * (4 * kHidden * kHidden + 3 * kHidden * kFfn + 2 * kHidden));
}

TEST(Transformer, BatchesAreTokensAndDependOnSeedAndMicrobatch) {
  const auto batch = [](std::uint64_t seed, int mb) {
    TransformerConfig config = tiny_transformer(Arithmetic::float32);
    config.seed = seed;
    TransformerRun run(config, chain_of_stages(1, 2));
    const auto bytes = run.tensor(TensorKind::boundary_input, 0, mb);
    const auto* first = reinterpret_cast<const std::int32_t*>(bytes.data());
    return std::vector<std::int32_t>(first, first + 10);
  };
  EXPECT_EQ(batch(7, 0), batch(7, 0));
  EXPECT_NE(batch(7, 0), batch(7, 1));
  EXPECT_NE(batch(7, 0), batch(8, 0));
  for (const std::int32_t token : batch(7, 0)) EXPECT_TRUE(token >= 0 && token < 11) << token;
}

/// The gradient of the logits, saved in front of the loss, is negative at the target only.
TEST(Transformer, EveryPositionPredictsTheNextToken) {
  TransformerConfig config = tiny_transformer(Arithmetic::float32);
  config.vocab = 16;
  config.sequence = 8;
  TransformerRun run(config, chain_of_stages(2, 2));
  constexpr std::size_t kTokens = 16;
  constexpr std::size_t kVocab = 16;
  run.forward(1);
  const std::span<std::byte> saved = run.tensor(TensorKind::saved_for_weight, 1, 1);
  const auto* d_logits =
      reinterpret_cast<const float*>(saved.last(64 + kTokens * kVocab * sizeof(float)).data());
  const auto* token =
      reinterpret_cast<const std::int32_t*>(run.tensor(TensorKind::boundary_input, 0, 1).data());
  for (std::size_t row = 0; row < kTokens; ++row) {
    const auto negative = [](float value) { return value < 0; };
    const float* const begin = d_logits + row * kVocab;
    EXPECT_EQ(std::count_if(begin, begin + kVocab, negative), 1) << "row " << row;
    if (row % 8 == 7) continue;  // the last token of a sequence is not part of the batch
    EXPECT_EQ(std::find_if(begin, begin + kVocab, negative) - begin, token[row + 1]) << "row " << row;
  }
}

TEST(Transformer, LossOfAnUntrainedModelIsAboutThatOfAGuess) {
  TransformerConfig config = tiny_transformer(Arithmetic::float32);
  TransformerRun run(config, chain_of_stages(2, 3));
  for (int mb = 0; mb < 3; ++mb) run.run(mb);
  EXPECT_NEAR(run.model().loss(run.tensor(TensorKind::gradients, 1)), 3 * std::log(11), 2);
  EXPECT_EQ(run.model().loss(run.tensor(TensorKind::gradients, 0)), 0);
}

TEST(Transformer, LearnsItsBatches) {
  TransformerConfig config = tiny_transformer(Arithmetic::float32);
  TransformerRun run(config, chain_of_stages(2, 4));
  std::vector<double> losses;
  for (int step = 0; step < 20; ++step) {
    run.clear_gradients();
    for (int mb = 0; mb < 4; ++mb) run.run(mb);
    losses.push_back(run.model().loss(run.tensor(TensorKind::gradients, 1)));
    run.update(0.25);
  }
  EXPECT_LT(losses[5], 0.9 * losses[0]);
  EXPECT_LT(losses.back(), 0.6 * losses[0]);
}

/// The numbers of `values` in a buffer of gradients: 64 bytes for the loss follow them.
template <class T>
AlignedBytes gradients_of(const std::vector<T>& values) {
  AlignedBytes bytes(static_cast<Bytes>(values.size() * sizeof(T)) + 64);
  std::fill(bytes.span().begin(), bytes.span().end(), std::byte{0});
  std::memcpy(bytes.span().data(), values.data(), values.size() * sizeof(T));
  return bytes;
}

TEST(Transformer, UpdateIsDescentWithMomentum) {
  TransformerConfig config = tiny_transformer(Arithmetic::float64);
  config.learning_rate = 0.25;
  config.momentum = 0.5;
  const auto model = make_transformer(config).value();
  std::vector<double> parameters = {1, 2};
  std::vector<double> velocity = {8, 0};
  const AlignedBytes gradients = gradients_of<double>({16, -2});
  model->update(std::as_writable_bytes(std::span(parameters)), gradients.span(),
                std::as_writable_bytes(std::span(velocity)), 0.5);
  EXPECT_EQ(velocity, (std::vector<double>{12, -1}));
  EXPECT_EQ(parameters, (std::vector<double>{-2, 2.25}));
}

TEST(Transformer, UpdateInTheRingIsExact) {
  const auto model = make_transformer(tiny_transformer(Arithmetic::integer_exact)).value();
  std::vector<std::uint64_t> parameters = {5};
  std::vector<std::uint64_t> velocity = {std::uint64_t{1} << 63};
  const AlignedBytes gradients = gradients_of<std::uint64_t>({7});
  model->update(std::as_writable_bytes(std::span(parameters)), gradients.span(),
                std::as_writable_bytes(std::span(velocity)), 1);
  EXPECT_EQ(velocity[0], (std::uint64_t{1} << 63) + 7);
  EXPECT_EQ(parameters[0], (std::uint64_t{1} << 63) - 2);
}

TEST(Transformer, SquaredNormIsThatOfTheGradients) {
  const auto real = make_transformer(tiny_transformer(Arithmetic::float32)).value();
  EXPECT_EQ(real->squared_norm(gradients_of<float>({3, -4}).span()), 25);
  const auto ring = make_transformer(tiny_transformer(Arithmetic::integer_exact)).value();
  EXPECT_EQ(ring->squared_norm(gradients_of<std::uint64_t>({3, 4}).span()), 0);
}

TEST(Transformer, DifferenceIsZeroForEqualBitsOnly) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const auto model = make_transformer(tiny_transformer(Arithmetic::float32)).value();
  const auto difference = [&](float a, float b) {
    return model->max_abs_difference(gradients_of<float>({1, a}).span(), gradients_of<float>({1, b}).span());
  };
  EXPECT_EQ(difference(2, 2), 0);
  EXPECT_EQ(difference(2, -1), 3);
  EXPECT_GT(difference(0.0F, -0.0F), 0);
  EXPECT_EQ(difference(kNan, kNan), 0);
  EXPECT_EQ(difference(kNan, 1), std::numeric_limits<double>::infinity());
  const auto ring = make_transformer(tiny_transformer(Arithmetic::integer_exact)).value();
  EXPECT_EQ(ring->max_abs_difference(gradients_of<std::uint64_t>({2}).span(),
                                     gradients_of<std::uint64_t>({std::uint64_t(-1)}).span()),
            3);
}

TEST(Transformer, RefusesBuffersThatAreTooSmall) {
  TransformerRun run(tiny_transformer(Arithmetic::float32), chain_of_stages(1));
  ActionBuffers buffers;
  buffers.parameters = run.tensor(TensorKind::parameters, 0).first(64);
  EXPECT_THROW(run.model().compute(run.pipeline(), make_action(OpKind::forward, 0, 0), buffers),
               CheckFailure);
}

}  // namespace
}  // namespace ppsim
