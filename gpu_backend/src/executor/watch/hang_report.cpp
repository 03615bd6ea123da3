#include "hang_report.hpp"

#include <algorithm>

namespace ppsim::gpu_backend {
namespace {

WaitAnalysis analysis_of(const Program& program, const ExecutionGraph& graph,
                         const std::vector<InstructionState>& states) {
  RunState state;
  for (const InstructionState s : states) {
    state.started.push_back(s != InstructionState::waiting ? 1 : 0);
    state.complete.push_back(s == InstructionState::complete ? 1 : 0);
  }
  return {program, graph, std::move(state)};
}

}  // namespace

std::vector<Wait> hang_report(const Program& program, const ExecutionGraph& graph,
                              const std::vector<RankQueue>& queues,
                              const std::vector<InstructionState>& states) {
  const WaitAnalysis analysis = analysis_of(program, graph, states);
  std::vector<Wait> report;
  for (const RankQueue& queue : queues) {
    const auto head =
        std::ranges::find_if(queue.instructions, [&](InstructionId id) { return !analysis.complete(id); });
    if (head == queue.instructions.end()) continue;
    for (const InstructionWait& wait : analysis.waits_of(*head))
      report.push_back(in_words(program, graph, wait));
  }
  return report;
}

bool can_move(const Program& program, const ExecutionGraph& graph,
              const std::vector<InstructionState>& states) {
  return analysis_of(program, graph, states).can_move();
}

}  // namespace ppsim::gpu_backend
