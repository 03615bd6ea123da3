#pragma once

#include <functional>

#include "device/cuda/cublaslt_table.hpp"
#include "device/cuda/cudnn_table.hpp"
#include "device/cuda/gpu_api.hpp"
#include "device/cuda/gpu_device.hpp"
#include "transformer/kernels/kernel_table.hpp"

namespace ppsim::test {

using namespace gpu_backend;

/// The machine of a probe: this one, or a fake.
struct ProbeMachine {
  GpuApi api;  ///< NCCL's calls are there for probes of NCCL only
  CublasLtTable cublaslt;
  cuda::KernelTable kernels;
  CudnnTable cudnn = {};
  std::int64_t work = 512;  ///< rows of the matrices of which Grind makes products
};

enum class ProbeLibraries : std::uint8_t { cuda, cublaslt, nccl, cudnn };
/// The driver, this build's kernels and what else is asked for.
/// Errors: throws BackendError for a library or kernels that are not there.
[[nodiscard]] ProbeMachine this_machine(ProbeLibraries extra);

/// A stream of one part of a device, on which work is timed. Errors: throws BackendError, also for work that
/// takes longer than 20 s.
class ProbeStream {
 public:
  /// Requires: both outlive it.
  ProbeStream(const ProbeMachine& machine, const GpuDevice& device, int part);

  [[nodiscard]] RankDevice& device() { return device_; }
  [[nodiscard]] GpuStream get() const { return stream_.get(); }
  /// Enqueues work between two events.
  void enqueue(const std::function<void(GpuStream)>& work);
  void finish() const;
  /// Whether nothing is left on it within a time.
  [[nodiscard]] bool finishes_within(Nanoseconds time) const;
  /// Time of the work between the events. Requires: it is over.
  [[nodiscard]] Nanoseconds time() const { return device_.between(begin_.get(), end_.get()); }
  /// From the begin of the work of one stream to the end of that of another one of the device.
  [[nodiscard]] Nanoseconds time_to_end_of(const ProbeStream& other) const {
    return device_.between(begin_.get(), other.end_.get());
  }
  /// enqueue(), finish() and time().
  [[nodiscard]] Nanoseconds time_of(const std::function<void(GpuStream)>& work);

 private:
  const ProbeMachine& machine_;
  RankDevice device_;
  StreamHandle stream_;
  EventHandle begin_;
  EventHandle end_;
};

/// The middle one. Requires: at least one.
[[nodiscard]] Nanoseconds median_of(std::vector<Nanoseconds> times);

}  // namespace ppsim::test
