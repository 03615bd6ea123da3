#include <algorithm>
#include <cmath>

#include "support/host_kernel.hpp"

namespace ppsim::test {
namespace {

using namespace cuda;  // the calls and the arithmetic of single numbers

template <class T>
using PartsOf = LossParts<SumOf<T>>;

template <class T>
PartsOf<T> open_row(const OpenLoss& c, T* logits, std::int32_t target) {
  const std::int64_t at = place_among(target, c.first, c.vocab);
  if constexpr (std::is_same_v<T, Ring>) {
    Ring total = 0;
    for (std::int64_t i = 0; i < c.vocab; ++i) {
      const Ring factor = random_at(c.seed, (std::uint64_t{1} << 62) + static_cast<std::uint64_t>(target),
                                    static_cast<std::uint64_t>(c.first + i));
      total += logits[i] * factor;
      logits[i] = factor;
    }
    return {0, 0, total};
  } else {
    const float picked = at >= 0 ? get(logits[at]) : 0;
    float top = -INFINITY;
    for (std::int64_t i = 0; i < c.vocab; ++i) top = std::max(top, get(logits[i]));
    float sum = 0;
    for (std::int64_t i = 0; i < c.vocab; ++i) {
      const float exponential = std::exp(get(logits[i]) - top);
      sum += exponential;
      logits[i] = put<T>(exponential);
    }
    return {top, sum, picked};
  }
}

template <class T>
int open_loss(const HostQueue& queue, void* stream, const OpenLoss& c) {
  Touched<T> t;
  const auto* targets = t.template read<std::int32_t>(c.targets, c.rows);
  T* logits = t.change(c.logits, c.rows * c.vocab);
  auto* own = t.template write<PartsOf<T>>(c.own, c.rows);
  auto* all = t.template write<PartsOf<T>>(c.all, c.rows);
  return queue(stream, t.access, [=] {
    for (std::int64_t r = 0; r < c.rows; ++r) all[r] = own[r] = open_row(c, logits + r * c.vocab, targets[r]);
  });
}

template <class T>
void close_row(const CloseLoss& c, T* logits, SumOf<T> factor, std::int64_t target) {
  for (std::int64_t i = 0; i < c.vocab; ++i) {
    const SumOf<T> share = i == target ? target_share<SumOf<T>>(c.tokens) : SumOf<T>{};
    logits[i] = put<T>(get(logits[i]) * factor - share);
  }
}

template <class T>
int close_loss(const HostQueue& queue, void* stream, const CloseLoss& c) {
  Touched<T> t;
  const auto* targets = t.template read<std::int32_t>(c.targets, c.rows);
  const auto* own = t.template read<PartsOf<T>>(c.own, c.rows);
  const auto* all = t.template read<PartsOf<T>>(c.all, c.rows);
  T* logits = t.change(c.logits, c.rows * c.vocab);
  const bool takes = c.row_losses != nullptr;
  auto* row_losses = t.template write<SumOf<T>>(c.row_losses, takes ? c.rows : 0);
  auto* total = t.template write<SumOf<T>>(c.loss, takes ? 1 : 0);
  return queue(stream, t.access, [=] {
    if (takes) *total = SumOf<T>{};
    for (std::int64_t r = 0; r < c.rows; ++r) {
      const std::int64_t target = place_among(targets[r], c.first, c.vocab);
      close_row(c, logits + r * c.vocab, gradient_factor(c.tokens, own[r], all[r]), target);
      if (!takes) continue;
      row_losses[r] = loss_of(c.tokens, all[r]);
      *total += row_losses[r];
    }
  });
}

template <class T>
int target_weights(const HostQueue& queue, void* stream, const TargetWeights& c) {
  Touched<T> t;
  const auto* targets = t.template read<std::int32_t>(c.targets, c.rows);
  const T* weights = t.read(c.weights, c.columns * c.vocab);
  T* result = t.write(c.result, c.rows * c.columns);
  return queue(stream, t.access, [=] {
    for (std::int64_t i = 0; i < c.rows * c.columns; ++i) {
      const std::int64_t at = place_among(targets[i / c.columns], c.first, c.vocab);
      const SumOf<T> weight = at >= 0 ? get(weights[i % c.columns * c.vocab + at]) : SumOf<T>{};
      result[i] = put<T>(target_share<SumOf<T>>(c.tokens) * weight);
    }
  });
}

/// The same tensor in every part.
template <class Number>
std::vector<Number*> in_parts(void* first, std::int64_t parts, std::int64_t stride) {
  std::vector<Number*> all;
  for (std::int64_t p = 0; p < parts; ++p)
    all.push_back(reinterpret_cast<Number*>(static_cast<std::byte*>(first) + p * stride));
  return all;
}

template <class T>
void merge_row(const MergeLoss& c, std::int64_t row) {
  const auto statistics = in_parts<PartsOf<T>>(c.statistics, c.parts, c.stride);
  const auto scaled = in_parts<T>(c.scaled, c.scaled == nullptr ? 0 : c.parts, c.stride);
  const auto of_targets = in_parts<const T>(const_cast<void*>(c.of_targets), c.parts, c.stride);
  PartsOf<T> all = statistics[0][row];
  for (std::size_t p = 1; p < statistics.size(); ++p) merge(all, statistics[p][row]);
  for (std::int64_t i = row * c.columns; !scaled.empty() && i < (row + 1) * c.columns; ++i) {
    SumOf<T> sum{};
    for (std::size_t p = 0; p < scaled.size(); ++p)
      sum += gradient_factor(c.tokens, statistics[p][row], all) * get(scaled[p][i]) - get(of_targets[p][i]);
    scaled[0][i] = put<T>(sum);
  }
  for (PartsOf<T>* const part : statistics) part[row] = all;
}

template <class T>
int merge_loss(const HostQueue& queue, void* stream, const MergeLoss& c) {
  Touched<T> t;
  for (auto* part : in_parts<PartsOf<T>>(c.statistics, c.parts, c.stride))
    static_cast<void>(t.template change<PartsOf<T>>(part, c.rows));
  for (std::int64_t p = 0; c.scaled != nullptr && p < c.parts; ++p) {
    static_cast<void>(t.read(in_parts<T>(c.scaled, c.parts, c.stride)[p], c.rows * c.columns));
    static_cast<void>(t.read(static_cast<const std::byte*>(c.of_targets) + p * c.stride, c.rows * c.columns));
  }
  if (c.scaled != nullptr) static_cast<void>(t.write(c.scaled, c.rows * c.columns));
  return queue(stream, t.access, [c] {
    for (std::int64_t row = 0; row < c.rows; ++row) merge_row<T>(c, row);
  });
}

template <class T>
int sum_parts(const HostQueue& queue, void* stream, const SumParts& c) {
  Touched<T> t;
  for (T* part : in_parts<T>(c.numbers, c.parts, c.stride)) static_cast<void>(t.read(part, c.count));
  static_cast<void>(t.write(c.numbers, c.count));
  return queue(stream, t.access, [c] {
    const auto numbers = in_parts<T>(c.numbers, c.parts, c.stride);
    for (std::int64_t i = 0; i < c.count; ++i) {
      auto sum = get(numbers[0][i]);
      for (std::size_t p = 1; p < numbers.size(); ++p) sum += get(numbers[p][i]);
      numbers[0][i] = put<T>(sum);
    }
  });
}

}  // namespace

void add_vocabulary_kernels(KernelTable& table, const HostQueue& queue) {
  PPSIM_HOST_KERNEL(table, queue, open_loss, OpenLoss);
  PPSIM_HOST_KERNEL(table, queue, close_loss, CloseLoss);
  PPSIM_HOST_KERNEL(table, queue, target_weights, TargetWeights);
  PPSIM_HOST_KERNEL(table, queue, merge_loss, MergeLoss);
  PPSIM_HOST_KERNEL(table, queue, sum_parts, SumParts);
}

}  // namespace ppsim::test
