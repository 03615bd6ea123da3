#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "effects/replay_parts.hpp"
#include "ppsim/core/io/text.hpp"
#include "ppsim/planner/effects/replay.hpp"

namespace ppsim::planner {
namespace {

/// A delay and a duration.
struct Cost {
  Nanoseconds delay = 0;
  Nanoseconds duration = 0;
};

/// What was measured, by action and by class.
class MeasuredActions {
 public:
  explicit MeasuredActions(const MeasuredStep& measured) : places_(measured.analyzed) {
    const Program& program = measured.analyzed.program();
    for (std::size_t i = 0; i < program.size(); ++i) {
      const InstructionId id(static_cast<std::int32_t>(i));
      const Cost cost{measured.costs.delays[id], measured.costs.durations[id]};
      const auto actions = program.actions(id);
      if (program.instruction(id).form == InstructionForm::overlap) {
        pairs_[{actions[0], actions[1]}] = cost;
        add(cost_class_of(actions, InstructionForm::overlap), cost);
        continue;
      }
      for (std::size_t member = 0; member < actions.size(); ++member) {
        actions_[actions[member]] = cost;
        add(places_.class_of(id, member), cost);
      }
    }
    add_messages(measured);
  }

  [[nodiscard]] std::optional<Cost> of(const Action& action, const CostClass& key) const {
    const auto found = actions_.find(action);
    return found == actions_.end() ? mean(key) : std::optional(found->second);
  }

  [[nodiscard]] std::optional<Cost> of_pair(const Action& forward, const Action& backward,
                                            const CostClass& key) const {
    const auto found = pairs_.find({forward, backward});
    if (found != pairs_.end()) return found->second;
    if (const auto same = mean(key)) return same;
    const auto first = of(forward, cost_class_of(forward));
    const auto second = of(backward, cost_class_of(backward));
    if (!first || !second) return std::nullopt;
    return Cost{std::max(first->delay, second->delay), sum_of_times(first->duration, second->duration)};
  }

  /// By the action of its SEND.
  [[nodiscard]] ReplayMessage of_message(const Action& action) const {
    const auto found = messages_.find(action);
    if (found != messages_.end()) return found->second;
    const auto eager = arrivals_.find(cost_class_of(action));
    if (eager == arrivals_.end()) return {};
    return {false, eager->second.durations / eager->second.count};
  }

 private:
  struct Sum {
    Nanoseconds delays = 0;
    Nanoseconds durations = 0;
    std::int64_t count = 0;
  };

  void add_messages(const MeasuredStep& measured) {
    const std::vector<Message>& messages = measured.analyzed.timed_graph().messages;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const Action& action = measured.analyzed.program().all_actions()[messages[i].send_action];
      const ReplayMessage& message = measured.costs.messages[i];
      messages_[action] = message;
      if (message.waits) continue;
      Sum& of_class = arrivals_[cost_class_of(action)];
      of_class.durations = sum_of_times(of_class.durations, message.arrival);
      ++of_class.count;
    }
  }

  void add(const CostClass& key, const Cost& cost) {
    Sum& of_class = classes_[key];
    of_class.delays = sum_of_times(of_class.delays, cost.delay);
    of_class.durations = sum_of_times(of_class.durations, cost.duration);
    ++of_class.count;
  }

  [[nodiscard]] std::optional<Cost> mean(const CostClass& key) const {
    const auto found = classes_.find(key);
    if (found == classes_.end()) return std::nullopt;
    return Cost{found->second.delays / found->second.count, found->second.durations / found->second.count};
  }

  ReplayPlaces places_;
  std::map<Action, Cost> actions_;
  std::map<std::pair<Action, Action>, Cost> pairs_;
  std::map<CostClass, Sum> classes_;
  std::map<Action, ReplayMessage> messages_;
  std::map<CostClass, Sum> arrivals_;  ///< of messages whose SEND does not wait
};

tl::unexpected<Error> not_measured(const Program& program, InstructionId id) {
  return make_error(ErrorCode::bad_argument, "the trace has nothing like an action of the other order",
                    {.found = "no " + actions_text(program, id) + " of rank " +
                              std::to_string(program.rank_of(id).value()) + ", nor another microbatch's",
                     .expected = "the same actions in another order"});
}

/// Of a whole instruction; nothing where a part of it was not measured.
std::optional<Cost> cost_of(const MeasuredActions& measured, const AnalyzedProgram& other, InstructionId id) {
  const Program& program = other.program();
  const auto actions = program.actions(id);
  if (program.instruction(id).form == InstructionForm::overlap)
    return measured.of_pair(actions[0], actions[1], cost_class_of(actions, InstructionForm::overlap));
  const ReplayPlaces places(other);
  Cost longest;
  for (std::size_t member = 0; member < actions.size(); ++member) {
    const auto cost = measured.of(actions[member], places.class_of(id, member));
    if (!cost) return std::nullopt;
    longest = {std::max(longest.delay, cost->delay), std::max(longest.duration, cost->duration)};
  }
  return longest;
}

}  // namespace

Expected<ReplayCosts> costs_in_other_order(const MeasuredStep& measured, const AnalyzedProgram& other) {
  const MeasuredActions actions(measured);
  const std::size_t size = other.program().size();
  ReplayCosts costs{
      IdVector<InstructionId, Nanoseconds>(size, 0), IdVector<InstructionId, Nanoseconds>(size, 0), {}};
  for (const Message& message : other.timed_graph().messages)
    costs.messages.push_back(actions.of_message(other.program().all_actions()[message.send_action]));
  for (std::size_t i = 0; i < size; ++i) {
    const InstructionId id(static_cast<std::int32_t>(i));
    const auto cost = cost_of(actions, other, id);
    if (!cost) return not_measured(other.program(), id);
    costs.delays[id] = cost->delay;
    costs.durations[id] = cost->duration;
  }
  return costs;
}

}  // namespace ppsim::planner
