#pragma once

#include <cuda_runtime.h>

#include <type_traits>

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

/// Neighbouring numbers that a thread takes at once: of a storage type 16 bytes, of sums as many numbers.
template <class T>
inline constexpr int kPack = 16 / sizeof(T);
template <class Number, int kCount>
struct alignas(16) Pack {
  Number numbers[kCount];
};

/// The numbers from c on of `count`; zeros behind them. `wide`: every pack begins at a multiple of 16 bytes.
/// The other way round they are taken one by one and in the same order, so that sums have the same bits.
template <bool wide, int kCount, class Number>
__device__ Pack<Number, kCount> load_pack(const Number* from, std::int64_t c, std::int64_t count) {
  if (wide && c + kCount <= count) return *reinterpret_cast<const Pack<Number, kCount>*>(from + c);
  Pack<Number, kCount> pack{};
  for (int i = 0; i < kCount; ++i) {
    if (c + i < count) pack.numbers[i] = from[c + i];
  }
  return pack;
}
template <bool wide, int kCount, class Number>
__device__ void store_pack(Number* to, std::int64_t c, std::int64_t count, const Pack<Number, kCount>& pack) {
  if (wide && c + kCount <= count) {
    *reinterpret_cast<Pack<Number, kCount>*>(to + c) = pack;
    return;
  }
  for (int i = 0; i < kCount; ++i) {
    if (c + i < count) to[c + i] = pack.numbers[i];
  }
}

/// Calls `visit` with the first number of every pack of a row that is this thread's.
template <int kCount, class Visit>
__device__ void for_packs(std::int64_t count, const Visit& visit) {
  const std::int64_t step = static_cast<std::int64_t>(blockDim.x) * kCount;
  for (std::int64_t c = static_cast<std::int64_t>(threadIdx.x) * kCount; c < count; c += step) visit(c);
}

/// Whether packs may be accessed at once: rows of `columns` numbers that are whole packs of T, in memory that
/// begins at a multiple of 16 bytes.
template <class T, class... Memory>
bool is_wide(std::int64_t columns, const Memory*... memory) {
  return columns % kPack<T> == 0 && (... && (reinterpret_cast<std::uintptr_t>(memory) % 16 == 0));
}
/// Calls `enqueue` with true_type or false_type.
template <class Enqueue>
void by_width(bool wide, const Enqueue& enqueue) {
  wide ? enqueue(std::true_type()) : enqueue(std::false_type());
}

/// Threads of a block that has a row, where no sum is taken over the block.
template <class T>
unsigned threads_for_row(std::int64_t columns) {
  constexpr std::int64_t kWarp = 32;
  const std::int64_t packs = (columns + kPack<T> - 1) / kPack<T>;
  const std::int64_t threads = (packs + kWarp - 1) / kWarp * kWarp;
  return static_cast<unsigned>(threads < kThreads ? threads : kThreads);
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
