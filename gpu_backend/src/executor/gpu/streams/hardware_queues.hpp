#pragma once

#include <vector>

#include "device/cuda/gpu_api.hpp"
#include "stream_plan.hpp"

namespace ppsim::gpu_backend {

/// Whether every stream of a rank has a hardware queue of the device: in one that two of them share, a stream
/// that waits holds up the other one, which no proof is about but that for a single queue. The copy transport
/// needs none: what it enqueues waits for nothing that is enqueued later.
/// Errors: throws BackendError naming the rank, its streams and what is set.
void check_hardware_queues(const EnvironmentTable& environment, const CudaOptions& options,
                           const std::vector<StreamPlan>& plans, RankId first);

}  // namespace ppsim::gpu_backend
