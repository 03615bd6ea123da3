#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "gpu_api.hpp"
#include "ppsim/core/ir/ids.hpp"
#include "ppsim/core/ir/units.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "ppsim/gpu_backend/stage_model/gpu_stage_model.hpp"

namespace ppsim::gpu_backend {

/// A driver's object that is destroyed with its owner.
template <class T>
using GpuHandle = std::unique_ptr<T, std::function<void(T*)>>;
using StreamHandle = GpuHandle<CUstream_st>;
using EventHandle = GpuHandle<CUevent_st>;
using GraphHandle = GpuHandle<CUgraphExec_st>;

[[nodiscard]] inline CudaAddress address_of(const void* memory) {
  return reinterpret_cast<CudaAddress>(memory);
}

/// Whether the work of a stream goes before that of others. What is short, and waited for on other devices,
/// must not queue behind the blocks of a product.
enum class StreamPriority : std::uint8_t { lowest, highest };

/// A CUDA device of this process, whole or cut into parts of as many multiprocessors each (green contexts).
class GpuDevice {
 public:
  /// `parts` > 1: that many ranks share the device. Errors: throws BackendError for a device that is not
  /// there or has too few multiprocessors.
  GpuDevice(const CudaTable& cuda, int ordinal, int parts);

  [[nodiscard]] const CudaTable& cuda() const { return cuda_; }
  [[nodiscard]] int ordinal() const { return ordinal_; }
  [[nodiscard]] int multiprocessors_per_part() const { return multiprocessors_; }
  void make_current() const;
  [[nodiscard]] StreamHandle make_stream(int part, StreamPriority priority, const std::string& rank) const;
  void enable_peer(const GpuDevice& other) const;

 private:
  void split(int parts);
  [[nodiscard]] std::vector<CudaResource> equal_parts(int parts) const;
  void check(int result, const char* what) const;

  const CudaTable& cuda_;
  int ordinal_ = 0;
  int device_ = 0;
  int multiprocessors_ = 0;
  int lowest_priority_ = 0;
  int highest_priority_ = 0;
  GpuHandle<CUctx_st> context_;
  std::vector<GpuHandle<CUgreenCtx_st>> parts_;
};

/// An error of a rank, in `what` it does; an error that names the rank already names it once.
[[nodiscard]] BackendError error_of(RankId rank, const std::string& what, const BackendError& error);

/// The device of one rank: memory, streams and events that live as long as it. Errors: throws BackendError
/// that names the rank.
class RankDevice final : public Device {
 public:
  /// Requires: a device that outlives it.
  RankDevice(const GpuDevice& device, RankId rank, int part);

  [[nodiscard]] GpuPlace place() const {
    return {rank_, device_.ordinal(), device_.multiprocessors_per_part()};
  }
  [[nodiscard]] RankId rank() const override { return rank_; }
  [[nodiscard]] const GpuDevice& device() const { return device_; }
  [[nodiscard]] const CudaTable& cuda() const { return device_.cuda(); }
  void make_current() const { device_.make_current(); }

  /// Errors: as DeviceMemory.
  [[nodiscard]] std::span<std::byte> allocate(Bytes bytes, const char* what) override;
  /// Pinned host memory.
  [[nodiscard]] std::span<std::byte> allocate_host(Bytes bytes) override;
  [[nodiscard]] StreamHandle make_stream(StreamPriority priority) const;
  [[nodiscard]] EventHandle make_event(bool timing) const;
  /// An event without timing that other processes of the host may wait for.
  [[nodiscard]] EventHandle make_shared_event() const;

  void copy(GpuStream stream, std::span<std::byte> to, std::span<const std::byte> from) const override;
  void fill(GpuStream stream, std::span<std::byte> memory, std::byte value) const override;
  void write(GpuStream stream, std::span<std::byte> to, std::int64_t value) const override;
  void record(CUevent_st* event, GpuStream stream, unsigned int flags = kCudaEventDefault) const;
  void wait(GpuStream stream, CUevent_st* event) const;
  [[nodiscard]] bool complete(CUevent_st* event) const;
  /// Time from one recorded event to another.
  [[nodiscard]] Nanoseconds between(CUevent_st* start, CUevent_st* end) const;

  /// Errors: throws BackendError with the rank and `what`.
  void check(int result, const char* what) const;

 private:
  [[nodiscard]] EventHandle make_event_of(unsigned int flags) const;

  const GpuDevice& device_;
  RankId rank_;
  int part_ = 0;
  std::vector<GpuHandle<std::byte>> memory_;
};

}  // namespace ppsim::gpu_backend
