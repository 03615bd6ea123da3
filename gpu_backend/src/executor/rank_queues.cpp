#include "rank_queues.hpp"

#include <map>

namespace ppsim::gpu_backend {

std::vector<RankQueue> rank_queues(const Program& program, int begin, int end) {
  std::vector<RankQueue> all;
  for (int r = begin; r < end; ++r) {
    std::map<int, std::vector<InstructionId>> queues;
    for (const InstructionId id : program.ids_of(RankId(r))) {
      queues[program.queues_of(id).front()].push_back(id);
    }
    for (auto& [queue, instructions] : queues) all.push_back({RankId(r), queue, std::move(instructions)});
  }
  return all;
}

std::vector<RankQueue> rank_queues(const Program& program) {
  return rank_queues(program, 0, program.pipeline().ranks());
}

}  // namespace ppsim::gpu_backend
