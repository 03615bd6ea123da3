#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "cuda_table.hpp"

namespace ppsim::gpu_backend {

/// Device memory of the current context, freed with its owner.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  /// Errors: throws BackendError that names `what`, how much was asked for and how much is free.
  DeviceMemory(const CudaTable& cuda, std::size_t bytes, const std::string& what) : free_(cuda.memory_free) {
    const int result = cuda.memory_allocate(&address_, bytes);
    if (result != kCudaSuccess) check_cuda(cuda, result, allocation_text(cuda, result, bytes, what));
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  DeviceMemory(DeviceMemory&& other) noexcept
      : free_(std::move(other.free_)), address_(std::exchange(other.address_, 0)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(free_, other.free_);
    std::swap(address_, other.address_);
    return *this;
  }
  ~DeviceMemory() {
    if (address_ != 0) free_(address_);
  }

  [[nodiscard]] CudaAddress address() const { return address_; }
  template <class T>
  [[nodiscard]] T* as() const {
    return reinterpret_cast<T*>(address_);
  }

 private:
  std::function<int(CudaAddress)> free_;
  CudaAddress address_ = 0;
};

}  // namespace ppsim::gpu_backend
