#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "kernel_table.hpp"
#include "numbers.hpp"

namespace ppsim::gpu_backend::cuda {

inline constexpr int kThreads = 256;

/// In front of a loop over an array that has to be in registers.
#if defined(__CUDACC__)
#define PPSIM_UNROLL _Pragma("unroll")
#else
#define PPSIM_UNROLL
#endif

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

/// One access for each 16 bytes of a pack, which has nothing but its numbers: clang would split it into
/// these.
template <class P>
__device__ P load_whole(const P* from) {
#if defined(__clang__) && defined(__CUDA_ARCH__)
  static_assert(sizeof(P::numbers) % 16 == 0 && sizeof(P) == sizeof(P::numbers));
  P pack;
  for (std::size_t i = 0; i < sizeof(P) / 16; ++i) {
    std::uint32_t words[4];
    asm volatile("ld.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "l"(reinterpret_cast<const char*>(from) + 16 * i)
                 : "memory");
    memcpy(reinterpret_cast<char*>(&pack) + 16 * i, words, sizeof words);
  }
  return pack;
#else
  return *from;
#endif
}
template <class P>
__device__ void store_whole(P* to, const P& pack) {
#if defined(__clang__) && defined(__CUDA_ARCH__)
  using Vector = std::uint32_t __attribute__((vector_size(16)));
  static_assert(sizeof(P::numbers) % sizeof(Vector) == 0 && sizeof(P) == sizeof(P::numbers));
  for (std::size_t i = 0; i < sizeof(P) / sizeof(Vector); ++i) {
    Vector part;
    memcpy(&part, reinterpret_cast<const char*>(&pack) + i * sizeof part, sizeof part);
    reinterpret_cast<Vector*>(to)[i] = part;
  }
#else
  *to = pack;
#endif
}

/// The numbers from c on of `count`; zeros behind them. `wide`: every pack begins at a multiple of 16 bytes.
/// The other way round they are taken one by one and in the same order, so that sums have the same bits.
template <bool wide, int kCount, class Number>
__device__ Pack<Number, kCount> load_pack(const Number* from, std::int64_t c, std::int64_t count) {
  if (wide && c + kCount <= count) return load_whole(reinterpret_cast<const Pack<Number, kCount>*>(from + c));
  Pack<Number, kCount> pack{};
  for (int i = 0; i < kCount; ++i) {
    if (c + i < count) pack.numbers[i] = from[c + i];
  }
  return pack;
}
template <bool wide, int kCount, class Number>
__device__ void store_pack(Number* to, std::int64_t c, std::int64_t count, const Pack<Number, kCount>& pack) {
  if (wide && c + kCount <= count) {
    return store_whole(reinterpret_cast<Pack<Number, kCount>*>(to + c), pack);
  }
  for (int i = 0; i < kCount; ++i) {
    if (c + i < count) to[c + i] = pack.numbers[i];
  }
}

template <class Number, int kCount>
__device__ Pack<Number, kCount>& operator+=(Pack<Number, kCount>& into, const Pack<Number, kCount>& from) {
  for (int i = 0; i < kCount; ++i) into.numbers[i] += from.numbers[i];
  return into;
}

/// A pack of a row as it is in memory, which a thread holds on to: two numbers of bf16 are one register.
template <class T>
struct alignas(16) [[gnu::may_alias]] Held {
  std::uint32_t words[4];

  [[nodiscard]] __device__ typename Numbers<T>::Sum number(int i) const {
    if constexpr (sizeof(T) == 2) {
      return Numbers<T>::load({static_cast<std::uint16_t>(words[i / 2] >> (16 * (i % 2)))});
    } else {
      T value;
      memcpy(&value, words + i * sizeof(T) / sizeof *words, sizeof(T));
      return Numbers<T>::load(value);
    }
  }
  /// Numbers that were read before are unpacked once more when they are read again, and take no registers
  /// until then.
  __device__ void unpack_again() {
#if defined(__CUDA_ARCH__)
    for (std::uint32_t& word : words) asm volatile("" : "+r"(word));
#endif
  }
};
/// As load_pack(), with `wide` as is_wide() has it for rows of `columns`, or for none of them.
template <bool wide, class T>
__device__ Held<T> hold(const T* row, std::int64_t c, std::int64_t columns) {
  if constexpr (wide) {
    return c < columns ? *reinterpret_cast<const Held<T>*>(row + c) : Held<T>{};
  } else {
    Held<T> held;
    const auto pack = load_pack<false, kPack<T>>(row, c, columns);
    memcpy(&held, &pack, sizeof held);
    return held;
  }
}
template <bool wide, int kCount, class Number>
__device__ void store_of_row(Number* row, std::int64_t c, std::int64_t columns,
                             const Pack<Number, kCount>& pack) {
  if constexpr (wide) {
    if (c < columns) store_whole(reinterpret_cast<Pack<Number, kCount>*>(row + c), pack);
  } else {
    store_pack<false, kCount>(row, c, columns, pack);
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

/// Packs of a matrix that a thread holds at once: so many of one row, or as many rows at once as that allows.
inline constexpr int kHeldPacks = 4;
/// Where the one numbered `pack` begins of those of a row that are this thread's: as in for_packs().
template <class T>
__device__ std::int64_t column_of(int pack) {
  return (static_cast<std::int64_t>(pack) * kThreads + threadIdx.x) * kPack<T>;
}
/// Calls `enqueue` with how many packs of a row a thread of kThreads holds, a power of two as an
/// integral_constant; with 0 where these are more than kHeldPacks.
template <class T, class Enqueue>
void by_packs(std::int64_t columns, const Enqueue& enqueue) {
  const std::int64_t of_block = std::int64_t{kThreads} * kPack<T>;
  if (columns <= of_block) return enqueue(std::integral_constant<int, 1>());
  if (columns <= 2 * of_block) return enqueue(std::integral_constant<int, 2>());
  if (columns <= kHeldPacks * of_block) return enqueue(std::integral_constant<int, kHeldPacks>());
  enqueue(std::integral_constant<int, 0>());
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
