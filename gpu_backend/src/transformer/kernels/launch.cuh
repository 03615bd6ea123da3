#pragma once

#include <cuda_runtime.h>

#include "kernel_table.hpp"
#include "numbers.hpp"

namespace ppsim::gpu_backend::cuda {

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
/// How many blocks reduce so many numbers to a partial result each.
__host__ __device__ inline unsigned partials_of(std::int64_t count) {
  const std::int64_t full = (count + kThreads - 1) / kThreads;
  return static_cast<unsigned>(full < 1 ? 1 : full < kPartials ? full : kPartials);
}
__device__ inline std::int64_t global_index() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

/// How many threads run a kernel, and the stream that they are enqueued on.
struct Threads {
  dim3 grid;
  dim3 block;
  void* stream;
};

/// Enqueues a kernel, as <<<...>>> does: in this form a compiler that knows no CUDA reads the kernels too,
/// and they are tested on the processor. Errors: launched().
template <class Call>
void launch(void (*kernel)(Call), const Threads& threads, Call call) {
  void* arguments[] = {&call};
  cudaLaunchKernel(kernel, threads.grid, threads.block, arguments, 0,
                   static_cast<cudaStream_t>(threads.stream));
}

/// The error of the launches before it, if any.
[[nodiscard]] inline int launched() { return static_cast<int>(cudaGetLastError()); }

/// Calls `enqueue` with an object of the storage type.
template <class Enqueue>
int by_type(Stored stored, const Enqueue& enqueue) {
  switch (stored) {
    case Stored::bf16:
      enqueue(Bf16{});
      break;
    case Stored::float32:
      enqueue(float{});
      break;
    case Stored::ring:
      enqueue(Ring{});
      break;
  }
  return launched();
}

}  // namespace ppsim::gpu_backend::cuda
