#include "hardware_queues.hpp"

#include <algorithm>
#include <string>

#include "ppsim/core/text/number_text.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "ppsim/gpu_backend/executor/backends.hpp"

namespace ppsim::gpu_backend {
namespace {

constexpr const char* kVariable = "CUDA_DEVICE_MAX_CONNECTIONS";

constexpr std::size_t kMaxQueues{kMaxHardwareQueues};

/// 0 for what is no number.
std::size_t queues_of(const std::string& text) {
  return std::min(parse_number<std::size_t>(text).value_or(0), kMaxQueues);
}

std::string remedy(std::size_t streams) {
  if (streams <= kMaxQueues)
    return "at least " + std::to_string(streams) + ", or 1 with a proof for nccl-one-queue";
  return "a Program with fewer communicators on a rank, or copies in place of NCCL: CUDA has " +
         std::to_string(kMaxQueues) + " queues at most";
}

}  // namespace

void check_hardware_queues(const EnvironmentTable& environment, const CudaOptions& options,
                           const std::vector<StreamPlan>& plans, RankId first) {
  if (options.transport == CudaTransport::copy) return;
  const std::string set = environment.get(kVariable);
  if (set.empty()) return;  // whoever starts the driver sets it
  const bool is_proved = options.one_hardware_queue;
  const std::size_t queues = queues_of(set);
  if (is_proved && queues == 1) return;
  for (std::size_t r = 0; r < plans.size(); ++r) {
    const std::size_t streams = plans[r].queues.size();
    if (streams <= queues) continue;
    const std::string rank = std::to_string(first.value() + static_cast<int>(r));
    throw BackendError(ErrorCode::refused,
                       "rank " + rank + " has " + std::to_string(streams) +
                           " streams, and of those that share a hardware queue one that waits holds up the "
                           "others (found " +
                           kVariable + "=" + set + ", expected " + remedy(streams) + ")");
  }
}

}  // namespace ppsim::gpu_backend
