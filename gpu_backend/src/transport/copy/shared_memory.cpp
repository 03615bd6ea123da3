#include "shared_memory.hpp"

namespace ppsim::gpu_backend {

SharedMemory find_shared_memory(const Program& program, const std::vector<StreamPlan>& plans,
                                const std::deque<GpuActions>& actions) {
  SharedMemory shared;
  for (std::size_t r = 0; r < plans.size(); ++r) {
    for (const StreamStep& step : plans[r].steps) {
      const OpKind kind = program.actions(step.id).front().kind;
      if (is_collective(kind)) {
        const CommunicatorId communicator = program.communicators_of(step.id).front();
        shared.sums[{communicator, program.rank_of(step.id)}].push_back(actions[r].summed(step.id));
      }
      if (!is_transfer(kind)) continue;
      for (const Transfer& end : actions[r].transfers(step.id)) {
        std::vector<Payload>& receives = shared.receives[end.channel];
        if (end.direction == Direction::receive) receives.push_back(end.payload);
      }
    }
  }
  return shared;
}

}  // namespace ppsim::gpu_backend
