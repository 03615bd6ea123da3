#include "launchers.hpp"
#include "loss.cuh"

/// The loss where the vocabulary is in parts.
namespace ppsim::gpu_backend::cuda {
namespace {

template <bool wide, class T>
__device__ LossParts<float> open_row(const OpenLoss& call, T* logits, std::int32_t target) {
  const std::int64_t at = place_among(target, call.first, call.vocab);
  // Read before block_max, behind which the logits are overwritten.
  const float picked = at >= 0 ? Numbers<T>::load(logits[at]) : 0;
  constexpr int kCount = kPack<T>;
  float top = -INFINITY;
  for_packs<kCount>(call.vocab, [&](std::int64_t c) {
    const auto pack = load_pack<wide, kCount>(logits, c, call.vocab);
    for (int i = 0; i < kCount; ++i) {
      if (c + i < call.vocab) top = fmaxf(top, Numbers<T>::load(pack.numbers[i]));
    }
  });
  top = block_max(top);
  float sum = 0;
  for_packs<kCount>(call.vocab, [&](std::int64_t c) {
    auto pack = load_pack<wide, kCount>(logits, c, call.vocab);
    for (int i = 0; i < kCount; ++i) {
      const float exponential = expf(Numbers<T>::load(pack.numbers[i]) - top);
      if (c + i < call.vocab) sum += exponential;
      pack.numbers[i] = Numbers<T>::store(exponential);
    }
    store_pack<wide, kCount>(logits, c, call.vocab, pack);
  });
  return {top, block_sum(sum), picked};
}
/// In exact arithmetic the inner product with numbers that depend on the target.
template <bool wide>
__device__ LossParts<Ring> open_row(const OpenLoss& call, Ring* logits, std::int32_t target) {
  Ring total = 0;
  for (std::int64_t c = threadIdx.x; c < call.vocab; c += blockDim.x) {
    const Ring factor = random_at(call.seed, kLossStreams + static_cast<std::uint64_t>(target),
                                  static_cast<std::uint64_t>(call.first + c));
    total += logits[c] * factor;
    logits[c] = factor;
  }
  return {0, 0, block_sum(total)};
}

template <class T, bool wide>
__global__ void open_loss_kernel(OpenLoss call) {
  using Parts = LossParts<typename Numbers<T>::Sum>;
  const std::int64_t row = blockIdx.x;
  const Parts parts =
      open_row<wide>(call, static_cast<T*>(call.logits) + row * call.vocab, call.targets[row]);
  if (threadIdx.x != 0) return;
  static_cast<Parts*>(call.own)[row] = parts;
  static_cast<Parts*>(call.all)[row] = parts;
}

template <class T, bool wide>
__global__ void close_loss_kernel(CloseLoss call) {
  using Sum = typename Numbers<T>::Sum;
  const std::int64_t row = blockIdx.x;
  const LossParts<Sum> all = static_cast<const LossParts<Sum>*>(call.all)[row];
  const Sum factor = gradient_factor(call.tokens, static_cast<const LossParts<Sum>*>(call.own)[row], all);
  const std::int64_t at = place_among(call.targets[row], call.first, call.vocab);
  T* logits = static_cast<T*>(call.logits) + row * call.vocab;
  constexpr int kCount = kPack<T>;
  for_packs<kCount>(call.vocab, [&](std::int64_t c) {
    auto pack = load_pack<wide, kCount>(logits, c, call.vocab);
    for (int i = 0; i < kCount; ++i) {
      const Sum share = c + i == at ? target_share<Sum>(call.tokens) : Sum{};
      pack.numbers[i] = Numbers<T>::store(Numbers<T>::load(pack.numbers[i]) * factor - share);
    }
    store_pack<wide, kCount>(logits, c, call.vocab, pack);
  });
  if (threadIdx.x == 0 && call.row_losses != nullptr) {
    static_cast<Sum*>(call.row_losses)[row] = loss_of(call.tokens, all);
  }
}

/// The weights of a token are a column, whose numbers are far from each other.
template <class T, bool wide>
__global__ void target_weights_kernel(TargetWeights call) {
  using Sum = typename Numbers<T>::Sum;
  constexpr int kCount = kPack<T>;
  const std::int64_t at = place_among(call.targets[blockIdx.x], call.first, call.vocab);
  T* result = static_cast<T*>(call.result) + blockIdx.x * call.columns;
  for_packs<kCount>(call.columns, [&](std::int64_t c) {
    Pack<T, kCount> pack;
    for (int i = 0; i < kCount; ++i) {
      Sum weight{};
      if (at >= 0 && c + i < call.columns)
        weight = Numbers<T>::load(static_cast<const T*>(call.weights)[(c + i) * call.vocab + at]);
      pack.numbers[i] = Numbers<T>::store(target_share<Sum>(call.tokens) * weight);
    }
    store_pack<wide, kCount>(result, c, call.columns, pack);
  });
}

/// The same tensor of another part.
template <class Number>
__device__ Number* of_part(Number* first, std::int64_t bytes) {
  return reinterpret_cast<Number*>(reinterpret_cast<std::uintptr_t>(first) + bytes);
}

template <class T, bool wide>
__global__ void merge_loss_kernel(MergeLoss call) {
  using Sum = typename Numbers<T>::Sum;
  const std::int64_t row = blockIdx.x;
  LossParts<Sum>* const statistics = static_cast<LossParts<Sum>*>(call.statistics) + row;
  LossParts<Sum> all = *statistics;
  for (std::int64_t p = 1; p < call.parts; ++p) merge(all, *of_part(statistics, p * call.stride));
  constexpr int kCount = kPack<T>;
  T* const scaled = static_cast<T*>(call.scaled) + row * call.columns;
  const T* const of_targets = static_cast<const T*>(call.of_targets) + row * call.columns;
  for_packs<kCount>(call.scaled == nullptr ? 0 : call.columns, [&](std::int64_t c) {
    Pack<Sum, kCount> sums{};
    for (std::int64_t p = 0; p < call.parts; ++p) {
      const std::int64_t bytes = p * call.stride;
      const Sum factor = gradient_factor(call.tokens, *of_part(statistics, bytes), all);
      const auto own = load_pack<wide, kCount>(of_part(scaled, bytes), c, call.columns);
      const auto less = load_pack<wide, kCount>(of_part(of_targets, bytes), c, call.columns);
      for (int i = 0; i < kCount; ++i)
        sums.numbers[i] += factor * Numbers<T>::load(own.numbers[i]) - Numbers<T>::load(less.numbers[i]);
    }
    Pack<T, kCount> result;
    for (int i = 0; i < kCount; ++i) result.numbers[i] = Numbers<T>::store(sums.numbers[i]);
    store_pack<wide, kCount>(scaled, c, call.columns, result);
  });
  __syncthreads();
  for (std::int64_t p = threadIdx.x; p < call.parts; p += blockDim.x)
    *of_part(statistics, p * call.stride) = all;
}

template <class T, bool wide>
__global__ void sum_parts_kernel(SumParts call) {
  constexpr int kCount = kPack<T>;
  const std::int64_t at = global_index() * kCount;
  T* const first = static_cast<T*>(call.numbers);
  auto result = load_pack<wide, kCount>(first, at, call.count);
  Pack<typename Numbers<T>::Sum, kCount> sums;
  for (int i = 0; i < kCount; ++i) sums.numbers[i] = Numbers<T>::load(result.numbers[i]);
  for (std::int64_t p = 1; p < call.parts; ++p) {
    const auto part = load_pack<wide, kCount>(of_part(first, p * call.stride), at, call.count);
    for (int i = 0; i < kCount; ++i) sums.numbers[i] += Numbers<T>::load(part.numbers[i]);
  }
  for (int i = 0; i < kCount; ++i) result.numbers[i] = Numbers<T>::store(sums.numbers[i]);
  store_pack<wide, kCount>(first, at, call.count, result);
}

}  // namespace

int open_loss(void* stream, Stored stored, const OpenLoss& call) {
  return by_type(stored, [&](auto zero) {
    using T = decltype(zero);
    by_width(is_wide<T>(call.vocab, call.logits), [&](auto wide) {
      launch(open_loss_kernel<T, wide.value>, {blocks_for(call.rows, 1), kThreads, stream}, call);
    });
  });
}

int close_loss(void* stream, Stored stored, const CloseLoss& call) {
  return by_type(stored, [&](auto zero) {
    using T = decltype(zero);
    by_width(is_wide<T>(call.vocab, call.logits), [&](auto wide) {
      launch(close_loss_kernel<T, wide.value>, {blocks_for(call.rows, 1), kThreads, stream}, call);
    });
    if (call.row_losses != nullptr) sum_loss<typename Numbers<T>::Sum>(stream, call);
  });
}

int target_weights(void* stream, Stored stored, const TargetWeights& call) {
  return by_type(stored, [&](auto zero) {
    using T = decltype(zero);
    by_width(is_wide<T>(call.columns, call.result), [&](auto wide) {
      launch(target_weights_kernel<T, wide.value>,
             {blocks_for(call.rows, 1), threads_for_row<T>(call.columns), stream}, call);
    });
  });
}

int merge_loss(void* stream, Stored stored, const MergeLoss& call) {
  return by_type(stored, [&](auto zero) {
    using T = decltype(zero);
    const bool all = is_wide<T>(call.columns, call.scaled, call.of_targets) && call.stride % 16 == 0;
    by_width(all, [&](auto wide) {
      launch(merge_loss_kernel<T, wide.value>, {blocks_for(call.rows, 1), kThreads, stream}, call);
    });
  });
}

int sum_parts(void* stream, Stored stored, const SumParts& call) {
  return by_type(stored, [&](auto zero) {
    using T = decltype(zero);
    by_width(is_wide<T>(0, call.numbers) && call.stride % 16 == 0, [&](auto wide) {
      launch(sum_parts_kernel<T, wide.value>,
             {blocks_for(call.count, std::int64_t{kThreads} * kPack<T>), kThreads, stream}, call);
    });
  });
}

}  // namespace ppsim::gpu_backend::cuda
