// The device's kernels, run by the CUDA of fibers, against plain loops in double precision or in the ring:
// rows longer than a block has threads, and more of them than one block takes.

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <vector>

#include "support/host_kernels.hpp"
#include "transformer/kernels/numbers.hpp"

namespace ppsim {

using namespace gpu_backend;
namespace {

using cuda::KernelTable;
using cuda::Ring;
using cuda::Stored;

constexpr std::int64_t kRows = 37, kColumns = 613;
constexpr auto kCount = static_cast<std::size_t>(kRows * kColumns);

const KernelTable& kernels() {
  static const KernelTable table = test::host_kernels(test::immediately());
  return table;
}

template <class T>
struct Of;
template <>
struct Of<float> {
  static constexpr Stored kStored = Stored::float32;
  using Exact = double;
  static void expect(float found, double exact, std::size_t at) {
    ASSERT_NEAR(found, exact, 2e-5 * (1 + std::fabs(exact))) << at;
  }
};
template <>
struct Of<Ring> {
  static constexpr Stored kStored = Stored::ring;
  using Exact = Ring;
  static void expect(Ring found, Ring exact, std::size_t at) { ASSERT_EQ(found, exact) << at; }
};

template <class T>
class WideKernels : public ::testing::Test {
 protected:
  /// Numbers of no pattern, in [-2, 2) or any.
  static std::vector<T> drawn(std::size_t count, std::uint64_t stream) {
    std::vector<T> all;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t bits = cuda::random_at(1, stream, i);
      all.push_back(std::is_same_v<T, Ring>
                        ? static_cast<T>(bits)
                        : static_cast<T>(static_cast<double>(bits >> 40) / (1 << 22) - 2));
    }
    return all;
  }
  static void expect_near(const std::vector<T>& found, const std::vector<typename Of<T>::Exact>& exact) {
    ASSERT_EQ(found.size(), exact.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_NO_FATAL_FAILURE(Of<T>::expect(found[i], exact[i], i));
  }
  static constexpr bool kExact = std::is_same_v<T, Ring>;
};
using Types = ::testing::Types<float, Ring>;
class NameOfType {
 public:
  template <class T>
  static std::string GetName(int) {
    return std::is_same_v<T, Ring> ? "ring" : "float32";
  }
};
TYPED_TEST_SUITE(WideKernels, Types, NameOfType);

std::size_t at(std::int64_t row, std::int64_t column) {
  return static_cast<std::size_t>(row * kColumns + column);
}

/// 1 / rms of a row (Zhang and Sennrich, "Root mean square layer normalization", equation 4).
template <class T, class Exact = typename Of<T>::Exact>
Exact scale_of(std::span<const T> row) {
  if constexpr (std::is_same_v<T, Ring>) {
    return 1;
  } else {
    double squares = 0;
    for (const T x : row) squares += static_cast<double>(x) * x;
    return 1 / std::sqrt(squares / static_cast<double>(row.size()) + 1e-5);
  }
}

/// A norm and its gradient as plain loops say.
template <class T>
struct ExactNorm {
  using Exact = typename Of<T>::Exact;
  ExactNorm(const std::vector<T>& x, const std::vector<T>& gain, const std::vector<T>& d_result,
            const std::vector<T>& residual)
      : d_gain(gain.size()), d_x(residual.begin(), residual.end()) {
    const std::size_t columns = gain.size();
    for (std::size_t begin = 0; begin < x.size(); begin += columns) {
      const Exact own = scale_of(std::span(x).subspan(begin, columns));
      Exact overlap{};
      for (std::size_t c = 0; c < columns; ++c) {
        result.push_back(Exact{x[begin + c]} * own * gain[c]);
        d_gain[c] += Exact{d_result[begin + c]} * x[begin + c] * own;
        overlap += Exact{d_result[begin + c]} * gain[c] * x[begin + c] * own;
      }
      for (std::size_t c = 0; c < columns; ++c) {
        const Exact slope = Exact{d_result[begin + c]} * gain[c];
        d_x[begin + c] += std::is_same_v<T, Ring>
                              ? slope
                              : own * (slope - x[begin + c] * own * overlap / static_cast<Exact>(columns));
      }
    }
  }
  std::vector<Exact> result, d_gain, d_x;
};

/// Rows that a thread of a block holds one, two or four packs of, and longer ones; several chunks of rows,
/// the last of which is not full.
TYPED_TEST(WideKernels, Norm) {
  using T = TypeParam;
  const Stored stored = Of<T>::kStored;
  constexpr std::int64_t kOfBlock = 256 * (16 / sizeof(T));
  for (const std::int64_t columns :
       {kColumns / 2, kOfBlock, kOfBlock + 6, 3 * kOfBlock + 1, 4 * kOfBlock + 2}) {
    const auto count = static_cast<std::size_t>(kRows * columns);
    const auto x = this->drawn(count, 1);
    const auto gain = this->drawn(static_cast<std::size_t>(columns), 2);
    const auto d_result = this->drawn(count, 3);
    const auto residual = this->drawn(count, 4);
    const ExactNorm<T> exact(x, gain, d_result, residual);
    std::vector<T> unit(count), scale(kRows), result(count), once_more(count), d_gain(gain.size()),
        d_x(count);
    kernels().norm_forward(nullptr, stored,
                           {kRows, columns, x.data(), gain.data(), unit.data(), scale.data(), result.data()});
    this->expect_near(result, exact.result);
    kernels().apply_gain(nullptr, stored, {kRows, columns, unit.data(), gain.data(), once_more.data()});
    EXPECT_EQ(once_more, result);
    std::vector<T> partial(static_cast<std::size_t>(cuda::gain_chunks(kRows) * columns));
    kernels().norm_backward(nullptr, stored,
                            {kRows, columns, unit.data(), scale.data(), gain.data(), d_result.data(),
                             residual.data(), partial.data(), d_gain.data(), d_x.data()});
    this->expect_near(d_gain, exact.d_gain);
    this->expect_near(d_x, exact.d_x);
  }
}

/// The gradient of the residual stream is zeros behind the last norm.
TYPED_TEST(WideKernels, NormWithNothingBesideIt) {
  using T = TypeParam;
  const auto x = this->drawn(kCount, 1);
  const auto gain = this->drawn(kColumns, 2);
  const auto d_result = this->drawn(kCount, 3);
  std::vector<T> unit(kCount), scale(kRows), result(kCount), d_gain(kColumns), d_x = x;
  std::vector<T> partial(static_cast<std::size_t>(cuda::gain_chunks(kRows) * kColumns));
  kernels().norm_forward(nullptr, Of<T>::kStored,
                         {kRows, kColumns, x.data(), gain.data(), unit.data(), scale.data(), result.data()});
  kernels().norm_backward(nullptr, Of<T>::kStored,
                          {kRows, kColumns, unit.data(), scale.data(), gain.data(), d_result.data(), nullptr,
                           partial.data(), d_gain.data(), d_x.data()});
  this->expect_near(d_x, ExactNorm<T>(x, gain, d_result, std::vector<T>(kCount)).d_x);
}

TYPED_TEST(WideKernels, GatedActivation) {
  using T = TypeParam;
  using Exact = typename Of<T>::Exact;
  const auto gate_up = this->drawn(2 * kCount, 1);
  const auto d = this->drawn(kCount, 2);
  std::vector<Exact> of_activated, of_gradient(2 * kCount);
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t c = 0; c < kColumns; ++c) {
      const std::size_t gate = 2 * at(r, 0) + static_cast<std::size_t>(c);
      const Exact g = gate_up[gate];
      const Exact up = gate_up[gate + kColumns];
      Exact value = g * g * g;
      Exact slope = 3 * g * g;
      if constexpr (!TestFixture::kExact) {
        const double sigmoid = 1 / (1 + std::exp(-g));
        value = g * sigmoid;
        slope = sigmoid * (1 + g * (1 - sigmoid));
      }
      of_activated.push_back(value * up);
      of_gradient[gate] = d[at(r, c)] * up * slope;
      of_gradient[gate + kColumns] = d[at(r, c)] * value;
    }
  }
  std::vector<T> activated(kCount), gradient(2 * kCount);
  kernels().gate(nullptr, Of<T>::kStored, {kRows, kColumns, gate_up.data(), activated.data()});
  this->expect_near(activated, of_activated);
  kernels().gate_backward(nullptr, Of<T>::kStored,
                          {kRows, kColumns, gate_up.data(), d.data(), gradient.data()});
  this->expect_near(gradient, of_gradient);
}

/// Tokens repeat, and a part of the vocabulary is another's.
TYPED_TEST(WideKernels, Embedding) {
  using T = TypeParam;
  using Exact = typename Of<T>::Exact;
  constexpr std::int64_t kLength = 10, kFirst = 3, kVocab = 5;
  std::vector<std::int32_t> tokens;
  for (std::int64_t r = 0; r < kRows; ++r) tokens.push_back(static_cast<std::int32_t>(r * r % 9));
  const auto table = this->drawn(kVocab * kColumns, 1);
  const auto positions = this->drawn(kLength * kColumns, 2);
  const auto d_stream = this->drawn(kCount, 3);
  auto d_table = this->drawn(table.size(), 4);
  auto d_positions = this->drawn(positions.size(), 5);
  std::vector<Exact> of_stream, of_table(d_table.begin(), d_table.end()),
      of_positions(d_positions.begin(), d_positions.end());
  for (std::int64_t r = 0; r < kRows; ++r) {
    const std::int64_t own = tokens[static_cast<std::size_t>(r)] - kFirst;
    for (std::int64_t c = 0; c < kColumns; ++c) {
      of_stream.push_back(positions[at(r % kLength, c)]);
      of_positions[at(r % kLength, c)] += d_stream[at(r, c)];
      if (own < 0 || own >= kVocab) continue;
      of_stream.back() += table[at(own, c)];
      of_table[at(own, c)] += d_stream[at(r, c)];
    }
  }
  std::vector<T> stream(kCount);
  kernels().embed(nullptr, Of<T>::kStored,
                  {kRows, kLength, kColumns, kFirst, kVocab, tokens.data(), table.data(), positions.data(),
                   stream.data()});
  this->expect_near(stream, of_stream);
  std::vector<std::int32_t> order(static_cast<std::size_t>(cuda::token_workspace(kRows)));
  kernels().embed_backward(nullptr, Of<T>::kStored,
                           {kRows, kLength, kColumns, kFirst, kVocab, tokens.data(), d_stream.data(),
                            order.data(), d_table.data(), d_positions.data()});
  this->expect_near(d_table, of_table);
  this->expect_near(d_positions, of_positions);
}

/// The last rows of a square matrix, as of a slice of a sequence.
TEST(WideKernelsOfAttention, Softmax) {
  constexpr float kFactor = 0.25F;
  std::vector<float> scores, d_scores;
  for (std::size_t i = 0; i < kCount; ++i) {
    scores.push_back(static_cast<float>(cuda::random_at(1, 1, i) % 64) - 32);
    d_scores.push_back(static_cast<float>(cuda::random_at(1, 2, i) % 64) / 16);
  }
  std::vector<double> probabilities(kCount), gradients(kCount);
  for (std::int64_t r = 0; r < kRows; ++r) {
    const std::int64_t length = kColumns - kRows + r + 1;
    double sum = 0;
    double overlap = 0;
    for (std::int64_t c = 0; c < length; ++c) sum += std::exp(kFactor * scores[at(r, c)]);
    for (std::int64_t c = 0; c < length; ++c) {
      probabilities[at(r, c)] = std::exp(kFactor * scores[at(r, c)]) / sum;
      overlap += probabilities[at(r, c)] * d_scores[at(r, c)];
    }
    for (std::int64_t c = 0; c < length; ++c)
      gradients[at(r, c)] = kFactor * probabilities[at(r, c)] * (d_scores[at(r, c)] - overlap);
  }
  kernels().causal_softmax(nullptr, Stored::float32, {1, kRows, kColumns, kFactor, scores.data()});
  kernels().causal_softmax_backward(nullptr, Stored::float32,
                                    {1, kRows, kColumns, kFactor, scores.data(), d_scores.data()});
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_NEAR(scores[i], probabilities[i], 1e-6) << i;
    ASSERT_NEAR(d_scores[i], gradients[i], 1e-6) << i;
  }
}

TEST(WideKernelsOfTheHead, Loss) {
  std::vector<float> logits;
  std::vector<std::int32_t> targets;
  for (std::size_t i = 0; i < kCount; ++i)
    logits.push_back(static_cast<float>(cuda::random_at(1, 1, i) % 64) / 4);
  for (std::int64_t r = 0; r < kRows; ++r) targets.push_back(static_cast<std::int32_t>(r * 97 % kColumns));
  std::vector<double> gradients;
  double loss = 0;
  for (std::int64_t r = 0; r < kRows; ++r) {
    const std::int64_t target = targets[static_cast<std::size_t>(r)];
    double sum = 0;
    for (std::int64_t c = 0; c < kColumns; ++c) sum += std::exp(double{logits[at(r, c)]});
    for (std::int64_t c = 0; c < kColumns; ++c)
      gradients.push_back((std::exp(double{logits[at(r, c)]}) / sum - (c == target ? 1 : 0)) / kRows);
    loss += (std::log(sum) - logits[at(r, target)]) / kRows;
  }
  std::vector<float> row_losses(kRows);
  float found = 0;
  kernels().loss(nullptr, Stored::float32,
                 {kRows, kRows, kColumns, 1, targets.data(), logits.data(), row_losses.data(), &found});
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_NEAR(logits[i], gradients[i], 1e-6) << i;
  EXPECT_NEAR(found, loss, 1e-5 * loss);
}

/// More numbers than all blocks have threads; and fewer than one has.
TEST(WideKernelsOfTheOptimizer, SquaredNorm) {
  for (const std::size_t count : {std::size_t{7}, std::size_t{cuda::kPartials} * 256 + 5}) {
    const std::vector<float> values(count, 0.5F);
    std::vector<double> partial(cuda::kPartials);
    double norm = 1;
    kernels().squared_norm(nullptr, Stored::float32,
                           {static_cast<std::int64_t>(count), values.data(), partial.data(), &norm});
    EXPECT_EQ(norm, 1 + 0.25 * static_cast<double>(count));
  }
}

/// Loshchilov and Hutter, "Decoupled weight decay regularization", algorithm 2.
TEST(WideKernelsOfTheOptimizer, AdamW) {
  constexpr std::size_t kParameters = 1000;
  std::vector<float> parameters, gradients;
  for (std::size_t i = 0; i < kParameters; ++i) {
    parameters.push_back(static_cast<float>(i % 17) - 8);
    gradients.push_back(static_cast<float>(i % 13) - 6);
  }
  std::vector<float> state(3 * kParameters);
  std::int64_t steps = 5;
  std::vector<float> factors(cuda::kDescendFactors);
  kernels().start_state(nullptr, Stored::float32, {kParameters, parameters.data(), state.data(), &steps});
  EXPECT_EQ(steps, 0);
  std::vector<double> exact(parameters.begin(), parameters.end()), m(kParameters), v(kParameters);
  for (int step = 1; step <= 3; ++step) {
    kernels().descend(nullptr, Stored::float32,
                      {.count = kParameters,
                       .adam = true,
                       .learning_rate = 0.01,
                       .beta1 = 0.9,
                       .beta2 = 0.95,
                       .epsilon = 1e-8,
                       .weight_decay = 0.1,
                       .squared_norm = nullptr,
                       .largest_norm = 0,
                       .parameters = parameters.data(),
                       .gradients = gradients.data(),
                       .state = state.data(),
                       .steps = &steps,
                       .factors = factors.data()});
    for (std::size_t i = 0; i < kParameters; ++i) {
      m[i] = 0.9 * m[i] + 0.1 * gradients[i];
      v[i] = 0.95 * v[i] + 0.05 * gradients[i] * gradients[i];
      const double mean = m[i] / (1 - std::pow(0.9, step));
      const double deviation = std::sqrt(v[i] / (1 - std::pow(0.95, step)));
      exact[i] -= 0.01 * (mean / (deviation + 1e-8) + 0.1 * exact[i]);
    }
  }
  EXPECT_EQ(steps, 3);
  for (std::size_t i = 0; i < kParameters; ++i) ASSERT_NEAR(parameters[i], exact[i], 1e-5) << i;
}

TEST(WideKernelsOfFp8, QuantizeTurnsTilesOfEveryShape) {
  std::vector<cuda::Bf16> values;
  for (std::size_t i = 0; i < kCount; ++i) values.push_back(cuda::to_bf16(static_cast<float>(i % 449)));
  std::vector<float> partial(cuda::kPartials);
  std::vector<std::uint8_t> codes(kCount), turned(kCount);
  float scale = 0;
  kernels().find_scale(nullptr, {kRows * kColumns, values.data(), cuda::Fp8::e4m3, partial.data(), &scale});
  EXPECT_EQ(scale, 1) << "448, the largest number of the type";
  kernels().quantize(nullptr,
                     {kRows, kColumns, values.data(), &scale, cuda::Fp8::e4m3, codes.data(), turned.data()});
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t c = 0; c < kColumns; ++c) {
      ASSERT_EQ(codes[at(r, c)], cuda::to_fp8(cuda::to_float(values[at(r, c)]), cuda::Fp8::e4m3));
      ASSERT_EQ(turned[static_cast<std::size_t>(c * kRows + r)], codes[at(r, c)]);
    }
  }
}

}  // namespace
}  // namespace ppsim
