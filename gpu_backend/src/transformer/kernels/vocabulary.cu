#include "launchers.hpp"
#include "loss.cuh"

/// The loss where the vocabulary is in parts.
namespace ppsim::gpu_backend::cuda {
namespace {

template <class T>
__device__ LossParts<float> open_row(const OpenLoss& call, T* logits, std::int32_t target) {
  const std::int64_t at = place_among(target, call.first, call.vocab);
  // Read before block_max, behind which the logits are overwritten.
  const float picked = at >= 0 ? Numbers<T>::load(logits[at]) : 0;
  float top = -INFINITY;
  for (std::int64_t c = threadIdx.x; c < call.vocab; c += blockDim.x) {
    top = fmaxf(top, Numbers<T>::load(logits[c]));
  }
  top = block_max(top);
  float sum = 0;
  for (std::int64_t c = threadIdx.x; c < call.vocab; c += blockDim.x) {
    const float exponential = expf(Numbers<T>::load(logits[c]) - top);
    sum += exponential;
    logits[c] = Numbers<T>::store(exponential);
  }
  return {top, block_sum(sum), picked};
}
/// In exact arithmetic the inner product with numbers that depend on the target.
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

template <class T>
__global__ void open_loss_kernel(OpenLoss call) {
  using Parts = LossParts<typename Numbers<T>::Sum>;
  const std::int64_t row = blockIdx.x;
  const Parts parts = open_row(call, static_cast<T*>(call.logits) + row * call.vocab, call.targets[row]);
  if (threadIdx.x != 0) return;
  static_cast<Parts*>(call.own)[row] = parts;
  static_cast<Parts*>(call.all)[row] = parts;
}

template <class T>
__global__ void close_loss_kernel(CloseLoss call) {
  using Sum = typename Numbers<T>::Sum;
  const std::int64_t row = blockIdx.x;
  const LossParts<Sum> all = static_cast<const LossParts<Sum>*>(call.all)[row];
  const Sum factor = gradient_factor(call.tokens, static_cast<const LossParts<Sum>*>(call.own)[row], all);
  const std::int64_t at = place_among(call.targets[row], call.first, call.vocab);
  T* logits = static_cast<T*>(call.logits) + row * call.vocab;
  for (std::int64_t c = threadIdx.x; c < call.vocab; c += blockDim.x) {
    const Sum share = c == at ? target_share<Sum>(call.tokens) : Sum{};
    logits[c] = Numbers<T>::store(Numbers<T>::load(logits[c]) * factor - share);
  }
  if (threadIdx.x == 0 && call.row_losses != nullptr) {
    static_cast<Sum*>(call.row_losses)[row] = loss_of(call.tokens, all);
  }
}

template <class T>
__global__ void target_weights_kernel(TargetWeights call) {
  using Sum = typename Numbers<T>::Sum;
  const std::int64_t i = global_index();
  if (i >= call.rows * call.columns) return;
  const std::int64_t at = place_among(call.targets[i / call.columns], call.first, call.vocab);
  Sum weight{};
  if (at >= 0) {
    weight = Numbers<T>::load(static_cast<const T*>(call.weights)[i % call.columns * call.vocab + at]);
  }
  static_cast<T*>(call.result)[i] = Numbers<T>::store(target_share<Sum>(call.tokens) * weight);
}

/// The same tensor of another part.
template <class Number>
__device__ Number* of_part(Number* first, std::int64_t bytes) {
  return reinterpret_cast<Number*>(reinterpret_cast<std::uintptr_t>(first) + bytes);
}

template <class T>
__global__ void merge_loss_kernel(MergeLoss call) {
  using Sum = typename Numbers<T>::Sum;
  const std::int64_t row = blockIdx.x;
  LossParts<Sum>* const statistics = static_cast<LossParts<Sum>*>(call.statistics) + row;
  LossParts<Sum> all = *statistics;
  for (std::int64_t p = 1; p < call.parts; ++p) merge(all, *of_part(statistics, p * call.stride));
  for (std::int64_t c = threadIdx.x; call.scaled != nullptr && c < call.columns; c += blockDim.x) {
    T* const scaled = static_cast<T*>(call.scaled) + row * call.columns + c;
    const T* const of_targets = static_cast<const T*>(call.of_targets) + row * call.columns + c;
    Sum sum{};
    for (std::int64_t p = 0; p < call.parts; ++p) {
      const std::int64_t bytes = p * call.stride;
      const Sum factor = gradient_factor(call.tokens, *of_part(statistics, bytes), all);
      sum +=
          factor * Numbers<T>::load(*of_part(scaled, bytes)) - Numbers<T>::load(*of_part(of_targets, bytes));
    }
    *scaled = Numbers<T>::store(sum);
  }
  __syncthreads();
  for (std::int64_t p = threadIdx.x; p < call.parts; p += blockDim.x)
    *of_part(statistics, p * call.stride) = all;
}

template <class T>
__global__ void sum_parts_kernel(SumParts call) {
  const std::int64_t i = global_index();
  if (i >= call.count) return;
  T* const first = static_cast<T*>(call.numbers) + i;
  auto sum = Numbers<T>::load(*first);
  for (std::int64_t p = 1; p < call.parts; ++p) sum += Numbers<T>::load(*of_part(first, p * call.stride));
  *first = Numbers<T>::store(sum);
}

}  // namespace

int open_loss(void* stream, Stored stored, const OpenLoss& call) {
  return by_type(stored, [&](auto zero) {
    launch(open_loss_kernel<decltype(zero)>, {static_cast<unsigned>(call.rows), kThreads, stream}, call);
  });
}

int close_loss(void* stream, Stored stored, const CloseLoss& call) {
  return by_type(stored, [&](auto zero) {
    using T = decltype(zero);
    launch(close_loss_kernel<T>, {static_cast<unsigned>(call.rows), kThreads, stream}, call);
    if (call.row_losses != nullptr) sum_loss<typename Numbers<T>::Sum>(stream, call);
  });
}

int target_weights(void* stream, Stored stored, const TargetWeights& call) {
  return by_type(stored, [&](auto zero) {
    launch(target_weights_kernel<decltype(zero)>, {blocks_for(call.rows * call.columns), kThreads, stream},
           call);
  });
}

int merge_loss(void* stream, Stored stored, const MergeLoss& call) {
  return by_type(stored, [&](auto zero) {
    launch(merge_loss_kernel<decltype(zero)>, {static_cast<unsigned>(call.rows), kThreads, stream}, call);
  });
}

int sum_parts(void* stream, Stored stored, const SumParts& call) {
  return by_type(stored, [&](auto zero) {
    launch(sum_parts_kernel<decltype(zero)>, {blocks_for(call.count), kThreads, stream}, call);
  });
}

}  // namespace ppsim::gpu_backend::cuda
