// Kernels that take 16 bytes at once: memory that does not begin at such a place, or rows that are no whole
// packs, change no bit. Sums in two steps: of more rows than a step takes.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "support/host_kernels.hpp"
#include "transformer/kernels/numbers.hpp"

namespace ppsim {

using namespace gpu_backend;
namespace {

using cuda::Bf16;
using cuda::Ring;
using cuda::Stored;

constexpr std::int64_t kPackRows = 5, kPackColumns = 264;

const cuda::KernelTable& pack_kernels() {
  static const cuda::KernelTable table = test::host_kernels(test::immediately());
  return table;
}

/// Numbers in [-1, 1) that begin so many numbers behind a multiple of 16 bytes.
template <class T>
class Shifted {
 public:
  Shifted(std::int64_t count, std::size_t shift, std::uint64_t stream)
      : memory_(static_cast<std::size_t>(count) + shift + 16), count_(static_cast<std::size_t>(count)) {
    auto at = reinterpret_cast<std::uintptr_t>(memory_.data());
    at = (at + 15) / 16 * 16;
    first_ = (at - reinterpret_cast<std::uintptr_t>(memory_.data())) / sizeof(T) + shift;
    for (std::size_t i = 0; i < count_; ++i) {
      const float value = static_cast<float>(cuda::random_at(7, stream, i) >> 40) / (1 << 23) - 1;
      memory_[first_ + i] = cuda::Numbers<T>::store(value);
    }
  }
  [[nodiscard]] T* data() { return memory_.data() + first_; }
  void append_to(std::vector<std::uint32_t>& all) const {
    for (std::size_t i = 0; i < count_; ++i) {
      std::uint32_t bits = 0;
      memcpy(&bits, &memory_[first_ + i], sizeof(T));
      all.push_back(bits);
    }
  }

 private:
  std::vector<T> memory_;
  std::size_t count_;
  std::size_t first_ = 0;
};

/// The bits of all results, with memory that begins so many numbers late.
using Results = std::vector<std::uint32_t> (*)(std::size_t shift);

std::vector<std::uint32_t> norms(std::size_t shift) {
  const auto& run = pack_kernels();
  Shifted<Bf16> x(kPackRows * kPackColumns, shift, 1), gain(kPackColumns, shift, 2),
      unit(kPackRows * kPackColumns, shift, 3), result(kPackRows * kPackColumns, shift, 4),
      d(kPackRows * kPackColumns, shift, 5), d_x(kPackRows * kPackColumns, shift, 6),
      once_more(kPackRows * kPackColumns, shift, 7), residual(kPackRows * kPackColumns, shift, 11);
  Shifted<float> scale(kPackRows, shift, 8), partial(kPackColumns, shift, 9), d_gain(kPackColumns, shift, 10);
  run.norm_forward(
      nullptr, Stored::bf16,
      {kPackRows, kPackColumns, x.data(), gain.data(), unit.data(), scale.data(), result.data()});
  run.apply_gain(nullptr, Stored::bf16,
                 {kPackRows, kPackColumns, unit.data(), gain.data(), once_more.data()});
  run.norm_backward(nullptr, Stored::bf16,
                    {kPackRows, kPackColumns, unit.data(), scale.data(), gain.data(), d.data(),
                     residual.data(), partial.data(), d_gain.data(), d_x.data()});
  std::vector<std::uint32_t> all;
  for (const auto* one : {&unit, &result, &once_more, &d_x}) one->append_to(all);
  for (const auto* one : {&scale, &d_gain}) one->append_to(all);
  return all;
}

std::vector<std::uint32_t> gates(std::size_t shift) {
  const auto& run = pack_kernels();
  Shifted<Bf16> gate_up(2 * kPackRows * kPackColumns, shift, 1),
      activated(kPackRows * kPackColumns, shift, 2), d(kPackRows * kPackColumns, shift, 3),
      d_gate_up(2 * kPackRows * kPackColumns, shift, 4);
  run.gate(nullptr, Stored::bf16, {kPackRows, kPackColumns, gate_up.data(), activated.data()});
  run.gate_backward(nullptr, Stored::bf16,
                    {kPackRows, kPackColumns, gate_up.data(), d.data(), d_gate_up.data()});
  std::vector<std::uint32_t> all;
  for (const auto* one : {&activated, &d_gate_up}) one->append_to(all);
  return all;
}

std::vector<std::uint32_t> softmaxes(std::size_t shift) {
  const auto& run = pack_kernels();
  Shifted<Bf16> scores(kPackRows * kPackColumns, shift, 1), d(kPackRows * kPackColumns, shift, 2),
      stored(kPackRows * kPackColumns, shift, 3);
  Shifted<float> sums(kPackRows * kPackColumns, shift, 4);
  run.causal_softmax(nullptr, Stored::bf16, {1, kPackRows, kPackColumns, 0.5F, scores.data()});
  run.causal_softmax_backward(nullptr, Stored::bf16,
                              {1, kPackRows, kPackColumns, 0.5F, scores.data(), d.data()});
  run.store_sums(nullptr, Stored::bf16, {kPackRows, kPackColumns, sums.data(), stored.data(), kPackColumns});
  std::vector<std::uint32_t> all;
  for (const auto* one : {&scores, &d, &stored}) one->append_to(all);
  return all;
}

std::vector<std::uint32_t> ends(std::size_t shift) {
  const auto& run = pack_kernels();
  const std::vector<std::int32_t> tokens = {2, 0, 2, 1, 2};
  Shifted<Bf16> table(3 * kPackColumns, shift, 1), positions(kPackRows * kPackColumns, shift, 2),
      stream(kPackRows * kPackColumns, shift, 3), logits(kPackRows * kPackColumns, shift, 4);
  Shifted<float> d_table(3 * kPackColumns, shift, 5), d_positions(kPackRows * kPackColumns, shift, 6),
      losses(kPackRows, 0, 7), loss(1, 0, 8);
  std::vector<std::int32_t> order(static_cast<std::size_t>(cuda::token_workspace(kPackRows)));
  run.embed(nullptr, Stored::bf16,
            {kPackRows, kPackRows, kPackColumns, 0, 3, tokens.data(), table.data(), positions.data(),
             stream.data()});
  run.embed_backward(nullptr, Stored::bf16,
                     {kPackRows, kPackRows, kPackColumns, 0, 3, tokens.data(), stream.data(), order.data(),
                      d_table.data(), d_positions.data()});
  run.loss(nullptr, Stored::bf16,
           {kPackRows, kPackRows, kPackColumns, 1, tokens.data(), logits.data(), losses.data(), loss.data()});
  std::vector<std::uint32_t> all;
  for (const auto* one : {&stream, &logits}) one->append_to(all);
  for (const auto* one : {&d_table, &d_positions, &loss}) one->append_to(all);
  return all;
}

std::vector<std::uint32_t> updates(std::size_t shift) {
  constexpr std::int64_t kCount = 2000;
  Shifted<Bf16> parameters(kCount, shift, 1);
  Shifted<float> gradients(kCount, shift, 2), state(3 * kCount, shift, 3);
  std::int64_t steps = 0;
  std::vector<float> factors(cuda::kDescendFactors);
  pack_kernels().start_state(nullptr, Stored::bf16, {kCount, parameters.data(), state.data(), &steps});
  pack_kernels().accumulate(nullptr, Stored::bf16, {kCount, gradients.data(), gradients.data()});
  for (const bool adam : {true, false}) {
    pack_kernels().descend(nullptr, Stored::bf16,
                           {.count = kCount,
                            .adam = adam,
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
  }
  std::vector<std::uint32_t> all;
  parameters.append_to(all);
  state.append_to(all);
  return all;
}

TEST(KernelPacks, WhereMemoryBeginsChangesNoBit) {
  for (const Results results : {norms, gates, softmaxes, ends, updates}) {
    const auto wide = results(0);
    EXPECT_EQ(results(1), wide);
    EXPECT_EQ(results(3), wide);
  }
}

TEST(KernelPacks, GainsOfMoreRowsThanOneStepSums) {
  constexpr std::int64_t kMany = 3 * cuda::kGainRows + 7, kNarrow = 34;
  const auto count = static_cast<std::size_t>(kMany * kNarrow);
  std::vector<Ring> unit, d, gain(kNarrow, 1), d_x(count), scale(kMany, 1), d_gain(kNarrow), of_gain(kNarrow),
      partial(static_cast<std::size_t>(cuda::gain_chunks(kMany) * kNarrow));
  for (std::size_t i = 0; i < count; ++i) {
    unit.push_back(cuda::random_at(1, 1, i));
    d.push_back(cuda::random_at(1, 2, i));
    of_gain[i % kNarrow] += unit[i] * d[i];
  }
  pack_kernels().norm_backward(nullptr, Stored::ring,
                               {kMany, kNarrow, unit.data(), scale.data(), gain.data(), d.data(), nullptr,
                                partial.data(), d_gain.data(), d_x.data()});
  EXPECT_EQ(d_gain, of_gain);
}

/// More rows than a chunk has, more tokens than buckets, and in float32 the sums of a loop, bit by bit.
TEST(KernelPacks, TokenGradientsAreSumsInAscendingOrderOfRows) {
  constexpr std::int64_t kMany = 2 * cuda::kTokenBuckets + 100, kVocab = 2 * cuda::kTokenBuckets, kNarrow = 6;
  std::vector<std::int32_t> tokens;
  std::vector<float> d_stream, d_table(kVocab * kNarrow, 0.1F), of_table = d_table;
  for (std::int64_t r = 0; r < kMany; ++r) {
    const std::uint64_t bits = cuda::random_at(1, 1, static_cast<std::uint64_t>(r));
    tokens.push_back(static_cast<std::int32_t>(bits % 3 == 0 ? 7 : bits / 3 % (kVocab + 5)));
    for (std::int64_t c = 0; c < kNarrow; ++c) {
      d_stream.push_back(static_cast<float>(cuda::random_at(1, 2, d_stream.size()) >> 40) / 1e6F);
      if (tokens.back() < kVocab)
        of_table[static_cast<std::size_t>(tokens.back() * kNarrow + c)] += d_stream.back();
    }
  }
  std::vector<std::int32_t> order(static_cast<std::size_t>(cuda::token_workspace(kMany)));
  pack_kernels().embed_backward(nullptr, Stored::float32,
                                {kMany, kMany, kNarrow, 0, kVocab, tokens.data(), d_stream.data(),
                                 order.data(), d_table.data(), nullptr});
  EXPECT_EQ(d_table, of_table);
}

}  // namespace
}  // namespace ppsim
