#include "lanes.hpp"

#include <map>

namespace ppsim::gpu_backend {

std::vector<Lane> make_lanes(const Program& program, int begin, int end) {
  std::vector<Lane> lanes;
  for (int r = begin; r < end; ++r) {
    std::map<int, std::vector<InstructionId>> queues;
    for (const InstructionId id : program.ids_of(RankId(r))) {
      queues[program.queues_of(id).front()].push_back(id);
    }
    for (auto& [queue, instructions] : queues) lanes.push_back({RankId(r), queue, std::move(instructions)});
  }
  return lanes;
}

std::vector<Lane> make_lanes(const Program& program) {
  return make_lanes(program, 0, program.pipeline().ranks());
}

}  // namespace ppsim::gpu_backend
