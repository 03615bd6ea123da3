#include "gpu_admission.hpp"

#include <string>

namespace ppsim::gpu_backend {
namespace {

Expected<void> bad_request(const std::string& why) { return make_error(ErrorCode::bad_argument, why); }

Expected<void> check_capabilities(const TransportCapabilities& capabilities) {
  if (capabilities.credits)
    return bad_request("a GPU transport promises no buffers: a program needs rendezvous");
  if (capabilities.residency) return bad_request("the GPU transports have no residency limit of their own");
  if (capabilities.issue_blocks) return bad_request("the GPU transports do not block the host");
  return {};
}

Expected<void> check_capturable(const Program& program, const CudaOptions& options) {
  if (options.transport == CudaTransport::nccl && options.one_hardware_queue) {
    return make_error(ErrorCode::bad_argument,
                      "with one hardware queue nothing tells in which order the branches of a graph enter it",
                      {.found = "CUDA_DEVICE_MAX_CONNECTIONS=1",
                       .expected = "as many as a rank has streams, or a run without graphs"});
  }
  for (const Instruction& instruction : program.instructions()) {
    if (instruction.blocking)
      return bad_request("a program with blocking instructions cannot run as a graph");
  }
  return {};
}

}  // namespace

Expected<void> check_gpu_options(const Program& program, const RunOptions& run) {
  const auto& options = std::get<CudaOptions>(run.backend);
  if (options.ranks_per_device < 1) return bad_request("at least one rank runs on a device");
  if (options.max_ctas < 1) return bad_request("a communicator has at least one CTA");
  if (run.processes != nullptr && run.processes->size() > 1) {
    if (options.transport == CudaTransport::copy && options.graphs) {
      return make_error(ErrorCode::bad_argument,
                        "with copies one graph has the steps of all ranks, and they have several processes",
                        {.found = std::to_string(run.processes->size()) + " processes",
                         .expected = "one process, NCCL, or a run without graphs"});
    }
  }
  if (run.poison) return bad_request("the CUDA backend does not overwrite freed tensors");
  if (options.transport == CudaTransport::nccl && options.ranks_per_device > 1) {
    return bad_request("NCCL has one rank on a device; several need the copy transport");
  }
  PPSIM_RETURN_IF_ERROR(check_capabilities(run.capabilities));
  return options.graphs ? check_capturable(program, options) : Expected<void>{};
}

}  // namespace ppsim::gpu_backend
