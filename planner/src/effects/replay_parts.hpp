#pragma once

#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/planner/effects/cost_groups.hpp"

namespace ppsim::planner {

/// Where instructions take their time, for groups of costs.
class ReplayPlaces {
 public:
  explicit ReplayPlaces(const AnalyzedProgram& analyzed)
      : program_(analyzed.program()), graph_(analyzed.timed_graph()) {}

  [[nodiscard]] bool is_in(const CostGroup& group, InstructionId id) const {
    const auto actions = program_.actions(id);
    if (program_.instruction(id).form == InstructionForm::overlap)
      return contains(group, cost_class_of(actions, InstructionForm::overlap), place_of(id, 0));
    for (std::size_t member = 0; member < actions.size(); ++member) {
      if (contains(group, class_of(id, member), place_of(id, member))) return true;
    }
    return false;
  }

  [[nodiscard]] bool is_in(const CostGroup& group, const Message& message) const {
    return contains(group, class_of(message),
                    {program_.rank_of(message.send), program_.rank_of(message.receive)});
  }

  [[nodiscard]] CostClass class_of(const Message& message) const {
    return cost_class_of(program_.all_actions()[message.send_action]);
  }

  /// A transfer has the class of its SEND.
  [[nodiscard]] CostClass class_of(InstructionId id, std::size_t member) const {
    const Action& action = program_.actions(id)[member];
    return cost_class_of(is_receive(action.kind) ? counterpart(action, program_.rank_of(id)) : action);
  }

 private:
  [[nodiscard]] ItemPlace place_of(InstructionId id, std::size_t member) const {
    if (graph_.match_of[id.index()] >= 0) return {};
    if (graph_.messages_of(id).empty()) return {program_.rank_of(id), RankId()};
    const std::uint32_t wanted = program_.instruction(id).first_action + static_cast<std::uint32_t>(member);
    for (const std::uint32_t index : graph_.messages_of(id)) {
      const Message& message = graph_.messages[index];
      if (message.send_action == wanted || message.receive_action == wanted)
        return {program_.rank_of(message.send), program_.rank_of(message.receive)};
    }
    return {};
  }

  const Program& program_;
  const ExecutionGraph& graph_;
};

}  // namespace ppsim::planner
