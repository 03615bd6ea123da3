#include "cpu_backend.hpp"

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "executor/action_runner.hpp"
#include "ppsim/gpu_backend/device/device.hpp"
#include "transport/in_process/in_process_transport.hpp"

namespace ppsim::gpu_backend {
namespace {

constexpr std::align_val_t kAlignment{64};

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

}  // namespace

Expected<void> CpuBackend::check(const TransportCapabilities& capabilities) const {
  return check_in_process(capabilities);
}

std::unique_ptr<Worker> CpuBackend::make_worker(const RunInput& input, const MemoryPlan& memory) const {
  Devices devices;
  for (int r = 0; r < input.program.pipeline().ranks(); ++r)
    devices.push_back(input.here.has(RankId(r)) ? std::make_unique<CpuDevice>() : nullptr);
  return std::make_unique<ActionRunner>(input, memory, std::move(devices));
}

std::unique_ptr<Transport> CpuBackend::make_transport(const RunInput& input, CompletionSink& sink) const {
  return std::make_unique<InProcessTransport>(input.program, input.model, input.options.capabilities.credits,
                                              sink);
}

}  // namespace ppsim::gpu_backend
