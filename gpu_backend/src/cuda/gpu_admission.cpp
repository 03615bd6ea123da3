#include "gpu_admission.hpp"

#include "admission.hpp"
#include "cuda/copy_channels.hpp"
#include "ppsim/core/execution_graph.hpp"
#include "ppsim/gpu_backend/bootstrap.hpp"

namespace ppsim {
namespace {

Expected<void> refuse(const std::string& why) { return make_error(ErrorCode::bad_argument, why); }

Expected<void> check_capabilities(const TransportCapabilities& capabilities) {
  if (capabilities.credits) return refuse("a GPU transport promises no buffers: a program needs rendezvous");
  if (capabilities.residency) return refuse("the GPU transports have no residency limit of their own");
  if (capabilities.issue_blocks) return refuse("the GPU transports do not block the host");
  return {};
}

Expected<void> check_graph(const Program& program, const TransportCapabilities& capabilities) {
  for (const Instruction& instruction : program.instructions()) {
    if (instruction.blocking) return refuse("a program with blocking instructions cannot run as a graph");
  }
  const ExecutionGraph graph = build_execution_graph(program, capabilities);
  if (!run_order(graph).complete) return refuse("a program that cannot finish cannot run as a graph");
  return {};
}

}  // namespace

Expected<void> check_gpu_options(const Program& program, const RunOptions& run) {
  const auto& options = std::get<CudaOptions>(run.backend);
  if (options.ranks_per_device < 1) return refuse("at least one rank runs on a device");
  if (options.max_ctas < 1) return refuse("a communicator has at least one CTA");
  if (run.processes != nullptr && run.processes->size() > 1) {
    return refuse("the CUDA backend runs all ranks in one process");
  }
  if (run.poison) return refuse("the CUDA backend does not overwrite freed tensors");
  if (options.transport == CudaTransport::nccl && options.ranks_per_device > 1) {
    return refuse("NCCL has one rank on a device; several need the copy transport");
  }
  if (auto good = check_capabilities(run.capabilities); !good) return good;
  if (options.transport == CudaTransport::copy) {
    if (auto good = CopyChannels::check(program); !good) return good;
  }
  return options.graphs ? check_graph(program, run.capabilities) : Expected<void>{};
}

Expected<void> admit_on_gpu(const GpuRunInput& input) {
  if (auto good = check_gpu_options(input.program, input.options); !good) return good;
  if (auto good = input.model.check(input.program.pipeline()); !good) return good;
  return admit(input.program, input.model.sizes(input.program.pipeline()), input.options);
}

}  // namespace ppsim
