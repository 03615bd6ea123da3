// Kernels of parts of a vocabulary, run on the processor, against plain formulas and against the
// immediate_kernels of the whole.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "ppsim/gpu_backend/stage_model/gpu_stage_model.hpp"
#include "ppsim/gpu_backend/stage_model/reference.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/gradient_distance.hpp"
#include "support/host_gpu_model.hpp"
#include "support/host_kernels.hpp"
#include "support/vocabulary_cases.hpp"
#include "transformer/model/transformer_vocabulary.hpp"

namespace ppsim {

using namespace gpu_backend;
namespace {

using cuda::Bf16;
using cuda::KernelTable;
using cuda::LossParts;
using cuda::Ring;
using cuda::Stored;

constexpr std::int64_t kPositions = 3, kVocab = 7, kHidden = 4;
/// Where each part begins, and the end.
constexpr std::array<std::int64_t, 4> kBounds = {0, 2, 3, 7};
constexpr std::size_t kParts = kBounds.size() - 1;
constexpr std::array<std::int32_t, kPositions> kTargets = {2, 0, 6};
constexpr std::uint64_t kSeed = 5;

const KernelTable& immediate_kernels() {
  static const KernelTable table = test::host_kernels(test::immediately());
  return table;
}
std::int64_t width(std::size_t part) { return kBounds[part + 1] - kBounds[part]; }

/// Numbers of no pattern; a large one makes all others of its row vanish.
template <class T>
std::vector<T> logits() {
  std::vector<T> all;
  for (std::int64_t i = 0; i < kPositions * kVocab; ++i)
    all.push_back(static_cast<T>(i * i % 11 + (i == 4 ? 200 : 0)));
  return all;
}
template <class T>
std::vector<T> columns(const std::vector<T>& whole, std::int64_t cols, std::size_t part) {
  std::vector<T> own;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const std::int64_t c = static_cast<std::int64_t>(i) % cols;
    if (c >= kBounds[part] && c < kBounds[part + 1]) own.push_back(whole[i]);
  }
  return own;
}

template <class T>
struct Part {
  std::vector<T> logits;
  std::vector<LossParts<T>> own = std::vector<LossParts<T>>(kPositions), all = own;
};
template <class T>
std::array<Part<T>, kParts> opened(Stored stored) {
  std::array<Part<T>, kParts> parts;
  for (std::size_t p = 0; p < kParts; ++p) {
    parts[p].logits = columns(logits<T>(), kVocab, p);
    immediate_kernels().open_loss(nullptr, stored,
                                  {kPositions, kBounds[p], width(p), kSeed, kTargets.data(),
                                   parts[p].logits.data(), parts[p].own.data(), parts[p].all.data()});
  }
  return parts;
}
/// Gives every part what all have.
template <class T>
void merge(Stored stored, std::array<Part<T>, kParts>& parts) {
  std::vector<LossParts<T>> in_one;
  for (const Part<T>& part : parts) in_one.insert(in_one.end(), part.all.begin(), part.all.end());
  const auto stride = static_cast<std::int64_t>(kPositions * sizeof(LossParts<T>));
  immediate_kernels().merge_loss(
      nullptr, stored, {kParts, stride, kPositions, kHidden, kPositions, in_one.data(), nullptr, nullptr});
  for (std::size_t p = 0; p < kParts; ++p)
    std::copy_n(in_one.begin() + static_cast<std::ptrdiff_t>(p) * kPositions, kPositions,
                parts[p].all.begin());
}
/// The gradients of the logits of all parts beside each other; the first takes the loss.
template <class T>
std::vector<T> closed(Stored stored, std::array<Part<T>, kParts>& parts, T& loss) {
  std::vector<T> gradients(kPositions * kVocab);
  std::vector<T> row_losses(kPositions);
  for (std::size_t p = 0; p < kParts; ++p) {
    T* const own_logits = parts[p].logits.data();
    immediate_kernels().close_loss(
        nullptr, stored,
        {kPositions, kPositions, kBounds[p], width(p), kTargets.data(), parts[p].own.data(),
         parts[p].all.data(), own_logits, p == 0 ? row_losses.data() : nullptr, &loss});
    for (std::int64_t i = 0; i < kPositions * width(p); ++i)
      gradients[static_cast<std::size_t>(i / width(p) * kVocab + kBounds[p] + i % width(p))] = own_logits[i];
  }
  return gradients;
}
template <class T>
std::vector<T> of_whole(Stored stored, T& loss) {
  std::vector<T> gradients = logits<T>();
  std::vector<T> row_losses(kPositions);
  immediate_kernels().loss(
      nullptr, stored,
      {kPositions, kPositions, kVocab, kSeed, kTargets.data(), gradients.data(), row_losses.data(), &loss});
  return gradients;
}

TEST(VocabularyKernels, TakeTheirPartOfALoss) {
  const auto parts = opened<float>(Stored::float32);
  const std::vector<float> whole = logits<float>();
  for (std::size_t p = 0; p < kParts; ++p) {
    const std::vector<float> own = columns(whole, kVocab, p);
    for (std::int64_t r = 0; r < kPositions; ++r) {
      const auto begin = own.begin() + r * width(p);
      const float top = *std::max_element(begin, begin + width(p));
      double sum = 0;
      for (std::int64_t c = 0; c < width(p); ++c) {
        const double exponential = std::exp(static_cast<double>(begin[c]) - top);
        sum += exponential;
        EXPECT_NEAR(parts[p].logits[static_cast<std::size_t>(r * width(p) + c)], exponential, 1e-6);
      }
      const auto row = static_cast<std::size_t>(r);
      EXPECT_EQ(parts[p].own[row].top, top);
      EXPECT_NEAR(parts[p].own[row].sum, sum, 1e-6 * sum);
      const std::int64_t target = kTargets[row] - kBounds[p];
      EXPECT_EQ(parts[p].own[row].picked, target >= 0 && target < width(p) ? begin[target] : 0);
      EXPECT_EQ(parts[p].all[row].sum, parts[p].own[row].sum);
    }
  }
}

TEST(VocabularyKernels, HaveTheGradientsAndTheLossOfTheWhole) {
  auto parts = opened<float>(Stored::float32);
  merge(Stored::float32, parts);
  float loss = 0;
  float loss_of_whole = 0;
  const std::vector<float> found = closed(Stored::float32, parts, loss);
  const std::vector<float> expected = of_whole(Stored::float32, loss_of_whole);
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-6) << i;
  EXPECT_NEAR(loss, loss_of_whole, 1e-6 * loss_of_whole);
}

TEST(VocabularyKernels, HaveThemBitByBitInTheRing) {
  auto parts = opened<Ring>(Stored::ring);
  merge(Stored::ring, parts);
  Ring loss = 0;
  Ring loss_of_whole = 0;
  EXPECT_EQ(closed(Stored::ring, parts, loss), of_whole(Stored::ring, loss_of_whole));
  EXPECT_EQ(loss, loss_of_whole);
  EXPECT_NE(loss, 0U);
}

/// Scaled with the factors of its own part, less that of the targets: logits' gradient times weights.
TEST(VocabularyKernels, MakeTheGradientOfTheHeadsInputBeforeTheLossIsKnown) {
  constexpr std::int64_t kNumbers = kPositions * kHidden;
  constexpr std::int64_t kStatistics = 3 * kPositions;
  constexpr std::int64_t kStride = kStatistics + 2 * kNumbers;
  std::vector<float> weights(kHidden * kVocab);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i % 5) - 1.5F;
  auto parts = opened<float>(Stored::float32);
  std::vector<float> in_one(kParts * kStride);
  for (std::size_t p = 0; p < kParts; ++p) {
    float* const own = in_one.data() + p * kStride;
    std::memcpy(own, parts[p].own.data(), kStatistics * sizeof(float));
    const std::vector<float> of_part = columns(weights, kVocab, p);
    for (std::int64_t i = 0; i < kNumbers; ++i) {
      for (std::int64_t c = 0; c < width(p); ++c)
        own[kStatistics + i] += parts[p].logits[static_cast<std::size_t>(i / kHidden * width(p) + c)] *
                                of_part[static_cast<std::size_t>(i % kHidden * width(p) + c)];
    }
    immediate_kernels().target_weights(nullptr, Stored::float32,
                                       {kPositions, kHidden, kPositions, kBounds[p], width(p),
                                        kTargets.data(), of_part.data(), own + kStatistics + kNumbers});
  }
  float* const scaled = in_one.data() + kStatistics;
  immediate_kernels().merge_loss(nullptr, Stored::float32,
                                 {kParts, kStride * std::int64_t{sizeof(float)}, kPositions, kHidden,
                                  kPositions, in_one.data(), scaled, scaled + kNumbers});
  float loss = 0;
  const std::vector<float> d_logits = of_whole(Stored::float32, loss);
  for (std::int64_t i = 0; i < kNumbers; ++i) {
    double expected = 0;
    for (std::int64_t c = 0; c < kVocab; ++c)
      expected += static_cast<double>(d_logits[static_cast<std::size_t>(i / kHidden * kVocab + c)]) *
                  weights[static_cast<std::size_t>(i % kHidden * kVocab + c)];
    EXPECT_NEAR(scaled[i], expected, 1e-6) << i;
  }
}

TEST(VocabularyKernels, RoundASumOfPartsOnce) {
  const auto stored = [](float value) { return cuda::to_bf16(value); };
  // In pairs the small ones would be lost one after the other.
  std::vector<Bf16> parts = {stored(1), stored(2), stored(0x1p-8F), stored(3), stored(0x1p-8F), stored(4)};
  immediate_kernels().sum_parts(nullptr, Stored::bf16, {3, 2 * sizeof(Bf16), 2, parts.data()});
  EXPECT_EQ(cuda::to_float(parts[0]), 1 + 0x1p-7F);
  EXPECT_EQ(cuda::to_float(parts[1]), 9.0F);
  EXPECT_EQ(cuda::to_float(parts[3]), 3.0F) << "what is not the first part stays";
}

TEST(VocabularyKernels, LookUpTheTokensOfTheirPart) {
  constexpr std::int64_t kLength = 2;
  const std::array<std::int32_t, 4> tokens = {6, 2, 0, 2};
  std::vector<Ring> table(kVocab * kHidden);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = i + 1;
  const std::vector<Ring> positions = {100, 200, 300, 400, 500, 600, 700, 800};
  std::vector<Ring> sum(tokens.size() * kHidden);
  std::vector<Ring> gradient(table.size());
  std::vector<Ring> of_positions(positions.size());
  std::vector<std::int32_t> order(static_cast<std::size_t>(cuda::token_workspace(4)));
  for (std::size_t p = 0; p < kParts; ++p) {
    std::vector<Ring> own(sum.size(), 77);
    const cuda::Embed call{4,
                           kLength,
                           kHidden,
                           kBounds[p],
                           width(p),
                           tokens.data(),
                           table.data() + kBounds[p] * kHidden,
                           p == 0 ? positions.data() : nullptr,
                           own.data()};
    immediate_kernels().embed(nullptr, Stored::ring, call);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += own[i];
    immediate_kernels().embed_backward(
        nullptr, Stored::ring,
        {4, kLength, kHidden, kBounds[p], width(p), tokens.data(), sum.data(), order.data(),
         gradient.data() + kBounds[p] * kHidden, p == 0 ? of_positions.data() : nullptr});
    if (p + 1 < kParts) std::fill(gradient.begin(), gradient.end(), 0);
    if (p == 0) std::fill(of_positions.begin(), of_positions.end(), 0);
  }
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const std::size_t row = i / kHidden;
    const std::size_t c = i % kHidden;
    EXPECT_EQ(sum[i], static_cast<std::size_t>(tokens[row]) * kHidden + c + 1 +
                          positions[row % kLength * kHidden + c]);
  }
  for (std::size_t c = 0; c < kHidden; ++c) {
    EXPECT_EQ(gradient[6 * kHidden + c], sum[c]);
    EXPECT_EQ(gradient[2 * kHidden + c], 0U) << "of another part";
    EXPECT_EQ(of_positions[c], 0U) << "of the first part alone";
  }
}

TEST(VocabularyKernels, DrawColumnsOfAMatrix) {
  std::vector<Ring> whole(kHidden * kVocab);
  const cuda::DrawWeights all{3, 1, 10, kHidden, kVocab, kVocab, 2, whole.data()};
  immediate_kernels().draw_weights(nullptr, Stored::ring, all);
  for (std::size_t p = 0; p < kParts; ++p) {
    std::vector<Ring> own(static_cast<std::size_t>(kHidden * width(p)));
    cuda::DrawWeights call = all;
    call.first += static_cast<std::uint64_t>(kBounds[p]);
    call.columns = width(p);
    call.weights = own.data();
    immediate_kernels().draw_weights(nullptr, Stored::ring, call);
    EXPECT_EQ(own, columns(whole, kVocab, p));
  }
}

/// The gradients of all blocks, microbatch after microbatch, without a pipeline.
std::vector<float> reference(const CpuStageModel& model, const Pipeline& pipeline) {
  const std::vector<BlockGradients> gradients = reference_gradients(pipeline, model).value();
  std::vector<float> all;
  for (const BlockGradients& block : gradients) {
    const std::vector<float> own = test::floats(block.values);
    all.insert(all.end(), own.begin(), own.end() - 16);
  }
  return all;
}

TEST(GpuTransformerVocabulary, FollowsTheCpuInEveryCut) {
  for (const test::VocabularyCase& one : test::vocabulary_cases()) {
    if (one.microbatches != 2) continue;
    SCOPED_TRACE(one);
    const Schedule schedule = test::schedule_of(one);
    const Pipeline& pipeline = schedule.pipeline();
    const auto exact = test::vocabulary_transformer(Arithmetic::integer_exact);
    EXPECT_EQ(reference_gradients(pipeline, *test::host_gpu_model(exact)).value(),
              reference_gradients(pipeline, *make_transformer(exact).value()).value());
    const auto wide = test::vocabulary_transformer(Arithmetic::float32);
    const std::vector<float> expected = reference(*make_transformer(wide).value(), pipeline);
    EXPECT_LT(test::distance(expected, reference(*test::host_gpu_model(wide), pipeline)), 1e-5);
    const auto narrow = test::vocabulary_transformer(Arithmetic::bf16);
    const double apart = test::distance(expected, reference(*test::host_gpu_model(narrow), pipeline));
    EXPECT_LT(apart, 0.1);
    EXPECT_GT(apart, 1e-5) << "bf16 has 8 bits";
  }
}

/// Statistics in float32 whatever is stored, and one loss.
TEST(GpuTransformerVocabulary, SharesStatisticsOfSums) {
  const Schedule schedule = test::schedule_of({"vocab-1", "first", 2, 2});
  const Pipeline& pipeline = schedule.pipeline();
  const auto model = test::host_gpu_model(test::vocabulary_transformer(Arithmetic::bf16));
  const Bytes rows = Bytes{2} * 4;
  EXPECT_EQ(model->statistics_bytes(pipeline, CollectiveId(0)), 12 * rows);
  EXPECT_EQ(model->statistics_bytes(pipeline, CollectiveId(1)), 0);
  const GpuStageModel& gpu = *model->on_gpu();
  EXPECT_EQ(gpu.loss_bytes(pipeline, BlockId(1)), 0);
  EXPECT_EQ(gpu.loss_bytes(pipeline, BlockId(2)), 64);
  EXPECT_EQ(gpu.loss_bytes(pipeline, BlockId(3)), 0);
}

}  // namespace
}  // namespace ppsim
