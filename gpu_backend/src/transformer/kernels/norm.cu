#include "launch.cuh"
#include "launchers.hpp"

namespace ppsim::gpu_backend::cuda {
namespace {

template <class T>
__global__ void norm_forward_kernel(NormForward call) {
  using Sum = typename Numbers<T>::Sum;
  const std::int64_t begin = blockIdx.x * call.columns;
  const T* x = static_cast<const T*>(call.x) + begin;
  const T* gain = static_cast<const T*>(call.gain);
  T* unit = static_cast<T*>(call.unit) + begin;
  T* result = static_cast<T*>(call.result) + begin;
  Sum squares{};
  for (std::int64_t c = threadIdx.x; c < call.columns; c += blockDim.x) {
    const Sum value = Numbers<T>::load(x[c]);
    squares += value * value;
  }
  const Sum scale = norm_scale(block_sum(squares), call.columns);
  if (threadIdx.x == 0) static_cast<Sum*>(call.scale)[blockIdx.x] = scale;
  for (std::int64_t c = threadIdx.x; c < call.columns; c += blockDim.x) {
    unit[c] = Numbers<T>::store(Numbers<T>::load(x[c]) * scale);
    result[c] = Numbers<T>::store(Numbers<T>::load(unit[c]) * Numbers<T>::load(gain[c]));
  }
}

template <class T>
__global__ void apply_gain_kernel(ApplyGain call) {
  const std::int64_t i = global_index();
  if (i >= call.rows * call.columns) return;
  static_cast<T*>(call.result)[i] =
      Numbers<T>::store(Numbers<T>::load(static_cast<const T*>(call.unit)[i]) *
                        Numbers<T>::load(static_cast<const T*>(call.gain)[i % call.columns]));
}

template <class T>
__global__ void norm_backward_kernel(NormBackward call) {
  using Sum = typename Numbers<T>::Sum;
  const std::int64_t begin = blockIdx.x * call.columns;
  const T* unit = static_cast<const T*>(call.unit) + begin;
  const T* gain = static_cast<const T*>(call.gain);
  const T* d_result = static_cast<const T*>(call.d_result) + begin;
  T* d_x = static_cast<T*>(call.d_x) + begin;
  const Sum scale = static_cast<const Sum*>(call.scale)[blockIdx.x];
  const auto gradient = [&](std::int64_t c) {
    return Numbers<T>::load(d_result[c]) * Numbers<T>::load(gain[c]);
  };
  Sum overlap{};
  for (std::int64_t c = threadIdx.x; c < call.columns; c += blockDim.x) {
    overlap += gradient(c) * Numbers<T>::load(unit[c]);
  }
  const Sum mean_overlap = mean(block_sum(overlap), call.columns);
  for (std::int64_t c = threadIdx.x; c < call.columns; c += blockDim.x) {
    const Sum slope = norm_slope(gradient(c), Numbers<T>::load(unit[c]), scale, mean_overlap);
    d_x[c] = Numbers<T>::store(Numbers<T>::load(d_x[c]) + slope);
  }
}

/// A block sums kColumns neighbouring columns, in lanes of rows that are joined in order.
constexpr int kColumns = 32;
constexpr int kLanes = kThreads / kColumns;

template <class T>
__global__ void gain_gradient_kernel(NormBackward call) {
  using Sum = typename Numbers<T>::Sum;
  __shared__ Sum partial[kLanes][kColumns];
  const int lane = threadIdx.x / kColumns;
  const int column = threadIdx.x % kColumns;
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kColumns + column;
  Sum sum{};
  if (c < call.columns) {
    for (std::int64_t r = lane; r < call.rows; r += kLanes) {
      const std::int64_t i = r * call.columns + c;
      sum += Numbers<T>::load(static_cast<const T*>(call.d_result)[i]) *
             Numbers<T>::load(static_cast<const T*>(call.unit)[i]);
    }
  }
  partial[lane][column] = sum;
  __syncthreads();
  if (lane != 0 || c >= call.columns) return;
  for (int other = 1; other < kLanes; ++other) sum += partial[other][column];
  static_cast<Sum*>(call.d_gain)[c] = sum;
}

}  // namespace

int norm_forward(void* stream, Stored stored, const NormForward& call) {
  return by_type(stored, [&](auto zero) {
    launch(norm_forward_kernel<decltype(zero)>, {static_cast<unsigned>(call.rows), kThreads, stream}, call);
  });
}

int apply_gain(void* stream, Stored stored, const ApplyGain& call) {
  return by_type(stored, [&](auto zero) {
    launch(apply_gain_kernel<decltype(zero)>, {blocks_for(call.rows * call.columns), kThreads, stream}, call);
  });
}

int norm_backward(void* stream, Stored stored, const NormBackward& call) {
  return by_type(stored, [&](auto zero) {
    using T = decltype(zero);
    launch(gain_gradient_kernel<T>, {blocks_for(call.columns, kColumns), kThreads, stream}, call);
    launch(norm_backward_kernel<T>, {static_cast<unsigned>(call.rows), kThreads, stream}, call);
  });
}

}  // namespace ppsim::gpu_backend::cuda
