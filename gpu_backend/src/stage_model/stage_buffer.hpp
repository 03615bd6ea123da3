#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace ppsim::gpu_backend {

/// Allocates memory on the boundaries that stage models are promised.
template <class T>
struct StageAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{64};

  StageAllocator() = default;
  template <class U>
  explicit StageAllocator(const StageAllocator<U>&) {}
  T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kAlignment)); }
  void deallocate(T* memory, std::size_t) { ::operator delete(memory, kAlignment); }
  friend bool operator==(const StageAllocator&, const StageAllocator&) { return true; }
};

/// Memory of a stage model on the CPU.
using StageBuffer = std::vector<std::byte, StageAllocator<std::byte>>;

}  // namespace ppsim::gpu_backend
