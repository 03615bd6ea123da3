#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "effects/replay_parts.hpp"
#include "ppsim/core/io/text.hpp"
#include "ppsim/core/ir/units.hpp"
#include "ppsim/planner/effects/replay.hpp"

namespace ppsim::planner {
namespace {

/// A delay and a duration.
struct Cost {
  Nanoseconds delay = 0;
  Nanoseconds duration = 0;
};

/// The sum of some costs.
struct CostSum {
  Nanoseconds delays = 0;
  Nanoseconds durations = 0;
  std::int64_t count = 0;

  void add(const Cost& cost) {
    delays = checked_add(delays, cost.delay);
    durations = checked_add(durations, cost.duration);
    ++count;
  }
  [[nodiscard]] Cost mean() const { return {delays / count, durations / count}; }
};

/// The sum over those messages of a class for which the trace shows when their data arrives.
struct ArrivalSum {
  Nanoseconds arrivals = 0;
  std::int64_t count = 0;
  bool eager = false;  ///< a SEND did not wait

  [[nodiscard]] ReplayMessage mean() const { return {!eager, count == 0 ? 0 : arrivals / count}; }
};

/// The measured costs, by action and by class. Means are over actions of the same kind: a RECV takes less
/// than its SEND where that is eager or has a credit.
class MeasuredActions {
 public:
  explicit MeasuredActions(const MeasuredStep& measured)
      : program_(measured.analyzed.program()), places_(measured.analyzed) {
    add_messages(measured);
    const MemberDurations members(measured.analyzed, measured.costs.durations);
    for (const InstructionId id : program_.ids()) {
      const Cost cost{measured.costs.delays[id], measured.costs.durations[id]};
      const auto actions = program_.actions(id);
      if (program_.instruction(id).form == InstructionForm::overlap) {
        pairs_[{actions[0], actions[1]}] = cost;
        classes_[{cost_class_of(actions, InstructionForm::overlap), OpKind::overlap}].add(cost);
        continue;
      }
      for (std::size_t member = 0; member < actions.size(); ++member) {
        const Cost own{cost.delay, members.of(id, member)};
        actions_[actions[member]] = own;
        if (!is_exception(id, member))
          classes_[{places_.class_of(id, member), actions[member].kind}].add(own);
      }
    }
  }

  [[nodiscard]] std::optional<Cost> of(const Action& action, const CostClass& key) const {
    const auto found = actions_.find(action);
    return found == actions_.end() ? mean(key, action.kind) : std::optional(found->second);
  }

  [[nodiscard]] std::optional<Cost> of_pair(const Action& forward, const Action& backward,
                                            const CostClass& key) const {
    const auto found = pairs_.find({forward, backward});
    if (found != pairs_.end()) return found->second;
    if (const auto same = mean(key, OpKind::overlap)) return same;
    const auto first = of(forward, cost_class_of(forward));
    const auto second = of(backward, cost_class_of(backward));
    if (!first || !second) return std::nullopt;
    return Cost{std::max(first->delay, second->delay), checked_add(first->duration, second->duration)};
  }

  /// By the action of its SEND.
  [[nodiscard]] ReplayMessage of_message(const Action& action) const {
    const auto found = messages_.find(action);
    if (found != messages_.end()) return found->second;
    const auto of_class = arrivals_.find(cost_class_of(action));
    return of_class == arrivals_.end() ? ReplayMessage() : of_class->second.mean();
  }

 private:
  void add_messages(const MeasuredStep& measured) {
    const ExecutionGraph& graph = measured.analyzed.timed_graph();
    for (std::size_t i = 0; i < graph.messages.size(); ++i) {
      const ReplayMessage& message = measured.costs.messages[i];
      const Action& send = program_.all_actions()[graph.messages[i].send_action];
      messages_[send] = message;
      if (message.waits && !graph.capabilities.credits) {
        waiting_.insert({graph.messages[i].send_action, graph.messages[i].receive_action});
        continue;
      }
      ArrivalSum& of_class = arrivals_[cost_class_of(send)];
      of_class.arrivals = checked_add(of_class.arrivals, message.arrival);
      of_class.eager = of_class.eager || !message.waits;
      ++of_class.count;
    }
  }

  /// A transfer that waited, of a class in which another one did not.
  [[nodiscard]] bool is_exception(InstructionId id, std::size_t member) const {
    const auto index = program_.instruction(id).first_action + static_cast<std::uint32_t>(member);
    return waiting_.contains(index) && arrivals_.contains(places_.class_of(id, member));
  }

  [[nodiscard]] std::optional<Cost> mean(const CostClass& key, OpKind kind) const {
    const auto found = classes_.find({key, kind});
    return found == classes_.end() ? std::nullopt : std::optional(found->second.mean());
  }

  const Program& program_;
  ReplayPlaces places_;
  std::map<Action, Cost> actions_;
  std::map<std::pair<Action, Action>, Cost> pairs_;
  std::map<std::pair<CostClass, OpKind>, CostSum> classes_;
  std::map<Action, ReplayMessage> messages_;
  std::map<CostClass, ArrivalSum> arrivals_;
  std::set<std::uint32_t> waiting_;  ///< indices into Program::all_actions()
};

tl::unexpected<Error> not_measured(const Program& program, InstructionId id) {
  return make_error(ErrorCode::bad_argument, "the trace has nothing like an action of the other order",
                    {.found = "no " + actions_text(program, id) + " of rank " +
                              std::to_string(program.rank_of(id).value()) + ", nor another microbatch's",
                     .expected = "the same actions in another order"});
}

/// The kinds of actions that are computed, each with its stage, in any microbatch.
std::set<std::pair<OpKind, std::int32_t>> computed(const Program& program) {
  std::set<std::pair<OpKind, std::int32_t>> classes;
  for (const Action& action : program.all_actions()) {
    if (computes_stage(action.kind)) classes.insert({action.kind, action.subject});
  }
  return classes;
}

/// Checks that the other step computes all that the measured one does: else it is not another order of it.
Expected<void> check_computes_all(const Program& measured, const Program& other) {
  const auto has = computed(other);
  for (const auto& computes : computed(measured)) {
    if (has.contains(computes)) continue;
    const auto& [kind, stage] = computes;
    return make_error(ErrorCode::bad_argument, "the other order lacks what the trace has",
                      {.found = "no " + std::string(info(kind).text) + " of stage " + std::to_string(stage),
                       .expected = "the same actions in another order"});
  }
  return {};
}

/// The cost of a whole instruction; nothing where a part of it was not measured.
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
  ReplayCosts costs{IdVector<InstructionId, Nanoseconds>(size, 0),
                    IdVector<InstructionId, Nanoseconds>(size, 0),
                    {},
                    measured.costs.begin};
  for (const Message& message : other.timed_graph().messages)
    costs.messages.push_back(actions.of_message(other.program().all_actions()[message.send_action]));
  for (const InstructionId id : other.program().ids()) {
    const auto cost = cost_of(actions, other, id);
    if (!cost) return not_measured(other.program(), id);
    costs.delays[id] = cost->delay;
    costs.durations[id] = cost->duration;
  }
  PPSIM_RETURN_IF_ERROR(check_computes_all(measured.analyzed.program(), other.program()));
  return costs;
}

Expected<TimedTrace> replay_changed(const MeasuredStep& measured, const AnalyzedProgram* other,
                                    const std::vector<ReplayChange>& changes) {
  ReplayCosts costs = measured.costs;
  if (other != nullptr) {
    PPSIM_ASSIGN_OR_RETURN(costs, costs_in_other_order(measured, *other));
  }
  const AnalyzedProgram& analyzed = other == nullptr ? measured.analyzed : *other;
  PPSIM_RETURN_IF_ERROR(change(analyzed, changes, costs));
  return replayed(analyzed, costs);
}

}  // namespace ppsim::planner
