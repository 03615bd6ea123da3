#include "launch.cuh"
#include "launchers.hpp"

namespace ppsim::gpu_backend::cuda {
namespace {

/// The softmax of the first `length` numbers of a row, by one block.
template <class T>
__device__ void softmax_row(T* row, std::int64_t length, float factor) {
  float top = -INFINITY;
  for (std::int64_t c = threadIdx.x; c < length; c += blockDim.x) {
    top = fmaxf(top, Numbers<T>::load(row[c]) * factor);
  }
  top = block_max(top);
  float sum = 0;
  for (std::int64_t c = threadIdx.x; c < length; c += blockDim.x) {
    sum += expf(Numbers<T>::load(row[c]) * factor - top);
  }
  sum = block_sum(sum);
  for (std::int64_t c = threadIdx.x; c < length; c += blockDim.x) {
    row[c] = Numbers<T>::store(expf(Numbers<T>::load(row[c]) * factor - top) / sum);
  }
}
__device__ void softmax_row(Ring*, std::int64_t, float) {}

template <class T>
__device__ void softmax_row_backward(const T* probabilities, T* gradient, std::int64_t length, float factor) {
  float overlap = 0;
  for (std::int64_t c = threadIdx.x; c < length; c += blockDim.x) {
    overlap += Numbers<T>::load(gradient[c]) * Numbers<T>::load(probabilities[c]);
  }
  overlap = block_sum(overlap);
  for (std::int64_t c = threadIdx.x; c < length; c += blockDim.x) {
    const float slope = Numbers<T>::load(probabilities[c]) * (Numbers<T>::load(gradient[c]) - overlap);
    gradient[c] = Numbers<T>::store(slope * factor);
  }
}
__device__ void softmax_row_backward(const Ring*, Ring*, std::int64_t, float) {}

template <class T>
__device__ void clear_behind(T* row, std::int64_t length, std::int64_t end) {
  for (std::int64_t c = length + threadIdx.x; c < end; c += blockDim.x) row[c] = T{};
}

/// How many numbers of row r of all matrices lie up to the diagonal.
template <class Call>
__device__ std::int64_t length_of(const Call& call, std::int64_t r) {
  return call.columns - call.rows + r % call.rows + 1;
}

template <class T>
__global__ void causal_softmax_kernel(CausalSoftmax call) {
  const std::int64_t r = blockIdx.x;
  const std::int64_t length = length_of(call, r);
  T* row = static_cast<T*>(call.scores) + r * call.columns;
  softmax_row(row, length, call.factor);
  clear_behind(row, length, call.columns);
}

template <class T>
__global__ void causal_softmax_backward_kernel(CausalSoftmaxBackward call) {
  const std::int64_t r = blockIdx.x;
  const std::int64_t length = length_of(call, r);
  T* gradient = static_cast<T*>(call.d_scores) + r * call.columns;
  softmax_row_backward(static_cast<const T*>(call.probabilities) + r * call.columns, gradient, length,
                       call.factor);
  clear_behind(gradient, length, call.columns);
}

template <class T>
__global__ void store_sums_kernel(StoreSums call) {
  const std::int64_t i = global_index();
  if (i >= call.rows * call.columns) return;
  const auto* sums = static_cast<const typename Numbers<T>::Sum*>(call.sums);
  static_cast<T*>(call.result)[i / call.columns * call.stride + i % call.columns] =
      Numbers<T>::store(sums[i]);
}

template <class T>
__global__ void gate_kernel(Gate call) {
  const std::int64_t i = global_index();
  if (i >= call.rows * call.width) return;
  const T* row = static_cast<const T*>(call.gate_up) + i / call.width * 2 * call.width;
  const std::int64_t c = i % call.width;
  static_cast<T*>(call.activated)[i] =
      Numbers<T>::store(activation(Numbers<T>::load(row[c])) * Numbers<T>::load(row[call.width + c]));
}

template <class T>
__global__ void gate_backward_kernel(GateBackward call) {
  const std::int64_t i = global_index();
  if (i >= call.rows * call.width) return;
  const std::int64_t begin = i / call.width * 2 * call.width;
  const std::int64_t c = i % call.width;
  const T* row = static_cast<const T*>(call.gate_up) + begin;
  T* d_row = static_cast<T*>(call.d_gate_up) + begin;
  const auto gate = Numbers<T>::load(row[c]);
  const auto up = Numbers<T>::load(row[call.width + c]);
  const auto d = Numbers<T>::load(static_cast<const T*>(call.d_activated)[i]);
  d_row[c] = Numbers<T>::store(d * up * activation_slope(gate));
  d_row[call.width + c] = Numbers<T>::store(d * activation(gate));
}

__global__ void ring_product_kernel(RingProduct call) {
  const std::int64_t i = global_index();
  if (i >= call.rows * call.columns) return;
  const std::int64_t row = i / call.columns;
  const std::int64_t column = i % call.columns;
  const std::uint64_t* a = call.a + blockIdx.y * call.a_batch + row * call.a_row;
  const std::uint64_t* b = call.b + blockIdx.y * call.b_batch + column * call.b_column;
  std::uint64_t* c = call.c + blockIdx.y * call.c_batch + row * call.c_row + column;
  std::uint64_t sum = call.accumulate ? *c : 0;
  for (std::int64_t k = 0; k < call.inner; ++k) sum += a[k * call.a_inner] * b[k * call.b_inner];
  *c = sum;
}

}  // namespace

int causal_softmax(void* stream, Stored stored, const CausalSoftmax& call) {
  return by_type(stored, [&](auto zero) {
    launch(causal_softmax_kernel<decltype(zero)>,
           {blocks_for(call.matrices * call.rows, 1), kThreads, stream}, call);
  });
}

int causal_softmax_backward(void* stream, Stored stored, const CausalSoftmaxBackward& call) {
  return by_type(stored, [&](auto zero) {
    launch(causal_softmax_backward_kernel<decltype(zero)>,
           {blocks_for(call.matrices * call.rows, 1), kThreads, stream}, call);
  });
}

int store_sums(void* stream, Stored stored, const StoreSums& call) {
  return by_type(stored, [&](auto zero) {
    launch(store_sums_kernel<decltype(zero)>, {blocks_for(call.rows * call.columns), kThreads, stream}, call);
  });
}

int gate(void* stream, Stored stored, const Gate& call) {
  return by_type(stored, [&](auto zero) {
    launch(gate_kernel<decltype(zero)>, {blocks_for(call.rows * call.width), kThreads, stream}, call);
  });
}

int gate_backward(void* stream, Stored stored, const GateBackward& call) {
  return by_type(stored, [&](auto zero) {
    launch(gate_backward_kernel<decltype(zero)>, {blocks_for(call.rows * call.width), kThreads, stream},
           call);
  });
}

int ring_product(void* stream, const RingProduct& call) {
  const dim3 grid(blocks_for(call.rows * call.columns), static_cast<unsigned>(call.batches));
  launch(ring_product_kernel, {grid, kThreads, stream}, call);
  return launched();
}

}  // namespace ppsim::gpu_backend::cuda
