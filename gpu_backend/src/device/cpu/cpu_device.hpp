#pragma once

#include <memory>
#include <vector>

#include "ppsim/gpu_backend/device/device.hpp"

namespace ppsim::gpu_backend {

/// Host memory and the calling thread.
class CpuDevice final : public Device {
 public:
  [[nodiscard]] std::span<std::byte> allocate(Bytes bytes) override;
  [[nodiscard]] std::span<std::byte> allocate_host(Bytes bytes) override { return allocate(bytes); }
  void copy(std::span<std::byte> to, std::span<const std::byte> from) override;
  void fill(std::span<std::byte> memory, std::byte value) override;
  void run(int queue, const std::function<void()>& work) override;

 private:
  struct AlignedDelete {
    void operator()(std::byte* memory) const;
  };
  std::vector<std::unique_ptr<std::byte[], AlignedDelete>> memory_;
};

}  // namespace ppsim::gpu_backend
