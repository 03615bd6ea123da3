#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "device/cuda/gpu_device.hpp"
#include "device/cuda/held_contexts.hpp"
#include "ppsim/core/memory/slot_plan.hpp"
#include "ppsim/gpu_backend/executor/execute.hpp"

namespace ppsim::gpu_backend {

/// The devices of `count` that the ranks of this process run on. Requires: options with CudaOptions.
/// Errors: throws BackendError where there are too few.
[[nodiscard]] DeviceRange devices_here(int count, const RunOptions& run, LocalRanks here);

/// The ranks of this process, each on a device or a part of one, ascending.
///
/// Several processes on a host take its devices in the order of their local numbers, unless their launcher
/// has already given each of them as many as it needs.
class GpuRanks {
 public:
  /// Requires: arguments that outlive it, options with CudaOptions. Errors: throws BackendError where there
  /// are too few devices.
  GpuRanks(const CudaTable& cuda, const RunOptions& run, LocalRanks here);

  [[nodiscard]] std::size_t size() const { return ranks_.size(); }
  [[nodiscard]] RankDevice& operator[](std::size_t number) const { return *ranks_[number]; }
  [[nodiscard]] std::vector<RankDevice*> all() const;
  /// One pool for each rank of the Program, empty for those of other processes.
  [[nodiscard]] std::vector<std::span<std::byte>> make_pools(const SlotPlan& slots) const;

 private:
  std::deque<GpuDevice> devices_;
  std::vector<std::unique_ptr<RankDevice>> ranks_;
};

}  // namespace ppsim::gpu_backend
