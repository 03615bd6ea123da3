#include "cpu_device.hpp"

#include <algorithm>
#include <new>

namespace ppsim::gpu_backend {
namespace {

constexpr std::align_val_t kAlignment{64};

}  // namespace

void CpuDevice::AlignedDelete::operator()(std::byte* memory) const {
  ::operator delete[](memory, kAlignment);
}

std::span<std::byte> CpuDevice::allocate(Bytes bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  auto* memory = static_cast<std::byte*>(::operator new[](size, kAlignment, std::nothrow));
  if (memory == nullptr) {
    throw BackendError(ErrorCode::io, "cannot allocate " + std::to_string(bytes) + " bytes of host memory");
  }
  memory_.emplace_back(memory);
  return {memory, size};
}

void CpuDevice::copy(std::span<std::byte> to, std::span<const std::byte> from) {
  if (to.size() != from.size()) {
    throw BackendError(ErrorCode::bad_argument, "a copy of " + std::to_string(from.size()) + " bytes into " +
                                                    std::to_string(to.size()) + " bytes");
  }
  std::copy(from.begin(), from.end(), to.begin());
}

void CpuDevice::fill(std::span<std::byte> memory, std::byte value) {
  std::fill(memory.begin(), memory.end(), value);
}

void CpuDevice::run(int /*queue*/, const std::function<void()>& work) { work(); }

}  // namespace ppsim::gpu_backend
