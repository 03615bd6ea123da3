#include "ppsim/planner/effects/replay.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "ppsim/core/io/text.hpp"
#include "ppsim/core/ir/overflow.hpp"
#include "ppsim/simulator/effects/factor_draws.hpp"

namespace ppsim::planner {
namespace {

constexpr double kMaxReplayFactor = 1e6;

Nanoseconds sum(Nanoseconds a, Nanoseconds b) {
  Nanoseconds result = 0;
  if (__builtin_add_overflow(a, b, &result)) throw Overflow("times of a replayed step");
  return result;
}

/// Goes through a Program in an order in which it runs, start by start and end by end.
class Replay {
 public:
  explicit Replay(const AnalyzedProgram& analyzed)
      : graph_(analyzed.timed_graph()),
        order_(analyzed.timed_order()),
        starts_(analyzed.program().size(), 0),
        ends_(analyzed.program().size(), 0) {}

  /// `starts(id, free)` says when, given when nothing keeps it from starting any more; `ends(id, start,
  /// begun)` given its start, and when all its sides had started.
  template <class Starts, class Ends>
  TimedTrace run(Starts starts, Ends ends) {
    for (const std::uint32_t item : order_.items) {
      const InstructionId id(static_cast<std::int32_t>(item / 2));
      if (item % 2 == 0) {
        starts_[id] = starts(id, free_at(id));
      } else {
        ends_[id] = ends(id, starts_[id], begun_at(id));
      }
    }
    TimedTrace trace{IdVector<InstructionId, Span>(starts_.size())};
    for (const InstructionId id : starts_.ids()) {
      trace.spans[id] = {{starts_[id], 0}, {ends_[id], 0}};
    }
    return trace;
  }

 private:
  [[nodiscard]] Nanoseconds free_at(InstructionId id) const {
    Nanoseconds free = 0;
    for (const InstructionId before : graph_.predecessors_of(id)) free = std::max(free, ends_[before]);
    return free;
  }

  /// When all sides had started. An earlier message of a channel is on the same queue, so it is over.
  [[nodiscard]] Nanoseconds begun_at(InstructionId id) const {
    Nanoseconds begun = starts_[id];
    for (const std::uint32_t index : graph_.messages_of(id)) {
      const Message& message = graph_.messages[index];
      if (!graph_.capabilities.credits) {
        begun = std::max({begun, starts_[message.send], starts_[message.receive]});
      } else if (message.receive == id) {
        begun = std::max(begun, ends_[message.send]);
      } else if (message.credit >= 0) {
        begun = std::max(begun, ends_[graph_.messages[static_cast<std::size_t>(message.credit)].receive]);
      }
    }
    const std::int32_t meeting = graph_.meeting_of[id.index()];
    if (meeting < 0) return begun;
    for (const InstructionId member : graph_.members_of(graph_.meetings[static_cast<std::size_t>(meeting)]))
      begun = std::max(begun, starts_[member]);
    return begun;
  }

  const ExecutionGraph& graph_;
  const RunOrder& order_;
  IdVector<InstructionId, Nanoseconds> starts_;
  IdVector<InstructionId, Nanoseconds> ends_;
};

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

  /// A transfer has the class of its SEND.
  [[nodiscard]] CostClass class_of(InstructionId id, std::size_t member) const {
    const Action& action = program_.actions(id)[member];
    return cost_class_of(is_receive(action.kind) ? counterpart(action, program_.rank_of(id)) : action);
  }

 private:
  [[nodiscard]] ItemPlace place_of(InstructionId id, std::size_t member) const {
    if (graph_.meeting_of[id.index()] >= 0) return {};
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
    for (const InstructionId id : program.ids()) {
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
    return Cost{std::max(first->delay, second->delay), sum(first->duration, second->duration)};
  }

 private:
  struct Sum {
    Nanoseconds delays = 0;
    Nanoseconds durations = 0;
    std::int64_t count = 0;
  };

  void add(const CostClass& key, const Cost& cost) {
    Sum& of_class = classes_[key];
    of_class.delays = sum(of_class.delays, cost.delay);
    of_class.durations = sum(of_class.durations, cost.duration);
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

ReplayCosts replay_costs(const AnalyzedProgram& analyzed, const TimedTrace& trace) {
  const std::size_t size = analyzed.program().size();
  ReplayCosts costs{IdVector<InstructionId, Nanoseconds>(size, 0),
                    IdVector<InstructionId, Nanoseconds>(size, 0)};
  const auto is_traced = [&](InstructionId id) {
    return happened(trace.spans[id].start) && happened(trace.spans[id].end);
  };
  const auto starts = [&](InstructionId id, Nanoseconds free) {
    if (!is_traced(id)) return free;
    const Nanoseconds start = std::max(free, trace.spans[id].start.time);
    costs.delays[id] = start - free;
    return start;
  };
  const auto ends = [&](InstructionId id, Nanoseconds start, Nanoseconds begun) {
    if (!is_traced(id)) return begun;
    const Nanoseconds end = std::max(start, trace.spans[id].end.time);
    costs.durations[id] = end - begun;
    return end;
  };
  static_cast<void>(Replay(analyzed).run(starts, ends));
  return costs;
}

TimedTrace replayed(const AnalyzedProgram& analyzed, const ReplayCosts& costs) {
  return Replay(analyzed).run([&](InstructionId id, Nanoseconds free) { return sum(free, costs.delays[id]); },
                              [&](InstructionId id, Nanoseconds start, Nanoseconds begun) {
                                return std::max(start, sum(begun, costs.durations[id]));
                              });
}

Expected<void> change(const AnalyzedProgram& analyzed, const std::vector<ReplayChange>& changes,
                      ReplayCosts& costs) {
  const ReplayPlaces places(analyzed);
  for (const ReplayChange& one : changes) {
    if (!(one.factor >= 0 && one.factor <= kMaxReplayFactor))
      return make_error(ErrorCode::bad_argument, "a factor out of range", {.expected = "0 to 1000000"});
    bool any = false;
    for (const InstructionId id : costs.durations.ids()) {
      if (!places.is_in(one.group, id)) continue;
      any = true;
      if (costs.durations[id] > 0)
        costs.durations[id] = simulator::scaled_cost(costs.durations[id], one.factor);
    }
    if (any) continue;
    std::ostringstream found;
    found << one.group;
    return make_error(ErrorCode::bad_argument, "nothing of this group of costs is in the Program",
                      {.found = found.str(), .expected = "a kind, rank, stage, link or class that it has"});
  }
  return {};
}

Expected<ReplayCosts> costs_in_other_order(const MeasuredStep& measured, const AnalyzedProgram& other) {
  const MeasuredActions actions(measured);
  const std::size_t size = other.program().size();
  ReplayCosts costs{IdVector<InstructionId, Nanoseconds>(size, 0),
                    IdVector<InstructionId, Nanoseconds>(size, 0)};
  for (const InstructionId id : other.program().ids()) {
    const auto cost = cost_of(actions, other, id);
    if (!cost) return not_measured(other.program(), id);
    costs.delays[id] = cost->delay;
    costs.durations[id] = cost->duration;
  }
  return costs;
}

}  // namespace ppsim::planner
