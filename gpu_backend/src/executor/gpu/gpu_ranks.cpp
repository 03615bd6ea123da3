#include "gpu_ranks.hpp"

#include "ppsim/gpu_backend/executor/backend_error.hpp"

namespace ppsim::gpu_backend {
namespace {

/// Number of the first device of this process.
int first_device(int count, int needed, const Bootstrap* processes) {
  if (processes == nullptr || count == needed) return 0;
  return processes->local_process() * needed;
}

std::string too_few(int count, int needed, const RunOptions& run, LocalRanks here) {
  const int share = std::get<CudaOptions>(run.backend).ranks_per_device;
  std::string text = std::to_string(here.end - here.begin) + " ranks, " + std::to_string(share) +
                     " on a device, need " + std::to_string(needed) + " devices; there are " +
                     std::to_string(count);
  const Bootstrap* const processes = run.processes;
  if (processes != nullptr && processes->local_process() > 0)
    text += " for " + std::to_string(processes->local_process() + 1) + " or more processes on this host";
  return text;
}

}  // namespace

DeviceRange devices_here(int count, const RunOptions& run, LocalRanks here) {
  const int share = std::get<CudaOptions>(run.backend).ranks_per_device;
  const int needed = (here.end - here.begin + share - 1) / share;
  const int first = first_device(count, needed, run.processes);
  if (count < first + needed) throw BackendError(ErrorCode::bad_argument, too_few(count, needed, run, here));
  return {first, first + needed};
}

GpuRanks::GpuRanks(const CudaTable& cuda, const RunOptions& run, LocalRanks here) {
  int count = 0;
  check_cuda(cuda, cuda.device_count(&count), "counting devices");
  const int share = std::get<CudaOptions>(run.backend).ranks_per_device;
  const DeviceRange devices = devices_here(count, run, here);
  for (int d = devices.begin; d < devices.end; ++d) devices_.emplace_back(cuda, d, share);
  for (int r = here.begin; r < here.end; ++r) {
    const int number = r - here.begin;
    ranks_.push_back(
        std::make_unique<RankDevice>(devices_[as_size(number / share)], RankId(r), number % share));
  }
}

std::vector<RankDevice*> GpuRanks::all() const {
  std::vector<RankDevice*> result;
  for (const auto& one : ranks_) result.push_back(one.get());
  return result;
}

std::vector<std::span<std::byte>> GpuRanks::make_pools(const SlotPlan& slots) const {
  std::vector<std::span<std::byte>> pools(slots.pool_bytes.size());
  for (const auto& one : ranks_)
    pools[one->rank().index()] = one->allocate(slots.pool_bytes[one->rank()], "its pool");
  return pools;
}

}  // namespace ppsim::gpu_backend
