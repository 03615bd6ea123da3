#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/core/ir/units.hpp"
#include "ppsim/planner/effects/cost_groups.hpp"

namespace ppsim::planner {

/// Where instructions take their time, for cost groups.
class ReplayPlaces {
 public:
  explicit ReplayPlaces(const AnalyzedProgram& analyzed)
      : program_(analyzed.program()), graph_(analyzed.timed_graph()) {}

  /// Of an overlapped pair, its only member: the pair.
  [[nodiscard]] bool is_in(const CostGroup& group, InstructionId id, std::size_t member) const {
    return contains(group, class_of(id, member), place_of(id, member));
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
    if (program_.instruction(id).form == InstructionForm::overlap)
      return cost_class_of(program_.actions(id), InstructionForm::overlap);
    const Action& action = program_.actions(id)[member];
    return cost_class_of(is_receive(action.kind) ? counterpart(action, program_.rank_of(id)) : action);
  }

  /// The parts of an instruction that take time: the members of a group of transfers, else the instruction.
  [[nodiscard]] std::size_t members(InstructionId id) const {
    return program_.instruction(id).form == InstructionForm::overlap ? 1 : program_.actions(id).size();
  }
  [[nodiscard]] const Program& program() const { return program_; }

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

/// The times of the members of a group of transfers. A trace has one time of a group, that of the member
/// which takes longest. The others take the mean of their class where a group has that class alone, if it is
/// less.
class MemberDurations {
 public:
  MemberDurations(const AnalyzedProgram& analyzed, const IdVector<InstructionId, Nanoseconds>& durations)
      : places_(analyzed), durations_(durations) {
    for (const InstructionId id : places_.program().ids()) {
      if (is_alone(id)) means_[key_of(id, 0)].add(durations[id]);
    }
  }

  [[nodiscard]] Nanoseconds of(InstructionId id, std::size_t member) const {
    const Nanoseconds whole = durations_[id];
    const auto own = mean_of(id, member);
    for (std::size_t other = 0; own && other < places_.members(id); ++other) {
      const auto mean = mean_of(id, other);
      if (!mean || *mean > *own) return std::min(*own, whole);
    }
    return whole;
  }

 private:
  /// A RECV takes less than its SEND where that is eager or has a credit.
  using Key = std::pair<CostClass, OpKind>;
  struct Sum {
    Nanoseconds total = 0;
    std::int64_t count = 0;
    void add(Nanoseconds duration) {
      total = checked_add(total, duration);
      ++count;
    }
  };

  [[nodiscard]] Key key_of(InstructionId id, std::size_t member) const {
    return {places_.class_of(id, member), places_.program().actions(id)[member].kind};
  }
  [[nodiscard]] bool is_alone(InstructionId id) const {
    for (std::size_t member = 1; member < places_.members(id); ++member) {
      if (key_of(id, member) != key_of(id, 0)) return false;
    }
    return true;
  }
  [[nodiscard]] std::optional<Nanoseconds> mean_of(InstructionId id, std::size_t member) const {
    const auto found = means_.find(key_of(id, member));
    if (found == means_.end()) return std::nullopt;
    return found->second.total / found->second.count;
  }

  ReplayPlaces places_;
  const IdVector<InstructionId, Nanoseconds>& durations_;
  std::map<Key, Sum> means_;
};

}  // namespace ppsim::planner
