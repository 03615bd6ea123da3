#include "gpu_states.hpp"

#include <algorithm>

#include "ppsim/core/io/text.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"

namespace ppsim::gpu_backend {

std::vector<InstructionState> read_states(const Program& program, const ExecutionGraph& graph,
                                          const std::deque<RankRun>& runs) {
  std::vector<InstructionState> states(program.size(), InstructionState::waiting);
  for (const RankRun& run : runs) {
    for (const StreamInstruction& instruction : run.plan().instructions) {
      const auto before = graph.predecessors_of(instruction.id);
      const bool ready = std::ranges::all_of(
          before, [&](InstructionId p) { return states[p.index()] == InstructionState::complete; });
      const bool complete = run.complete(instruction.id).value_or(ready);
      if (ready)
        states[instruction.id.index()] = complete ? InstructionState::complete : InstructionState::started;
    }
  }
  return states;
}

std::optional<InstructionId> running_action(const Program& program,
                                            const std::vector<InstructionState>& states) {
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(states.size()); ++i) {
    const InstructionId id(i);
    const bool started = states[id.index()] == InstructionState::started;
    if (started && !is_communication(program.actions(id).front().kind)) return id;
  }
  return std::nullopt;
}

namespace {

/// The instructions that the ranks on a device had not completed when they were last looked at.
std::string in_flight_text(const Program& program, const std::deque<RankRun>& runs, int device) {
  std::string text;
  for (const RankRun& run : runs) {
    if (run.device() != device) continue;
    for (const InstructionId id : run.in_flight())
      text += (text.empty() ? "; in flight: " : ", ") + actions_text(program, id);
  }
  return text;
}

}  // namespace

bool all_complete(const Program& program, std::deque<RankRun>& runs) {
  bool all = true;
  for (RankRun& run : runs) {
    try {
      all = run.look() && all;
    } catch (const BackendError& failure) {
      const std::string in_flight = in_flight_text(program, runs, run.device());
      throw BackendError(failure.error().code, failure.error().message + in_flight);
    }
  }
  return all;
}

}  // namespace ppsim::gpu_backend
