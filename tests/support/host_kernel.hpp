#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "cuda/kernels/numbers.hpp"
#include "support/host_kernels.hpp"

namespace ppsim::test {

using cuda::Bf16;
using cuda::Numbers;
using cuda::Ring;
using cuda::Stored;

template <class T>
using SumOf = typename Numbers<T>::Sum;

template <class T>
std::span<const std::byte> bytes(const T* begin, std::int64_t count) {
  return std::as_bytes(std::span(begin, static_cast<std::size_t>(count)));
}

/// The memory of a call as numbers of type T, and what it touches.
template <class T>
class Touched {
 public:
  template <class U = T>
  const U* read(const void* memory, std::int64_t count) {
    const auto* begin = static_cast<const U*>(memory);
    access.reads.push_back(bytes(begin, count));
    return begin;
  }
  template <class U = T>
  U* write(void* memory, std::int64_t count) {
    auto* begin = static_cast<U*>(memory);
    access.writes.push_back(bytes(begin, count));
    return begin;
  }
  template <class U = T>
  U* change(void* memory, std::int64_t count) {
    static_cast<void>(read<U>(memory, count));
    return write<U>(memory, count);
  }
  KernelAccess access;
};

template <class T>
auto get(T value) {
  return Numbers<T>::load(value);
}
template <class T>
T put(SumOf<T> value) {
  return Numbers<T>::store(value);
}

/// Calls `make` with an object of the stored type; it returns what the queue said.
template <class Make>
int by_type(Stored stored, const Make& make) {
  switch (stored) {
    case Stored::bf16:
      return make(Bf16{});
    case Stored::float32:
      return make(float{});
    case Stored::ring:
      return make(Ring{});
  }
  return -1;
}

/// Puts a kernel template into a table.
#define PPSIM_HOST_KERNEL(table, queue, name, Call)                                               \
  (table).name = [queue](void* stream, cuda::Stored stored, const cuda::Call& call) {             \
    return by_type(stored, [&](auto zero) { return name<decltype(zero)>(queue, stream, call); }); \
  }

/// The kernels of a layer, those of the ends of a model and of its optimizer, of parts of a vocabulary, of
/// fp8.
void add_layer_kernels(cuda::KernelTable& table, const HostQueue& queue);
void add_end_kernels(cuda::KernelTable& table, const HostQueue& queue);
void add_vocabulary_kernels(cuda::KernelTable& table, const HostQueue& queue);
void add_fp8_kernels(cuda::KernelTable& table, const HostQueue& queue);

}  // namespace ppsim::test
