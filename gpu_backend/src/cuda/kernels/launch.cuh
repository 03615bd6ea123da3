#pragma once

#include <cuda_runtime.h>

#include "kernel_table.hpp"
#include "numbers.hpp"

namespace ppsim::cuda {

inline constexpr int kThreads = 256;

/// The sum over the threads of a block, by a tree of fixed shape; every thread gets it.
template <class Sum>
__device__ Sum block_sum(Sum value) {
  __shared__ Sum partial[kThreads];
  __syncthreads();
  partial[threadIdx.x] = value;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
  }
  __syncthreads();
  return partial[0];
}
template <class Sum>
__device__ Sum block_max(Sum value) {
  __shared__ Sum partial[kThreads];
  __syncthreads();
  partial[threadIdx.x] = value;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) partial[threadIdx.x] = max(partial[threadIdx.x], partial[threadIdx.x + half]);
  }
  __syncthreads();
  return partial[0];
}

inline unsigned blocks_for(std::int64_t count, std::int64_t per_block = kThreads) {
  return static_cast<unsigned>((count + per_block - 1) / per_block);
}
__device__ inline std::int64_t global_index() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

/// The error of the launch before it, if any.
inline int launched() { return static_cast<int>(cudaGetLastError()); }

/// Calls `launch` with an object of the storage type.
template <class Launch>
int by_type(Stored stored, const Launch& launch) {
  switch (stored) {
    case Stored::bf16:
      launch(Bf16{});
      break;
    case Stored::float32:
      launch(float{});
      break;
    case Stored::ring:
      launch(Ring{});
      break;
  }
  return launched();
}

inline cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace ppsim::cuda
