#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "executor/rank_actions.hpp"
#include "gpu_channels.hpp"
#include "gpu_collectives.hpp"
#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/gpu_backend/executor/execute.hpp"
#include "ppsim/gpu_backend/stage_model/gpu_stage_model.hpp"
#include "process_group/peers.hpp"

namespace ppsim::gpu_backend {

/// The input of the channels of a run. Everything outlives them.
struct ChannelSetup {
  const GpuApi& api;
  const Program& program;
  const GpuStageModel& model;
  const CudaOptions& options;
  std::vector<RankDevice*> ranks;  ///< of this process, ascending, and so what follows
  const std::deque<RankActions>& actions;
  const std::deque<GpuCollectives>& collectives;
  const ExecutionGraph& graph;
  Peers& peers;
};

/// Opens the channels of the transport that the options name, together with the other processes.
/// Errors: throws BackendError.
[[nodiscard]] std::unique_ptr<GpuChannels> open_channels(const ChannelSetup& setup);

}  // namespace ppsim::gpu_backend
